"""Sentences on what a run waits for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ..task_id import TaskId
from .errors import Stop, WaitsFor
from .events import Observer, TasksWait, WaitEnded

# Why tasks wait, in words.

MOST_TASKS = 10
"""The most tasks that are listed."""


def stopped_at(stop: Stop) -> str:
    """`has stopped at record words[0]@1 (topologies/t.yml:7): sum overflows bigint`."""
    at = f" at {stop.place}" if stop.place else ""
    return f"has stopped{at}: {stop.cause}"


def listed(tasks: Sequence[object]) -> str:
    """`task 1_0`, `tasks 1_0, 1_1 and 3 more`."""
    more = len(tasks) - MOST_TASKS
    said = ", ".join(map(str, tasks[:MOST_TASKS])) + (f" and {more:,} more" if more > 0 else "")
    return f"task {said}" if len(tasks) == 1 else f"tasks {said}"


def they_wait_for(tasks: Sequence[object], cause: WaitsFor, reader: str) -> str:
    """The tasks of the application `reader`, whom they wait for, why that one does not go on, and what to do."""
    waits = f"{listed(tasks)} {'waits' if len(tasks) == 1 else 'wait'} for {whom(cause, reader)}"
    return "; ".join(filter(None, (waits, way_on(cause))))


def named(cause: WaitsFor, reader: str) -> str:
    """Whom they wait for. `reader`: the application that waits, whose own parts need not name it."""
    if cause.subtopology is None:
        return cause.application
    part = cause.subtopology if cause.application == reader else f"{cause.application}/{cause.subtopology}"
    return part if cause.partition is None else f"task {cause.partition} of {part}"


def whom(cause: WaitsFor, reader: str) -> str:
    """Whom they wait for and why that one does not go on."""
    name, application = named(cause, reader), cause.application
    match cause.reason:
        case "stopped":
            return f"{name}, which {_stopped(cause, reader)}"
        case "not_running":
            return f"{application}, which has records to take and does not run"
        case "silent":
            return f"{application}, which has records to take and may not run any more: its driver writes nothing"
        case "starting":
            return f"{application}, which has records to take and has not started yet"
        case "unwritten":
            return f"{application}, which has not run yet with what writes {cause.topic}"
        case "paused":
            return f"{application}, which has records to take and is paused"
        case "restoring":
            return f"{name}, which has records to take, but not all of its stores yet"
        case "no_client":
            return f"{name}, which has records to take, but no client for all of its tasks"
        case "behind":
            return f"{name}, which has records to take"


def way_on(cause: WaitsFor) -> str:
    """What somebody has to do so that they go on; empty where it goes on by itself."""
    match cause.reason:
        case "stopped" if cause.stop is None or cause.stop.topic is None:
            return f"see to the cause, start the run of {cause.application} again, and they go on"
        case "stopped" if cause.stop is not None and (
            cause.stop.held_at or cause.stop.waited_at or cause.stop.never_left_out
        ):
            return f"correct the step, start the run of {cause.application} again, and they go on"
        case "stopped":
            return f"correct the step or set `on_error`, start the run of {cause.application} again, and they go on"
        case "not_running" | "unwritten":
            return f"run {cause.application}, and they go on"
        case "paused":
            return "`headwater resume` ends the pause, and they go on"
        case _:
            return ""


def _stopped(cause: WaitsFor, reader: str) -> str:
    """Of the reader's own task it was told why it has stopped."""
    if cause.stop is None:
        return "has stopped"
    if cause.application == reader:
        return f"has stopped at {cause.stop.place}" if cause.stop.place else "has stopped"
    return stopped_at(cause.stop)


# Tells that tasks wait, once for each reason that somebody has to do something about.


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
