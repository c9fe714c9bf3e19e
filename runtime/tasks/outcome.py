"""What an epoch has come to, task by task: a worker's answer to a plan, as plain data that travels as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

from ..log.commit.records import TaskCommit
from ..task_id import TaskKey
from .errors import (
    OldAssignmentError,
    RecordsMissingError,
    TaskCorruptedError,
    TaskMigratedError,
    WrongClientError,
)
from .measured import Measured


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
