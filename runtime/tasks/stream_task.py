"""Active and standby tasks."""

from __future__ import annotations

from collections.abc import Mapping

from ..log.commit.records import TaskCommit
from ..task_id import LATEST_OFFSET, TaskId, TopicPartition
from .errors import Checkpoints, TaskMigratedError
from .state import Lifecycle, Operation, State, TaskType
from .task import TaskTimeout

# An active task: it processes records in epochs, and its results are committed.

_COMMITS = (State.RUNNING, State.SUSPENDED)


class StreamTask:
    """A Task that processes records. Source: `StreamTask` of Kafka Streams 4.0, with exactly-once processing.

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
        self.id = task_id
        self.assignment = assignment
        self.stores = stores
        self.inputs = inputs
        self.offsets: dict[str, int] = {}
        self.timeout = TaskTimeout(task_id)
        self.epoch: int | None = None
        self._lifecycle = Lifecycle(task_id, self.type)
        self._checkpoints = Checkpoints()
        self._prepared: TaskCommit | None = None

    def __repr__(self) -> str:
        return f"StreamTask({self.id} {self.state.value})"

    @property
    def state(self) -> State:
        """The task's state."""
        return self._lifecycle.state

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
            self._lifecycle.reject("start an epoch")
        self.epoch = number

    def end_epoch(self, number: int, assignment: int, commit: TaskCommit | None) -> None:
        """The job has ended with this result. The result is ignored if the epoch was dropped meanwhile, or if the task
        has a newer assignment than `assignment`, for which the epoch was planned."""
        if self.epoch == number:
            self.epoch = None
            self._prepared = commit if assignment >= self.assignment else None

    def initialize_if_needed(self, offsets: Mapping[str, int]) -> None:
        """Take its stores, which are at `offsets`: RESTORING."""
        if self._lifecycle.move(Operation.INITIALIZE):
            self.offsets = dict(offsets)
            self._checkpoints.begin()

    def complete_restoration(self) -> None:
        """Start to process: RUNNING. Exactly-once writes no checkpoint file here: the next epoch would outdate it."""
        self._lifecycle.move(Operation.COMPLETE_RESTORATION)

    def suspend(self) -> None:
        """Stop: SUSPENDED. An open epoch is dropped; a prepared one may still be committed."""
        if self._lifecycle.move(Operation.SUSPEND):
            self.epoch = None

    def resume(self) -> None:
        """Restore again, then run: another owner may have advanced the state meanwhile."""
        self._lifecycle.move(Operation.RESUME)

    def prepare_commit(self) -> TaskCommit | None:
        """The uncommitted result of its last epoch, or None."""
        self._lifecycle.require(Operation.PREPARE_COMMIT)
        return self._prepared if self.state in _COMMITS else None

    def post_commit(self, *, enforce_checkpoint: bool) -> bool:
        """After a commit. Returns whether checkpoint files are due. A running task writes them only if enforced: its
        changes between two commits would outdate them."""
        self._lifecycle.require(Operation.POST_COMMIT)
        if self._prepared is not None:
            self.offsets.update(self._prepared.applied)
            self._prepared = None
        if self.state is State.RUNNING and not enforce_checkpoint:
            return False
        return self._checkpoints.due(self.offsets, enforce=enforce_checkpoint)

    def checkpointed(self) -> None:
        """The checkpoint files were written."""
        self._checkpoints.wrote(self.offsets)

    def prepare_recycle(self) -> None:
        """End as an active task and leave the stores open for a standby task. Raises TaskMigratedError."""
        self._require_committed("made a standby")
        self._lifecycle.move(Operation.PREPARE_RECYCLE)

    def close_clean(self) -> None:
        """Close. Raises TaskMigratedError if a processed epoch is not committed."""
        self._require_committed("closed")
        self._lifecycle.move(Operation.CLOSE_CLEAN)

    def close_dirty(self) -> None:
        """Close, and drop what is not committed. The stores need no repair: they have committed records only."""
        if self._lifecycle.move(Operation.CLOSE_DIRTY):
            self._prepared = None

    def revive(self) -> None:
        """Become a new task: CREATED."""
        if self._lifecycle.move(Operation.REVIVE):
            self.offsets = {}
            self._checkpoints.forget()
            self.timeout.clear()

    def changelog_offsets(self) -> Mapping[str, int]:
        """By store: LATEST_OFFSET while the task runs, else changelog records applied."""
        if self.state is State.RUNNING:
            return dict.fromkeys(self.stores, LATEST_OFFSET)
        return dict(self.offsets)

    def _require_committed(self, how: str) -> None:
        if self.commit_needed:
            raise TaskMigratedError(f"task {self.id}, {how} with an epoch that is not committed,")


