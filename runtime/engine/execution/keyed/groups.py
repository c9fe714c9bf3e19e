"""Groups rows by key and window, and computes running values in groups. Array code without Python loops."""

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
from ..rows import Rows, null_keys, taken

# Numbers the distinct keys and windows of rows. The number of a row's group is its *code*.

_TABLE = 8
"""`_distinct` makes a table of all numbers, unless the table has more than this many cells for each row."""


def last_rows(code: Int64s, count: int) -> Int64s:
    """The last row of each of `count` groups. Codes [0, 1, 0, 2, 1]: [2, 4, 3]."""
    last = np.empty(count, np.int64)
    # NumPy keeps the last assignment to an index.
    last[code] = np.arange(len(code))
    return last


def run_starts(numbers: Int64s) -> Bools:
    """Whether a run of equal numbers begins at each place. Numbers [3, 3, 5]: [True, False, True]."""
    starts = np.ones(len(numbers), np.bool_)
    starts[1:] = numbers[1:] != numbers[:-1]
    return starts


def places_in_runs(numbers: Int64s) -> Int64s:
    """The place of each number in its run of equal numbers, from 0. Numbers [3, 3, 5, 3]: [0, 1, 0, 0]."""
    place = np.arange(len(numbers))
    places: Int64s = place - np.maximum.accumulate(np.where(run_starts(numbers), place, 0))
    return places


def group_codes(keys: pa.Array) -> tuple[Int64s, Int64s]:
    """(The group of each row, the first row of each group). Both int64.

    Groups are numbered in the order of their first rows. Null is a value.

    Example: group_codes(["b", "a", "b", None, "a"]) is ([0, 1, 0, 2, 1], [0, 1, 3]).
    """
    with timed("group"):
        numbers = as_numbers(keys) if _is_bytes(keys.type) and not keys.null_count else None
        if numbers is not None:
            keys = pa.array(numbers)
        encoded = keys.dictionary_encode(null_encoding="encode")
        code = to_numpy(encoded.indices).astype(np.int64)
        first = np.empty(len(encoded.dictionary), np.int64)
        # Reversed, because NumPy keeps the last assignment to an index.
        first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
        return code, first


def group_by(columns: Sequence[pa.Array]) -> tuple[Int64s, Int64s]:
    """`group_codes` for keys of one or more columns. Keys are equal if their encoded bytes are equal.

    Example: the columns ["a", "a", "b", "a"] and [1, 2, 1, 1] give ([0, 1, 2, 0], [0, 1, 2]).

    Raises KeyTypeError.
    """
    if not all(_plain(column.type) for column in columns):
        return group_codes(encode_keys(columns))
    code, first = group_codes(columns[0])
    for column in columns[1:]:
        more, distinct = group_codes(column)
        # Renumber after each column: the product of the counts of all columns may exceed 64 bits.
        code, first = group_codes(pa.array(code * len(distinct) + more))
    return code, first


def sorted_groups(keys: pa.BinaryArray) -> tuple[Int64s, Int64s, pa.BinaryArray]:
    """(The group of each row, the first row of each group, the key of each group). Keys ascend: stores are fastest so.

    Example: sorted_groups([b, a, b]) is ([1, 0, 1], [1, 0], [a, b]).
    """
    code, first = group_codes(keys)
    return _by_key(code, first, keys.take(pa.array(first)))


def sorted_groups_by(columns: Sequence[pa.Array]) -> tuple[Int64s, Int64s, pa.BinaryArray]:
    """`sorted_groups` of key columns. It encodes each distinct key once. Raises KeyTypeError."""
    code, first = group_by(columns)
    return _by_key(code, first, encode_keys([column.take(pa.array(first)) for column in columns]))


def _by_key(code: Int64s, first: Int64s, keys: pa.BinaryArray) -> tuple[Int64s, Int64s, pa.BinaryArray]:
    with timed("sort keys"):
        place = last_in_order(keys)
        number = np.empty(len(place), np.int64)
        number[place] = np.arange(len(place))
        return number[code], first[place], keys.take(pa.array(place))


def bytes_of(keys: pa.BinaryArray) -> list[bytes]:
    """Keys as a list of bytes, as stores take them."""
    # Faster than `to_pylist`.
    found: list[bytes] = keys.to_numpy(zero_copy_only=False).tolist()
    return found


