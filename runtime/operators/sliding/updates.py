"""What records do to the sliding windows of their keys: what is given to find it, and what is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from ...records.arrays import Bools, Int64s
from ...windows import SlidingWindow
from ..keyed.groups import in_groups

NOTHING = -1


@dataclass(frozen=True)
class Rules:
    """`difference`, `grace`: of the window, ms. `retention`: how long a window is found after its start, by the latest
    start of the store, ms.
    """

    difference: int
    grace: int
    retention: int

    @classmethod
    def of(cls, window: SlidingWindow, retention: int) -> Self:
        """Of a window."""
        return cls(window.difference_ms, window.grace_ms, retention)


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
class Records:
    """Records with a key, in the order of processing. `code`: the number of the key. `clock`: of the step, with each
    record. `timestamp`, `clock`: ms.
    """

    code: Int64s
    timestamp: Int64s
    clock: Int64s

    @classmethod
    def of(cls, code: Int64s, timestamp: Int64s, clock: int) -> Self:
        """With the step's clock before all of them."""
        return cls(code, timestamp, np.maximum(np.maximum.accumulate(timestamp), clock))

    @cached_property
    def keys(self) -> int:
        """How many there are."""
        return int(self.code.max(initial=NOTHING)) + 1

    @cached_property
    def by_key(self) -> Int64s:
        """The rows key by key, in order within each."""
        return in_groups(self.code, self.keys)


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


@dataclass(frozen=True)
class Part:
    """What the records of some keys do: `row`, `window`, `size`, `timestamp` as of `Updates`, row by row in order.

    `number`: of the windows of these keys, each with its `key`, `start` and `base`. `held`: (window, row) of their
    contents, window by window in order.
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
    """What all of them do. `clock`: of the step, before all records. The parts' new windows are numbered one after
    another.
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
    """The greatest start (ms) of windows before each row, by what a part does. `latest`: before all of them."""
    start = np.empty(int(part.number.max(initial=NOTHING)) + 1, np.int64)
    start[part.number] = part.start
    greatest = np.full(rows + 1, latest)
    np.maximum.at(greatest, part.row + 1, start[part.window])
    running: Int64s = np.maximum.accumulate(greatest)[:-1]
    return running


def of_keys(rows: Int64s, code: Int64s, chosen: Bools) -> Int64s:
    """Of these rows those whose key is chosen."""
    return rows if chosen.all() else rows[chosen[code[rows]]]
