"""Rows grouped by key and window."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ....ir.topology import Store
from ....ir.windows import Window
from ....records.arrays import Bools, Int8s, Int64s, to_numpy
from ....records.key_order import as_numbers, last_in_order
from ....records.keys import encode_keys
from ....records.types import TIMESTAMP, Kind
from ....records.window_keys import window_keys
from ....timed_parts import timed
from ..node import TaskEpoch
from ..rows import Rows, null_keys

# Numbers the distinct keys, and windows, of rows.

_TABLE = 8
"""Up to so many times as many cells as rows, a table of all numbers is made."""


def last_rows(code: Int64s, count: int) -> Int64s:
    """The last row of each of `count` groups."""
    last = np.empty(count, np.int64)
    # Of several assignments to one index, numpy keeps the last.
    last[code] = np.arange(len(code))
    return last


def group_codes(keys: pa.Array) -> tuple[Int64s, Int64s]:
    """(The group of each row, the first row of each group).

    Groups are numbered as they first appear. Null is a value.
    """
    with timed("group"):
        numbers = as_numbers(keys) if _is_bytes(keys.type) and not keys.null_count else None
        if numbers is not None:
            keys = pa.array(numbers)
        encoded = keys.dictionary_encode(null_encoding="encode")
        code = to_numpy(encoded.indices).astype(np.int64)
        first = np.empty(len(encoded.dictionary), np.int64)
        # From the end, because of several assignments to one index numpy keeps the last.
        first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
        return code, first


def group_by(columns: Sequence[pa.Array]) -> tuple[Int64s, Int64s]:
    """`group_codes` for keys of several columns (at least one). Keys are equal if their encoded bytes are.

    Raises KeyTypeError.
    """
    if not all(_plain(column.type) for column in columns):
        return group_codes(encode_keys(columns))
    code, first = group_codes(columns[0])
    for column in columns[1:]:
        more, distinct = group_codes(column)
        # Renumbered after each column: the product of all columns' counts could exceed 64 bits.
        code, first = group_codes(pa.array(code * len(distinct) + more))
    return code, first


def by_key(code: Int64s, first: Int64s, keys: pa.BinaryArray) -> tuple[Int64s, Int64s, pa.BinaryArray]:
    """Groups numbered in ascending order of their keys, and the keys. Stores are fastest in that order."""
    with timed("sort keys"):
        place = last_in_order(keys)
        number = np.empty(len(place), np.int64)
        number[place] = np.arange(len(place))
        return number[code], first[place], keys.take(pa.array(place))


def bytes_of(keys: pa.BinaryArray) -> list[bytes]:
    """Keys as stores take them."""
    # Numpy makes a list of bytes faster than `to_pylist`.
    found: list[bytes] = keys.to_numpy(zero_copy_only=False).tolist()
    return found


@dataclass(frozen=True)
class Windows:
    """Groups of a key and a window each. `code`: the group of each row. `key`, `window`: the number of each group's."""

    code: Int64s
    key: Int64s
    window: Int64s


