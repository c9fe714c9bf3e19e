"""What happens in a run as lines of JSON, one object for each event: for programs that collect logs.

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
"""The levels of events that are not `info`. An application that stops is an `error` if it failed or was taken over."""

_UNSAID: tuple[type, ...] = (events.StatusTaken, events.EpochTraced)
"""Events that have no line: a status is a table of numbers, and comes once a second; traces go to a file."""


def event_name(kind: type) -> str:
    """`EpochCommitted` -> `epoch_committed`."""
    return re.sub(r"(?<=.)([A-Z])", r"_\1", kind.__name__).lower()


def logged_events() -> dict[str, tuple[str, ...]]:
    """The events of a run that have lines, by name: their fields, beside the application."""
    kinds = [kind for kind in get_args(Event) if kind not in _UNSAID]
    return {event_name(kind): tuple(each.name for each in fields(kind) if each.name != "application") for kind in kinds}


class JsonLines:
    """An observer that writes a line for each event. Any thread may use it.

    Of a store that is being restored there is one line every ten seconds. A line that the stream does not take, as on a
    full disk, is left out, and one that nobody reads any more is given nothing: no run ends because of its log.
    `seconds`: a clock that never goes back.
    """

    def __init__(self, stream: TextIO, seconds: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._seconds = seconds
        self._lock = threading.Lock()
        self._told: dict[tuple[str, str, int], float] = {}
        self._closed = False

    def on(self, event: Event) -> None:
        """Write the event's line."""
        if isinstance(event, _UNSAID) or (isinstance(event, events.StoreRestoring) and not self._due(event)):
            return
        level = _LEVELS.get(type(event), "info")
        if isinstance(event, events.ApplicationStopped) and event.reason in ("failed", "fenced"):
            level = "error"
        found = {each.name: getattr(event, each.name) for each in fields(event) if each.name != "application"}
        self.write(level, event_name(type(event)), sentence(event), found, event.application)

    def write(
        self, level: Level, event: str, message: str, found: Mapping[str, Any], application: str | None = None
    ) -> None:
        """Write a line. `message`: a sentence for people; `found`: the facts in it for programs."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {
            "time": at,
            "level": level,
            "event": event,
            "application": application,
            "message": readable(message),
            "fields": _plain(found),
        }
        with self._lock:
            if not self._closed:
                self._print(line)

    def metrics_served(self, url: str) -> None:
        """Where metrics are served."""
        self.write("info", "metrics_served", f"metrics are at {url}", {"url": url})

    def trace_written(self, path: str, epochs: int, left_out: int) -> None:
        """The trace of the run is complete. `left_out`: of its epochs, the oldest, which the file does not have."""
        found = {"path": path, "epochs": epochs, "left_out": left_out}
        self.write("info", "trace_written", f"the trace is in {path}", found)

    def compile_started(self) -> None:
        """The project is compiled, for which Spark may have to start."""
        self.write("info", "compile_started", "compiling the project", {})

    def run_started(self) -> None:
        """Spark is started, if it does not run yet, and then the applications."""
        self.write("info", "run_started", "starting Spark and the applications", {})

    def ended(self, results: RunResults) -> None:
        """How the run has ended: `application_ended` for each application, and `run_ended`.

        What has ended an application is in its `application_stopped`, at the time when that happened.
        """
        for each in results.to_json()["applications"]:
            application, error, metrics = each.pop("application"), each.pop("error"), each["metrics"]
            if metrics is not None:  # those of all tasks would be a long line: they are in run_results.json
                each["metrics"] = {name: metrics[name] for name in ("epochs", "seconds")}
            message = f"{application}: {each['status'].replace('_', ' ')}"
            self.write("error" if error else "info", "application_ended", message, each, application)
        found = {"failed": results.failed, "records": results.records, "seconds": round(results.seconds, 3)}
        message = f"the run has {'failed' if results.failed else 'ended'}"
        self.write("error" if results.failed else "info", "run_ended", message, found)

    def failed(self, error: BaseException) -> None:
        """`error`: what has ended everything."""
        message = error.message if isinstance(error, HeadwaterError) else str(error) or type(error).__name__
        hint = error.hint if isinstance(error, HeadwaterError) else None
        self.write("error", "error", message, {"type": type(error).__name__, "hint": hint})

    def _print(self, line: Mapping[str, Any]) -> None:
        try:
            try:
                self._stream.write(f"{json_text(line)}\n")
            except UnicodeEncodeError:  # a stream without such letters
                self._stream.write(f"{json.dumps(line)}\n")
            self._stream.flush()
        except (BrokenPipeError, ValueError):  # ValueError: somebody has closed it
            self._closed = True
        except OSError:
            return  # a disk may have room again for the next line

    def _due(self, event: events.StoreRestoring) -> bool:
        store, now = (event.application, event.store, event.partition), self._seconds()
        with self._lock:
            if now - self._told.setdefault(store, now) < RESTORING_SECONDS:
                return False
            self._told[store] = now
            return True


def _plain(value: Any) -> Any:
    """A value of an event as plain JSON: task ids as texts, other data with its fields."""
    if isinstance(value, TaskId):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return hide(value) if isinstance(value, str) else value
