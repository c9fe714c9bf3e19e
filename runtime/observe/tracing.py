"""Traces of epochs, for trace viewers."""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import HeadwaterError
from ...private_files import opener
from ..driver.client_events import LogCleaned
from ..driver.counters import EPOCH_PHASES
from ..driver.epoch_reports import EpochTrace, TaskTrace
from ..driver.events import EpochTraced, Event, Observer, TraceNotWritten
from ..ir.topology import Settings
from ..tasks.measured import PHASES
from ..timed_parts import Span, now

# An epoch as slices on tracks, which trace viewers draw.

Threads = tuple[tuple[TaskTrace, ...], ...]


class Track(NamedTuple):
    """A line of a viewer: a thread of a process. Its slices are nested or disjoint."""

    process: str
    thread: str


@dataclass(frozen=True)
class Slice:
    """Work from `start` to `end`, in seconds of the driver's clock. `facts`: details that the viewer shows."""

    track: Track
    name: str
    start: float
    end: float
    facts: Mapping[str, str | int] = field(default_factory=dict)


def slices(application: str, trace: EpochTrace) -> Iterator[Slice]:
    """The slices of an epoch, track by track: the loop's thread, the epoch, the stages of each thread of the client.

    On a track they are sorted by start; a slice precedes its parts.
    """
    for span in trace.driver:
        yield Slice(Track(application, "driver"), *span)
    threads = align_clocks(trace)
    yield from _epoch(application, trace, threads)
    for number, tasks in enumerate(threads, 1):
        for stage in range(max((len(task.stages) for task in tasks), default=0)):
            where = f"{trace.subtopology}, thread {number}, Python stage {stage + 1}"
            track = Track(f"{application} on {trace.client}", where)
            for task in tasks:
                if len(task.stages) > stage:
                    yield from _task(track, trace.epoch, task, task.stages[stage])


def align_clocks(trace: EpochTrace) -> Threads:
    """The threads with times of the driver's clock.

    The processes of a machine share a clock, so times of workers on the driver's machine are right. The clock of
    another machine has another origin: the work there is moved to the end of the job, because answers arrive at once,
    while the start takes long.
    """
    ends = [
        (span.start, span.end) for tasks in trace.threads for task in tasks for stage in task.stages for span in stage
    ]
    if not ends:
        return trace.threads
    first, last = min(start for start, _ in ends), max(end for _, end in ends)
    if trace.planned <= first and last <= trace.begun:
        return trace.threads
    off = trace.begun - last

    def moved(span: Span) -> Span:
        # Clocks of two machines may differ in pace: what does not fit is cut.
        return Span(span.part, max(trace.planned, span.start + off), max(trace.planned, span.end + off))

    return tuple(
        tuple(
            TaskTrace(task.task, task.records, tuple(tuple(map(moved, stage)) for stage in task.stages))
            for task in tasks
        )
        for tasks in trace.threads
    )


def _epoch(application: str, trace: EpochTrace, threads: Threads) -> Iterator[Slice]:
    track = Track(application, f"epochs of {trace.subtopology} on {trace.client}")
    tasks = [task for thread in threads for task in thread]
    facts = {"tasks": len(tasks), "records": sum(task.records for task in tasks)}
    yield Slice(track, f"epoch {trace.epoch}", trace.started, trace.ended, facts)
    yield Slice(track, "planning", trace.started, trace.planned)
    yield Slice(track, "job", trace.planned, trace.begun)
    worked = [span for task in tasks for stage in task.stages for span in stage]
    if worked:
        first, last = min(span.start for span in worked), max(span.end for span in worked)
        yield Slice(track, "start", trace.planned, first)
        yield Slice(track, "tasks", first, last)
        yield Slice(track, "answers", last, trace.begun)
    yield Slice(track, "commit", trace.begun, trace.ended)
    for span in trace.committing:
        yield Slice(track, *span)


def _task(track: Track, epoch: int, task: TaskTrace, stage: tuple[Span, ...]) -> Iterator[Slice]:
    facts = {"epoch": epoch, "records": task.records}
    yield Slice(track, f"task {task.task}", stage[0].start, max(span.end for span in stage), facts)
    for span in stage:
        yield Slice(track, *span)


