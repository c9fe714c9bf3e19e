"""Whether an application runs, as far as its driver has told the log."""

from __future__ import annotations

import time

from ...errors import HeadwaterError
from ...runtime.driver.reports.status import RunStatus
from ...runtime.log.placed.log import PlacedLog


class StillRunningError(HeadwaterError):
    """This cannot be done to an application while it runs: `application`. `host`: where it runs."""

    def __init__(self, application: str, host: str) -> None:
        super().__init__(f"{application} is running on {host}", "stop it first; `headwater tasks` shows it")
        self.application = application
        self.host = host


def refuse_running(log: PlacedLog, application: str) -> None:
    """Raises StillRunningError, also while a result is computed again that would take its place.

    Drivers on other machines are known by their status only.
    """
    _refuse(log.read_status(application), application)
    refuse_recomputing(log, application)


def refuse_recomputing(log: PlacedLog, application: str) -> None:
    """Raises StillRunningError while a result of an application is computed again. The result that it has may run."""
    places = log.places()
    if application in places.recomputed:
        # Results are computed again in turns, and take over together.
        for name, each in places.recomputed.items():
            if name.partition("-")[0] == application.partition("-")[0]:
                _refuse(log.kept.read_status(each.place), name)


def _refuse(text: str | None, application: str) -> None:
    status = None if text is None else RunStatus.of_text(application, text)
    if status is not None and status.condition(time.time_ns() // 1_000_000) == "running":
        raise StillRunningError(application, status.host)
