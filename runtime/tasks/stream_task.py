"""Active and standby tasks."""

from __future__ import annotations

from collections.abc import Mapping

from ..log.commit.records import TaskCommit
from ..task_id import LATEST_OFFSET, TaskId, TopicPartition
from .errors import Checkpoints, TaskMigratedError
from .state import Lifecycle, Operation, State, TaskType
from .task import TaskTimeout

# An active task: it takes records in epochs, and what it made of them is committed.

_COMMITS = (State.RUNNING, State.SUSPENDED)


class StreamTask:
    """A Task that processes. Source: `StreamTask` of Kafka Streams 4.0, with exactly-once processing.

    An epoch is *open* from `start_epoch` until `end_epoch`: a job works on it, and giving it up costs nothing. What it
    came to is then *prepared*, and `commit_needed` until it is committed. No other epoch begins before that.
    `assignment`: the number of the assignment that gave the task to its client; what was planned before is void.
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
        """Where it is in its life."""
        return self._lifecycle.state

    @property
    def commit_needed(self) -> bool:
        """Whether an epoch has been processed and neither committed nor given up."""
        return self._prepared is not None

    @property
    def processable(self) -> bool:
        """Whether it may begin an epoch."""
        return self.state is State.RUNNING and self.epoch is None and not self.commit_needed

    def start_epoch(self, number: int) -> None:
        """A job takes records for the task. Raises IllegalTaskStateError where it may not begin one."""
        if not self.processable:
            self._lifecycle.refuse("start an epoch")
        self.epoch = number

    def end_epoch(self, number: int, assignment: int, commit: TaskCommit | None) -> None:
        """The job is done, with this result. It is worth nothing if the epoch was given up meanwhile, or if the task
        was assigned again since `assignment`, which was the newest when the epoch was planned."""
        if self.epoch == number:
            self.epoch = None
            self._prepared = commit if assignment >= self.assignment else None

    def initialize_if_needed(self, offsets: Mapping[str, int]) -> None:
        """Take up its stores, which stand at `offsets`: RESTORING."""
        if self._lifecycle.move(Operation.INITIALIZE):
            self.offsets = dict(offsets)
            self._checkpoints.begin()

    def complete_restoration(self) -> None:
        """Begin to process: RUNNING. Exactly-once writes nothing down here, as what it would tell is soon wrong."""
        self._lifecycle.move(Operation.COMPLETE_RESTORATION)

    def suspend(self) -> None:
        """Take no part any more: SUSPENDED. An open epoch is given up; what is prepared may still be committed."""
        if self._lifecycle.move(Operation.SUSPEND):
            self.epoch = None

    def resume(self) -> None:
        """Restore, then run: another owner may have gone on meanwhile."""
        self._lifecycle.move(Operation.RESUME)

    def prepare_commit(self) -> TaskCommit | None:
        """The result of its last epoch, as long as it is not committed."""
        self._lifecycle.require(Operation.PREPARE_COMMIT)
        return self._prepared if self.state in _COMMITS else None

    def post_commit(self, *, enforce_checkpoint: bool) -> bool:
        """Whether positions are due to be written down. A task that runs writes them when that is enforced only: what
        it changes between two commits would make them wrong."""
        self._lifecycle.require(Operation.POST_COMMIT)
        if self._prepared is not None:
            self.offsets.update(self._prepared.applied)
            self._prepared = None
        if self.state is State.RUNNING and not enforce_checkpoint:
            return False
        return self._checkpoints.due(self.offsets, enforce=enforce_checkpoint)

    def checkpointed(self) -> None:
        """They were written down."""
        self._checkpoints.wrote(self.offsets)

    def prepare_recycle(self) -> None:
        """End as an active task, and leave the stores for a standby task. Raises TaskMigratedError."""
        self._refuse_uncommitted("made a standby")
        self._lifecycle.move(Operation.PREPARE_RECYCLE)

    def close_clean(self) -> None:
        """End. Raises TaskMigratedError when an epoch was processed and is not committed."""
        self._refuse_uncommitted("closed")
        self._lifecycle.move(Operation.CLOSE_CLEAN)

    def close_dirty(self) -> None:
        """End, and give up what is not committed. The stores need no repair: they hold committed records only."""
        if self._lifecycle.move(Operation.CLOSE_DIRTY):
            self._prepared = None

    def revive(self) -> None:
        """Be as one that was just created."""
        if self._lifecycle.move(Operation.REVIVE):
            self.offsets = {}
            self._checkpoints.forget()
            self.timeout.clear()

    def changelog_offsets(self) -> Mapping[str, int]:
        """LATEST_OFFSET for each store while it runs; else changelog records applied."""
        if self.state is State.RUNNING:
            return dict.fromkeys(self.stores, LATEST_OFFSET)
        return dict(self.offsets)

    def _refuse_uncommitted(self, how: str) -> None:
        if self.commit_needed:
            raise TaskMigratedError(f"task {self.id}, {how} with an epoch that is not committed,")


# A standby task: it keeps a copy of a task's stores, so that its client can take the task over at once.


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
        """Where it is in its life."""
        return self._lifecycle.state

    @property
    def commit_needed(self) -> bool:
        """Whether enough has come since its positions were written down last."""
        return self.state is State.RUNNING and self._checkpoints.due(self.offsets, enforce=False)

    def initialize_if_needed(self, offsets: Mapping[str, int]) -> None:
        """Take up its stores, which stand at `offsets`, and follow their changelogs: RUNNING at once."""
        if self._lifecycle.move(Operation.INITIALIZE):
            self.offsets = dict(offsets)
            self._checkpoints.begin()

    def complete_restoration(self) -> None:
        """Refused: a standby task follows its changelogs for ever."""
        self._lifecycle.move(Operation.COMPLETE_RESTORATION)

    def suspend(self) -> None:
        """Follow no more: SUSPENDED."""
        self._lifecycle.move(Operation.SUSPEND)

    def resume(self) -> None:
        """Nothing: a standby task that is suspended is on its way to being closed."""
        self._lifecycle.move(Operation.RESUME)

    def prepare_commit(self) -> TaskCommit | None:
        """None: it takes no records."""
        self._lifecycle.require(Operation.PREPARE_COMMIT)
        return None

    def post_commit(self, *, enforce_checkpoint: bool) -> bool:
        """Whether positions are due to be written down."""
        self._lifecycle.require(Operation.POST_COMMIT)
        return self._checkpoints.due(self.offsets, enforce=enforce_checkpoint)

    def checkpointed(self) -> None:
        """They were written down."""
        self._checkpoints.wrote(self.offsets)

    def prepare_recycle(self) -> None:
        """End as a standby task, and leave the stores for an active one."""
        self._lifecycle.move(Operation.PREPARE_RECYCLE)

    def close_clean(self) -> None:
        """End."""
        self._lifecycle.move(Operation.CLOSE_CLEAN)

    def close_dirty(self) -> None:
        """End."""
        self._lifecycle.move(Operation.CLOSE_DIRTY)

    def revive(self) -> None:
        """Be as one that was just created."""
        if self._lifecycle.move(Operation.REVIVE):
            self.offsets = {}
            self._checkpoints.forget()
            self.timeout.clear()

    def changelog_offsets(self) -> Mapping[str, int]:
        """Changelog records applied."""
        return dict(self.offsets)
