"""Whether an application is paused (KIP-834): it begins no epoch and no slice of a restore, and keeps its claim.

The pause is kept in the log, because who asks for it is another process, often on another machine. So it also outlasts
the driver: one that starts later finds the application paused.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ...errors import HeadwaterError
from ..log.log import Log
from ..topology import Topology
from .reports.event_texts import moment
from .reports.events import ApplicationPaused, ApplicationResumed, Observer

EVERY_SECONDS = 0.5
"""The least time between two looks into the log."""


class PausedError(HeadwaterError):
    """A run until all is caught up cannot begin, because the application is paused: `application`, `since` in ms."""

    def __init__(self, topology: Topology, since: int) -> None:
        super().__init__(
            f"{topology.application} is paused since {moment(since)}, and so would never catch up",
            f"`headwater resume --select {topology.name}` ends the pause",
        )
        self.application = topology.application
        self.since = since


class Pause:
    """Used from the loop's thread. `seconds`: a clock that never goes back."""

    def __init__(
        self, log: Log, application: str, observer: Observer, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._application = application
        self._observer = observer
        self._seconds = seconds
        self._every = max(EVERY_SECONDS, log.look_seconds())
        self._due = float("-inf")
        self.since: int | None = None

    def asked_for(self) -> bool:
        """Whether the application is to be left as it is. Looks at most twice a second, or as often as the log says.

        Raises LogError.
        """
        if self._seconds() >= self._due:
            self._due = self._seconds() + self._every
            before, self.since = self.since, self._log.paused_since(self._application)
            if before is None and self.since is not None:
                self._observer.on(ApplicationPaused(self._application, self.since))
            elif before is not None and self.since is None:
                self._observer.on(ApplicationResumed(self._application))
        return self.since is not None


def check_not_paused(topology: Topology, log: Log) -> None:
    """Raises PausedError, LogError."""
    since = log.paused_since(topology.application)
    if since is not None:
        raise PausedError(topology, since)
