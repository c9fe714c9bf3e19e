"""The JSON log of a run: one object per event, for programs that collect logs.

The names of events and fields are stable: `docs/json-log.md` lists them.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, get_args

from ...errors import HeadwaterError
from ...hidden_values import hide
from ...readable_text import json_text, readable
from ..task_id import TaskId
from . import events
from .event_texts import RESTORING_SECONDS, sentence
from .events import Event
from .results import RunResults

Level = Literal["info", "warning", "error"]

_LEVELS: Mapping[type, Level] = {
    events.AssignmentFailed: "warning",
    events.ClientLost: "warning",
    events.ClientRefused: "warning",
    events.NothingToRead: "warning",
    events.TasksWait: "warning",
    events.TaskFailed: "error",
    events.RecomputationUnfinished: "warning",
    events.TaskBeginsAgain: "warning",
    events.StoreDamaged: "warning",
    events.StoreOutdated: "warning",
    events.SnapshotUnusable: "warning",
    events.SnapshotNotSaved: "warning",
    events.UpkeepFailed: "warning",
    events.RecordsHeldBack: "warning",
    events.ForeignStoresWiped: "warning",
    events.StoreLost: "error",
    events.ClusterEnded: "warning",
    events.LineageNotSent: "warning",
    events.TraceNotWritten: "warning",
}
"""The levels of events other than `info`. ApplicationStopped is an `error` if it failed or was taken over."""

_NOT_LOGGED: tuple[type, ...] = (events.StatusTaken, events.EpochTraced)
"""Events without a line: a status is a table of numbers, once a second; traces are in a file."""


def event_name(kind: type) -> str:
    """`EpochCommitted` -> `epoch_committed`."""
    return re.sub(r"(?<=.)([A-Z])", r"_\1", kind.__name__).lower()


def logged_events() -> dict[str, tuple[str, ...]]:
    """Name of a logged event -> its fields without the application."""
    kinds = [kind for kind in get_args(Event) if kind not in _NOT_LOGGED]
    return {
        event_name(kind): tuple(field.name for field in fields(kind) if field.name != "application") for kind in kinds
    }


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
        if isinstance(event, _NOT_LOGGED) or (isinstance(event, events.StoreRestoring) and not self._due(event)):
            return
        level = _LEVELS.get(type(event), "info")
        if isinstance(event, events.ApplicationStopped) and event.reason in ("failed", "fenced"):
            level = "error"
        values = {field.name: getattr(event, field.name) for field in fields(event) if field.name != "application"}
        self.write(level, event_name(type(event)), sentence(event), values, event.application)

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

    def trace_written(self, path: str, epochs: int, left_out: int) -> None:
        """Log that the trace is complete. `left_out`: number of the oldest epochs, which the file does not have."""
        values = {"path": path, "epochs": epochs, "left_out": left_out}
        self.write("info", "trace_written", f"the trace is in {path}", values)

    def compile_started(self) -> None:
        """Log the start of a compilation, for which Spark may have to start."""
        self.write("info", "compile_started", "compiling the project", {})

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

    def _due(self, event: events.StoreRestoring) -> bool:
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
