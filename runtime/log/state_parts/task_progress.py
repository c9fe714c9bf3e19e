"""The progress of an application's tasks, folded from the committed epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...task_id import TaskKey
from ..commit.records import EpochRecord, TaskCommit


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

    def key(self, application: str) -> TaskKey:
        """Whose pace it is, in the log of `application`."""
        return TaskKey(application, self.subtopology, self.partition)

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
    """The progress of each task of an application after its last committed epoch."""

    def __init__(self, application: str, tasks: Iterable[TaskCommit] = (), paces: Iterable[Pace] = ()) -> None:
        """`tasks`: the last commit of each, with its counts added up and without segments."""
        self._application = application
        self._tasks = {task.key(application): task for task in tasks}
        self._paces = {pace.key(application): pace for pace in paces}

    def add(self, record: EpochRecord) -> None:
        """Add an epoch."""
        for task in record.tasks:
            key = task.key(self._application)
            self._tasks[key] = self._after(key, task)
            self._paces[key] = self._pace(key, record, task)

    def move(self, subtopology: str, topic: str, positions: Mapping[int, Mapping[int, int]]) -> None:
        """Have tasks go on reading a topic elsewhere: partition -> lane -> position. All that they have done stays."""
        for partition, lanes in positions.items():
            key = TaskKey(self._application, subtopology, partition)
            task = self.of(key)
            self._tasks[key] = replace(task, positions={**task.positions, topic: dict(lanes)})

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

    def of(self, task: TaskKey) -> TaskCommit:
        """A task's last commit; before its first, that of a task that has read nothing.

        `records` and `dropped` are of all its epochs together, and its segments are left out. `applied` has each store
        as of the last epoch that has opened it.
        """
        found = self._tasks.get(task)
        return TaskCommit(task.subtopology, task.partition, {}, -1) if found is None else found

    def records_per_second(self, task: TaskKey) -> float | None:
        """How fast a task took records in the last run with several epochs; None if no run had several."""
        pace = self._paces.get(task)
        return None if pace is None else pace.per_second()

    def _after(self, key: TaskKey, task: TaskCommit) -> TaskCommit:
        before = self._tasks.get(key)
        if before is None:
            return replace(task, segments=())
        dropped = dict(Counter(before.dropped) + Counter(task.dropped))
        applied = {**before.applied, **task.applied}
        return replace(task, dropped=dropped, applied=applied, records=before.records + task.records, segments=())

    def _pace(self, key: TaskKey, record: EpochRecord, task: TaskCommit) -> Pace:
        pace = self._paces.get(key)
        if pace is None:
            return Pace(task.subtopology, task.partition, record.generation, record.at, record.at)
        return pace.next(record, task.records)
