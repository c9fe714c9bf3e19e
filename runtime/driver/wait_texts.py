"""Sentences about waiting tasks, and the events for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ..task_id import TaskId
from .errors import Stop, WaitsFor
from .events import Observer, TasksWait, WaitEnded

MOST_TASKS = 10
"""The most tasks in a list."""


def stopped_at(stop: Stop) -> str:
    """`has stopped at record words[0]@1 (topologies/t.yml:7): sum overflows bigint`."""
    at = f" at {stop.place}" if stop.place else ""
    return f"has stopped{at}: {stop.cause}"


def listed(tasks: Sequence[object]) -> str:
    """`task 1_0`, `tasks 1_0, 1_1 and 3 more`."""
    more = len(tasks) - MOST_TASKS
    names = ", ".join(map(str, tasks[:MOST_TASKS])) + (f" and {more:,} more" if more > 0 else "")
    return f"task {names}" if len(tasks) == 1 else f"tasks {names}"


def waiting_sentence(tasks: Sequence[object], cause: WaitsFor, reader: str) -> str:
    """The waiting tasks of the application `reader`, the cause, and the way out."""
    waits = f"{listed(tasks)} {'waits' if len(tasks) == 1 else 'wait'} for {cause_text(cause, reader)}"
    return "; ".join(filter(None, (waits, way_out(cause))))


def subject_of(cause: WaitsFor, reader: str) -> str:
    """The name of the task, subtopology or application upstream. `reader`: the waiting application, never named."""
    if cause.subtopology is None:
        return cause.application
    part = cause.subtopology if cause.application == reader else f"{cause.application}/{cause.subtopology}"
    return part if cause.partition is None else f"task {cause.partition} of {part}"


def cause_text(cause: WaitsFor, reader: str) -> str:
    """The task, subtopology or application upstream, and why it does not continue."""
    name, application = subject_of(cause, reader), cause.application
    match cause.reason:
        case "stopped":
            return f"{name}, which {_stopped(cause, reader)}"
        case "not_running":
            return f"{application}, which has unread records and does not run"
        case "silent":
            return f"{application}, which has unread records and may not run any more: its driver writes nothing"
        case "starting":
            return f"{application}, which has unread records and has not started yet"
        case "unwritten":
            return f"{application}, which has not run yet with the flow that writes {cause.topic}"
        case "paused":
            return f"{application}, which has unread records and is paused"
        case "restoring":
            return f"{name}, which has unread records, but not all of its stores yet"
        case "no_client":
            return f"{name}, which has unread records, but no client for all of its tasks"
        case "behind":
            return f"{name}, which has unread records"


def way_out(cause: WaitsFor) -> str:
    """What a user has to do so that the tasks continue; empty where the cause ends by itself."""
    match cause.reason:
        case "stopped" if cause.stop is None or cause.stop.topic is None:
            return f"remove the cause, start the run of {cause.application} again, and they continue"
        case "stopped" if cause.stop is not None and (
            cause.stop.held_at or cause.stop.waited_at or cause.stop.never_left_out
        ):
            return f"correct the step, start the run of {cause.application} again, and they continue"
        case "stopped":
            return f"correct the step or set `on_error`, start the run of {cause.application} again, and they continue"
        case "not_running" | "unwritten":
            return f"run {cause.application}, and they continue"
        case "paused":
            return "`headwater resume` ends the pause, and they continue"
        case _:
            return ""


def _stopped(cause: WaitsFor, reader: str) -> str:
    """Why a task has stopped. The reader's own TaskFailed event has the cause already, so it is not repeated."""
    if cause.stop is None:
        return "has stopped"
    if cause.application == reader:
        return f"has stopped at {cause.stop.place}" if cause.stop.place else "has stopped"
    return stopped_at(cause.stop)


class WaitReports:
    """Reports waiting tasks to the observer, once per lasting cause. Used from the loop's thread only.

    `still`: whether a cause persists, also while no task waits for it.
    """

    def __init__(self, application: str, observer: Observer, still: Callable[[WaitsFor], bool]) -> None:
        self._application = application
        self._observer = observer
        self._still = still
        self._reported: dict[WaitsFor, set[TaskId]] = {}

    def report(self, causes: Mapping[WaitsFor, Collection[TaskId]]) -> None:
        """Report what has changed since the last call: new causes, more tasks of a cause, causes that are over."""
        for cause, waiting in list(self._reported.items()):
            # A task may consume some records before it waits for the same task again.
            if cause not in causes and not self._still(cause):
                del self._reported[cause]
                self._observer.on(WaitEnded(self._application, tuple(sorted(waiting)), cause))
        for cause, tasks in causes.items():
            reported = self._reported.setdefault(cause, set())
            if not reported.issuperset(tasks):
                reported.update(tasks)
                self._observer.on(TasksWait(self._application, tuple(sorted(reported)), cause))
