"""Aggregates in sliding windows. The rules are Kafka Streams' (`KStreamSlidingWindowAggregate`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from ....ir.topology import Agg, Store
from ....ir.windows import SlidingWindow
from ....records.arrays import Int64s
from ....records.types import Kind
from ....records.window_keys import window_segment_length
from ....state.codec import RowCodec
from ....timed_parts import timed
from ...operators.aggregations import AggregateSliding
from ...operators.operator import Emit
from ..aggregate import STATE, hide_state, state_at_points, stored_values, travels
from ..aggregates.registry import Columns, aggregate, kept_aggregates, own_state
from ..aggregates.sums import SumOverflowError
from ..keyed.groups import Groups, bytes_of, in_groups, last_rows, places_in_runs, sorted_groups_by, window_column
from ..keyed.session_store import Sessions, SessionStore
from ..keyed.stored_rows import StoredRows, Versions, changes, stored_columns
from ..node import Edges, RowFailedError, TaskEpoch, step_name
from ..rows import Rows, null_keys, taken
from .in_order import find_in_order, keys_in_order
from .one_by_one import Records, Rules, StoredWindows, Updates, find_one_by_one, joined, latest_before

# Folds the rows of sliding windows. The rows of a window begin with those of the window from which it was copied.


@dataclass(frozen=True)
class FoldedWindows:
    """The new aggregates of windows.

    `window`: the changed windows, ascending. `group`: for each update, the place of its window in `window`. `values`:
    results by aggregate, one for each update or one for each changed window. `states`, `timestamp`: for each changed
    window, the hidden columns and the timestamp (ms) of its row at the end.
    """

    window: Int64s
    group: Int64s
    values: dict[str, pa.Array]
    states: dict[str, pa.Array]
    timestamp: Int64s


def fold_windows(aggs: Sequence[Agg], rows: Rows, found: Updates, stored: Columns, each: bool) -> FoldedWindows:
    """Fold rows into their windows. `stored`: the hidden columns of the stored windows.

    `each`: whether there is a value for each update, or only for the last update of each window. Raises RowFailedError.
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
    return FoldedWindows(window, group, {agg.name: values[agg.name] for agg in aggs}, states, found.timestamp[last])