def by_window(code: Int64s, count: int, window: Int64s) -> Windows:
    """Groups by key and window, in the order of the windows and then of the keys.

    `code`: the key of each row, 0 to `count` - 1. `window`: the number of each row's window.
    """
    with timed("group"):
        if not len(code):
            return Windows(code, code, code)
        windows, place = _distinct(window, int(window.min()), int(window.max()) + 1)
        groups, code = _distinct(place * count + code, 0, len(windows) * count)
        return Windows(code, groups % count, windows[groups // count])


def _distinct(numbers: Int64s, least: int, end: int) -> tuple[Int64s, Int64s]:
    """(The distinct numbers in ascending order, the place of each row's number among them).

    All numbers are at least `least` and below `end`. A table of all numbers in between is several times as fast as
    sorting, if it is not much larger than there are rows.
    """
    if end - least > _TABLE * len(numbers):
        distinct, place = np.unique(numbers, return_inverse=True)
        return distinct, place
    cells = numbers - least
    there = np.zeros(end - least, np.bool_)
    there[cells] = True
    distinct = np.flatnonzero(there)
    place = np.empty(end - least, np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct + least, place[cells]


def _plain(data_type: pa.DataType) -> bool:
    """Whether Arrow and encoded keys agree on which values are equal. For floating point numbers they do not."""
    return not (pa.types.is_floating(data_type) or pa.types.is_nested(data_type))


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_binary(data_type))


# Groups rows, and folds them in two ways: to one value for each group, or to a running value at each row.
#
# An aggregate is written once for both ways. It asks for totals, maxima or picks "at the points". The points are the
# groups if changes are collapsed, and the rows if each update counts. Everything is vectorised over rows.

LOWEST = np.iinfo(np.int64).min
_LIFTED = 2**62
"""Running maxima are found in numbers below this, which do not overflow."""


def in_groups(code: Int64s, count: int) -> Int64s:
    """The rows of `count` groups group by group, in order within each. `code`: the group of each row."""
    # numpy sorts 16-bit integers by radix, several times as fast as wider ones. Twice where groups are more.
    if count > 2**32:
        return np.argsort(code, kind="stable")
    order = np.argsort(code.astype(np.uint16), kind="stable")
    if count <= 2**16:
        return order
    return order[np.argsort((code >> 16).astype(np.uint16)[order], kind="stable")]


@dataclass(frozen=True)
class Groups:
    """`code`: the group of each row, 0 to `count` - 1. Every group has a row. `each`: whether the points are rows.

    `exists`: which groups have a row in the store. `sign`: 1 for a row that is added, -1 for one that is subtracted.
    """

    code: Int64s
    count: int
    each: bool
    exists: Bools
    sign: Int8s | None = None

    @property
    def points(self) -> int:
        """The number of points."""
        return len(self.code) if self.each else self.count

    @cached_property
    def last(self) -> Int64s:
        """The last row of each group."""
        return last_rows(self.code, self.count)

    @cached_property
    def previous(self) -> Int64s:
        """The row before each row in its group; -1 for the first."""
        before = np.full(len(self.code), -1)
        before[self._sorted[1:]] = np.where(self._starts[1:], -1, self._sorted[:-1])
        return before

    @cached_property
    def point_code(self) -> Int64s:
        """The group of each point."""
        return self.code if self.each else np.arange(self.count)

    def ends(self, at_points: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """From values at the points, those after each group's last row."""
        return at_points[self.last] if self.each else at_points

    def end_columns(self, at_points: pa.Array) -> pa.Array:
        """`ends` for an Arrow array."""
        return at_points.take(pa.array(self.last)) if self.each else at_points

    def totals(self, start: Int64s, amounts: Int64s) -> Int64s:
        """The group's start plus its rows' amounts up to each point. The int64 may wrap; the last axis may be limbs."""
        if not self.each:
            total = start.copy()
            # `total[code] += amounts` would add only one of the rows with the same code.
            np.add.at(total, self.code, amounts)
            return total
        ordered = amounts[self._sorted]
        running = np.cumsum(ordered, axis=0)
        firsts = np.flatnonzero(self._starts)
        before = (running[firsts] - ordered[firsts])[np.cumsum(self._starts) - 1]
        total = np.empty_like(running)
        total[self._sorted] = running - before
        return total + start[self.code]

    def counts(self, start: Int64s, counted: Bools) -> Int64s:
        """The group's start plus the rows counted up to each point, minus the subtracted ones."""
        amounts = counted.astype(np.int64)
        return self.totals(start, amounts if self.sign is None else amounts * self.sign)

    def maxima(self, start: Int64s, values: Int64s) -> Int64s:
        """The greatest of the group's start and its rows' values up to each point."""
        if not self.each:
            greatest = start.copy()
            np.maximum.at(greatest, self.code, values)
            return greatest
        if not len(values):
            return values
        least = int(values.min())
        span = int(values.max()) - least + 1
        greatest = np.empty_like(values)
        if span * self.count < _LIFTED:
            greatest[self._sorted] = least + self._running_rank(values - least, span)
        else:
            distinct, rank = np.unique(values, return_inverse=True)
            greatest[self._sorted] = distinct[self._running_rank(rank, len(distinct))]
        return np.maximum(greatest, start[self.code])

    def picks(self, priority: Int64s, valid: Bools, start: Int64s, has_start: Bools) -> Int64s:
        """The value picked at each point: the one with the greatest priority, of equal ones the first.

        `start`: the priority of the group's stored value, if `has_start`. Returns the number of a row, -1 for the
        stored value, -2 for none.
        """
        floor = np.where(has_start, start, LOWEST)
        usable = valid & ((priority > floor[self.code]) | ~has_start[self.code])
        if not self.each:
            best = np.full(self.count, LOWEST)
            rows = np.flatnonzero(usable)
            np.maximum.at(best, self.code[rows], priority[rows])
            # Reversed, so that of equal rows the first one is assigned last and stays.
            winners = rows[priority[rows] == best[self.code[rows]]][::-1]
            picked = np.where(has_start, -1, -2)
            picked[self.code[winners]] = winners
            return picked
        rows = np.flatnonzero(usable)
        rank = np.zeros(len(usable), np.int64)
        distinct, rank[rows] = np.unique(priority[rows], return_inverse=True)
        # Rank 0 is that of rows which cannot win: null, or not above the stored value.
        rank[rows] += 1
        running = self._running_rank(rank, len(distinct) + 1)
        raised = self._starts.copy()
        raised[1:] |= running[1:] != running[:-1]
        winner = self._sorted[np.maximum.accumulate(np.where(raised, np.arange(len(running)), 0))]
        picked = np.empty(len(running), np.int64)
        picked[self._sorted] = np.where(running > 0, winner, np.where(has_start, -1, -2)[self.code[self._sorted]])
        return picked

    def split_after(self, last: Bools) -> tuple[Int64s, int]:
        """Split groups after the rows in `last`, for points at rows.

        Returns (the group of each row, the number of groups). The first part of each group keeps its number.
        """
        fresh = np.zeros(len(last), np.bool_)
        fresh[1:] = last[self._sorted[:-1]] & ~self._starts[1:]
        begun = np.cumsum(fresh)
        before = np.maximum.accumulate(np.where(self._starts, begun, 0))
        code = np.empty_like(self.code)
        code[self._sorted] = np.where(begun == before, self.code[self._sorted], self.count + begun - 1)
        return code, self.count + int(fresh.sum())

    @cached_property
    def _sorted(self) -> Int64s:
        """The rows by group, in order within each group."""
        return in_groups(self.code, self.count)

    @cached_property
    def _starts(self) -> Bools:
        """Where a group starts in `_sorted`."""
        ordered = self.code[self._sorted]
        starts = np.ones(len(ordered), np.bool_)
        starts[1:] = ordered[1:] != ordered[:-1]
        return starts

    def _running_rank(self, rank: Int64s, ranks: int) -> Int64s:
        """The greatest rank (0 to `ranks` - 1) in the group up to each row, in the order of `_sorted`."""
        # The ranks of each group are lifted above those of the groups before, so one running maximum serves all.
        lift = (np.cumsum(self._starts) - 1) * ranks
        running: Int64s = np.maximum.accumulate(lift + rank[self._sorted]) - lift
        return running


# Finds the windows of each record, and which of them are still open for it.


@dataclass(frozen=True)
class Windowed:
    """Pairs of a record and one of its windows, sorted by record and start.

    `number`: of the window; it starts at so many times the advance. `late`: the window is closed. `clock`: the step's
    clock after the last record.
    """

    record: Int64s
    number: Int64s
    late: Bools
    clock: int


def assign(timestamps: Int64s, window: Window, clock: int) -> Windowed:
    """The windows of records, in order of processing. `clock`: the step's clock before them.

    A record first moves the clock and is then compared with it. A window takes it if and only if end > clock - grace.
    """
    running = np.maximum(np.maximum.accumulate(timestamps), clock)
    last = timestamps // window.advance_ms
    # Windows start at 0 or later, as in Kafka Streams (`TimeWindows.windowsFor`).
    first = np.maximum(0, timestamps - window.size_ms + window.advance_ms) // window.advance_ms
    counts = last - first + 1
    clock = int(running[-1]) if len(running) else clock
    each = int(counts[0]) if len(counts) else 0
    record = np.repeat(np.arange(len(timestamps)), counts)
    if (counts == each).all():
        number = (first[:, None] + np.arange(each)).ravel()
    else:
        number = first[record] + np.arange(len(record)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Of a record in each window its last one is closed last, and its first one first.
    closed = running - window.grace_ms - window.size_ms
    if (first * window.advance_ms > closed).all():
        return Windowed(record, number, np.zeros(len(record), np.bool_), clock)
    return Windowed(record, number, number * window.advance_ms <= closed[record], clock)


def window_column(times: Int64s) -> pa.Array:
    """Times in ms as a timestamp column."""
    return pa.array(times * 1000).cast(TIMESTAMP)


# The rows that an aggregation takes, by key, or by key and window.


@dataclass(frozen=True)
class Grouped:
    """Rows by key, or by key and window. `code`: the group of each row. `keys`: the groups' in the store, in its order.

    `columns`: the key columns of each group.
    """

    rows: Rows
    code: Int64s
    keys: pa.BinaryArray
    columns: Mapping[str, pa.Array]


def usable(rows: Rows, store: Store, step: str, epoch: TaskEpoch) -> Rows:
    """The rows with a key and, without windows, with a value. Others are counted as dropped by the `step`."""
    null = null_keys(list(rows.keys.values()), len(rows))
    epoch.drop(step, "null_key", int(null.sum()))
    if store.window is not None:
        return rows.filter(~null)
    empty = rows.kind == Kind.TOMBSTONE
    epoch.drop(step, "null_value", int((empty & ~null).sum()))
    return rows.filter(~null & ~empty)


def grouped(rows: Rows, store: Store, used: Collection[str | None], step: str, epoch: TaskEpoch) -> Grouped:
    """The rows by key, and by window: a row for each open window of each record.

    `used`: the columns that are needed of rows that are in several windows. `step`: which counts the late ones.
    """
    code, first = group_by([*rows.keys.values()])
    code, first, keys = by_key(code, first, encode_keys([each.take(pa.array(first)) for each in rows.keys.values()]))
    columns = {name: column.take(pa.array(first)) for name, column in rows.keys.items()}
    window = store.window
    if window is None:
        return Grouped(rows, code, keys, columns)
    assert isinstance(window, Window)
    rows, record, number = _windowed(rows, store, window, used, step, epoch)
    groups = by_window(code if record is None else code[record], len(first), number)
    of_key, start = pa.array(groups.key), groups.window * window.advance_ms
    times = {"window_start": window_column(start), "window_end": window_column(start + window.size_ms)}
    columns = {name: column.take(of_key) for name, column in columns.items()} | times
    return Grouped(rows, groups.code, window_keys(start, keys.take(of_key)), columns)


def _windowed(
    rows: Rows, store: Store, window: Window, used: Collection[str | None], step: str, epoch: TaskEpoch
) -> tuple[Rows, Int64s | None, Int64s]:
    """A row for each open window of each record, of which record it is (None: as they are), and which window."""
    windowed = assign(rows.timestamp, window, epoch.clock(store.name))
    epoch.advance(store.name, windowed.clock)
    epoch.let_pass(store.name)
    record, number = windowed.record, windowed.number
    if windowed.late.any():
        epoch.drop(step, "late", int(windowed.late.sum()))
        record, number = record[~windowed.late], number[~windowed.late]
    # Each record has one open window, as in tumbling windows without late records: no copy is needed.
    if len(number) == len(rows) == len(windowed.record):
        return rows, None, number
    columns = {name: column for name, column in rows.columns.items() if name in used}
    narrow = replace(rows, columns=columns, key=(), value=())
    return narrow.take(record).deeper(number), record, number
