"""The progress of an application's tasks, folded from the committed epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .commit_records import EpochRecord, TaskCommit

_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Pace:
    """How many records a task took, and in which time, under one generation after its first epoch there. Times in ms.

    `last_records`, `last_ms`: the same of the last earlier generation with several epochs; 0 if there was none.
    """

    subtopology: str
    partition: int
    generation: int
    since: int
    until: int
    records: int = 0
    last_records: int = 0
    last_ms: int = 0

    def next(self, record: EpochRecord, records: int) -> Pace:
        """The pace after one more epoch, in which the task took so many records."""
        if record.generation == self.generation:
            return replace(self, until=record.at, records=self.records + records)
        last_records, last_ms = self._telling()
        begun = Pace(self.subtopology, self.partition, record.generation, record.at, record.at)
        return replace(begun, last_records=last_records, last_ms=last_ms)

    def per_second(self) -> float | None:
        """Records a second; None if no generation had several epochs."""
        records, ms = self._telling()
        return 1000 * records / ms if ms else None

    def _telling(self) -> tuple[int, int]:
        if self.until > self.since:
            return self.records, self.until - self.since
        return self.last_records, self.last_ms


class TaskProgress:
    """The progress of each task after its last committed epoch, by subtopology and partition."""

    def __init__(self, tasks: Iterable[TaskCommit] = (), paces: Iterable[Pace] = ()) -> None:
        """`tasks`: the last commit of each, with its counts added up and without segments."""
        self._tasks = {(task.subtopology, task.partition): task for task in tasks}
        self._paces = {(pace.subtopology, pace.partition): pace for pace in paces}

    def add(self, record: EpochRecord) -> None:
        """Add an epoch."""
        for task in record.tasks:
            self._move(task)
            self._pace(record, task)

    def all(self) -> tuple[TaskCommit, ...]:
        """All tasks, as the argument `tasks` of the class takes them."""
        return tuple(self._tasks.values())

    def paces(self) -> tuple[Pace, ...]:
        """How fast each task took records."""
        return tuple(self._paces.values())

    @property
    def consumed(self) -> bool:
        """Whether any task has consumed records, even one of a subtopology that was removed."""
        return any(task.positions for task in self._tasks.values())

    def positions(self, subtopology: str, partition: int) -> Mapping[str, Mapping[int, int]]:
        """Records a task has consumed: topic -> lane -> position."""
        task = self._tasks.get((subtopology, partition))
        return _NOTHING if task is None else task.positions

    def stream_time(self, subtopology: str, partition: int) -> int:
        """A task's clock, ms; -1 before its first record."""
        task = self._tasks.get((subtopology, partition))
        return -1 if task is None else task.stream_time

    def clocks(self, subtopology: str, partition: int) -> Mapping[str, int]:
        """A task's step clocks, ms."""
        task = self._tasks.get((subtopology, partition))
        return _NOTHING if task is None else task.clocks

    def globals_(self, subtopology: str, partition: int) -> Mapping[str, Mapping[int, int]]:
        """Global table -> partition -> position that a task's last epoch saw."""
        task = self._tasks.get((subtopology, partition))
        return _NOTHING if task is None else task.globals_

    def dropped(self, subtopology: str, partition: int) -> Mapping[str, int]:
        """`<step>:<reason>` -> records a task has dropped in all its epochs."""
        task = self._tasks.get((subtopology, partition))
        return _NOTHING if task is None else task.dropped

    def records(self, subtopology: str, partition: int) -> int:
        """Records a task has consumed in all its epochs."""
        task = self._tasks.get((subtopology, partition))
        return 0 if task is None else task.records

    def records_per_second(self, subtopology: str, partition: int) -> float | None:
        """How fast a task took records in the last run with several epochs; None if no run had several."""
        pace = self._paces.get((subtopology, partition))
        return None if pace is None else pace.per_second()

    def _move(self, task: TaskCommit) -> None:
        key = (task.subtopology, task.partition)
        before = self._tasks.get(key)
        if before is not None:
            dropped = dict(Counter(before.dropped) + Counter(task.dropped))
            task = replace(task, dropped=dropped, records=before.records + task.records)
        self._tasks[key] = replace(task, segments=())

    def _pace(self, record: EpochRecord, task: TaskCommit) -> None:
        key = (task.subtopology, task.partition)
        pace = self._paces.get(key)
        begun = Pace(task.subtopology, task.partition, record.generation, record.at, record.at)
        self._paces[key] = begun if pace is None else pace.next(record, task.records)
