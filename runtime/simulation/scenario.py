"""A scenario, and the simulation of a project's topology with its own assignor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...plugins.registry import Registry
from ..log.log import Log
from ..log.state import LogState
from ..topology import Assignment, PluginRef, Topology
from .events import parse_events
from .model import Assumptions, application, members
from .report import Simulation
from .rounds import Simulator


@dataclass(frozen=True)
class Scenario:
    """Clients c1, c2, ... dealt to `racks` in turn, and the events that happen to them.

    `assignor`, `standby_replicas`, `max_warmup_replicas`: None means as in the topology. The topology's options of an
    assignor are used only if it names the same one.
    """

    events: str = ""
    clients: int = 3
    threads: int = 2
    racks: tuple[str, ...] = ()
    assignor: str | None = None
    standby_replicas: int | None = None
    max_warmup_replicas: int | None = None
    assumptions: Assumptions = field(default_factory=Assumptions)


def simulate(topology: Topology, scenario: Scenario, assignors: Registry, log: Log) -> Simulation:
    """Simulate one topology. If it has run, its tasks have the sizes in the log.

    Raises EventError, UnknownPluginError, PluginOptionsError, TaskAssignmentError, AssignorRaisedError.
    """
    assignment = _assignment(topology.assignment, scenario)
    committed = LogState.load(log.commits(topology.application))
    plugin = assignment.assignor
    return Simulator(
        application(replace(topology, assignment=assignment), scenario.assumptions, scenario.racks, committed),
        lambda: assignors.create(plugin.name, plugin.options),
        members(scenario.clients, scenario.threads, scenario.racks),
        scenario.assumptions,
        scenario.racks,
    ).run(parse_events(scenario.events))


def _assignment(written: Assignment, scenario: Scenario) -> Assignment:
    if scenario.assignor not in (None, written.assignor.name):
        written = replace(written, assignor=PluginRef(str(scenario.assignor)))
    if scenario.standby_replicas is not None:
        written = replace(written, standby_replicas=scenario.standby_replicas)
    if scenario.max_warmup_replicas is not None:
        written = replace(written, max_warmup_replicas=scenario.max_warmup_replicas)
    return written