# A file in Chrome's trace event format. It grows during a run, and is complete at any moment.
#
# The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. One object with the list
# `traceEvents`: complete events ("X", microseconds) on tracks (`pid`, `tid`), and the names of tracks ("M").

MOST_BYTES = 64_000_000
"""Of a larger file, only the newer half is kept. Viewers open this size in some seconds."""

_MARK = '{"headwater": "trace"'
_BEGINNING = '{"displayTimeUnit":"ms","otherData":'
_END = b"\n]}\n"
_TEXT = json.JSONEncoder(separators=(",", ":")).encode


class TraceFileError(HeadwaterError):
    """A trace cannot be written to a file: `path`, `cause`."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(
            f"the trace cannot be written to {path}: {cause}", "name another file, in a folder that exists"
        )
        self.path = path
        self.cause = cause


class TraceFile:
    """A trace file. It replaces an earlier trace. Raises TraceFileError.

    `zero`: the origin of the file's times, in seconds of the slices' clock. `left_out`: the number of epochs that were
    removed from the file.
    """

    def __init__(self, path: Path, zero: float, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self.left_out = 0
        self._zero = zero
        self._began = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._most = most_bytes
        self._tracks: dict[Track, tuple[int, int]] = {}
        self._added: deque[tuple[int, int]] = deque()  # bytes and epochs of each call of `add` that the file contains
        with _file_errors(path):
            _check_replaceable(path)
            self._file = self._create(path)

    def add(self, slices: Iterable[Slice], epochs: int) -> None:
        """Add slices of `epochs` epochs, on each track sorted by start. They are kept or removed together.

        Raises TraceFileError.
        """
        with _file_errors(self.path):
            self._added.append((self._append(self._events(slices)), epochs))
            if self._at > self._most and len(self._added) > 1:
                self._halve()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _create(self, path: Path) -> FileIO:
        """Create a file without events."""
        file = FileIO(path, "w+", opener=opener)
        about = {"headwater": "trace", "began": self._began, "epochs_left_out": self.left_out}
        beginning = _BEGINNING + json.dumps(about) + ',"traceEvents":['
        os.pwrite(file.fileno(), beginning.encode() + _END, 0)
        self._at, self._is_empty = len(beginning), True
        return file

    def _append(self, events: Iterable[Mapping[str, Any]]) -> int:
        """Write events before the closing brackets. Returns their size in bytes."""
        text = _TEXT(list(events))[1:-1]  # all at once: a call of the encoder costs more than an event
        data = ("\n" if self._is_empty else ",\n").encode() + text.encode()
        self._put(data)
        return len(data)

    def _put(self, data: bytes) -> None:
        """Write in one system call, so that no signal interrupts it: the file is complete before and after."""
        handle, rest, at = self._file.fileno(), memoryview(data + _END), self._at
        try:
            while rest:  # a nearly full disk may accept a part only
                done = os.pwrite(handle, rest, at)
                at, rest = at + done, rest[done:]
        except OSError:
            os.pwrite(handle, _END, self._at)  # there is space for it: it was there before
            os.ftruncate(handle, self._at + len(_END))
            raise
        self._at += len(data)
        self._is_empty = False

    def _halve(self) -> None:
        """Keep the newer half, in a new file that replaces this one once it is complete."""
        size, kept = 0, deque[tuple[int, int]]()
        while not kept or size + self._added[-1][0] <= self._most // 2:
            kept.appendleft(self._added.pop())
            size += kept[0][0]
        self.left_out += sum(epochs for _, epochs in self._added)
        before, end = self._file, self._at
        path = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            with before:
                before.seek(end - size)
                self._file = self._create(path)
                self._append(event for track in self._tracks for event in self._names(track))
                self._put(before.read(size))
            os.replace(path, self.path)
        finally:
            path.unlink(missing_ok=True)
        self._added = kept

    def _events(self, slices: Iterable[Slice]) -> Iterator[Mapping[str, Any]]:
        for slice_ in slices:
            if slice_.track not in self._tracks:
                processes = {track.process: number for track, (number, _) in self._tracks.items()}
                process = processes.get(slice_.track.process, len(processes) + 1)
                self._tracks[slice_.track] = process, len(self._tracks) + 1
                yield from self._names(slice_.track)
            start, end = self._microseconds(slice_.start), self._microseconds(slice_.end)
            process, thread = self._tracks[slice_.track]
            event = {"ph": "X", "name": slice_.name, "pid": process, "tid": thread, "ts": start, "dur": end - start}
            yield {**event, "args": dict(slice_.facts)} if slice_.facts else event

    def _microseconds(self, at: float) -> int:
        # Integers: a slice that ends where its parent ends still does so after rounding.
        return round((at - self._zero) * 1e6)

    def _names(self, track: Track) -> Iterator[Mapping[str, Any]]:
        process, thread = self._tracks[track]
        at = {"ph": "M", "pid": process, "tid": thread}
        yield {**at, "name": "process_name", "args": {"name": track.process}}
        yield {**at, "name": "process_sort_index", "args": {"sort_index": process}}
        yield {**at, "name": "thread_name", "args": {"name": track.thread}}
        yield {**at, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _check_replaceable(path: Path) -> None:
    """Raise FileExistsError for a file that is no trace, which must not be lost, and for a pipe."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileExistsError(None, "it is no regular file")
    with suppress(FileNotFoundError), open(path, "rb") as file:
        beginning = file.read(len(_BEGINNING + _MARK))
        if beginning and beginning != (_BEGINNING + _MARK).encode():
            raise FileExistsError(None, "the file exists and is no trace; it is not overwritten")


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TraceFileError(path, error.strerror or str(error)) from error


