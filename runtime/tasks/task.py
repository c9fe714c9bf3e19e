"""Active and standby tasks, and the timeout of failing ones.

A task is an object of the driver; its stores and files are on the client. The driver knows the positions of stores from
`LinkedStores` (`runtime/restore`) only.
"""

from __future__ import annotations

from ...errors import HeadwaterError
from ..log.commit.records import TaskCommit
from ..task_id import TaskId, TopicPartition
from .errors import IllegalTaskStateError, TaskMigratedError
from .state import Operation, State, TaskType, after

# How long a task may fail for temporary reasons, such as a client that does not respond (KIP-572).

TASK_TIMEOUT_MS = 300_000
"""Source: the default of Kafka Streams' `task.timeout.ms`."""


class TaskTimeoutError(HeadwaterError):
    """A task made no progress for longer than the limit: `task`, `waited_ms`."""

    def __init__(self, task: TaskId, waited_ms: int, cause: str) -> None:
        super().__init__(f"task {task} has made no progress for {waited_ms / 1000:.0f} s: {cause}")
        self.task = task
        self.waited_ms = waited_ms


class TaskTimeout:
    """Measures the time since the first failure. A success resets it. Times are milliseconds of any one clock."""

    def __init__(self, task: TaskId, limit_ms: int = TASK_TIMEOUT_MS) -> None:
        self._task = task
        self._limit_ms = limit_ms
        self.since: int | None = None

    def start(self, now_ms: int, cause: Exception) -> None:
        """A temporary failure. Raises TaskTimeoutError if the first one is longer ago than the limit."""
        if self.since is None:
            self.since = now_ms
        elif now_ms - self.since > self._limit_ms:
            raise TaskTimeoutError(self._task, now_ms - self.since, str(cause)) from cause

    def clear(self) -> None:
        """A success."""
        self.since = None


class Task:
    """One task in one role on one client. Source: `AbstractTask` of Kafka Streams 4.0.

    `stores`: names of its local stores. `inputs`: the partitions it reads. `state`: only operations change it. Every
    operation raises IllegalTaskStateError, and changes nothing, if the table in `state.py` has no entry for it.
    """

    type: TaskType

    def __init__(
        self, task_id: TaskId, stores: tuple[str, ...] = (), inputs: frozenset[TopicPartition] = frozenset()
    ) -> None:
        self.id = task_id
        self.stores = stores
        self.inputs = inputs
        self.timeout = TaskTimeout(task_id)
        self.state = State.CREATED

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id} {self.state.value})"

    def initialize_if_needed(self) -> None:
        """Take its stores, which are open, if its state is CREATED."""
        self._move(Operation.INITIALIZE)

    def complete_restoration(self) -> None:
        """Start to process: its stores are at their committed positions. Illegal for a standby task."""
        self._move(Operation.COMPLETE_RESTORATION)

    def suspend(self) -> None:
        """Take no part in epochs and keep the stores."""
        self._move(Operation.SUSPEND)

    def resume(self) -> None:
        """Restore again, as another owner may have advanced the state meanwhile. A standby task keeps its state."""
        self._move(Operation.RESUME)

    def prepare_commit(self) -> TaskCommit | None:
        """The result to commit, or None."""
        after(Operation.PREPARE_COMMIT, self.type, self.state, self.id)
        return None

    def post_commit(self) -> None:
        """Its result was committed."""
        after(Operation.POST_COMMIT, self.type, self.state, self.id)

    def prepare_recycle(self) -> None:
        """End in this role and leave the stores open for the other one. Raises TaskMigratedError as `close_clean`."""
        self._move(Operation.PREPARE_RECYCLE)

    def close_clean(self) -> None:
        """Close. Raises TaskMigratedError if a result is not committed, because it may never be."""
        self._move(Operation.CLOSE_CLEAN)

    def close_dirty(self) -> None:
        """Close, and drop what is not committed. The stores need no repair: they have committed records only."""
        self._move(Operation.CLOSE_DIRTY)

    def revive(self) -> None:
        """Become a new task: CREATED."""
        if self._move(Operation.REVIVE):
            self.timeout.clear()

    def _move(self, operation: Operation) -> bool:
        """Apply an operation. Returns whether the state changed. Raises IllegalTaskStateError, and keeps the state."""
        old, self.state = self.state, after(operation, self.type, self.state, self.id)
        return self.state is not old


class StandbyTask(Task):
    """A task that keeps copies of a task's stores, so that its client can take over the task at once.

    It follows changelogs and takes no records.
    """

    type = TaskType.STANDBY


_COMMITS = (State.RUNNING, State.SUSPENDED)


class StreamTask(Task):
    """A task that processes records in epochs. Source: `StreamTask` of Kafka Streams 4.0, with exactly-once processing.

    An epoch is *open* from `start_epoch` to `end_epoch`: a job works on it, and it can be dropped at no cost. Then its
    result is *prepared*, and `commit_needed` is True until it is committed. No other epoch starts before that.
    `assignment`: the number of the assignment that gave the task to its client. Results planned before it are void.
    """

    type = TaskType.ACTIVE

    def __init__(
        self,
        task_id: TaskId,
        stores: tuple[str, ...] = (),
        inputs: frozenset[TopicPartition] = frozenset(),
        assignment: int = 0,
    ) -> None:
        super().__init__(task_id, stores, inputs)
        self.assignment = assignment
        self.epoch: int | None = None
        self._prepared: TaskCommit | None = None

    @property
    def commit_needed(self) -> bool:
        """Whether an epoch was processed and is neither committed nor dropped."""
        return self._prepared is not None

    @property
    def processable(self) -> bool:
        """Whether it may start an epoch."""
        return self.state is State.RUNNING and self.epoch is None and not self.commit_needed

    def start_epoch(self, number: int) -> None:
        """A job starts to take records for the task. Raises IllegalTaskStateError unless it is `processable`."""
        if not self.processable:
            raise IllegalTaskStateError(self.id, "start an epoch", f"{self.type.value} and {self.state.value}")
        self.epoch = number

    def end_epoch(self, number: int, assignment: int, commit: TaskCommit | None) -> bool:
        """The job has ended with this result. Returns whether the epoch was still open.

        The result is ignored if it was dropped meanwhile, or if the task has a newer assignment than `assignment`, for
        which the epoch was planned.
        """
        if self.epoch != number:
            return False
        self.epoch = None
        self._prepared = commit if assignment >= self.assignment else None
        return True

    def suspend(self) -> None:
        """Stop: SUSPENDED. An open epoch is dropped; a prepared one may still be committed."""
        if self._move(Operation.SUSPEND):
            self.epoch = None

    def prepare_commit(self) -> TaskCommit | None:
        """The uncommitted result of its last epoch, or None."""
        super().prepare_commit()
        return self._prepared if self.state in _COMMITS else None

    def post_commit(self) -> None:
        """Its result was committed."""
        super().post_commit()
        self._prepared = None

    def prepare_recycle(self) -> None:
        """End as an active task and leave the stores open for a standby task. Raises TaskMigratedError."""
        self._require_committed("made a standby")
        super().prepare_recycle()

    def close_clean(self) -> None:
        """Close. Raises TaskMigratedError if a processed epoch is not committed."""
        self._require_committed("closed")
        super().close_clean()

    def close_dirty(self) -> None:
        """Close, and drop what is not committed."""
        super().close_dirty()
        self._prepared = None

    def _require_committed(self, how: str) -> None:
        if self.commit_needed:
            raise TaskMigratedError(f"task {self.id}, {how} with an epoch that is not committed,")
