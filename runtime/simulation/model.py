"""The input of a simulation: tasks, clients and assumptions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from ..assignment.balance import configs_of, measured, task_info, tasks_of
from ..assignment.cluster import AssignmentConfigs, TaskInfo
from ..ir.topology import Topology
from ..log.state import LogState

# Parses and prints durations, sizes and rates: `30s`, `64MB`, `100000`.

_DURATIONS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_QUANTITY = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([A-Za-z]*)", re.ASCII)


def duration_ms(text: str) -> int:
    """The milliseconds of a duration such as `10ms`, `5s`, `10m`, `1h` or `2d`. Raises ValueError."""
    return round(_quantity(text, _DURATIONS_MS, "a duration such as 30s or 2m"))


def size_bytes(text: str) -> int:
    """The bytes of a size such as `500B`, `20kB`, `64MB`, `1.5GB`, `1TB` or `500`. Raises ValueError."""
    return round(_quantity(text, {"": 1, **_SIZES}, "a size such as 64MB"))


@dataclass(frozen=True)
class Rate:
    """Records per second, or bytes per second; the other field is None."""

    records: float | None = None
    bytes: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `100000` as records and `20MB` as bytes, with an optional `/s`. Raises ValueError."""
        value = _quantity(text.removesuffix("/s"), {"": 1, **_SIZES}, "a rate such as 100000 (records) or 20MB")
        if not value:
            raise ValueError(f"{text!r} would never end")
        return cls(records=value) if text.removesuffix("/s").strip()[-1].isdigit() else cls(bytes=value)

    def seconds(self, records: float, record_bytes: float) -> float:
        """The seconds for `records` of this size."""
        if self.records is not None:
            return records / self.records
        return records * record_bytes / (self.bytes or 1.0)


def shown_duration(milliseconds: float) -> str:
    """A duration as text: `0 s`, `12.5 s`, `3 min 20 s`, `2 h 5 min`."""
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (0 if hours else seconds, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def shown_size(size: float) -> str:
    """A size in bytes as text: `0 B`, `64 MB`, `1.5 GB`."""
    for unit in reversed(_SIZES):
        if size >= _SIZES[unit] or unit == "B":
            return (
                f"{size / _SIZES[unit]:.3g} {unit}"
                if size < 1000 * _SIZES[unit]
                else f"{size / _SIZES[unit]:,.0f} {unit}"
            )
    raise AssertionError


def _quantity(text: str, units: dict[str, int], expected: str) -> float:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in units:
        raise ValueError(f"{text!r} is not {expected}; units: {', '.join(filter(None, units))}")
    return float(match[1]) * units[match[2]]


# The input of a simulation: the tasks of a topology, the clients, and the assumptions about both.


@dataclass(frozen=True)
class Size:
    """The size of a task's changelogs, which a restore of an empty store reads."""

    records: int
    bytes: int


@dataclass(frozen=True)
class Assumptions:
    """Assumptions about a cluster.

    `restore`: the restore rate of one client, for all its tasks together. `size`: of a stateful task without a
    measurement. `updates`: changelog records per second of a running task. `replication`: the number of racks with a
    replica of a partition, if racks are given.
    """

    restore: Rate = field(default_factory=lambda: Rate(records=100_000))
    size: Size = Size(1_000_000, 100_000_000)
    updates: float = 100.0
    replication: int = 1


@dataclass(frozen=True)
class Member:
    """A client. `rack`: None without racks."""

    name: str
    threads: int
    rack: str | None = None


@dataclass(frozen=True)
class SimulatedTask:
    """A task and the size of its changelogs, which is 0 without changelogs."""

    info: TaskInfo
    size: Size = Size(0, 0)

    @property
    def record_bytes(self) -> float:
        """The mean size of a changelog record in bytes."""
        return self.size.bytes / self.size.records if self.size.records else 0.0


@dataclass(frozen=True)
class Application:
    """One topology to simulate. `measured`: whether sizes are from the log instead of assumptions."""

    name: str
    assignor: str
    configs: AssignmentConfigs
    tasks: tuple[SimulatedTask, ...]
    measured: bool = False
    subtopologies: tuple[str, ...] = ()


def members(count: int, threads: int, racks: Sequence[str], first: int = 1) -> tuple[Member, ...]:
    """`count` clients c1, c2, ..., on the racks in turn. `first`: the first number."""
    return tuple(
        Member(f"c{number}", threads, racks[(number - 1) % len(racks)] if racks else None)
        for number in range(first, first + count)
    )


def application(
    topology: Topology, assumptions: Assumptions, racks: Sequence[str] = (), log: LogState | None = None
) -> Application:
    """The tasks of a topology. `log`: the committed state of the application, with sizes if it has run."""
    # Generation 0: no driver has run it, so there are no measurements.
    ran = log if log is not None and log.generation > 0 else None
    replicas = _Racks(racks, assumptions.replication).of_partition
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
    """Partition p has its replicas on rack p and the next ones, modulo the number of racks."""

    names: Sequence[str]
    replication: int

    def of_partition(self, partition: int) -> frozenset[str] | None:
        if not self.names:
            return None
        return frozenset(self.names[(partition + n) % len(self.names)] for n in range(self.replication))


def _assumed(task: TaskInfo, assumptions: Assumptions) -> SimulatedTask:
    if not task.is_changelogged:
        return SimulatedTask(task)
    return SimulatedTask(replace(task, state_bytes=assumptions.size.bytes), assumptions.size)


def _measured(task: TaskInfo, log: LogState) -> SimulatedTask:
    """The task with the measured size of its changelogs and rate of its records."""
    info = measured(task, log)
    changelogs = [partition.topic for partition in task.topic_partitions if partition.is_changelog]
    records = sum(log.end(topic, task.id.partition) for topic in changelogs)
    return SimulatedTask(info, Size(records, info.state_bytes or 0))