# A standby task: it keeps copies of a task's stores, so that its client can take over the task at once.


class StandbyTask:
    """A Task that follows changelogs. Source: `StandbyTask` of Kafka Streams 4.0."""

    type = TaskType.STANDBY

    def __init__(
        self, task_id: TaskId, stores: tuple[str, ...] = (), inputs: frozenset[TopicPartition] = frozenset()
    ) -> None:
        self.id = task_id
        self.stores = stores
        self.inputs = inputs
        self.offsets: dict[str, int] = {}
        self.timeout = TaskTimeout(task_id)
        self._lifecycle = Lifecycle(task_id, self.type)
        self._checkpoints = Checkpoints()

    def __repr__(self) -> str:
        return f"StandbyTask({self.id} {self.state.value})"

    @property
    def state(self) -> State:
        """The task's state."""
        return self._lifecycle.state

    @property
    def commit_needed(self) -> bool:
        """Whether it has applied enough records since the last checkpoint files."""
        return self.state is State.RUNNING and self._checkpoints.due(self.offsets, enforce=False)

    def initialize_if_needed(self, offsets: Mapping[str, int]) -> None:
        """Take its stores, which are at `offsets`, and follow their changelogs: RUNNING at once."""
        if self._lifecycle.move(Operation.INITIALIZE):
            self.offsets = dict(offsets)
            self._checkpoints.begin()

    def complete_restoration(self) -> None:
        """Illegal: a standby task never finishes restoring. Raises IllegalTaskStateError."""
        self._lifecycle.move(Operation.COMPLETE_RESTORATION)

    def suspend(self) -> None:
        """Stop following its changelogs: SUSPENDED."""
        self._lifecycle.move(Operation.SUSPEND)

    def resume(self) -> None:
        """Keep the state: a suspended standby task is closed next."""
        self._lifecycle.move(Operation.RESUME)

    def prepare_commit(self) -> TaskCommit | None:
        """None: a standby task takes no records."""
        self._lifecycle.require(Operation.PREPARE_COMMIT)
        return None

    def post_commit(self, *, enforce_checkpoint: bool) -> bool:
        """Whether checkpoint files are due."""
        self._lifecycle.require(Operation.POST_COMMIT)
        return self._checkpoints.due(self.offsets, enforce=enforce_checkpoint)

    def checkpointed(self) -> None:
        """The checkpoint files were written."""
        self._checkpoints.wrote(self.offsets)

    def prepare_recycle(self) -> None:
        """End as a standby task and leave the stores open for an active one."""
        self._lifecycle.move(Operation.PREPARE_RECYCLE)

    def close_clean(self) -> None:
        """Close."""
        self._lifecycle.move(Operation.CLOSE_CLEAN)

    def close_dirty(self) -> None:
        """Close."""
        self._lifecycle.move(Operation.CLOSE_DIRTY)

    def revive(self) -> None:
        """Become a new task: CREATED."""
        if self._lifecycle.move(Operation.REVIVE):
            self.offsets = {}
            self._checkpoints.forget()
            self.timeout.clear()

    def changelog_offsets(self) -> Mapping[str, int]:
        """Store -> changelog records applied."""
        return dict(self.offsets)
