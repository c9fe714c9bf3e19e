"""The events of a run as lines: text for people, and JSON for programs that collect logs.

`docs/json-log.md` lists the names and fields of events in JSON, which are stable.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from ...errors import HeadwaterError
from ...hidden_values import hide
from ...readable_text import entry, json_text, readable
from ..task_id import TaskId
from .client_events import StoreRestored, StoreRestoring
from .events import Event, Level
from .restoring import Restoring
from .results import RunResults

RESTORING_SECONDS = 10.0
"""The interval of lines about stores that are being restored."""

WORTH_A_LINE = 100_000
"""The fewest changelog records of a finished restore that has a line of its own: less takes a moment."""


class Lines:
    """An observer that prints one line per event to stderr, for the log of a job on a cluster.

    A line that cannot be written is dropped: a closed stderr does not end a run. `seconds`: a monotonic clock.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._restoring: dict[str, Restoring] = {}
        self._printed_at: dict[str, float] = {}

    def on(self, event: Event) -> None:
        """Print the event.

        Not printed are statuses and traces, which are for programs. Stores that are being restored have one line for
        all every RESTORING_SECONDS, and long restores one at their end.
        """
        if not event.logged:
            return
        restoring = self._restoring.setdefault(event.application, Restoring(self._seconds))
        restoring.on(event)
        if isinstance(event, StoreRestoring):
            now = self._seconds()
            if now - self._printed_at.setdefault(event.application, now) >= RESTORING_SECONDS:
                self._printed_at[event.application] = now
                self._print(f"{event.application}: {restoring.summary()}")
            return
        if not restoring.stores:
            self._printed_at.pop(event.application, None)
        if isinstance(event, StoreRestored) and event.records < WORTH_A_LINE:
            return
        self._print(event.text)

    def _print(self, line: str) -> None:
        with suppress(OSError, ValueError):  # ValueError: stderr is closed
            print(f"{time.strftime('%H:%M:%S')} {entry(readable(line))}", file=sys.stderr, flush=True)


class JsonLines:
    """An observer that writes a line per event. Thread-safe.

    A store that is being restored has one line every RESTORING_SECONDS. A line that cannot be written, as on a full
    disk, is dropped, and nothing is written to a closed stream any more: no run ends because of its log. `seconds`: a
    monotonic clock.
    """

    def __init__(self, stream: TextIO, seconds: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._seconds = seconds
        self._lock = threading.Lock()
        self._written_at: dict[tuple[str, str, int], float] = {}
        self._closed = False

    def on(self, event: Event) -> None:
        """Write the event's line."""
        if event.logged and not (isinstance(event, StoreRestoring) and not self._due(event)):
            self.write(event.level, event.name(), event.text, event.values, event.application)

    def write(
        self, level: Level, event: str, message: str, values: Mapping[str, Any], application: str | None = None
    ) -> None:
        """Write a line. `message`: a sentence for people; `values`: its data for programs."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {
            "time": at,
            "level": level,
            "event": event,
            "application": application,
            "message": readable(message),
            "fields": _plain(values),
        }
        with self._lock:
            if not self._closed:
                self._print(line)

    def metrics_served(self, url: str) -> None:
        """Log the address of metrics."""
        self.write("info", "metrics_served", f"metrics are at {url}", {"url": url})

    def run_started(self) -> None:
        """Log the start of Spark, if it does not run yet, and of the applications."""
        self.write("info", "run_started", "starting Spark and the applications", {})

    def ended(self, results: RunResults) -> None:
        """Log the results: `application_ended` per application, and `run_ended`.

        The error that has ended an application is in its `application_stopped`, at the time of the error.
        """
        for result in results.to_json()["applications"]:
            application, error, metrics = result.pop("application"), result.pop("error"), result["metrics"]
            if metrics is not None:  # the metrics of all tasks are in run_results.json
                result["metrics"] = {name: metrics[name] for name in ("epochs", "seconds")}
            message = f"{application}: {result['status'].replace('_', ' ')}"
            self.write("error" if error else "info", "application_ended", message, result, application)
        values = {"failed": results.failed, "records": results.records, "seconds": round(results.seconds, 3)}
        message = f"the run has {'failed' if results.failed else 'ended'}"
        self.write("error" if results.failed else "info", "run_ended", message, values)

    def failed(self, error: BaseException) -> None:
        """Log the error that has ended the command."""
        message = error.message if isinstance(error, HeadwaterError) else str(error) or type(error).__name__
        hint = error.hint if isinstance(error, HeadwaterError) else None
        self.write("error", "error", message, {"type": type(error).__name__, "hint": hint})

    def _print(self, line: Mapping[str, Any]) -> None:
        try:
            try:
                self._stream.write(f"{json_text(line)}\n")
            except UnicodeEncodeError:  # the encoding of the stream lacks a character
                self._stream.write(f"{json.dumps(line)}\n")
            self._stream.flush()
        except (BrokenPipeError, ValueError):  # ValueError: the stream is closed
            self._closed = True
        except OSError:
            return  # a full disk may take the next line

    def _due(self, event: StoreRestoring) -> bool:
        store, now = (event.application, event.store, event.partition), self._seconds()
        with self._lock:
            if now - self._written_at.setdefault(store, now) < RESTORING_SECONDS:
                return False
            self._written_at[store] = now
            return True


def _plain(value: Any) -> Any:
    """A value of an event as plain JSON: task ids as strings, dataclasses as objects."""
    if isinstance(value, TaskId):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return hide(value) if isinstance(value, str) else value
