"""What a record does that a step cannot process: its task stops, and the run ends.

`record_search` finds the record. Topics have an `on_error`, of which there is only `fail` so far: this is that.
"""

from __future__ import annotations

from collections.abc import Set

from ..task_id import TaskKey
from .errors import RecordError
from .reports.events import Observer, RecordFailed


class FailedRecords:
    """The records that have failed in this run. Used from the loop's thread only.

    `tasks`: those that have stopped; they begin no more epochs. `first`: the record that ends the run.
    """

    def __init__(self, application: str, observer: Observer) -> None:
        self._application = application
        self._observer = observer
        self._tasks: set[TaskKey] = set()
        self.first: RecordError | None = None

    @property
    def tasks(self) -> Set[TaskKey]:
        """The tasks that have stopped."""
        return self._tasks

    def add(self, error: RecordError) -> None:
        """Stop the task of a record, and have the run end once the open epochs are committed."""
        self._tasks.add(error.task)
        self.first = self.first or error
        self._observer.on(RecordFailed(self._application, error.task.subtopology, error.task.partition, error.message))
