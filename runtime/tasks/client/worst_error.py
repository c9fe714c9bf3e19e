"""Decides which of several errors is raised when all tasks are visited first."""

from __future__ import annotations

from ...task_id import TaskId
from ..errors import TaskCorruptedError, TaskMigratedError


class Failures:
    """Errors of tasks, of which the worst one is raised.

    From the worst: an error that is not about ownership or state (the last of them, noted with its task), then
    TaskMigratedError (the last), then TaskCorruptedError (one, with all its tasks). Kafka Streams has the same order
    when it handles an assignment.
    """

    def __init__(self) -> None:
        self._fatal: Exception | None = None
        self._migrated: TaskMigratedError | None = None
        self._corrupted: dict[TaskId, TaskCorruptedError] = {}

    def add(self, task: TaskId, error: Exception) -> None:
        """Record the error of `task`."""
        match error:
            case TaskMigratedError():
                self._migrated = error
            case TaskCorruptedError():
                self._corrupted.update(dict.fromkeys(error.tasks or {task}, error))
            case _:
                error.add_note(f"in task {task}")
                self._fatal = error

    def raise_worst(self) -> None:
        """Raise the worst error, if there is any."""
        if self._fatal is not None:
            raise self._fatal
        if self._migrated is not None:
            raise self._migrated
        if self._corrupted:
            reasons = dict.fromkeys(error.reason for error in self._corrupted.values())
            ways_out = dict.fromkeys(error.way_out for error in self._corrupted.values())
            way_out = next(iter(ways_out)) if len(ways_out) == 1 else None
            raise TaskCorruptedError("; ".join(reasons), tasks=self._corrupted, way_out=way_out)