# The times of the parts of epochs, added up over a run.

PartPath = tuple[str, ...]
"""A phase of an epoch, a part of it, a part of that, and so on."""


@dataclass(frozen=True)
class Share:
    """A part of all epochs. `part`: its path, from the phase down. `share`: of the epochs' time, 0 to 1."""

    part: PartPath
    seconds: float
    share: float


class Shares:
    """Adds up epochs. As in `EpochTimes`, the time between planning and commit is that of an epoch's slowest thread."""

    def __init__(self) -> None:
        self.epochs = 0
        self._own_seconds: defaultdict[PartPath, float] = defaultdict(float)

    def add(self, trace: EpochTrace) -> None:
        """Count an epoch."""
        self.epochs += 1
        for path, seconds in _epoch_parts(trace):
            self._own_seconds[path] += seconds

    def rows(self) -> tuple[Share, ...]:
        """All parts, each before its own parts, which add up to it together with an unnamed rest.

        Phases are in their order; the parts of a phase are sorted by falling time.
        """
        whole: defaultdict[PartPath, float] = defaultdict(float)
        for path, seconds in self._own_seconds.items():
            for depth in range(1, len(path) + 1):
                whole[path[:depth]] += seconds
        total = sum(self._own_seconds.values())
        return tuple(Share(path, whole[path], whole[path] / total if total else 0.0) for path in _below((), whole))


def _below(path: PartPath, whole: Mapping[PartPath, float]) -> Iterator[PartPath]:
    parts = [part for part in whole if part[:-1] == path]
    parts.sort(key=lambda part: -whole[part] if path else EPOCH_PHASES.index(part[0]))
    for part in parts:
        yield part
        yield from _below(part, whole)


def _epoch_parts(trace: EpochTrace) -> Iterator[tuple[PartPath, float]]:
    """Seconds by part, without those of its own parts.

    They add up to the epoch's, unless stages of one thread have worked at the same time.
    """
    slowest = max(map(_Thread, align_clocks(trace)), key=lambda thread: thread.seconds, default=_Thread(()))
    yield from slowest.own_seconds
    yield ("planning",), trace.planned - trace.started
    yield from _without_nested((Span("commit", trace.begun, trace.ended), *trace.committing))
    rest = max(0.0, trace.begun - trace.planned - slowest.seconds)
    if slowest.spans:
        start = min(rest, min(span.start for span in slowest.spans) - trace.planned)
        answers = min(rest - start, trace.begun - max(span.end for span in slowest.spans))
        yield ("scheduling", "start"), start
        yield ("scheduling", "answers"), answers
        rest -= start + answers
    yield ("scheduling",), rest


