"""Errors about the ownership or state of a task, named as in Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import HeadwaterError
from ..task_id import TaskId


class LockError(HeadwaterError):
    """Another process has locked a state directory. A retry may succeed, because that process may be about to end.

    `path`: the locked directory. `pid`: the other process, or None if the lock file does not name it.
    """

    def __init__(self, path: str, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(f"{path} is in use by {holder}", "stop it first, or give this run a state_dir of its own")
        self.path = path
        self.pid = pid


class TaskMigratedError(HeadwaterError):
    """Another owner has advanced a task's state or progress, so this worker no longer owns the task.

    `expected`, `found`: changelog positions of the store, if a store detected it.
    """

    def __init__(self, what: str, expected: int | None = None, found: int | None = None) -> None:
        positions = "" if found is None else f": expected at position {expected}, found at {found}"
        super().__init__(f"{what} was advanced by another owner{positions}")
        self.what = what
        self.expected = expected
        self.found = found


class WrongClientError(TaskMigratedError):
    """A plan reached a state directory that belongs to another client process: `path`.

    `expected_process`: the client process of the plan. `found_process`: the owner of the directory, or None.
    """

    def __init__(self, path: str, expected_process: str, found_process: str | None) -> None:
        super().__init__(path)
        owner = "it has no owner" if found_process is None else f"its owner is {found_process}"
        self.message = f"{path} is not the state directory of client process {expected_process}: {owner}"
        self.path = path
        self.expected_process = expected_process
        self.found_process = found_process


class OldAssignmentError(TaskMigratedError):
    """A plan was made for an old assignment of the client: number `expected`. The newest one is `found`.

    The number of an assignment is the number of its commit. `path`: the client's state directory.
    """

    def __init__(self, path: str, expected: int, found: int) -> None:
        super().__init__(path, expected, found)
        self.message = f"{path} has the assignment of commit {found}, which is newer than the plan's, of {expected}"
        self.path = path


class TaskCorruptedError(HeadwaterError):
    """Local state cannot be brought to the committed position. It must be wiped and restored.

    `tasks`: the owners of the state; empty if only a store is known. `store`: the name of the corrupted store, if
    known. `way_out`: what a user has to do; None if a restore is enough.
    """

    def __init__(
        self, reason: str, tasks: Iterable[TaskId] = (), store: str | None = None, way_out: str | None = None
    ) -> None:
        super().__init__(reason, way_out or "its state is wiped and restored from the changelog")
        self.way_out = way_out
        self.reason = reason
        self.tasks = frozenset(tasks)
        self.store = store


class RecordsMissingError(TaskCorruptedError):
    """A plan lists records in a file that is missing: `path`. The stores are sound.

    If no commit lists the file any more, other files have the records, and a new plan lists those. `store`: the store
    that needed the records; None if the task itself was to read them.
    """

    def __init__(self, reason: str, path: str, store: str | None = None, way_out: str | None = None) -> None:
        super().__init__(reason, store=store, way_out=way_out)
        self.path = path


class IllegalTaskStateError(HeadwaterError):
    """A task's state does not allow an operation. This is a bug of the caller and never caused by data."""

    def __init__(self, task: TaskId, operation: str, state: str) -> None:
        super().__init__(f"task {task} is {state}: cannot {operation}")
        self.task = task
        self.operation = operation
        self.state = state
