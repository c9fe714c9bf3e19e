"""What ends a task for this run, and the run with it once all open epochs are committed.

Of a record that a step cannot process: `record_search` finds it. Topics have an `on_error`, of which there is only
`fail` so far: this is that. And of stores that cannot be restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from ....errors import HeadwaterError
from ...task_id import TaskKey
from ..reports.events import Observer, TaskFailed


class FailedTasks:
    """The tasks that have failed in this run. Used from the loop's thread only.

    `tasks`: those that have stopped; they begin no more epochs. `first`: the error that ends the run.
    """

    def __init__(self, application: str, observer: Observer) -> None:
        self._application = application
        self._observer = observer
        self._tasks: set[TaskKey] = set()
        self.first: HeadwaterError | None = None

    @property
    def tasks(self) -> Set[TaskKey]:
        """The tasks that have stopped."""
        return self._tasks

    def add(self, tasks: Iterable[TaskKey], error: HeadwaterError) -> None:
        """Stop tasks, and have the run end once the open epochs are committed."""
        self.first = self.first or error
        for task in tasks:
            self._tasks.add(task)
            self._observer.on(TaskFailed(self._application, task.subtopology, task.partition, error.message))
