"""The input of a simulation: the tasks of a topology, the clients, and the assumptions about both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..assignment.api.cluster import AssignmentConfigs, TaskInfo
from ..assignment.measured_tasks import configs_of, measured, task_info, tasks_of
from ..log.state import LogState
from ..topology import Topology
from .quantities import Rate


@dataclass(frozen=True)
class Size:
    """The size of a task's changelogs, which restoring from nothing reads."""

    records: int
    bytes: int


@dataclass(frozen=True)
class Assumptions:
    """What the model cannot know about a cluster.

    `restore`: how fast one client restores, all its tasks together. `size`: of a stateful task that was not measured.
    `updates`: changelog records that a running task writes in a second. `replication`: how many racks have a replica of
    a partition, if racks are given.
    """

    restore: Rate = field(default_factory=lambda: Rate(records=100_000))
    size: Size = Size(1_000_000, 100_000_000)
    updates: float = 100.0
    replication: int = 1


@dataclass(frozen=True)
class Member:
    """A client. `rack`: None if racks are not considered."""

    name: str
    threads: int
    rack: str | None = None


@dataclass(frozen=True)
class SimulatedTask:
    """A task and the size of what it would restore, which is 0 if none of its stores has a changelog."""

    info: TaskInfo
    size: Size = Size(0, 0)

    @property
    def record_bytes(self) -> float:
        """The mean size of a changelog record in bytes."""
        return self.size.bytes / self.size.records if self.size.records else 0.0


@dataclass(frozen=True)
class Application:
    """One topology to simulate. `measured`: whether sizes come from the log and are not assumed."""

    name: str
    assignor: str
    configs: AssignmentConfigs
    tasks: tuple[SimulatedTask, ...]
    measured: bool = False
    subtopologies: tuple[str, ...] = ()


def members(count: int, threads: int, racks: Sequence[str], first: int = 1) -> tuple[Member, ...]:
    """Clients c1, c2, ... dealt to the racks in turn."""
    return tuple(
        Member(f"c{number}", threads, racks[(number - 1) % len(racks)] if racks else None)
        for number in range(first, first + count)
    )


def application(
    topology: Topology, assumptions: Assumptions, racks: Sequence[str] = (), log: LogState | None = None
) -> Application:
    """The tasks of a topology. `log`: what the application has committed. If it has run, sizes come from there."""
    # Generation 0: no driver has run it yet, so there is nothing to measure.
    ran = log if log is not None and log.generation > 0 else None
    replicas = _Racks(racks, assumptions.replication).of
    tasks = [task_info(topology.application, task, part, replicas) for task, part in tasks_of(topology).items()]
    return Application(
        name=topology.name,
        assignor=topology.assignment.assignor.name,
        configs=configs_of(topology.assignment),
        tasks=tuple(_assumed(task, assumptions) if ran is None else _measured(task, ran) for task in tasks),
        measured=ran is not None,
        subtopologies=tuple(part.name for part in sorted(topology.subtopologies, key=lambda part: part.number)),
    )


@dataclass(frozen=True)
class _Racks:
    """Partition p has its replicas on rack p and the racks after it, in a circle."""

    names: Sequence[str]
    replication: int

    def of(self, partition: int) -> frozenset[str] | None:
        if not self.names:
            return None
        return frozenset(self.names[(partition + n) % len(self.names)] for n in range(self.replication))


def _assumed(task: TaskInfo, assumptions: Assumptions) -> SimulatedTask:
    if not task.is_changelogged:
        return SimulatedTask(task)
    return SimulatedTask(replace(task, state_bytes=assumptions.size.bytes), assumptions.size)


def _measured(task: TaskInfo, log: LogState) -> SimulatedTask:
    """The task with the size of its changelogs and the rate at which it took records."""
    found = measured(task, log)
    changelogs = [each.topic for each in task.topic_partitions if each.is_changelog]
    records = sum(log.end(topic, task.id.partition) for topic in changelogs)
    return SimulatedTask(found, Size(records, found.state_bytes or 0))
