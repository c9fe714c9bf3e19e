"""Groups rows, and folds them in two ways: to one value for each group, or to a running value at each row.

An aggregate is written once for both ways. It asks for totals, maxima or picks "at the points". The points are the
groups if changes are collapsed, and the rows if each update counts. Everything is vectorised over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...records.arrays import Bools, Int8s, Int64s
from .codes import last_rows

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
