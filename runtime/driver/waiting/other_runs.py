"""What the runs of other applications say of themselves, as far as somebody waits for these."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from ....errors import HeadwaterError
from ...log.log import Log
from ...task_id import TaskKey
from ..reports.status import RunStatus, TaskStatus
from .causes import WaitsFor

EVERY_SECONDS = 1.0
"""The least time between two looks at a status."""


class OtherRuns:
    """Used from the loop's thread. `starts`: whether the run of this process is about to claim an application.
    `generation`: with which an application was claimed last, as far as is committed; -1: never.

    `seconds`: a clock that never goes back.
    """

    def __init__(
        self,
        log: Log,
        starts: Callable[[str], bool],
        generation: Callable[[str], int],
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._generation = generation
        self._log = log
        self._starts = starts
        self._seconds = seconds
        self._every = max(EVERY_SECONDS, log.look_seconds())
        self._known: dict[str, tuple[float, RunStatus | None]] = {}

    def of_task(self, task: TaskKey) -> tuple[WaitsFor, ...]:
        """Why a task of another application that has records to take is not done with them."""
        application, subtopology, partition = task
        whole = self.of_application(application)
        if whole is not None and whole.reason == "starting":
            return (whole,)  # what the run before has come to does not count any more
        status = self._status(application)
        found = None if status is None else _active(status, task)
        stop = None if status is None or found is None else status.stop(found)
        if stop is not None:
            return (WaitsFor(application, "stopped", subtopology, partition, stop),)
        if whole is not None:
            return (whole,)
        if status is None or found is None:
            return (WaitsFor(application, "no_client", subtopology),)
        if found.state in ("created", "restoring"):
            return (WaitsFor(application, "restoring", subtopology),)
        return status.waits_for(found) or (WaitsFor(application, "behind", subtopology),)

    def of_application(self, application: str) -> WaitsFor | None:
        """Why an application as a whole does nothing; None if its run is at work."""
        status = self._status(application)
        condition = "ended" if status is None else status.condition(time.time_ns() // 1_000_000)
        claimed = -1 if status is None else status.generation
        if self._generation(application) > claimed:  # another run, which has not said anything yet
            return WaitsFor(application, "starting")
        match condition:
            case "running":
                paused = status is not None and status.paused
                return WaitsFor(application, "paused") if paused else None
            case "silent":
                return WaitsFor(application, "silent")
            case _:
                return WaitsFor(application, "starting" if self._starts(application) else "not_running")

    def unwritten(self, application: str, topic: str) -> WaitsFor:
        """Why nobody writes a topic of another application yet."""
        if self._starts(application):
            return WaitsFor(application, "starting")
        return WaitsFor(application, "unwritten", topic=topic)

    def _status(self, application: str) -> RunStatus | None:
        at, status = self._known.get(application, (float("-inf"), None))
        if self._seconds() - at >= self._every:
            with suppress(HeadwaterError, OSError):  # of a newer version, or it cannot be read just now
                text = self._log.read_status(application)
                status = None if text is None else RunStatus.of_text(application, text)
            self._known[application] = self._seconds(), status
        return status


def _active(status: RunStatus, task: TaskKey) -> TaskStatus | None:
    wanted = "active", task.subtopology, task.partition
    tasks = (each for client in status.clients for each in client.tasks)
    return next((each for each in tasks if (each.role, each.subtopology, each.partition) == wanted), None)
