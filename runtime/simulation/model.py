"""What is simulated."""

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
    """The milliseconds of `10ms 5s 10m 1h 2d`. Raises ValueError."""
    return round(_quantity(text, _DURATIONS_MS, "a duration such as 30s or 2m"))


def size_bytes(text: str) -> int:
    """The bytes of `500B 20kB 64MB 1.5GB 1TB`, or of a bare number. Raises ValueError."""
    return round(_quantity(text, {"": 1, **_SIZES}, "a size such as 64MB"))


@dataclass(frozen=True)
class Rate:
    """A number of records in a second, or of bytes; the other field is None."""

    records: float | None = None
    bytes: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """`100000` means records, `20MB` means bytes; `/s` may follow. Raises ValueError."""
        value = _quantity(text.removesuffix("/s"), {"": 1, **_SIZES}, "a rate such as 100000 (records) or 20MB")
        if not value:
            raise ValueError(f"{text!r} would never end")
        return cls(records=value) if text.removesuffix("/s").strip()[-1].isdigit() else cls(bytes=value)

    def seconds(self, records: float, record_bytes: float) -> float:
        """How many seconds `records` of this size take."""
        if self.records is not None:
            return records / self.records
        return records * record_bytes / (self.bytes or 1.0)


def shown_duration(milliseconds: float) -> str:
    """`0 s`, `12.5 s`, `3 min 20 s`, `2 h 5 min`."""
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (0 if hours else seconds, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def shown_size(size: float) -> str:
    """`0 B`, `64 MB`, `1.5 GB`."""
    for unit in reversed(_SIZES):
        if size >= _SIZES[unit] or unit == "B":
            return (
                f"{size / _SIZES[unit]:.3g} {unit}"
                if size < 1000 * _SIZES[unit]
                else f"{size / _SIZES[unit]:,.0f} {unit}"
            )
    raise AssertionError


def _quantity(text: str, units: dict[str, int], wanted: str) -> float:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or found[2] not in units:
        raise ValueError(f"{text!r} is not {wanted}; units: {', '.join(filter(None, units))}")
    return float(found[1]) * units[found[2]]


# The input of a simulation: the tasks of a topology, the clients, and the assumptions about both.


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
