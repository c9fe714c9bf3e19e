"""A standby task: it keeps a copy of a task's stores, so that its client can take the task over at once."""

from __future__ import annotations

from collections.abc import Mapping

from ..log.commit.records import TaskCommit
from ..task_id import TaskId, TopicPartition
from .checkpoints import Checkpoints
from .state import Lifecycle, Operation, State, TaskType
from .task_timeout import TaskTimeout


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
