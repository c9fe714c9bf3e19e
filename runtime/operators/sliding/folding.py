"""Aggregates sliding windows: folds the rows of each window, which begins with the rows of the one it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...records.arrays import Int64s
from ...topology import Agg
from ..aggregates.registry import Columns, aggregate, kept_aggregates, own_state
from ..aggregates.sums import SumOverflowError
from ..keyed.codes import last_rows
from ..keyed.groups import Groups, in_groups
from ..node import RowFailedError
from ..rows import Rows
from .updates import Updates


@dataclass(frozen=True)
class Folded:
    """`window`: the windows that are other ones now, ascending; `group`: the place among them of each update's window.

    `values`: results by aggregate, after each update, or of each of these windows; `states`, `timestamp`: their hidden
    columns and their rows' timestamps (ms) at the end.
    """

    window: Int64s
    group: Int64s
    values: dict[str, pa.Array]
    states: dict[str, pa.Array]
    timestamp: Int64s


def fold_windows(aggs: Sequence[Agg], rows: Rows, found: Updates, stored: Columns, each: bool) -> Folded:
    """Fold the rows into their windows. `stored`: hidden columns of the stored windows. `each`: with a value for each
    update, otherwise for the last one of each window. Raises RowFailedError.
    """
    window, group = changed_windows(found)
    last = last_rows(group, len(window))
    fold = _Fold.of(found, each)
    at_end = fold.groups_of(window)
    at = pa.array(fold.updates() if each else at_end)
    values, states = {}, dict[str, pa.Array]()
    for agg in kept_aggregates(aggs):
        function = aggregate(agg)
        own = own_state(agg, stored)
        start = {suffix: _of_bases(column, fold.base) for suffix, column in own.items()}
        argument = None if agg.column is None else rows.columns[agg.column].take(pa.array(fold.row))
        try:
            folded, ends = function.fold(fold.groups, start, argument)
        except SumOverflowError as error:
            raise error if error.row is None else RowFailedError(int(rows.order[fold.row[error.row]]), error) from error
        bare = {suffix: _of_bases(column, fold.bare) for suffix, column in own.items()}
        values[agg.name] = pa.concat_arrays([folded, function.result(bare)]).take(at)
        for suffix, column in ends.items():
            states[f"{agg.name}.{suffix}"] = pa.concat_arrays([column, bare[suffix].cast(column.type)]).take(
                pa.array(at_end)
            )
    return Folded(window, group, {agg.name: values[agg.name] for agg in aggs}, states, found.timestamp[last])


@dataclass(frozen=True)
class _Fold:
    """The contents of windows as rows in the order of processing.

    `row`: of the records, `groups`: which windows they are in, `base`: from which stored window each of these goes on.
    `bare`: the stored windows that others have copied while nothing was added, whose values stand behind all others.
    """

    found: Updates
    row: Int64s
    groups: Groups
    base: Int64s
    bare: Int64s
    place: Int64s
    begin: Int64s

    @classmethod
    def of(cls, found: Updates, each: bool) -> _Fold:
        """`place`: where each of all contents is among the rows. `begin`: where the contents of each window begin."""
        sizes = np.diff(found.ends, prepend=0)
        filled = np.flatnonzero(sizes)
        order = in_groups(found.contents, int(found.contents.max(initial=0)) + 1)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        base = found.base[filled]
        code = np.repeat(np.arange(len(filled)), sizes[filled])[order]
        groups = Groups(code, len(filled), each, base >= 0)
        bare = np.unique(found.base[found.window[found.size == 0]])
        return cls(found, found.contents[order], groups, base, bare, place, found.ends - sizes)

    def updates(self) -> Int64s:
        """Where the value of each update is, among those at the rows and those of `bare`."""
        found = self.found
        added = found.size > 0
        at = len(self.row) + np.searchsorted(self.bare, found.base[found.window])
        at[added] = self.place[(self.begin[found.window] + found.size - 1)[added]]
        return at

    def groups_of(self, window: Int64s) -> Int64s:
        """Where the end of each of these windows is, among the groups and `bare`."""
        sizes = np.diff(self.found.ends, prepend=0)
        number = np.cumsum(sizes > 0) - 1
        behind = self.groups.count + np.searchsorted(self.bare, self.found.base[window])
        return np.where(sizes[window] > 0, number[window], behind)


def changed_windows(found: Updates) -> tuple[Int64s, Int64s]:
    """(The windows that are updated, ascending; the place among them of each update's.)"""
    changed = np.zeros(len(found.key), np.bool_)
    changed[found.window] = True
    return np.flatnonzero(changed), (np.cumsum(changed) - 1)[found.window]


def _of_bases(column: pa.Array, base: Int64s) -> pa.Array:
    """Of a column of the stored windows the values of these; null for -1."""
    return column.take(pa.array(np.maximum(base, 0), mask=base < 0))
