"""Runs a simulation, round by round."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...errors import HeadwaterError
from ...plugins.registry import Registry
from ...suggestions import guess
from ..assignment.assignor import (
    AssignorRaisedError,
    ClientAssignment,
    TaskAssignor,
    TaskType,
    assign,
    earliest_followup,
)
from ..assignment.cluster import ProcessId
from ..ir.topology import Assignment, PluginRef, Topology
from ..log.log import Log
from ..log.state import LogState
from ..task_id import TaskId
from .fleet import Event, EventError, Fleet, Restored, parse_events
from .model import Application, Assumptions, Member, application, members
from .report import Move, Placement, Round, Simulation

# Clients join and leave, and the assignor is called until no task moves.
#
# The first assignment is for an application without state. Then its state grows to its size on the clients that have
# it, and the events happen. An event waits until the previous one has settled: nothing is being restored, and the
# assignor requests no further round, or has changed nothing in the last one that it requested.

MOST_ROUNDS = 200
"""The most rounds of one event. After them the event counts as not settled, for an assignor that moves tasks for
ever."""

LEAST_PAUSE_MS = 1_000.0
"""The least time between two rounds, if an assignor requests another one at once."""

_SIMILARITY = 0.8
"""The similarity of clients' names for a suggestion: `c21` is not suggested for `c12`."""

START = "start"
FOLLOW_UP = "follow-up"


class Simulator:
    """Simulates one application. `assignor` creates a new assignor for each round, like a new process."""

    def __init__(
        self,
        application: Application,
        assignor: Callable[[], TaskAssignor],
        clients: Sequence[Member],
        assumptions: Assumptions,
        racks: Sequence[str] = (),
    ) -> None:
        self._application = application
        self._assignor = assignor
        self._assumptions = assumptions
        self._racks = tuple(racks)
        self._fleet = Fleet(application.tasks, clients, assumptions)
        self._threads = clients[0].threads
        self._last_number = len(clients)
        self._rounds: list[Round] = []

    def run(self, events: Iterable[Event] = ()) -> Simulation:
        """Simulate the start and all events.

        Raises EventError for an event that cannot happen, AssignorRaisedError, and the error of an invalid assignment.
        """
        self._settle(START, START, 0, None)
        for number, event in enumerate(events, 1):
            for cause, away_ms in self._apply(event):
                self._settle(cause, event.text, number, away_ms)
        return Simulation(self._application, self._assumptions, tuple(self._rounds))

    def _apply(self, event: Event) -> Iterator[tuple[str, int | None]]:
        """Apply an event to the fleet, step by step.

        Yields the name of each step, and its duration in ms; None: until it has settled.
        """
        fleet = self._fleet
        match event.kind:
            case "kill":
                for name in self._rack_clients(event) if event.rack else self._named_clients(event):
                    fleet.leave(name, keeps_disk=False)
                self._require_clients(event)
                yield event.text, None
            case "add":
                for member in self._new_clients(event):
                    fleet.join(member)
                yield event.text, None
            case "restart":
                yield from self._restart(event, self._named_clients(event), event.text)
            case "roll":
                for name in sorted(fleet.members, key=natural):
                    yield from self._restart(event, [name], f"{event.text}: {name}")

    def _restart(self, event: Event, names: Sequence[str], cause: str) -> Iterator[tuple[str, int | None]]:
        """Clients leave and return with their disks, settled or not."""
        restarted = [self._fleet.members[name] for name in names]
        for member in restarted:
            self._fleet.leave(member.name, keeps_disk=True)
        self._require_clients(event)
        yield cause, event.away_ms
        for member in restarted:
            self._fleet.join(member)
        yield f"{' '.join(names)} back", None

    def _settle(self, cause: str, event: str, number: int, away_ms: int | None) -> None:
        end = None if away_ms is None else self._fleet.now + away_ms
        for count in range(MOST_ROUNDS):
            if self._round(cause if count == 0 else FOLLOW_UP, event, number, end):
                return

    def _round(self, cause: str, event: str, number: int, end: float | None) -> bool:
        """Simulate one assignment and the time after it. Returns whether it was the last round of its step."""
        fleet, at = self._fleet, self._fleet.now
        owners, standbys = dict(fleet.owner), dict(fleet.standbys)
        assigned = self._assign()
        fleet.place(assigned)
        deadline = earliest_followup(assigned.values())
        restoring = frozenset(fleet.restoring())
        same = (fleet.owner, fleet.standbys) == (owners, standbys)
        last = deadline is None or (cause == FOLLOW_UP and same and not restoring)
        until = fleet.settles_at() if deadline is None or last else max(float(deadline), at + LEAST_PAUSE_MS)
        if end is not None and (last or until >= end):
            until, last = end, True
        if number == 0 and cause == START:
            fleet.fill()
        restored = fleet.advance(until)
        self._rounds.append(
            Round(
                number=len(self._rounds),
                event=number,
                event_text=event,
                cause=cause,
                at_ms=round(at),
                until_ms=round(until),
                clients=tuple(sorted(fleet.members.values(), key=lambda member: natural(member.name))),
                placements={
                    str(name): Placement(client.of_type(TaskType.ACTIVE), client.of_type(TaskType.STANDBY))
                    for name, client in assigned.items()
                },
                moves=tuple(self._moves(owners, restored)) if cause != START else (),
                new_standbys=_added(standbys, fleet.standbys) if cause != START else 0,
                restoring=restoring,
                restored=restored,
                followup_ms=deadline,
                settled=last,
            )
        )
        return last

    def _assign(self) -> dict[ProcessId, ClientAssignment]:
        try:
            return assign(self._assignor(), self._fleet.state(self._application.configs))
        except HeadwaterError:
            raise
        except Exception as error:  # a project's own code may raise anything
            raise AssignorRaisedError(self._application.assignor, self._application.name, error) from error

    def _moves(self, owners: dict[TaskId, str], restored: Restored) -> Iterator[Move]:
        for task, name in sorted(self._fleet.owner.items()):
            if (before := self._last_owner(task, owners)) != name:
                yield Move(task, before, name, restored.by_task.get((name, task), 0.0), restored.down.get(task, 0.0))

    def _last_owner(self, task: TaskId, owners: dict[TaskId, str]) -> str | None:
        """The previous owner of a task, which may have left."""
        if task in owners:
            return owners[task]
        last = self._rounds[-1].placements
        return next((name for name, placed in last.items() if task in placed.active), None)

    def _named_clients(self, event: Event) -> tuple[str, ...]:
        for name in event.names:
            if name not in self._fleet.members:
                clients = sorted(self._fleet.members, key=natural)
                hint = guess(name, clients, f"clients: {', '.join(clients)}", _SIMILARITY)
                raise EventError(event.text, f"there is no client {name!r} then", hint)
        return tuple(dict.fromkeys(event.names))

    def _rack_clients(self, event: Event) -> list[str]:
        clients = [name for name, member in self._fleet.members.items() if member.rack == event.rack]
        if not clients:
            racks = sorted({member.rack for member in self._fleet.members.values() if member.rack})
            raise EventError(
                event.text, f"no client is on a rack {event.rack!r} then", f"racks: {', '.join(racks) or 'none'}"
            )
        return clients

    def _new_clients(self, event: Event) -> tuple[Member, ...]:
        if event.rack is not None and event.rack not in self._racks:
            raise EventError(
                event.text, f"there is no rack {event.rack!r}", f"racks: {', '.join(self._racks) or 'none'}"
            )
        first, self._last_number = self._last_number + 1, self._last_number + event.count
        racks = (event.rack,) if event.rack else self._racks
        return members(event.count, self._threads, racks, first)

    def _require_clients(self, event: Event) -> None:
        if not self._fleet.members:
            raise EventError(event.text, "no client would be left", "begin with more --clients, or add some before")


