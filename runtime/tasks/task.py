"""Tasks, and how long they may time out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ...errors import HeadwaterError
from ..log.commit.records import TaskCommit
from ..task_id import TaskId, TopicPartition
from .state import State, TaskType

# How long a task may fail for reasons that may pass, such as a client that does not answer (KIP-572).

TASK_TIMEOUT_MS = 300_000
"""Source: the default of Kafka Streams' `task.timeout.ms`."""


class TaskTimeoutError(HeadwaterError):
    """A task made no progress for too long. `task`: which, `waited_ms`: for how long."""

    def __init__(self, task: TaskId, waited_ms: int, cause: str) -> None:
        super().__init__(f"task {task} has made no progress for {waited_ms / 1000:.0f} s: {cause}")
        self.task = task
        self.waited_ms = waited_ms


class TaskTimeout:
    """Measures from the first failure on; a success ends it. Times are milliseconds of any one clock."""

    def __init__(self, task: TaskId, limit_ms: int = TASK_TIMEOUT_MS) -> None:
        self._task = task
        self._limit_ms = limit_ms
        self.since: int | None = None

    def start(self, now_ms: int, cause: Exception) -> None:
        """Something failed that may go well next time. Raises TaskTimeoutError once that is so for too long."""
        if self.since is None:
            self.since = now_ms
        elif now_ms - self.since > self._limit_ms:
            raise TaskTimeoutError(self._task, now_ms - self.since, str(cause)) from cause

    def clear(self) -> None:
        """It went well."""
        self.since = None


# What an active and a standby task have in common, as whoever keeps them sees it.


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
