"""What an active and a standby task have in common, as whoever keeps them sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..log.commit.records import TaskCommit
from ..task_id import TaskId, TopicPartition
from .state import State, TaskType
from .task_timeout import TaskTimeout


class Task(Protocol):
    """One task in one role on one client: its state, and how far its stores are.

    `stores`: names of its local stores. `inputs`: the partitions it reads. `offsets`: store -> changelog records
    applied, known while it holds its stores. Everything here is the driver's memory: stores and files are the client's.

    All operations raise IllegalTaskStateError where the table in `state.py` refuses them, and change nothing then.
    """

    type: TaskType
    id: TaskId
    stores: tuple[str, ...]
    inputs: frozenset[TopicPartition]
    offsets: dict[str, int]
    timeout: TaskTimeout

    @property
    def state(self) -> State:
        """Where it is in its life."""
        ...

    @property
    def commit_needed(self) -> bool:
        """Whether something of it is done that is not committed."""
        ...

    def initialize_if_needed(self, offsets: Mapping[str, int]) -> None:
        """Take up its stores, which stand at `offsets`, if it was created only."""
        ...

    def complete_restoration(self) -> None:
        """Begin to process: its stores stand where the commits say."""
        ...

    def suspend(self) -> None:
        """Take no part any more, and keep the stores. An epoch that is open is given up."""
        ...

    def resume(self) -> None:
        """Take part again."""
        ...

    def prepare_commit(self) -> TaskCommit | None:
        """What is to be committed, None where that is nothing."""
        ...

    def post_commit(self, *, enforce_checkpoint: bool) -> bool:
        """After a commit; whether the positions of its stores are due to be written down."""
        ...

    def checkpointed(self) -> None:
        """They were written down."""
        ...

    def prepare_recycle(self) -> None:
        """End in this role and leave the stores open for the other one. Raises TaskMigratedError as `close_clean`."""
        ...

    def close_clean(self) -> None:
        """End. Raises TaskMigratedError when something is not committed: it may never be."""
        ...

    def close_dirty(self) -> None:
        """End, whatever is not committed."""
        ...

    def revive(self) -> None:
        """Be as one that was just created."""
        ...

    def changelog_offsets(self) -> Mapping[str, int]:
        """Store -> changelog records applied, or LATEST_OFFSET."""
        ...