@dataclass(frozen=True)
class _Fold:
    """The contents of all windows as rows for `Groups`, in the order of processing.

    `row`: the input row of each fold row. `groups`: groups the fold rows by window; empty windows have no group.
    `base`: for each group, the stored window that it starts from, -1 for none. `bare`: stored windows that were copied
    without a new row; their values follow those of all fold rows. `place`: the fold row of each entry of
    `found.contents`. `begin`: for each window, where its contents begin.

    Example: the first example of `find_in_order`: records at times 20, 25 and 40, difference 10.

        found.contents   [1, 0, 0, 1, 2]   the rows of windows 0, 1, 2 (two rows) and 3
        row              [0, 0, 1, 1, 2]   the same, sorted by row
        groups.code      [1, 2, 0, 2, 3]   the window of each
        place            [2, 0, 1, 3, 4]   contents -> fold row
        begin            [0, 1, 2, 4]      by window
        updates()        [0, 2, 3, 4]      the fold row after each update
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
        """The fold rows of windows. `each`: whether there is a value for each row."""
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
        """For each update, the index of its value among the fold rows, followed by `bare`."""
        found = self.found
        added = found.size > 0
        at = len(self.row) + np.searchsorted(self.bare, found.base[found.window])
        at[added] = self.place[(self.begin[found.window] + found.size - 1)[added]]
        return at

    def groups_of(self, window: Int64s) -> Int64s:
        """For each of these windows, the index of its last state among the groups, followed by `bare`."""
        sizes = np.diff(self.found.ends, prepend=0)
        number = np.cumsum(sizes > 0) - 1
        behind = self.groups.count + np.searchsorted(self.bare, self.found.base[window])
        return np.where(sizes[window] > 0, number[window], behind)


def changed_windows(found: Updates) -> tuple[Int64s, Int64s]:
    """(The updated windows, ascending; for each update, the place of its window among them).

    Example: updates of windows 4, 1 and 4 give ([1, 4], [1, 0, 1]).
    """
    changed = np.zeros(len(found.key), np.bool_)
    changed[found.window] = True
    return np.flatnonzero(changed), (np.cumsum(changed) - 1)[found.window]


def _of_bases(column: pa.Array, base: Int64s) -> pa.Array:
    """The values of a column of the stored windows at `base`. Null for -1.

    Example: column ["s", "t"] and base [1, -1, 0] give ["t", None, "s"].
    """
    return column.take(pa.array(base, mask=base < 0))


# Finds the sliding windows of records: the windows that each record creates and updates, and what they are copied from.
#
# Each record has a left window, which ends at its time. It has a right window, which starts 1 ms later, if that window
# contains a record. A new window starts with the aggregate of another window, so it lacks the records that were late
# for that one. Nothing is aggregated here.
#
# In the usual case, the records of a key come in time order and none is late. Such keys are processed all at once. The
# records of other keys are processed one by one.


def find(
    code: Int64s, timestamps: Int64s, stored: StoredWindows, window: SlidingWindow, retention: int, clock: int
) -> Updates:
    """The updates of records. `code`: the number of each record's key. `timestamps`: ms, in the order of processing.

    `clock`: the step's clock before them, ms. `retention`: a window is found if its start is later than the latest
    start in the store - retention, ms.

    Example: difference 10, no stored windows. Keys and times are A 20, B 30, A 25, B 28. Key A is in time order, key B
    is not.

        row      [0, 1, 2, 2, 3, 3, 3]
        window   [1, 3, 0, 2, 3, 4, 5]
        size     [1, 1, 1, 2, 2, 1, 1]        records in the window, after the update
        key      [0, 0, 0, 1, 1, 1]           by window
        start    [21, 10, 15, 20, 18, 29]     by window: [20, 30] of B contains 30 and 28, [18, 28] contains 28
    """
    records, rules = Records.of(code, timestamps, clock), Rules(window.difference_ms, window.grace_ms, retention)
    usual = keys_in_order(records, stored, rules)
    parts = [find_in_order(records, usual, stored, rules)]
    if not usual.all():
        first_new = max(len(stored.code), int(parts[0].number.max(initial=-1)) + 1)
        latest = latest_before(parts[0], len(code), stored.latest)
        parts.append(find_one_by_one(records, ~usual, stored, rules, latest, first_new))
    return joined(records, stored, clock, parts)


# A table of sliding windows: a record belongs to all windows of its key that contain its time.
#
# `find` determines the windows, and a `SlidingFold` their rows. `SlidingTable` reads and writes the store.


SlidingFold = Callable[[Rows, Updates, Columns, bool], FoldedWindows]
"""Folds records into the rows of their windows: `fold_windows` without its first argument. Raises RowFailedError."""


@dataclass(frozen=True)
class SlidingTable:
    """Folds by key and sliding window. `emit`, `old`: see `Aggregate`.

    Records with a null key or null value are dropped and counted by `step`. For a late record, each closed window is
    counted. A row's timestamp is the greatest timestamp of its records.
    """

    store: Store
    fold: SlidingFold
    emit: Emit
    old: bool
    step: str

    def run(self, came: Rows, epoch: TaskEpoch) -> Rows:
        """The changes of the table. `came`: the input rows. Raises RowFailedError."""
        window, kept = self.store.window, self.store.kept_ms
        assert isinstance(window, SlidingWindow)
        assert kept is not None
        rows = self._usable(came, epoch)
        code, _, encoded = sorted_groups_by([*rows.keys.values()])
        keys = bytes_of(encoded)
        clock = epoch.clock(self.store.name)
        store = SessionStore(epoch.store(self.store), window_segment_length(window))
        latest = epoch.clock(self._latest)
        there = store.find(
            keys, _first_ends(code, len(keys), rows.timestamp, window, clock), clock + window.difference_ms
        )
        stored = StoredRows.of(stored_columns(self.store), there.row)
        with timed("windows"):
            known = StoredWindows(there.code, there.start, stored.timestamp, latest)
            found = find(code, rows.timestamp, known, window, kept, clock)
        epoch.advance(self.store.name, found.clock)
        epoch.advance(self._latest, found.latest)
        epoch.let_pass(self.store.name)
        epoch.let_pass(self._latest, window.difference_ms)
        epoch.drop(self.step, "late", found.late)
        with timed("fold"):
            each = self.emit == "each_update"
            folded = self.fold(rows, found, stored.columns, each)
        if not travels(self.store):
            store.change(keys, self._changed(found, folded))
        return hide_state(self._changes(rows, found, folded, there, stored))

    @property
    def _latest(self) -> str:
        """The name of the clock with the greatest start of a window, ms.

        Windows expire by this clock, not by stream time. The left window of a record at t starts at t - difference.
        """
        return f"{self.store.name}.latest"

    def _usable(self, rows: Rows, epoch: TaskEpoch) -> Rows:
        null = null_keys(list(rows.keys.values()), len(rows))
        empty = rows.kind == Kind.TOMBSTONE
        epoch.drop(self.step, "null_key", int(null.sum()))
        epoch.drop(self.step, "null_value", int((empty & ~null).sum()))
        return rows.filter(~null & ~empty)

    def _changed(self, found: Updates, folded: FoldedWindows) -> Sessions:
        """The changed windows, as the store takes them."""
        window = folded.window
        codec = RowCodec(stored_columns(self.store))
        encoded = codec.encode([folded.states[name] for name in codec.types], folded.timestamp)
        start = found.start[window]
        assert isinstance(self.store.window, SlidingWindow)
        return Sessions(found.key[window], start, start + self.store.window.difference_ms, encoded)

    def _changes(self, rows: Rows, found: Updates, folded: FoldedWindows, there: Sessions, stored: StoredRows) -> Rows:
        """The changes of the table, in the order of records and of their updates."""
        assert isinstance(self.store.window, SlidingWindow)
        window = folded.window
        exists = window < len(there.start)
        groups = Groups(folded.group, len(window), self.emit == "each_update", exists)
        values = dict(folded.values)
        if travels(self.store):
            values[STATE] = state_at_points(self.store, groups, folded.states, folded.timestamp)
        chosen = slice(None) if groups.each else groups.last
        after = Versions(values, found.timestamp[chosen], np.ones(groups.points, np.bool_))
        before = self._before(np.where(exists, window, -1), stored)
        row, start, place = found.row[chosen], found.start[found.window[chosen]], places_in_runs(found.row)[chosen]
        end = start + self.store.window.difference_ms
        times = {"window_start": window_column(start), "window_end": window_column(end)}
        context = rows.bare().take(row).deeper(place).with_columns(taken(rows.keys, row) | times)
        return changes(groups, context, before, after, self.old)

    def _before(self, place: Int64s, stored: StoredRows) -> Versions:
        """The rows of windows at the start of the epoch. `place`: among the stored windows, -1 for new windows."""
        exists = place >= 0
        times = np.where(exists, stored.timestamp[np.maximum(place, 0)], -1) if len(stored.timestamp) else place
        values = stored_values(self.store, stored.columns) if self.old else {}
        return Versions(taken(values, place, ~exists), times, exists)


def _first_ends(code: Int64s, keys: int, timestamps: Int64s, window: SlidingWindow, clock: int) -> Int64s:
    """For each key, the earliest end (ms) of stored windows that its records may need. Earlier records are late.

    Example: difference 10, grace 100, clock 100.

        code         [0, 1, 0]
        timestamps   [50, 90, 40]
        result       [30, 80]       the first timestamp of the key - 10
    """
    first = np.full(keys, np.iinfo(np.int64).max)
    np.minimum.at(first, code, timestamps)
    earliest = clock - window.grace_ms - window.difference_ms
    ends: Int64s = np.maximum(np.maximum(first, earliest) - window.difference_ms, 0)
    return ends


# The operator of the `aggregate` step after a sliding window.


def aggregate_sliding(node: AggregateSliding, edges: Edges, epoch: TaskEpoch) -> None:
    """Run the operator `AggregateSliding`. Raises RowFailedError, SumOverflowError."""
    fold = partial(fold_windows, node.store.aggregates)
    table = SlidingTable(node.store, fold, node.emit, node.old, step_name(node))
    edges[node.flow] = table.run(edges[node.flow], epoch)
