"""Reads the batches of segments from an object store: as few requests as possible, and several at the same time.

A request takes as long as it takes to transfer a megabyte or more. So much is read with one, and a reader that has many
small ranges before it has those read that come next while it works on the first.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import accumulate

from ..errors import CorruptSegmentError, RangeMissingError
from ..ranges import Columns, Fetched, LogRange, RangeReader
from ..segments.reading import fetch
from ..segments.segment import FileRange
from .objects import AT_ONCE, Objects, threads

AHEAD = 4 << 20
"""Bytes of a range that are read at once."""

JOINED = 256 << 10
"""Bytes between two parts of an object that are rather read than left out by a request of their own."""

MOST_BYTES = 16 << 20
"""Of records that are read before they are asked for."""


@dataclass(frozen=True)
class Parts:
    """Bytes of a segment: its schema, and some of its batches by number."""

    head: memoryview
    batches: dict[int, memoryview]


_NONE = memoryview(b"")


def load(objects: Objects, file: FileRange, first: int, head: memoryview) -> Parts:
    """Batches from number `first` on, up to `AHEAD` bytes. The schema is read with them unless it is given.

    Raises RangeMissingError, CorruptSegmentError, ObjectStoreError.
    """
    numbers = _up_to(AHEAD, file, first)
    ranges = [] if head else [(0, file.head)]
    ranges += [(file.batches[number].start, file.batches[number].length) for number in numbers]
    parts = objects.get_ranges(file.path, ranges, JOINED)
    if parts is None:
        raise RangeMissingError(file.path)
    # An object that ends early is damaged: it was whole when the commit listed it.
    if any(len(part) != length for part, (_, length) in zip(parts, ranges, strict=True)):
        raise CorruptSegmentError(file.path, None)
    if not head:
        head, *parts = parts
    return Parts(head, dict(zip(numbers, parts, strict=True)))


def _up_to(size: int, file: FileRange, first: int) -> list[int]:
    """The numbers of batches from one on, at least one, that have so many bytes together."""
    ends = accumulate(each.length for each in file.batches[first:])
    return [first + at for at, end in enumerate(ends) if not at or end <= size]


class BatchesAhead:
    """The `Load` of one range: with a batch, those that follow it are read too. `begun`: gives what is read already."""

    def __init__(self, objects: Objects, begun: Callable[[], Parts] | None = None) -> None:
        self._objects = objects
        self._begun = begun
        self._parts = Parts(_NONE, {})

    def __call__(self, file: FileRange, batch: int) -> memoryview:
        """See `segments.reading.Load`. Raises as `load`."""
        if self._begun is not None:
            self._parts, self._begun = self._begun(), None
        found = self._parts.batches.pop(batch, None)
        if found is None:
            self._parts = load(self._objects, file, batch, self._parts.head)
            found = self._parts.batches.pop(batch)
        return memoryview(b"".join((self._parts.head, found)))


class RangesAhead:
    """A `RangeReader` of some ranges. Nothing is read before the first of them is asked for."""

    def __init__(self, objects: Objects, ranges: Iterable[tuple[LogRange, int]]) -> None:
        self._objects = objects
        self._waiting = {within.token: (within, start) for within, start in ranges if start < within.end}
        self._begun: dict[str, tuple[Future[Parts], int]] = {}
        self._lock = threading.Lock()

    def ahead(self, ranges: Iterable[tuple[LogRange, int]]) -> RangeReader:
        """See `RangeReader.ahead`."""
        return RangesAhead(self._objects, ranges)

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        """See `RangeReader.read`."""
        return fetch(within, start, columns, BatchesAhead(self._objects, lambda: self._taken(within.token)))

    def _taken(self, token: str) -> Parts:
        """What is read of a range, and have those begin that come next."""
        with self._lock:
            future, _ = self._begun.pop(token, (None, 0))
            if future is None:
                self._waiting.pop(token, None)  # its reader reads it itself, now
            self._begin()
        return Parts(_NONE, {}) if future is None else future.result()

    def _begin(self) -> None:
        size = sum(each for _, each in self._begun.values())
        for token, (within, start) in list(self._waiting.items()):
            file = FileRange.of(token)
            if len(self._begun) == AT_ONCE or size >= MOST_BYTES:
                return
            del self._waiting[token]
            if file.batches:
                first = max(bisect_right(file.firsts(within.start), max(start, within.start)) - 1, 0)
                taken = sum(file.batches[number].length for number in _up_to(AHEAD, file, first))
                size += taken
                self._begun[token] = (threads().submit(load, self._objects, file, first, _NONE), taken)
