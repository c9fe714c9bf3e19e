"""Finds the sliding windows of records one by one, in any order of time. Defines the data for both ways of finding."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Self

import numpy as np

from ....records.arrays import Bools, Int64s
from ..keyed.groups import in_groups

# The input and the result of finding sliding windows.

NOTHING = -1


@dataclass(frozen=True)
class Rules:
    """The settings of a sliding window, in ms. A window is found if its start > latest start - `retention`."""

    difference: int
    grace: int
    retention: int


@dataclass(frozen=True)
class StoredWindows:
    """The stored windows that the records may need, sorted by key and start. `code`: the number of the key.

    `start`: of the window, `timestamp`: of its row, both ms. `latest`: the greatest start of all windows in the store,
    including other keys; -1 without windows.
    """

    code: Int64s
    start: Int64s
    timestamp: Int64s
    latest: int


@dataclass(frozen=True)
class Records:
    """Records in the order of processing. `code`: the number of the key. `timestamp`: ms. `clock`: the step's clock
    including each record, ms.
    """

    code: Int64s
    timestamp: Int64s
    clock: Int64s

    @classmethod
    def of(cls, code: Int64s, timestamp: Int64s, clock: int) -> Self:
        """The records. `clock`: the step's clock before the first one, ms."""
        return cls(code, timestamp, np.maximum(np.maximum.accumulate(timestamp), clock))

    @cached_property
    def keys(self) -> int:
        """The number of keys."""
        return int(self.code.max(initial=NOTHING)) + 1

    @cached_property
    def by_key(self) -> Int64s:
        """The rows key by key, in the order of processing within each key."""
        return in_groups(self.code, self.keys)