@dataclass(frozen=True)
class Windows:
    """Groups by key and window. `code`: the group of each row. `key`, `window`: of each group, their numbers."""

    code: Int64s
    key: Int64s
    window: Int64s


def by_window(code: Int64s, count: int, window: Int64s) -> Windows:
    """Group rows by key and window. Groups are in the order of windows, then keys.

    `code`: key number of each row, 0 to `count` - 1. `window`: window number of each row.

    Example: the keys 0 and 1 in window 5, key 0 in window 6, key 1 in window 5 again.

        by_window(code=[0, 1, 0, 1], count=2, window=[5, 5, 6, 5])
            code      [0, 1, 2, 1]
            key       [0, 1, 0]
            window    [5, 5, 6]
    """
    with timed("group"):
        if not len(code):
            return Windows(code, code, code)
        windows, place = _distinct(window, int(window.min()), int(window.max()) + 1)
        groups, code = _distinct(place * count + code, 0, len(windows) * count)
        return Windows(code, groups % count, windows[groups // count])


def _distinct(numbers: Int64s, least: int, end: int) -> tuple[Int64s, Int64s]:
    """(The distinct numbers, ascending; the index of each row's number among them).

    All numbers are at least `least` and below `end`. A table of all numbers in this range is several times faster than
    sorting, if the range is not much larger than the number of rows.

    Example: _distinct([7, 3, 7, 4], 3, 8) is ([3, 4, 7], [2, 0, 2, 1]).
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
    """Whether Arrow and encoded keys have the same equality. They differ for floating point numbers."""
    return not (pa.types.is_floating(data_type) or pa.types.is_nested(data_type))


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_binary(data_type))


# Folds grouped rows: to one value for each group, or to a running value at each row.
#
# An aggregate is written once for both. It computes totals, maxima or picks "at the points". The points are the groups
# if the step emits one change for each key and epoch, and the rows if it emits every update.

LOWEST = np.iinfo(np.int64).min
_LIFTED = 2**62
"""Limit of the numbers in which running maxima are computed, so that they do not overflow."""


def in_groups(code: Int64s, count: int) -> Int64s:
    """The rows sorted by group, stable. `code`: the group of each row. Codes [1, 0, 1, 0]: [1, 3, 0, 2]."""
    # NumPy sorts 16-bit integers by radix, several times faster than wider ones. More groups need two sorts of 16 bits.
    if count > 2**32:
        return np.argsort(code, kind="stable")
    order = np.argsort(code.astype(np.uint16), kind="stable")
    if count <= 2**16:
        return order
    return order[np.argsort((code >> 16).astype(np.uint16)[order], kind="stable")]


@dataclass(frozen=True)
class Groups:
    """Rows by group, and the points at which values are computed: rows if `each`, else groups.

    `code`: the group of each row, 0 to `count` - 1; every group has a row. `exists`: whether each group has a row in
    the store. `sign`: 1 for each row to add, -1 for each row to subtract; None: all are added.

    Example: rows 0, 2 and 3 are of group 0, rows 1 and 4 of group 1.

        groups = Groups([0, 1, 0, 0, 1], 2, each, exists=[True, False])
                                                              each=True              each=False
        groups.last                                           [3, 4]                 [3, 4]
        groups.previous                                       [-1, -1, 0, 2, 1]      [-1, -1, 0, 2, 1]
        groups.point_code                                     [0, 1, 0, 0, 1]        [0, 1]
        groups.totals(start=[10, 0], amounts=[1, 2, 3, 4, 5]) [11, 2, 14, 18, 7]     [18, 7]
        groups.maxima(start=[3, 0], values=[1, 5, 4, 2, 7])   [3, 5, 4, 4, 7]        [4, 7]
        groups.ends(totals)                                   [18, 7]                [18, 7]
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
        """The value of each group after its last row. `at_points`: values at the points."""
        return at_points[self.last] if self.each else at_points

    def end_columns(self, at_points: pa.Array) -> pa.Array:
        """`ends` for an Arrow array."""
        return at_points.take(pa.array(self.last)) if self.each else at_points

    def totals(self, start: Int64s, amounts: Int64s) -> Int64s:
        """The start of the group plus the amounts of its rows, up to each point.

        The int64 may wrap around. Arrays may have a second axis: the limbs of wide numbers.
        """
        if not self.each:
            total = start.copy()
            # `total[code] += amounts` would add only one amount for each group.
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
        """The start of the group plus its `counted` rows up to each point. Subtracted rows count -1."""
        amounts = counted.astype(np.int64)
        return self.totals(start, amounts if self.sign is None else amounts * self.sign)

    def maxima(self, start: Int64s, values: Int64s) -> Int64s:
        """The maximum of the group's start and its values up to each point."""
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
        """The row with the greatest priority up to each point; among equal ones the first.

        `valid`: rows that may be picked. `start`: priority of the stored value of each group, where `has_start`.
        Returns a row number, -1 for the stored value, or -2 without any value.

        Example: the groups of the class docstring; group 0 has a stored value with the priority 3.

            priority=[1, 5, 4, 4, 3], start=[3, 0], has_start=[True, False], all valid
                each=True     [-1, 1, 2, 2, 1]: row 0 does not beat the stored value; row 3 only equals row 2
                each=False    [2, 1]
            none valid
                each=False    [-1, -2]
        """
        floor = np.where(has_start, start, LOWEST)
        usable = valid & ((priority > floor[self.code]) | ~has_start[self.code])
        if not self.each:
            best = np.full(self.count, LOWEST)
            rows = np.flatnonzero(usable)
            np.maximum.at(best, self.code[rows], priority[rows])
            # Reversed, because NumPy keeps the last assignment: the first of equal rows wins.
            winners = rows[priority[rows] == best[self.code[rows]]][::-1]
            picked = np.where(has_start, -1, -2)
            picked[self.code[winners]] = winners
            return picked
        rows = np.flatnonzero(usable)
        rank = np.zeros(len(usable), np.int64)
        distinct, rank[rows] = np.unique(priority[rows], return_inverse=True)
        # Rank 0 means that a row cannot win: it is not valid, or does not beat the stored value.
        rank[rows] += 1
        running = self._running_rank(rank, len(distinct) + 1)
        raised = self._starts.copy()
        raised[1:] |= running[1:] != running[:-1]
        winner = self._sorted[np.maximum.accumulate(np.where(raised, np.arange(len(running)), 0))]
        picked = np.empty(len(running), np.int64)
        picked[self._sorted] = np.where(running > 0, winner, np.where(has_start, -1, -2)[self.code[self._sorted]])
        return picked

    def split_after(self, last: Bools) -> tuple[Int64s, int]:
        """Split groups behind the rows where `last` is True. Points must be rows.

        Returns (the group of each row, the number of groups). The first part of a group keeps its number.

        Example: the groups [0, 1, 0, 0, 1], split behind row 0, become ([0, 1, 2, 2, 1], 3).
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
        """The rows sorted by group, stable."""
        return in_groups(self.code, self.count)

    @cached_property
    def _starts(self) -> Bools:
        """Whether a group starts at each place of `_sorted`."""
        return run_starts(self.code[self._sorted])

    def _running_rank(self, rank: Int64s, ranks: int) -> Int64s:
        """The maximum rank (0 to `ranks` - 1) in the group up to each row, in the order of `_sorted`."""
        # The ranks of each group are lifted above those of the groups before, so one running maximum serves all groups.
        # Groups [a, a, b] with the ranks [1, 0, 0] of 2 are lifted to [1, 0, 2]; maxima [1, 1, 2]; lowered [1, 1, 0].
        lift = (np.cumsum(self._starts) - 1) * ranks
        running: Int64s = np.maximum.accumulate(lift + rank[self._sorted]) - lift
        return running


# The windows of each record, and whether each is still open.


@dataclass(frozen=True)
class Windowed:
    """Pairs of a record and one of its windows, sorted by record and window start. One array entry for each pair.

    `record`: row of the record. `number`: of the window, which starts at `number` * advance. `late`: the window is
    closed. `clock`: the step's clock after the last record, ms.
    """

    record: Int64s
    number: Int64s
    late: Bools
    clock: int


def assign(timestamps: Int64s, window: Window, clock: int) -> Windowed:
    """The windows of records in path order. `timestamps`: ms. `clock`: the step's clock before the first record, ms.

    A record first moves the clock. Then a window takes it if and only if window end > clock - grace.

    Example: windows of 20 ms, every 10 ms, without grace.

        assign([12, 27, 3], Window(size_ms=20, advance_ms=10, grace_ms=0), clock=0)
            record    [0, 0, 1, 1, 2]
            number    [0, 1, 1, 2, 0]: 12 is in [0, 20) and [10, 30)
            late      [False, False, False, False, True]: the clock is 27 when 3 comes
            clock     27
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
    # The first window of a record closes first. If none of these is closed, no window is late.
    closed = running - window.grace_ms - window.size_ms
    if (first * window.advance_ms > closed).all():
        return Windowed(record, number, np.zeros(len(record), np.bool_), clock)
    return Windowed(record, number, number * window.advance_ms <= closed[record], clock)


def window_column(times: Int64s) -> pa.Array:
    """Times in ms as a column of type TIMESTAMP."""
    return pa.array(times * 1000).cast(TIMESTAMP)


def window_times(column: pa.Array) -> Int64s:
    """The inverse of `window_column`: times in ms, 0 for null."""
    times: Int64s = to_numpy(column.cast(pa.int64()).fill_null(0)) // 1000
    return times


# The input rows of an aggregation, by key, or by key and window.


@dataclass(frozen=True)
class Grouped:
    """Rows by key, or by key and window. `code`: the group of each row.

    `keys`: the store key of each group, ascending. `columns`: the key columns of each group.
    """

    rows: Rows
    code: Int64s
    keys: pa.BinaryArray
    columns: Mapping[str, pa.Array]


def usable(rows: Rows, store: Store, step: str, epoch: TaskEpoch) -> Rows:
    """The rows with a key and, in a store without windows, a value. Counts others as dropped by `step`."""
    null = null_keys(list(rows.keys.values()), len(rows))
    epoch.drop(step, "null_key", int(null.sum()))
    if store.window is not None:
        return rows.filter(~null)
    empty = rows.kind == Kind.TOMBSTONE
    epoch.drop(step, "null_value", int((empty & ~null).sum()))
    return rows.filter(~null & ~empty)


def grouped(rows: Rows, store: Store, used: Collection[str | None], step: str, epoch: TaskEpoch) -> Grouped:
    """Group rows by key, or by key and window. With windows there is a row for each open window of each record.

    `used`: the columns to copy into these rows. `step`: counts closed windows as late.
    """
    code, first, keys = sorted_groups_by([*rows.keys.values()])
    columns = taken(rows.keys, first)
    window = store.window
    if window is None:
        return Grouped(rows, code, keys, columns)
    assert isinstance(window, Window)
    rows, record, number = _windowed(rows, store, window, used, step, epoch)
    groups = by_window(code if record is None else code[record], len(first), number)
    start = groups.window * window.advance_ms
    times = {"window_start": window_column(start), "window_end": window_column(start + window.size_ms)}
    encoded = window_keys(start, keys.take(pa.array(groups.key)))
    return Grouped(rows, groups.code, encoded, taken(columns, groups.key) | times)


def _windowed(
    rows: Rows, store: Store, window: Window, used: Collection[str | None], step: str, epoch: TaskEpoch
) -> tuple[Rows, Int64s | None, Int64s]:
    """(A row for each open window of each record, its record, its window number). Record None: rows unchanged."""
    windowed = assign(rows.timestamp, window, epoch.clock(store.name))
    epoch.advance(store.name, windowed.clock)
    epoch.let_pass(store.name)
    record, number = windowed.record, windowed.number
    if windowed.late.any():
        epoch.drop(step, "late", int(windowed.late.sum()))
        record, number = record[~windowed.late], number[~windowed.late]
    # Each record has one open window, as in tumbling windows without late records, so rows need no copy.
    if len(number) == len(rows) == len(windowed.record):
        return rows, None, number
    columns = {name: column for name, column in rows.columns.items() if name in used}
    narrow = replace(rows, columns=columns, key=(), value=())
    return narrow.take(record).deeper(number), record, number