def natural(name: str) -> tuple[str, int]:
    """A sort key with c2 before c10."""
    match = re.fullmatch(r"(.*?)([0-9]*)", name)
    return (match[1], int(match[2] or 0)) if match else (name, 0)


def _added(before: dict[TaskId, tuple[str, ...]], after: dict[TaskId, tuple[str, ...]]) -> int:
    return sum(len(set(names) - set(before.get(task, ()))) for task, names in after.items())


# The simulation of a project's topology with its assignor.


@dataclass(frozen=True)
class Scenario:
    """Clients c1, c2, ..., on `racks` in turn, and their events.

    `assignor`, `standby_replicas`, `max_warmup_replicas`: None: as in the topology. The topology's options of an
    assignor are used only for the topology's own assignor.
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
    """Simulate one topology. If it has run, its tasks have their sizes in the log.

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


def _assignment(assignment: Assignment, scenario: Scenario) -> Assignment:
    """The topology's assignment section with the overrides of a scenario."""
    if scenario.assignor not in (None, assignment.assignor.name):
        assignment = replace(assignment, assignor=PluginRef(str(scenario.assignor)))
    if scenario.standby_replicas is not None:
        assignment = replace(assignment, standby_replicas=scenario.standby_replicas)
    if scenario.max_warmup_replicas is not None:
        assignment = replace(assignment, max_warmup_replicas=scenario.max_warmup_replicas)
    return assignment
