"""The trace of a run: an observer that writes it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ..driver.reports.events import EpochTraced, Event, LogCleaned, Observer, TraceNotWritten
from ..timed_parts import now
from ..topology import Settings
from .shares import Share, Shares
from .slices import Slice, Track, slices
from .trace_file import MOST_BYTES, TraceFile, TraceFileError


class Trace:
    """Writes what a run does when, for viewers of traces, and adds up the parts of its epochs.

    Any thread may use it: each application runs in one of its own. Used as a context, or closed. A file that takes
    nothing any more, for a full disk, is left as it was, and the run goes on: `failed` is the error. Raises
    TraceFileError if it cannot be begun.
    """

    def __init__(self, path: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> None:
        self.path = Path(path)
        self.failed: TraceFileError | None = None
        self._file = TraceFile(self.path, now(), most_bytes)
        self._shares: dict[str, Shares] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def left_out(self) -> int:
        """How many epochs, the oldest, the file does not have any more."""
        return self._file.left_out

    @property
    def epochs(self) -> int:
        """How many epochs there were."""
        return sum(each.epochs for each in self._shares.values())

    def shares(self) -> dict[str, tuple[Share, ...]]:
        """The parts of all epochs of each application, with what they took."""
        with self._lock:
            return {application: each.rows() for application, each in sorted(self._shares.items())}

    def note(self, event: Event) -> TraceFileError | None:
        """Write an epoch, or a round of cleaning beside the epochs. The error with which the file ends, once."""
        before = self.failed
        match event:
            case EpochTraced():
                with self._lock:
                    self._shares.setdefault(event.application, Shares()).add(event.trace)
                    self._write(slices(event.application, event.trace), 1)
            case LogCleaned():
                end = now()
                with self._lock:
                    self._write([Slice(Track(event.application, "cleaning"), "round", end - event.seconds, end)], 0)
        return self.failed if before is None else None

    def close(self) -> None:
        """Write nothing any more."""
        with self._lock:
            self._file.close()

    def _write(self, found: Iterable[Slice], epochs: int) -> None:
        if self.failed is None:
            try:
                self._file.add(found, epochs)
            except TraceFileError as error:
                self.failed = error


class _Traced:
    def __init__(self, trace: Trace, observer: Observer) -> None:
        self._trace = trace
        self._observer = observer

    def on(self, event: Event) -> None:
        self._observer.on(event)
        error = self._trace.note(event)
        if error is not None:
            self._observer.on(TraceNotWritten(event.application, str(error.path), error.cause))


@contextmanager
def traced(
    trace: Trace | str | os.PathLike[str] | None, settings: Settings, observer: Observer
) -> Iterator[tuple[Settings, Observer]]:
    """Settings and observer of a run with a trace, or with a file for one; both as they are without. Raises
    TraceFileError.
    """
    if trace is None:
        yield settings, observer
    elif isinstance(trace, Trace):
        yield replace(settings, traced=True), _Traced(trace, observer)
    else:
        with Trace(trace) as made, traced(made, settings, observer) as found:
            yield found
