"""A file in Chrome's trace event format, which grows with a run and is whole at any moment.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. One object with the list
`traceEvents`: complete events ("X", microseconds) on tracks (`pid`, `tid`), and the names of tracks ("M").
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any

from ...errors import HeadwaterError
from ...private_files import opener
from .slices import Slice, Track

MOST_BYTES = 64_000_000
"""Of a file that has grown larger, the newer half stays. Viewers open this in some seconds."""

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
    """Written from its start on: a trace that is there is replaced. Raises TraceFileError.

    `zero`: the moment that the file's times count from, in seconds of the slices' clock. `left_out`: how many epochs
    it does not have any more.
    """

    def __init__(self, path: Path, zero: float, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self.left_out = 0
        self._zero = zero
        self._began = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._most = most_bytes
        self._tracks: dict[Track, tuple[int, int]] = {}
        self._added: deque[tuple[int, int]] = deque()  # bytes and epochs of each call of `add` that the file has
        with _told(path):
            _refuse_others(path)
            self._file = self._begun(path)

    def add(self, slices: Iterable[Slice], epochs: int) -> None:
        """Add slices of so many epochs, of each track in the order of starts. They stay, or go, together.

        Raises TraceFileError.
        """
        with _told(self.path):
            self._added.append((self._append(self._events(slices)), epochs))
            if self._at > self._most and len(self._added) > 1:
                self._halve()

    def close(self) -> None:
        """Nothing is added any more."""
        self._file.close()

    def _begun(self, path: Path) -> FileIO:
        """A file without events."""
        file = FileIO(path, "w+", opener=opener)
        about = {"headwater": "trace", "began": self._began, "epochs_left_out": self.left_out}
        beginning = _BEGINNING + json.dumps(about) + ',"traceEvents":['
        os.pwrite(file.fileno(), beginning.encode() + _END, 0)
        self._at, self._is_empty = len(beginning), True
        return file

    def _append(self, events: Iterable[Mapping[str, Any]]) -> int:
        """Write events before the brackets that close everything; the bytes that they take."""
        text = _TEXT(list(events))[1:-1]  # all at once, as a call of the encoder costs more than an event
        data = ("\n" if self._is_empty else ",\n").encode() + text.encode()
        self._put(data)
        return len(data)

    def _put(self, data: bytes) -> None:
        """In one call of the system, so that no signal comes between: the file is whole before and after."""
        handle, rest, at = self._file.fileno(), memoryview(data + _END), self._at
        try:
            while rest:  # a disk that is nearly full may take a part only
                done = os.pwrite(handle, rest, at)
                at, rest = at + done, rest[done:]
        except OSError:
            os.pwrite(handle, _END, self._at)  # there is place for it, as it was there before
            os.ftruncate(handle, self._at + len(_END))
            raise
        self._at += len(data)
        self._is_empty = False

    def _halve(self) -> None:
        """Keep the newer half, in a file that takes the place of this one once it is whole."""
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
                self._file = self._begun(path)
                self._append(event for track in self._tracks for event in self._names(track))
                self._put(before.read(size))
            os.replace(path, self.path)
        finally:
            path.unlink(missing_ok=True)
        self._added = kept

    def _events(self, slices: Iterable[Slice]) -> Iterator[Mapping[str, Any]]:
        for each in slices:
            if each.track not in self._tracks:
                processes = {track.process: number for track, (number, _) in self._tracks.items()}
                process = processes.get(each.track.process, len(processes) + 1)
                self._tracks[each.track] = process, len(self._tracks) + 1
                yield from self._names(each.track)
            start, end = self._microseconds(each.start), self._microseconds(each.end)
            process, thread = self._tracks[each.track]
            event = {"ph": "X", "name": each.name, "pid": process, "tid": thread, "ts": start, "dur": end - start}
            yield {**event, "args": dict(each.facts)} if each.facts else event

    def _microseconds(self, at: float) -> int:
        # Whole ones: a slice that ends where the one around it does still does so after rounding.
        return round((at - self._zero) * 1e6)

    def _names(self, track: Track) -> Iterator[Mapping[str, Any]]:
        process, thread = self._tracks[track]
        at = {"ph": "M", "pid": process, "tid": thread}
        yield {**at, "name": "process_name", "args": {"name": track.process}}
        yield {**at, "name": "process_sort_index", "args": {"sort_index": process}}
        yield {**at, "name": "thread_name", "args": {"name": track.thread}}
        yield {**at, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _refuse_others(path: Path) -> None:
    """Raises FileExistsError for a file with something else than a trace, which is not to be lost, and for a pipe."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileExistsError(None, "it is no file")
    with suppress(FileNotFoundError), open(path, "rb") as file:
        found = file.read(len(_BEGINNING + _MARK))
        if found and found != (_BEGINNING + _MARK).encode():
            raise FileExistsError(None, "there is a file that is no trace, and it is not overwritten")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TraceFileError(path, error.strerror or str(error)) from error
