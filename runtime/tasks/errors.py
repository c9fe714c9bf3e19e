"""Errors of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...errors import HeadwaterError
from ..task_id import TaskId

# Errors about the ownership or state of a task, with the names of Kafka Streams.


class LockError(HeadwaterError):
    """Another process holds a state directory. Trying again may help, because the holder may be about to end.

    `path`: what is locked. `pid`: the holder, or None if it left no readable name.
    """

    def __init__(self, path: str, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(f"{path} is in use by {holder}", "stop it first, or give this run a state_dir of its own")
        self.path = path
        self.pid = pid


class TaskMigratedError(HeadwaterError):
    """Another owner has moved a task's state or progress on, so this worker no longer owns the task.

    `expected`, `found`: changelog positions of the store, if a store noticed it.
    """

    def __init__(self, what: str, expected: int | None = None, found: int | None = None) -> None:
        facts = "" if found is None else f": expected at position {expected}, found at {found}"
        super().__init__(f"{what} has moved on under another owner{facts}")
        self.what = what
        self.expected = expected
        self.found = found


class WrongClientError(TaskMigratedError):
    """A plan reached a state directory that is not its client's: `path`.

    It was made for the client process `expected_process`; `found_process` has the directory, None if nobody has.
    """

    def __init__(self, path: str, expected_process: str, found_process: str | None) -> None:
        super().__init__(path)
        has = "nobody has it" if found_process is None else f"{found_process} has it"
        self.message = f"{path} is not the state directory of client process {expected_process}: {has}"
        self.path = path
        self.expected_process = expected_process
        self.found_process = found_process


class OldAssignmentError(TaskMigratedError):
    """A plan of an assignment that is not the client's newest: `expected` is its number, `found` that of the newest.

    An assignment's number is that of the commit that notes it. `path`: the client's state directory.
    """

    def __init__(self, path: str, expected: int, found: int) -> None:
        super().__init__(path, expected, found)
        self.message = f"{path} has worked for the assignment of commit {found}, which is newer than that of {expected}"
        self.path = path


class TaskCorruptedError(HeadwaterError):
    """The local state cannot be brought to the committed position; it must be wiped and restored.

    `tasks`: those whose state it is, empty if only a store is known. `store`: its name, if one noticed it. `way_out`:
    what a user has to do; None where the state is simply restored.
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
    """Records that a plan names are not there: `path` is the file that had them. Nothing is wrong with a store.

    If commits list the file no more, other files have the records, and a new plan names these. `store`: the one that
    the records were for; None where a task was to read them itself.
    """

    def __init__(self, reason: str, path: str, store: str | None = None, way_out: str | None = None) -> None:
        super().__init__(reason, store=store, way_out=way_out)
        self.path = path


class IllegalTaskStateError(HeadwaterError):
    """An operation that a task's state does not allow. It is a bug of the caller and never caused by data."""

    def __init__(self, task: TaskId, operation: str, state: str) -> None:
        super().__init__(f"task {task} is {state}: cannot {operation}")
        self.task = task
        self.operation = operation
        self.state = state


# When the positions of a task's stores are due to be written down.

MOST_UNWRITTEN = 10_000
"""Changelog records that may be applied, over all stores of a task, before their positions are written down again.
Source: `OFFSET_DELTA_THRESHOLD_FOR_CHECKPOINT` of Kafka Streams 4.0."""


MOST_UNWRITTEN_BYTES = 16 << 20
"""Or bytes: what is not on the disk is in memory, and is lost with its process."""


class Checkpoints:
    """Positions as they were written down last: a process that ends without warning restores from there.

    Nothing is ever written for a task whose stores have not been opened: it would tell that they are empty.
    """

    def __init__(self) -> None:
        self._written: Mapping[str, int] | None = None

    def begin(self) -> None:
        """The stores have been opened. What they stand at counts as not written."""
        self._written = {}

    def forget(self) -> None:
        """The stores are gone."""
        self._written = None

    def due(self, offsets: Mapping[str, int], *, enforce: bool, size: int = 0) -> bool:
        """Whether to write `offsets` down (store -> changelog records applied).

        `enforce`: however few have come. Otherwise the records that came since, summed over the stores, decide, or
        their `size` in bytes, where it is known.
        """
        if self._written is None:
            return False
        written = self._written
        records = sum(offset - written.get(store, 0) for store, offset in offsets.items())
        return enforce or records > MOST_UNWRITTEN or size > MOST_UNWRITTEN_BYTES

    def wrote(self, offsets: Mapping[str, int]) -> None:
        """These have been written down."""
        self._written = dict(offsets)
