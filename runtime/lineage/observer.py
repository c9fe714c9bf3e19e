"""An observer of a run that tells OpenLineage of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..driver.reports import events
from ..driver.reports.events import Event, Observer
from ..driver.reports.observers import Observers
from ..topology import Topology
from .sender import Sender, cause_of, shown, transport_to

if TYPE_CHECKING:
    from .run_events import LineageOfRun, State

RUNNING_SECONDS = 60.0
"""How often it is told that a run goes on: consumers take one of which they hear nothing for dead."""


class LineageObserver:
    """Any thread may call it: each application runs in one of its own. `seconds`: a clock that never goes back.

    `until_caught_up`: then an application that is interrupted has not come to its end.
    """

    def __init__(
        self,
        runs: Mapping[str, LineageOfRun],
        sender: Sender,
        until_caught_up: bool,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs = runs
        self._sender = sender
        self._until_caught_up = until_caught_up
        self._seconds = seconds
        self._told: dict[str, float] = {}

    def on(self, event: Event) -> None:
        """Tell of an application that starts, goes on or stops."""
        match event:
            case events.ApplicationStarted():
                self._tell(event.application, "START")
            case events.StatusTaken():
                since = self._told.get(event.application)
                if since is not None and event.status.ended is None and self._seconds() - since >= RUNNING_SECONDS:
                    self._tell(event.application, "RUNNING")
            case events.ApplicationStopped() if event.reason != "not_started":
                self._tell(event.application, self._end(event.reason), event.error)

    def _tell(self, application: str, state: State, error: str | None = None) -> None:
        self._told[application] = self._seconds()
        self._sender.send(self._runs[application].event(state, error))

    def _end(self, reason: str) -> State:
        match reason:
            case "failed":
                return "FAIL"
            case "caught_up":
                return "COMPLETE"
            case "interrupted":  # the way in which a lasting run ends
                return "ABORT" if self._until_caught_up else "COMPLETE"
            case _:  # another run has taken it over
                return "ABORT"


@contextmanager
def lineage_told(
    settings: Mapping[str, Any], topologies: Sequence[Topology], observer: Observer, *, until_caught_up: bool
) -> Iterator[Observer]:
    """The observer, which also tells OpenLineage until the block ends, if `settings` (of the profile) say where.

    Raises LineagePackageError.
    """
    if not settings:
        yield observer
        return
    transport = transport_to(settings.get("url", ""), settings.get("file", ""), settings.get("api_key", ""))
    from .run_events import LineageOfRun

    target = shown(settings["url"]) if "url" in settings else settings["file"]
    runs = {each.application: LineageOfRun(each, settings.get("namespace", "")) for each in topologies}

    def failed(error: Exception) -> None:
        observer.on(events.LineageNotSent(topologies[0].application, target, cause_of(error)))

    sender = Sender(transport, failed)
    try:
        yield Observers(observer, LineageObserver(runs, sender, until_caught_up))
    finally:
        sender.close()
