"""How long a task may fail for reasons that may pass, such as a client that does not answer (KIP-572)."""

from __future__ import annotations

from ...errors import HeadwaterError
from ..task_id import TaskId

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
