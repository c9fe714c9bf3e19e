"""Tells an OpenLineage server of runs."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from ...errors import HeadwaterError
from ..driver import events
from ..driver.counters import Observers
from ..driver.events import Event, Observer
from ..ir.topology import Topology

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

    from .lineage_events import LineageOfRun, State


# Sends OpenLineage events to a URL or appends them to a file, in a thread of its own: no run waits for either.

TIMEOUT_SECONDS = 5.0
"""How long a server may take to accept a connection, and to answer."""

CLOSE_SECONDS = 10.0
"""How long the end of a run waits at most for events that are on their way."""

MOST_WAITING = 1000
"""Events that wait for a server. More are left out: it has not answered for long."""


class LineagePackageError(HeadwaterError):
    """The package that makes OpenLineage events is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "`lineage` of the target needs the package openlineage-python", "pip install 'headwater[lineage]'"
        )


class Transport(Protocol):
    """What takes events: one of openlineage-python's."""

    def emit(self, event: RunEvent) -> object:
        """Send an event. Raises anything."""


def transport_to(url: str, file: str, api_key: str) -> Transport:
    """Of a URL such as `http://marquez:5000`, or else of a file. Raises LineagePackageError."""
    try:
        from openlineage.client.transport.file import FileConfig, FileTransport
        from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport, TokenProvider
    except ImportError as error:
        raise LineagePackageError from error
    if not url:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        return FileTransport(FileConfig(log_file_path=file, append=True))
    auth = ApiKeyTokenProvider({"api_key": api_key}) if api_key else TokenProvider({})
    # Without trying again: the next event says the same of the run, and more.
    return HttpTransport(HttpConfig(url=url, timeout=TIMEOUT_SECONDS, auth=auth, retry={"total": 0}))


def cause_of(error: Exception) -> str:
    """Why an event was not taken, in a few words without the URL, which may have a password in it."""
    from requests import exceptions

    match error:
        case exceptions.HTTPError() if error.response is not None:
            return f"it answers {error.response.status_code} {error.response.reason}".rstrip()
        case exceptions.Timeout():
            return f"it does not answer within {TIMEOUT_SECONDS:g} s"
        case exceptions.ConnectionError():
            return "there is no connection to it"
        case OSError():
            return error.strerror or type(error).__name__
    inner = error.__cause__ or error.__context__  # openlineage-python wraps errors of files
    return cause_of(inner) if isinstance(inner, OSError) else type(error).__name__


def shown(url: str) -> str:
    """A URL without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


class Sender:
    """`failed` is told the first error, once. Any thread may send."""

    def __init__(self, transport: Transport, failed: Callable[[Exception], None]) -> None:
        self._transport = transport
        self._failed = failed
        self._told = False
        self._waiting: queue.Queue[RunEvent | None] = queue.Queue(MOST_WAITING)
        # A daemon: a server that never answers does not keep the process.
        self._thread = threading.Thread(target=self._run, name="lineage", daemon=True)
        self._thread.start()

    def send(self, event: RunEvent) -> None:
        """Send an event some time soon."""
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            return

    def close(self) -> None:
        """Wait for the events that are on their way, but not for long."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                self._transport.emit(event)
            except Exception as error:  # whatever a server, a proxy or a disk comes up with
                if not self._told:
                    self._told = True
                    self._failed(error)


# An observer of a run that tells OpenLineage of it.

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
def reporting_lineage(
    settings: Mapping[str, Any], topologies: Sequence[Topology], observer: Observer, *, until_caught_up: bool
) -> Iterator[Observer]:
    """The observer, which also tells OpenLineage until the block ends, if `settings` (of the profile) say where.

    Raises LineagePackageError.
    """
    if not settings:
        yield observer
        return
    transport = transport_to(settings.get("url", ""), settings.get("file", ""), settings.get("api_key", ""))
    from .lineage_events import LineageOfRun

    target = shown(settings["url"]) if "url" in settings else settings["file"]
    runs = {each.application: LineageOfRun(each, settings.get("namespace", "")) for each in topologies}

    def failed(error: Exception) -> None:
        observer.on(events.LineageNotSent(topologies[0].application, target, cause_of(error)))

    sender = Sender(transport, failed)
    try:
        yield Observers(observer, LineageObserver(runs, sender, until_caught_up))
    finally:
        sender.close()