class _Thread:
    """The tasks of a client's thread. `own_seconds`: seconds by part, without those of its own parts."""

    def __init__(self, tasks: Sequence[TaskTrace]) -> None:
        stages = [stage for task in tasks for stage in task.stages]
        self.spans = [span for stage in stages for span in stage]
        self.own_seconds = [part for stage in stages for part in _without_nested(stage)]
        self.seconds = sum(seconds for _, seconds in self.own_seconds)


def _without_nested(spans: Iterable[Span]) -> Iterator[tuple[PartPath, float]]:
    """Seconds by part, without nested spans. `spans`: a span precedes its nested spans.

    A phase within another phase interrupts it, and is no part of it:

        read 0-10, decode 2-5, sql 6-8   (`read` and `sql` are phases)
        ("read",) 10; ("read", "decode") 3; ("read",) -3; ("sql",) 2; ("read",) -2
    """
    around: list[tuple[Span, PartPath]] = []
    for span in spans:
        while around and around[-1][0].end <= span.start:
            around.pop()
        above = around[-1][1] if around else ()
        path = (span.part,) if span.part in PHASES else (*above, span.part)
        yield path, span.seconds
        if around:
            yield above, -span.seconds
        around.append((span, path))


# The trace of a run: an observer that writes it.


class Trace(AbstractContextManager["Trace"]):
    """Writes when a run did what, for trace viewers, and adds up the parts of its epochs.

    Thread-safe: each application runs in a thread of its own. Use it as a context manager, or call `close`. If the file
    cannot be written any more, as on a full disk, it is left as it was and the run continues: `failed` is the error.
    Raises TraceFileError if it cannot be created.
    """

    def __init__(self, path: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> None:
        self.path = Path(path)
        self.failed: TraceFileError | None = None
        self._file = TraceFile(self.path, now(), most_bytes)
        self._shares: dict[str, Shares] = {}
        self._lock = threading.Lock()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def left_out(self) -> int:
        """The number of epochs that were removed from the file, the oldest ones."""
        return self._file.left_out

    @property
    def epochs(self) -> int:
        """The number of epochs."""
        return sum(shares.epochs for shares in self._shares.values())

    def shares(self) -> dict[str, tuple[Share, ...]]:
        """The parts of all epochs of each application, with their times."""
        with self._lock:
            return {application: shares.rows() for application, shares in sorted(self._shares.items())}

    def note(self, event: Event) -> TraceFileError | None:
        """Write an epoch, or a round of cleaning. Returns the error that ends the file, once."""
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
        """Close the file."""
        with self._lock:
            self._file.close()

    def _write(self, slices_: Iterable[Slice], epochs: int) -> None:
        if self.failed is None:
            try:
                self._file.add(slices_, epochs)
            except TraceFileError as error:
                self.failed = error


class _TracingObserver:
    def __init__(self, trace: Trace, observer: Observer) -> None:
        self._trace = trace
        self._observer = observer

    def on(self, event: Event) -> None:
        self._observer.on(event)
        error = self._trace.note(event)
        if error is not None:
            self._observer.on(TraceNotWritten(event.application, str(error.path), error.cause))


@contextmanager
def recording_trace(
    trace: Trace | str | os.PathLike[str] | None, settings: Settings, observer: Observer
) -> Iterator[tuple[Settings, Observer]]:
    """Settings and observer of a run with a trace, or with a file for one; unchanged without.

    Raises TraceFileError.
    """
    if trace is None:
        yield settings, observer
    elif isinstance(trace, Trace):
        yield replace(settings, traced=True), _TracingObserver(trace, observer)
    else:
        with Trace(trace) as opened, recording_trace(opened, settings, observer) as traced:
            yield traced