@dataclass(frozen=True)
class Updates:
    """The updates of windows by records, in the order of the records.

    Windows are numbered: first the stored ones, then the new ones. The *contents* of a window are rows: first those of
    the window from which it was copied, then its own.

    One entry for each update: `row` updates `window`; afterwards the window has `size` contents, and its row has
    `timestamp` (ms). One entry for each window: `key`, `start` (ms); `base`, the stored window to whose aggregate the
    contents are added, -1 for none; `ends`, where its contents end in `contents`. `late`: the number of windows that
    were closed for a record, and of records without an open window. `clock`, `latest`: the step's clock and the
    greatest start of a window after all records, ms.
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


@dataclass(frozen=True)
class Part:
    """The updates by the records of some keys. `row`, `window`, `size`, `timestamp`: see `Updates`.

    `number`: the windows of these keys, each with its `key`, `start` and `base`. `held`: (window, row) of the contents,
    window by window.
    """

    row: Int64s
    window: Int64s
    size: Int64s
    timestamp: Int64s
    number: Int64s
    key: Int64s
    start: Int64s
    base: Int64s
    held: tuple[Int64s, Int64s]
    late: int = 0


def joined(records: Records, stored: StoredWindows, clock: int, parts: Sequence[Part]) -> Updates:
    """The updates of all parts. `clock`: the step's clock before all records, ms.

    The new windows of a part are numbered after those of the parts before it.
    """
    row = np.concatenate([part.row for part in parts])
    order = in_groups(row, len(records.code))
    windows = max([len(stored.code), *(int(part.number.max(initial=NOTHING)) + 1 for part in parts)])
    key, start, base = (np.empty(windows, np.int64) for _ in range(3))
    for part in parts:
        key[part.number], start[part.number], base[part.number] = part.key, part.start, part.base
    window, size, timestamp = (
        np.concatenate([getattr(part, name) for part in parts])[order] for name in ("window", "size", "timestamp")
    )
    held, contents = (np.concatenate([part.held[side] for part in parts]) for side in (0, 1))
    if len(parts) > 1:
        by_window = np.argsort(held, kind="stable")
        held, contents = held[by_window], contents[by_window]
    return Updates(
        row[order],
        window,
        size,
        timestamp,
        key,
        start,
        base,
        contents,
        np.cumsum(np.bincount(held, minlength=windows)),
        sum(part.late for part in parts),
        max(clock, int(records.clock.max(initial=clock))),
        max(stored.latest, int(start[window].max(initial=NOTHING))),
    )


def latest_before(part: Part, rows: int, latest: int) -> Int64s:
    """The greatest start (ms) of all windows before each row, after the updates of a part by earlier rows.

    `rows`: the number of rows. `latest`: the greatest start before the first row.

    Example: rows 0, 1, 1, 2 update windows that start at 10, 15, 21, 15; `rows` is 3, `latest` is -1.

        result   [-1, 10, 21]
    """
    start = np.empty(int(part.number.max(initial=NOTHING)) + 1, np.int64)
    start[part.number] = part.start
    greatest = np.full(rows + 1, latest)
    np.maximum.at(greatest, part.row + 1, start[part.window])
    running: Int64s = np.maximum.accumulate(greatest)[:-1]
    return running


def of_keys(rows: Int64s, code: Int64s, chosen: Bools) -> Int64s:
    """The rows with a chosen key. `code`: the key of each row. `chosen`: a mask of keys."""
    return rows if chosen.all() else rows[chosen[code[rows]]]


# Finds the sliding windows of one record after another.
#
# The rules, and the order of updates, are Kafka Streams' (`KStreamSlidingWindowAggregate`). It visits the windows of a
# key from the latest to the earliest.


def find_one_by_one(
    records: Records, keys: Bools, stored: StoredWindows, rules: Rules, latest: Int64s, first_new: int
) -> Part:
    """The updates of the records of these `keys` (a mask).

    `latest`: the greatest start of other keys' windows before each record, ms. `first_new`: the number of the first new
    window.

    Example: one key, difference 10, records at times 25 and then 20. The record at 25 creates [15, 25]. The record at
    20 updates that window, creates its left window [10, 20], and its right window [21, 31], which contains 25.

        row, window   [0, 1, 1, 1], [0, 0, 1, 2]
        size          [1, 2, 1, 1]
        timestamp     [25, 25, 20, 25]
        start         [15, 10, 21]
        held          [0, 0, 1, 2], [0, 1, 1, 0]        (window, row): [21, 31] contains row 0
    """
    rows = np.flatnonzero(keys[records.code])
    places = np.flatnonzero(keys[stored.code])
    finding = _Finding(rules, stored, places)
    columns = (rows, records.code[rows], records.timestamp[rows], records.clock[rows], latest[rows])
    for each in zip(*(column.tolist() for column in columns), strict=True):
        finding.take(*each)
    return finding.part(places, first_new)


@dataclass(slots=True)
class _Contents:
    """The contents of a window: `base` and `rows`, see `Updates`. `timestamp`: of its row, ms."""

    timestamp: int = NOTHING
    base: int = NOTHING
    rows: list[int] = field(default_factory=list)

    def copy(self) -> _Contents:
        return _Contents(self.timestamp, self.base, self.rows.copy())


@dataclass(slots=True)
class _OfKey:
    """The windows of a key: their starts, sorted, and their numbers."""

    starts: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def has(self, start: int) -> bool:
        place = bisect_left(self.starts, start)
        return place < len(self.starts) and self.starts[place] == start


class _Finding:
    """Processes one record after another, and collects the updates."""

    def __init__(self, rules: Rules, stored: StoredWindows, places: Int64s) -> None:
        """`places`: the indexes of the needed windows in `stored`."""
        self._difference, self._grace, self._retention = rules.difference, rules.grace, rules.retention
        self._latest = stored.latest
        self._keys: dict[int, _OfKey] = {}
        self._windows: list[_Contents] = []
        # Key and start of each window; row, window, size and timestamp of each update. Flat lists, for speed.
        self._places: list[int] = []
        self._made: list[int] = []
        self._late = 0
        # The current record.
        self._row = self._key = self._time = self._closed = NOTHING
        self._of_key = _OfKey()
        columns = (places, stored.code[places], stored.start[places], stored.timestamp[places])
        for place, key, start, timestamp in zip(*(column.tolist() for column in columns), strict=True):
            self._key, self._of_key = key, self._keys.setdefault(key, _OfKey())
            self._add(start, _Contents(timestamp, place))

    def take(self, row: int, key: int, time: int, clock: int, latest: int) -> None:
        """Process a record. All times are ms.

        `clock`: the step's clock including it. `latest`: the greatest start of other keys' windows.
        """
        self._row, self._key, self._time = row, key, time
        self._latest = max(self._latest, latest)
        # Windows with a start up to this are closed.
        self._closed = clock - self._grace - self._difference - 1
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

    def part(self, places: Int64s, first_new: int) -> Part:
        """The updates of all records. `places`: as in `__init__`. `first_new`: the number of the first new window."""
        number = np.concatenate([places, first_new + np.arange(len(self._windows) - len(places))])
        row, window, size, timestamp = np.array(self._made, np.int64).reshape(-1, 4).T
        key, start = np.array(self._places, np.int64).reshape(-1, 2).T
        base = np.array([each.base for each in self._windows], np.int64)
        contents = np.array(list(chain.from_iterable(each.rows for each in self._windows)), np.int64)
        held = np.repeat(number, [len(each.rows) for each in self._windows])
        return Part(row, number[window], size, timestamp, number, key, start, base, (held, contents), self._late)

    def _take(self, of_key: _OfKey, time: int) -> None:
        """Process a record with a left window that starts at 0 or later."""
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
        """Process a record with a left window that would start before 0. It belongs to the window that starts at 0."""
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
        """The contents of a window before the current record. A copy only if the window has later records."""
        return window.copy() if window.timestamp > self._time else window

    def _make(self, start: int, like: _Contents | None) -> None:
        """Create a window with the contents of `like` and the current record."""
        if start <= self._closed:
            self._late += 1
            return
        window = _Contents(self._time, NOTHING, []) if like is None else like.copy()
        window.rows.append(self._row)
        window.timestamp = max(window.timestamp, self._time)
        self._done(start, self._add(start, window), window)

    def _copy(self, window: _Contents) -> None:
        """Create the right window of the current record, with the contents of `window`. It lacks the record itself."""
        start, made = self._time + 1, window.copy()
        self._done(start, self._add(start, made), made)

    def _add(self, start: int, window: _Contents) -> int:
        """Add a window to the current key. Returns its number."""
        of_key = self._of_key
        place = bisect_left(of_key.starts, start)
        if place < len(of_key.starts) and of_key.starts[place] == start:
            # The right window of the record before is also this record's left window. The second replaces the first.
            self._windows[of_key.numbers[place]] = window
            return of_key.numbers[place]
        number = len(self._windows)
        self._windows.append(window)
        self._places += (self._key, start)
        of_key.starts.insert(place, start)
        of_key.numbers.insert(place, number)
        return number

    def _update(self, start: int, number: int) -> None:
        """Add the current record to a window. Counts it as late if the window is closed."""
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
