"""Measurements and outcomes of tasks in an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import add
from typing import Any, ClassVar, Literal, NamedTuple, Self

from ...errors import HeadwaterError, UnavailableError
from ..log.commit.records import TaskCommit
from ..log.errors import CorruptSegmentError, RangeMissingError
from ..task_id import TaskKey
from ..timed_parts import Span
from .errors import OldAssignmentError, RecordsMissingError, TaskCorruptedError, TaskMigratedError, WrongClientError

# Time and data volume of a task in an epoch, measured by the worker.
#
# They travel to the driver with the task's outcome and are part of no commit. Only metrics and reports use them.

PHASES = ("read", "sql", "operators", "state", "write")
"""The phases of a task's time. `read`: read records from the log and order them. `sql`: wait for the rows that the
previous stage has passed to Spark SQL. `operators`: operators in Python, without the time in stores. `state`: open,
catch up and read stores. `write`: write records and changelogs to the log.
"""


class _Sums:
    """Numbers that are added field by field."""

    as_list: ClassVar[bool] = True

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(add, self.values, other.values))

    @property
    def values(self) -> tuple[Any, ...]:
        """In the order of the fields."""
        return tuple(vars(self).values())


@dataclass(frozen=True)
class Seconds(_Sums):
    """A task's time in one or several epochs, in seconds per phase: see PHASES."""

    read: float = 0.0
    sql: float = 0.0
    operators: float = 0.0
    state: float = 0.0
    write: float = 0.0

    def rounded(self) -> Seconds:
        """Rounded to microseconds: further digits are noise and make long text."""
        return Seconds(*(round(seconds, 6) for seconds in self.values))

    @property
    def total(self) -> float:
        """The sum over all phases."""
        return float(sum(self.values))


@dataclass(frozen=True)
class Volume(_Sums):
    """Records, and bytes as stored in the log. `read_bytes`: consumed. `written_*`: written to topics. `changed_*`:
    written to changelogs.
    """

    read_bytes: int = 0
    written_records: int = 0
    written_bytes: int = 0
    changed_records: int = 0
    changed_bytes: int = 0


class StoreSize(NamedTuple):
    """The size of a store. `rows`: an estimate; None if unknown. `bytes`: of all its files."""

    rows: int | None
    bytes: int


@dataclass(frozen=True)
class Measured:
    """Measurements of a task's epoch.

    `stores`: sizes of the stores that the epoch has used, by name, if their backends report them.
    `handed_over`: when the last stage so far began to pass rows to the next one, in seconds of a monotonic clock that
    all processes of a machine share. All stages of a client's job run on one machine.
    `spans`: timed parts of each stage, in the order of the stages, by the same clock; empty unless the run is traced.
    `taken`: bytes in memory of the records taken, which bound an epoch.
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
        """Add the measurements of the next stage."""
        after = {**self.stores, **(stores or {})}
        traced = (*self.spans, spans) if spans else self.spans
        return type(self)(self.seconds + seconds, self.volume + volume, handed_over, after, traced, self.taken)

    def ending(self, seconds: Seconds, spans: tuple[Span, ...]) -> Self:
        """Add what the last stage has done after its last task."""
        *before, last = self.spans or ((),)
        return replace(self, seconds=self.seconds + seconds, spans=(*before, (*last, *spans)) if spans else self.spans)


# Outcomes of an epoch, task by task: a worker's response to a plan, as plain data that travels as JSON.


TroubleKind = Literal[
    "corrupted", "missing", "unreadable", "migrated", "old_assignment", "wrong_client", "unavailable", "failed"
]


@dataclass(frozen=True)
class Trouble:
    """Why a task has no result in an epoch, or why a request about stores failed. No record is the cause.

    `kind`: `corrupted`: a store is damaged, or lacks records. `missing`: a file with records is missing: `path`.
    `unreadable`: a changelog or a topic cannot be read; `path`: its missing file, if that is why. `migrated`: a store
    is ahead of the plan. `old_assignment`: the plan was made for an older assignment. `wrong_client`: the state
    directory belongs to another client process. `unavailable`: a service outside does not answer. `failed`: any other
    error. `store`: the name of the store, if one is the cause and known. `expected`, `found`: positions of that store,
    or the numbers of the plan's assignment and of the client's newest one. `way_out`: what a user has to do; empty if a
    restore is enough.
    """

    kind: TroubleKind
    cause: str
    store: str = ""
    expected: int | None = None
    found: int | None = None
    way_out: str = ""
    path: str = ""

    @classmethod
    def from_error(cls, error: HeadwaterError) -> Self:
        """The trouble of work that raised `error`."""
        match error:
            case RecordsMissingError():
                return cls("missing", error.reason, error.store or "", way_out=error.way_out or "", path=error.path)
            case TaskCorruptedError():
                return cls("corrupted", error.reason, error.store or "", way_out=error.way_out or "")
            case UnavailableError():
                return cls("unavailable", error.message, way_out=error.hint or "")
            case WrongClientError():
                return cls("wrong_client", error.message)
            case OldAssignmentError():
                return cls("old_assignment", error.message, "", error.expected, error.found)
            case TaskMigratedError():
                return cls("migrated", error.message, "", error.expected, error.found)
            case RangeMissingError():
                return cls("unreadable", error.message, way_out=error.hint or "", path=error.path)
            case CorruptSegmentError():
                return cls("unreadable", error.message, way_out=error.hint or "")
        return cls("failed", error.message, way_out=error.hint or "")


@dataclass(frozen=True)
class TaskOutcome:
    """One task's outcome: its commit, or a trouble; the other one is None. `measured`: its measurements.

    `failed`: the failed records, as indexes into the records taken. The commit consumes them and has no results of
    them. `held_by`: topics and lanes that may still deliver earlier records, if others have to wait for these. `full`:
    whether the task has taken the most records, or bytes, of an epoch. `most`: the most records that it could take,
    because the rows of more were too large together; 0: no such bound.
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
        """The outcome of a task with a commit."""
        return cls(commit.subtopology, commit.partition, commit, measured=measured or Measured())

    @classmethod
    def troubled(cls, task: TaskKey, trouble: Trouble) -> Self:
        """The outcome of a task with a trouble."""
        return cls(task.subtopology, task.partition, trouble=trouble)

    def key(self, application: str) -> TaskKey:
        """The task's key in `application`."""
        return TaskKey(application, self.subtopology, self.partition)
