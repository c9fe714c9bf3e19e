"""Reports runs to an OpenLineage server."""

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
from ..driver.events import Event, Observer, Observers
from ..ir.topology import Topology

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

    from .lineage_events import LineageOfRun, State


# Sends OpenLineage events to a URL or appends them to a file, in a thread of its own: a run never waits for them.

TIMEOUT_SECONDS = 5.0
"""The longest time in which a server must accept a connection, and answer."""

CLOSE_SECONDS = 10.0
"""The longest time that the end of a run waits for unsent events."""

MOST_WAITING = 1000
"""The most unsent events. More are discarded: the server has not answered for long."""


class LineagePackageError(HeadwaterError):
    """The package openlineage-python is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "`lineage` of the target needs the package openlineage-python", "pip install 'headwater[lineage]'"
        )


class Transport(Protocol):
    """A transport of openlineage-python."""

    def emit(self, event: RunEvent) -> object:
        """Send an event. May raise any exception."""


def transport_to(url: str, file: str, api_key: str) -> Transport:
    """The transport to a URL such as `http://marquez:5000`, or else to a file. Raises LineagePackageError."""
    try:
        from openlineage.client.transport.file import FileConfig, FileTransport
        from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport, TokenProvider
    except ImportError as error:
        raise LineagePackageError from error
    if not url:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        return FileTransport(FileConfig(log_file_path=file, append=True))
    auth = ApiKeyTokenProvider({"api_key": api_key}) if api_key else TokenProvider({})
    # No retries: the next event repeats the state of the run.
    return HttpTransport(HttpConfig(url=url, timeout=TIMEOUT_SECONDS, auth=auth, retry={"total": 0}))


def short_cause(error: Exception) -> str:
    """Why an event was not sent, in a few words, without the URL, which may contain a password."""
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
    return short_cause(inner) if isinstance(inner, OSError) else type(error).__name__


def without_credentials(url: str) -> str:
    """The URL without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


class Sender:
    """Sends events in a thread of its own. `failed` is called with the first error, once. Thread-safe."""

    def __init__(self, transport: Transport, failed: Callable[[Exception], None]) -> None:
        self._transport = transport
        self._failed = failed
        self._has_failed = False
        self._waiting: queue.Queue[RunEvent | None] = queue.Queue(MOST_WAITING)
        # A daemon: a server that never answers must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="lineage", daemon=True)
        self._thread.start()

    def send(self, event: RunEvent) -> None:
        """Queue an event."""
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            return

    def close(self) -> None:
        """Wait for queued events, for a limited time."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                self._transport.emit(event)
            except Exception as error:  # any error of a server, a proxy or a disk
                if not self._has_failed:
                    self._has_failed = True
                    self._failed(error)


# An observer that reports a run to OpenLineage.

RUNNING_SECONDS = 60.0
"""The time between two RUNNING events: consumers consider a silent run dead."""


class LineageObserver:
    """Reports applications to OpenLineage. Thread-safe: each application runs in a thread of its own.

    `until_caught_up`: an interrupted application then has not completed.
    """

    def __init__(self, runs: Mapping[str, LineageOfRun], sender: Sender, until_caught_up: bool) -> None:
        self._runs = runs
        self._sender = sender
        self._until_caught_up = until_caught_up
        self._reported: dict[str, float] = {}

    def on(self, event: Event) -> None:
        """Report an application that starts, runs or stops."""
        match event:
            case events.ApplicationStarted():
                self._report(event.application, "START")
            case events.StatusTaken():
                since = self._reported.get(event.application)
                if since is not None and event.status.ended is None and time.monotonic() - since >= RUNNING_SECONDS:
                    self._report(event.application, "RUNNING")
            case events.ApplicationStopped() if event.reason != "not_started":
                self._report(event.application, self._end(event.reason), event.error)

    def _report(self, application: str, state: State, error: str | None = None) -> None:
        self._reported[application] = time.monotonic()
        self._sender.send(self._runs[application].event(state, error))

    def _end(self, reason: str) -> State:
        match reason:
            case "failed":
                return "FAIL"
            case "caught_up":
                return "COMPLETE"
            case "interrupted":  # the usual end of a continuous run
                return "ABORT" if self._until_caught_up else "COMPLETE"
            case _:  # another run has taken over
                return "ABORT"


@contextmanager
def reporting_lineage(
    settings: Mapping[str, Any], topologies: Sequence[Topology], observer: Observer, *, until_caught_up: bool
) -> Iterator[Observer]:
    """The observer, which also sends OpenLineage events until the block ends if the profile has `lineage` settings.

    Raises LineagePackageError.
    """
    if not settings:
        yield observer
        return
    transport = transport_to(settings.get("url", ""), settings.get("file", ""), settings.get("api_key", ""))
    from .lineage_events import LineageOfRun

    target = without_credentials(settings["url"]) if "url" in settings else settings["file"]
    runs = {topology.application: LineageOfRun(topology, settings.get("namespace", "")) for topology in topologies}

    def failed(error: Exception) -> None:
        observer.on(events.LineageNotSent(topologies[0].application, target, short_cause(error)))

    sender = Sender(transport, failed)
    try:
        yield Observers(observer, LineageObserver(runs, sender, until_caught_up))
    finally:
        sender.close()
