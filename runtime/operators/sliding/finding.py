"""Finds the sliding windows of records: which windows each record makes and updates, and from what they are made.

A key has a window that ends at each record (its left one), and one that starts right after each record (its right
one) where that holds a record. A new window begins with what another one has aggregated so far, so it misses what that
one refused. The rules, and the order of updates, are Kafka Streams' (`KStreamSlidingWindowAggregate`, which goes
through the windows of a key from the latest to the earliest). Nothing is aggregated here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from ...records.arrays import Int64s
from ...topology import SlidingWindow

NOTHING = -1


@dataclass(frozen=True)
class StoredWindows:
    """The stored windows that matter to the records, sorted by key and start. `code`: the number of the key.

    `start`, `timestamp` (of the row): ms. `latest`: the greatest start of all windows of the store, also of other keys;
    -1 if there is none.
    """

    code: Int64s
    start: Int64s
    timestamp: Int64s
    latest: int


@dataclass(frozen=True)
class Updates:
    """What records do, in their order.

    A window has a number; those that were stored have the number of their place among them. Its *contents* are rows:
    first those of the window that it was made from, then its own.

    `row`, `window`: which row updates which window. `size`: how many contents the window has then; `timestamp`: that of
    its row, ms. `key`, `start` (ms): of each window. `base`: the stored window whose aggregate its contents are added
    to; -1 for none. `contents`: of all windows, one after another; `ends`: where those of each one end. `late`: windows
    that were closed for a record, and records without an open one. `clock`: of the step, `latest`: the greatest start
    of all windows, after all records.
    """

    row: Int64s
    window: Int64s
    size: Int64s
    timestamp: Int64s
    key: Int64s
    start: Int64s
    base: Int64s
    contents: Int64s
    ends: Int64s
    late: int
    clock: int
    latest: int


def find(
    code: Int64s, timestamps: Int64s, stored: StoredWindows, window: SlidingWindow, retention: int, clock: int
) -> Updates:
    """What the records do. `code`: the number of each one's key. `clock`: of the step, before them.

    `retention`: how long a window is found after its start, by the latest start of the store, ms.
    """
    finding = _Finding(window, retention, clock, stored)
    for row, (key, timestamp) in enumerate(zip(code.tolist(), timestamps.tolist(), strict=True)):
        finding.take(row, key, timestamp)
    return finding.updates()


@dataclass(slots=True)
class _Contents:
    """What a window has aggregated: `base` and `rows`, see `Updates`. `timestamp`: of its row."""

    timestamp: int = NOTHING
    base: int = NOTHING
    rows: list[int] = field(default_factory=list)

    def copy(self) -> _Contents:
        return _Contents(self.timestamp, self.base, self.rows.copy())


@dataclass(slots=True)
class _OfKey:
    """The windows of a key: their starts in order, and the number of each."""

    starts: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def has(self, start: int) -> bool:
        place = bisect_left(self.starts, start)
        return place < len(self.starts) and self.starts[place] == start


class _Finding:
    """Takes one record after another."""

    def __init__(self, rules: SlidingWindow, retention: int, clock: int, stored: StoredWindows) -> None:
        self._difference, self._grace, self._retention = rules.difference_ms, rules.grace_ms, retention
        self._clock, self._latest = clock, stored.latest
        self._keys: dict[int, _OfKey] = {}
        self._windows: list[_Contents] = []
        # Key and start of each window, and row, window, size and timestamp of each update: flat, as there are many.
        self._places: list[int] = []
        self._made: list[int] = []
        self._late = 0
        # The record that is taken.
        self._row = self._key = self._time = self._closed = NOTHING
        self._of_key = _OfKey()
        columns = (stored.code.tolist(), stored.start.tolist(), stored.timestamp.tolist())
        for number, (key, start, timestamp) in enumerate(zip(*columns, strict=True)):
            self._key, self._of_key = key, self._keys.setdefault(key, _OfKey())
            self._add(start, _Contents(timestamp, number))

    def take(self, row: int, key: int, time: int) -> None:
        """One record."""
        self._row, self._key, self._time = row, key, time
        if time > self._clock:
            self._clock = time
        # Up to this start windows are closed.
        self._closed = self._clock - self._grace - self._difference - 1
        of_key = self._keys.get(key)
        if of_key is None:
            of_key = self._keys[key] = _OfKey()
        self._of_key = of_key
        if time <= self._closed:
            self._late += 1
        elif time < self._difference:
            self._take_early(of_key, time)
        else:
            self._take(of_key, time)

    def updates(self) -> Updates:
        """What all of them did."""
        contents = list(chain.from_iterable(window.rows for window in self._windows))
        sizes = [len(window.rows) for window in self._windows]
        row, number, size, timestamp = np.array(self._made, np.int64).reshape(-1, 4).T
        key, start = np.array(self._places, np.int64).reshape(-1, 2).T
        return Updates(
            row,
            number,
            size,
            timestamp,
            key,
            start,
            np.array([window.base for window in self._windows], np.int64),
            np.array(contents, np.int64),
            np.cumsum(np.array(sizes, np.int64)),
            self._late,
            self._clock,
            self._latest,
        )

    def _take(self, of_key: _OfKey, time: int) -> None:
        """A record whose left window does not start before time 0."""
        difference, starts = self._difference, of_key.starts
        lowest = max(0, time - 2 * difference, self._latest - self._retention + 1)
        right: _Contents | None = None
        left: _Contents | None = None
        previous = NOTHING
        has_left = has_right = False
        place = bisect_right(starts, time + 1) - 1
        while place >= 0 and (start := starts[place]) >= lowest:
            number = of_key.numbers[place]
            window = self._windows[number]
            if start > time:
                has_right = True
            elif start + difference > time:
                right = right or self._before(window)
                self._update(start, number)
            elif start + difference == time:
                has_left, previous = True, window.timestamp
                self._update(start, number)
                if previous >= time:
                    return
            else:
                left, previous = window, window.timestamp
                break
            place -= 1
        if NOTHING < previous >= time - difference - 1 and not of_key.has(previous + 1):
            self._make(previous + 1, None)
        if not has_left:
            self._make(time - difference, left if previous >= time - difference else None)
        if not has_right and right is not None and right.timestamp > time:
            self._copy(right)

    def _take_early(self, of_key: _OfKey, time: int) -> None:
        """A record whose left window would start before time 0: it is in the window that starts there."""
        lowest = max(0, self._latest - self._retention + 1)
        first = previous = NOTHING
        right: _Contents | None = None
        has_right = False
        found = slice(bisect_left(of_key.starts, lowest), bisect_right(of_key.starts, time + 1))
        for start, number in zip(of_key.starts[found], of_key.numbers[found], strict=True):
            window = self._windows[number]
            if start == 0:
                first = number
                previous = window.timestamp if window.timestamp < time else NOTHING
            elif start <= time:
                right = self._before(window)
                self._update(start, number)
            else:
                has_right = True
        if right is None and first != NOTHING:
            right = self._windows[first]
        if not has_right and right is not None and right.timestamp > time:
            self._copy(right)
        if previous != NOTHING and not of_key.has(previous + 1):
            self._make(previous + 1, None)
        if first == NOTHING:
            self._make(0, None)
        else:
            self._update(0, first)

    def _before(self, window: _Contents) -> _Contents:
        """A window as it is before this record, of which a copy is made if it has later ones."""
        return window.copy() if window.timestamp > self._time else window

    def _make(self, start: int, like: _Contents | None) -> None:
        """A new window with this record, behind what another one has aggregated."""
        if start <= self._closed:
            self._late += 1
            return
        window = _Contents(self._time, NOTHING, []) if like is None else like.copy()
        window.rows.append(self._row)
        window.timestamp = max(window.timestamp, self._time)
        self._done(start, self._add(start, window), window)

    def _copy(self, window: _Contents) -> None:
        """The right window of this record, which is not in it, with what another one has aggregated."""
        start, made = self._time + 1, window.copy()
        self._done(start, self._add(start, made), made)

    def _add(self, start: int, window: _Contents) -> int:
        """A window of this key. Returns its number."""
        of_key = self._of_key
        place = bisect_left(of_key.starts, start)
        if place < len(of_key.starts) and of_key.starts[place] == start:
            # The right window of the record before is this one's left window too, and is made twice, with this record.
            self._windows[of_key.numbers[place]] = window
            return of_key.numbers[place]
        number = len(self._windows)
        self._windows.append(window)
        self._places += (self._key, start)
        of_key.starts.insert(place, start)
        of_key.numbers.insert(place, number)
        return number

    def _update(self, start: int, number: int) -> None:
        """Add this record to a window, unless that is closed."""
        if start <= self._closed:
            self._late += 1
            return
        window = self._windows[number]
        window.rows.append(self._row)
        if window.timestamp < self._time:
            window.timestamp = self._time
        self._done(start, number, window)

    def _done(self, start: int, number: int, window: _Contents) -> None:
        if start > self._latest:
            self._latest = start
        self._made += (self._row, number, len(window.rows), window.timestamp)
