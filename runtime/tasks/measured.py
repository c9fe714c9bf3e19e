"""What tasks measured, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import add
from typing import ClassVar, Literal, NamedTuple, Self

from ..log.commit.records import TaskCommit
from ..task_id import TaskKey
from ..timed_parts import Span
from .errors import OldAssignmentError, RecordsMissingError, TaskCorruptedError, TaskMigratedError, WrongClientError

# What an epoch has cost a task, and what the task has read and written: measured where the epoch ran.
#
# It travels to the driver with the task's outcome, and is in no commit: nothing but what people are shown depends on
# it.

PHASES = ("read", "sql", "operators", "state", "write")
"""The parts of a task's time. `read`: records are taken from the log and put in order. `sql`: a stage waits for the
rows that the stage before has handed to Spark SQL. `operators`: steps in Python, without the time in stores. `state`:
stores are opened, brought forward and read. `write`: records and changes of stores are written to the log.
"""


@dataclass(frozen=True)
class Seconds:
    """A task's time in an epoch, or in several: see PHASES."""

    read: float = 0.0
    sql: float = 0.0
    operators: float = 0.0
    state: float = 0.0
    write: float = 0.0

    as_list: ClassVar[bool] = True

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(*map(add, self.values, other.values))

    def rounded(self) -> Seconds:
        """To microseconds: the rest is noise, and long as text."""
        return Seconds(*(round(each, 6) for each in self.values))

    @property
    def values(self) -> tuple[float, ...]:
        """In the order of PHASES."""
        return (self.read, self.sql, self.operators, self.state, self.write)

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.values)


@dataclass(frozen=True)
class Volume:
    """Records and bytes, as they lie in the log. `read_bytes`: of the consumed records. `written_*`: into topics.
    `changed_*`: into changelogs.
    """

    read_bytes: int = 0
    written_records: int = 0
    written_bytes: int = 0
    changed_records: int = 0
    changed_bytes: int = 0

    as_list: ClassVar[bool] = True

    def __add__(self, other: Volume) -> Volume:
        return Volume(*map(add, self.values, other.values))

    @property
    def values(self) -> tuple[int, ...]:
        """In the order of the fields."""
        return (self.read_bytes, self.written_records, self.written_bytes, self.changed_records, self.changed_bytes)


class StoreSize(NamedTuple):
    """How large a store is. `rows`: about how many; None where that is not known. `bytes`: of its files, whole."""

    rows: int | None
    bytes: int


@dataclass(frozen=True)
class Measured:
    """A task's epoch in numbers.

    `stores`: how large those are that the epoch has used, by name, where their backends tell.
    `handed_over`: when the last stage so far began to hand its rows to the next one. By a clock that all processes of a
    machine share, and that never goes back: what a job runs for a client is on one machine.
    `spans`: of each stage, in their order, what it did when, by the same clock; empty unless the run is traced.
    `taken`: the bytes of the records that it has taken, as they are in memory, which bound an epoch.
    """

    seconds: Seconds = field(default_factory=Seconds)
    volume: Volume = field(default_factory=Volume)
    handed_over: float = 0.0
    stores: Mapping[str, StoreSize] = field(default_factory=dict)
    spans: tuple[tuple[Span, ...], ...] = ()
    taken: int = 0

    as_list: ClassVar[bool] = True

    def then(
        self,
        seconds: Seconds,
        volume: Volume,
        handed_over: float,
        stores: Mapping[str, StoreSize] | None = None,
        spans: tuple[Span, ...] = (),
    ) -> Self:
        """The same with what the next stage has measured."""
        after = {**self.stores, **(stores or {})}
        traced = (*self.spans, spans) if spans else self.spans
        return type(self)(self.seconds + seconds, self.volume + volume, handed_over, after, traced, self.taken)

    def ending(self, seconds: Seconds, spans: tuple[Span, ...]) -> Self:
        """The same with what the last stage has done after its last task."""
        *before, last = self.spans or ((),)
        return replace(self, seconds=self.seconds + seconds, spans=(*before, (*last, *spans)) if spans else self.spans)


# What an epoch has come to, task by task: a worker's answer to a plan, as plain data that travels as JSON.


@dataclass(frozen=True)
class Trouble:
    """Why a task came to nothing in an epoch, for a reason that is no record's.

    `kind`: `corrupted`: a store is damaged, or lacks records. `missing`: a file of records is not there: `path`.
    `migrated`: a store is further than the plan. `old_assignment`: the tasks were assigned again since the epoch was
    planned. `wrong_client`: the state directory is another client process's. `store`: its name, if one is the cause and
    known by name. `expected`, `found`: positions of that store, or the numbers of the plan's assignment and of the
    newest one that the client has worked for. `way_out`: what a user has to do; empty where the state is simply
    restored.
    """

    kind: Literal["corrupted", "missing", "migrated", "old_assignment", "wrong_client"]
    cause: str
    store: str = ""
    expected: int | None = None
    found: int | None = None
    way_out: str = ""
    path: str = ""

    @classmethod
    def of(cls, error: TaskCorruptedError | TaskMigratedError) -> Self:
        """The trouble that an error tells of."""
        match error:
            case RecordsMissingError():
                return cls("missing", error.reason, error.store or "", way_out=error.way_out or "", path=error.path)
            case TaskCorruptedError():
                return cls("corrupted", error.reason, error.store or "", way_out=error.way_out or "")
            case WrongClientError():
                return cls("wrong_client", error.message)
            case OldAssignmentError():
                return cls("old_assignment", error.message, "", error.expected, error.found)
            case _:
                return cls("migrated", error.message, "", error.expected, error.found)


@dataclass(frozen=True)
class TaskOutcome:
    """One task's answer: its commit, or a trouble; one of the two is None. `measured`: what it has cost.

    `failed`: the numbers of records, in the order of taking, that a step could not process: the commit has nothing of
    them but that they are taken. `held_by`: where records are left that may not be taken yet, the topics and lanes that
    may still yield earlier ones. `full`: whether it has taken as many records, or as many bytes, as an epoch may.
    `most`: as many records as it could take, as the rows of more were too large together; 0: there was no such bound.
    """

    subtopology: str
    partition: int
    commit: TaskCommit | None = None
    trouble: Trouble | None = None
    measured: Measured = field(default_factory=Measured)
    failed: tuple[int, ...] = ()
    held_by: tuple[tuple[str, int], ...] = ()
    full: bool = False
    most: int = 0

    seldom: ClassVar = ("held_by", "full", "most")

    @classmethod
    def done(cls, commit: TaskCommit, measured: Measured | None = None) -> Self:
        """Of a task that has come to a commit."""
        return cls(commit.subtopology, commit.partition, commit, measured=measured or Measured())

    @classmethod
    def troubled(cls, task: TaskKey, trouble: Trouble) -> Self:
        """Of a task that has come to nothing."""
        return cls(task.subtopology, task.partition, trouble=trouble)

    def key(self, application: str) -> TaskKey:
        """Which task, in the log of `application`."""
        return TaskKey(application, self.subtopology, self.partition)
