"""The interface of a task, and the timeout of failing tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ...errors import HeadwaterError
from ..log.commit.records import TaskCommit
from ..task_id import TaskId, TopicPartition
from .state import State, TaskType

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


# The common interface of active and standby tasks, for their manager.


class Task(Protocol):
    """One task in one role on one client: its state, and the offsets of its stores.

    `stores`: names of its local stores. `inputs`: the partitions it reads. `offsets`: store -> changelog records
    applied, known while its stores are open. A Task is an object of the driver; stores and files are on the client.

    Every operation raises IllegalTaskStateError, and changes nothing, if the table in `state.py` has no entry for it.
    """

    type: TaskType
    id: TaskId
    stores: tuple[str, ...]
    inputs: frozenset[TopicPartition]
    offsets: dict[str, int]
    timeout: TaskTimeout

    @property
    def state(self) -> State:
        """The task's state."""
        ...

    @property
    def commit_needed(self) -> bool:
        """Whether it has results that are not committed."""
        ...

    def initialize_if_needed(self, offsets: Mapping[str, int]) -> None:
        """Take its stores, which are at `offsets`, if its state is CREATED."""
        ...

    def complete_restoration(self) -> None:
        """Start to process: its stores are at their committed positions."""
        ...

    def suspend(self) -> None:
        """Take no part in epochs and keep the stores. An open epoch is dropped."""
        ...

    def resume(self) -> None:
        """Take part in epochs again."""
        ...

    def prepare_commit(self) -> TaskCommit | None:
        """The result to commit, or None."""
        ...

    def post_commit(self, *, enforce_checkpoint: bool) -> bool:
        """After a commit. Returns whether the checkpoint files of its stores are due."""
        ...

    def checkpointed(self) -> None:
        """The checkpoint files were written."""
        ...

    def prepare_recycle(self) -> None:
        """End in this role and leave the stores open for the other one. Raises TaskMigratedError as `close_clean`."""
        ...

    def close_clean(self) -> None:
        """Close. Raises TaskMigratedError if a result is not committed, because it may never be."""
        ...

    def close_dirty(self) -> None:
        """Close, and drop what is not committed."""
        ...

    def revive(self) -> None:
        """Become a new task: CREATED."""
        ...

    def changelog_offsets(self) -> Mapping[str, int]:
        """Store -> changelog records applied, or LATEST_OFFSET."""
        ...
