"""What a simulation starts from: the tasks of a topology, the clients, and what is assumed of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..assignment.cluster import AssignmentConfigs, TaskInfo, TaskTopicPartition
from ..log.schema import changelog_topic
from ..log.state import LogState
from ..tasks.task_id import TaskId
from ..topology import Assignment, Subtopology, Topology
from .quantities import Rate


@dataclass(frozen=True)
class Size:
    """Of a task's changelogs: what restoring it from nothing reads."""

    records: int
    bytes: int


@dataclass(frozen=True)
class Assumptions:
    """What the model cannot know of a cluster.

    `restore`: how fast one client restores, all its tasks together. `size`: of a stateful task that was not measured.
    `updates`: records a second that a running task adds to its changelogs. `replication`: racks that have a replica of
    a partition, where racks are given.
    """

    restore: Rate = field(default_factory=lambda: Rate(records=100_000))
    size: Size = Size(1_000_000, 100_000_000)
    updates: float = 100.0
    replication: int = 1


@dataclass(frozen=True)
class Member:
    """A client. `rack`: None where racks are not looked at."""

    name: str
    threads: int
    rack: str | None = None


@dataclass(frozen=True)
class SimulatedTask:
    """A task and the size of what it would restore; nothing, where no store of it has a changelog."""

    info: TaskInfo
    size: Size = Size(0, 0)

    @property
    def record_bytes(self) -> float:
        """Mean bytes of a changelog record."""
        return self.size.bytes / self.size.records if self.size.records else 0.0


@dataclass(frozen=True)
class Application:
    """One topology to simulate. `measured`: whether sizes are those of the log, not assumed."""

    name: str
    assignor: str
    configs: AssignmentConfigs
    tasks: tuple[SimulatedTask, ...]
    measured: bool = False
    subtopologies: tuple[str, ...] = ()


def members(count: int, threads: int, racks: Sequence[str], first: int = 1) -> tuple[Member, ...]:
    """Clients c1, c2, ... in turn on the racks."""
    return tuple(
        Member(f"c{number}", threads, racks[(number - 1) % len(racks)] if racks else None)
        for number in range(first, first + count)
    )


def application(
    topology: Topology, assumptions: Assumptions, racks: Sequence[str] = (), log: LogState | None = None
) -> Application:
    """The tasks of a topology. `log`: what the application has committed; sizes are taken from it if it has run."""
    measured = log is not None and log.generation > 0
    tasks = [
        _task(topology.application, part, partition, _Racks(racks, assumptions.replication))
        for part in topology.subtopologies
        for partition in range(part.partitions)
    ]
    return Application(
        name=topology.name,
        assignor=topology.assignment.assignor.name,
        configs=configs(topology.assignment),
        tasks=tuple(
            _measured(task, log) if measured and log is not None else _assumed(task, assumptions) for task in tasks
        ),
        measured=measured,
        subtopologies=tuple(part.name for part in sorted(topology.subtopologies, key=lambda part: part.number)),
    )


def configs(assignment: Assignment) -> AssignmentConfigs:
    """What the `assignment:` section asks for."""
    return AssignmentConfigs(
        acceptable_recovery_lag=assignment.acceptable_recovery_lag,
        max_warmup_replicas=assignment.max_warmup_replicas,
        num_standby_replicas=assignment.standby_replicas,
        probing_rebalance_interval_ms=assignment.probing_rebalance_interval_ms,
        rack_aware_assignment_tags=assignment.rack_aware_tags,
        rack_aware_assignment_strategy=assignment.rack_aware_strategy,
    )


@dataclass(frozen=True)
class _Racks:
    """Partition p has its replicas on rack p and the next ones, all in turn."""

    names: Sequence[str]
    replication: int

    def of(self, partition: int) -> frozenset[str] | None:
        if not self.names:
            return None
        return frozenset(self.names[(partition + n) % len(self.names)] for n in range(self.replication))


def _task(application: str, part: Subtopology, partition: int, racks: _Racks) -> TaskInfo:
    sources = [topic.name for topic in part.sources if partition < topic.partitions]
    changelogs = [changelog_topic(application, store.name) for store in part.stores if store.changelog]
    return TaskInfo(
        TaskId(part.number, partition, part.name),
        frozenset(store.name for store in part.stores),
        frozenset(
            [TaskTopicPartition(topic, partition, True, False, racks.of(partition)) for topic in sources]
            + [TaskTopicPartition(topic, partition, False, True, racks.of(partition)) for topic in changelogs]
        ),
    )


def _assumed(task: TaskInfo, assumptions: Assumptions) -> SimulatedTask:
    if not task.is_changelogged:
        return SimulatedTask(task)
    return SimulatedTask(replace(task, state_bytes=assumptions.size.bytes), assumptions.size)


def _measured(task: TaskInfo, log: LogState) -> SimulatedTask:
    """With what the task's changelogs hold, and how fast it took records."""
    changelogs = [each.topic for each in task.topic_partitions if each.is_changelog]
    size = Size(
        sum(log.end(topic, task.id.partition) for topic in changelogs),
        sum(log.size(topic, task.id.partition) for topic in changelogs),
    )
    rate = log.records_per_second(task.id.name, task.id.partition)
    state_bytes = size.bytes if task.is_stateful else None
    return SimulatedTask(replace(task, state_bytes=state_bytes, records_per_second=rate), size)
