"""Tells that tasks wait, once for each reason that somebody has to do something about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ...task_id import TaskId
from ..reports.events import Observer, TasksWait, WaitEnded
from .causes import WaitsFor


class Telling:
    """Used from the loop's thread only. `still`: whether a reason is there, also while no task waits just now."""

    def __init__(self, application: str, observer: Observer, still: Callable[[WaitsFor], bool]) -> None:
        self._application = application
        self._observer = observer
        self._still = still
        self._told: dict[WaitsFor, set[TaskId]] = {}

    def tell(self, found: Mapping[WaitsFor, Collection[TaskId]]) -> None:
        """Say what is new since the last time: a reason, a task that waits for it too, or that a reason is gone."""
        for cause, told in list(self._told.items()):
            # A task may take some records before it waits for the same task again.
            if cause not in found and not self._still(cause):
                del self._told[cause]
                self._observer.on(WaitEnded(self._application, tuple(sorted(told)), cause))
        for cause, tasks in found.items():
            told = self._told.setdefault(cause, set())
            if not told.issuperset(tasks):
                told.update(tasks)
                self._observer.on(TasksWait(self._application, tuple(sorted(told)), cause))
