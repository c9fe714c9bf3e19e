"""Aggregations in sliding windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from ....ir.topology import Agg, Store
from ....ir.windows import SlidingWindow
from ....records.arrays import Int64s
from ....records.keys import encode_keys
from ....records.session_keys import segment_length
from ....records.types import Kind
from ....state.codec import RowCodec
from ....timed_parts import timed
from ...operators.aggregations import AggregateSliding
from ...operators.operator import Emit
from ..aggregate import STATE, encoded_state, hide_state, travels
from ..aggregates.registry import Columns, aggregate, kept_aggregates, own_state, results
from ..aggregates.sums import SumOverflowError
from ..keyed.groups import Groups, by_key, bytes_of, group_by, in_groups, last_rows, window_column
from ..keyed.session_store import ChangedSessions, FoundSessions, SessionStore
from ..keyed.stored_rows import StoredRows, Versions, changes, stored_columns
from ..node import Edges, RowFailedError, TaskEpoch, step_name
from ..rows import Rows, null_keys
from .in_order import find_in_order, keys_in_order
from .one_by_one import Records, Rules, StoredWindows, Updates, find_one_by_one, joined, latest_before

# Aggregates sliding windows: folds the rows of each window, which begins with the rows of the one it was made from.


@dataclass(frozen=True)
class FoldedWindows:
    """`window`: the windows that are other ones now, ascending; `group`: the place among them of each update's window.

    `values`: results by aggregate, after each update, or of each of these windows; `states`, `timestamp`: their hidden
    columns and their rows' timestamps (ms) at the end.
    """

    window: Int64s
    group: Int64s
    values: dict[str, pa.Array]
    states: dict[str, pa.Array]
    timestamp: Int64s


def fold_windows(aggs: Sequence[Agg], rows: Rows, found: Updates, stored: Columns, each: bool) -> FoldedWindows:
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
    return FoldedWindows(window, group, {agg.name: values[agg.name] for agg in aggs}, states, found.timestamp[last])


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


# Finds the sliding windows of records: which windows each record makes and updates, and from what they are made.
#
# A key has a window that ends at each record (its left one), and one that starts right after each record (its right
# one) where that holds a record. A new window begins with what another one has aggregated so far, so it misses what
# that one refused. Nothing is aggregated here.
#
# Records of a key that come in the order of time, none of them late, are the usual case, and are done for all keys at
# once. Where a key has another record among them, its records are taken one by one.


def find(
    code: Int64s, timestamps: Int64s, stored: StoredWindows, window: SlidingWindow, retention: int, clock: int
) -> Updates:
    """What the records do. `code`: the number of each one's key. `clock`: of the step, before them.

    `retention`: how long a window is found after its start, by the latest start of the store, ms.
    """
    records, rules = Records.of(code, timestamps, clock), Rules.of(window, retention)
    usual = keys_in_order(records, stored, rules)
    parts = [find_in_order(records, usual, stored, rules)]
    if not usual.all():
        first_new = max(len(stored.code), int(parts[0].number.max(initial=-1)) + 1)
        latest = latest_before(parts[0], len(code), stored.latest)
        parts.append(find_one_by_one(records, ~usual, stored, rules, latest, first_new))
    return joined(records, stored, clock, parts)


# A table of sliding windows: a record is a part of all windows of its key that reach over it.
#
# Which windows these are, `finding` says; how their records become rows, a `SlidingFold`. Here they are read and
# written.


class SlidingFold(Protocol):
    """How the records of windows become rows. `travels`: whether another operator stores them, see `hidden_state`."""

    @property
    def travels(self) -> bool: ...  # noqa: D102

    def fold(self, rows: Rows, found: Updates, stored: Mapping[str, pa.Array], each: bool) -> FoldedWindows:
        """Fold the rows into their windows. `stored`: the columns of the stored windows; `each`: with a value for each
        update, otherwise for the last one of each window. Raises RowFailedError.
        """

    def results(self, stored: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The value columns of stored windows."""


@dataclass(frozen=True)
class SlidingTable:
    """Folds by key and sliding window. `emit`, `old`: see `Aggregate`.

    Null keys and null values are dropped and counted, by `step`; of late records each closed window that they belong
    to. A row's timestamp is the greatest of its records'.
    """

    store: Store
    fold: SlidingFold
    emit: Emit
    old: bool
    step: str

    def run(self, came: Rows, epoch: TaskEpoch) -> Rows:
        """The changes that records make. Raises RowFailedError."""
        window, kept = self.store.window, self.store.kept_ms
        assert isinstance(window, SlidingWindow)
        assert kept is not None
        rows = self._usable(came, epoch)
        code, first = group_by([*rows.keys.values()])
        distinct = encode_keys([column.take(pa.array(first)) for column in rows.keys.values()])
        code, _, ordered = by_key(code, first, distinct)
        keys = bytes_of(ordered)
        clock = epoch.clock(self.store.name)
        store = SessionStore(epoch.store(self.store), segment_length(window))
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
            folded = self.fold.fold(rows, found, stored.columns, each)
        if not self.fold.travels:
            store.change(keys, self._changed(found, folded))
        return hide_state(self._changes(rows, found, folded, there, stored))

    @property
    def _latest(self) -> str:
        """The clock of the greatest start of a window: by that, and not by time itself, windows cannot be found any
        more. Where a record is at time t, its windows start at t less the difference.
        """
        return f"{self.store.name}.latest"

    def _usable(self, rows: Rows, epoch: TaskEpoch) -> Rows:
        null = null_keys(list(rows.keys.values()), len(rows))
        empty = rows.kind == Kind.TOMBSTONE
        epoch.drop(self.step, "null_key", int(null.sum()))
        epoch.drop(self.step, "null_value", int((empty & ~null).sum()))
        return rows.filter(~null & ~empty)

    def _changed(self, found: Updates, folded: FoldedWindows) -> ChangedSessions:
        """The windows that are other ones now."""
        window = folded.window
        codec = RowCodec(stored_columns(self.store))
        encoded = codec.encode([folded.states[name] for name in codec.types], folded.timestamp)
        start = found.start[window]
        assert isinstance(self.store.window, SlidingWindow)
        return ChangedSessions(found.key[window], start, start + self.store.window.difference_ms, encoded)

    def _changes(
        self, rows: Rows, found: Updates, folded: FoldedWindows, there: FoundSessions, stored: StoredRows
    ) -> Rows:
        """The changes of the table, in the order of the records and of what each of them does."""
        assert isinstance(self.store.window, SlidingWindow)
        window = folded.window
        exists = window < len(there.start)
        groups = Groups(folded.group, len(window), self.emit == "each_update", exists)
        values = dict(folded.values)
        if self.fold.travels:
            values[STATE] = self._states(groups, folded)
        taken = slice(None) if groups.each else groups.last
        after = Versions(values, found.timestamp[taken], np.ones(groups.points, np.bool_))
        before = self._before(np.where(exists, window, -1), stored)
        place = np.arange(len(found.row)) - np.searchsorted(found.row, found.row)
        row, start, place = found.row[taken], found.start[found.window[taken]], place[taken]
        bare = replace(rows, columns={}, key=(), value=(), state=None).take(row)
        key = {name: column.take(pa.array(row)) for name, column in rows.keys.items()}
        end = start + self.store.window.difference_ms
        times = {"window_start": window_column(start), "window_end": window_column(end)}
        context = bare.deeper(place).with_columns(key | times)
        return changes(groups, context, before, after, self.old)

    def _before(self, place: Int64s, stored: StoredRows) -> Versions:
        """The rows of windows when the epoch began. `place`: in the store; -1 for those that were not there."""
        index = pa.array(np.maximum(place, 0), mask=place < 0)
        exists = place >= 0
        times = np.where(exists, stored.timestamp[np.maximum(place, 0)], -1) if len(stored.timestamp) else place
        values: Mapping[str, pa.Array] = {}
        if self.old:
            values = {name: column.take(index) for name, column in self.fold.results(stored.columns).items()}
            if self.fold.travels:
                values |= {STATE: pa.nulls(len(place), pa.binary())}
        return Versions(values, times, exists)

    def _states(self, groups: Groups, folded: FoldedWindows) -> pa.Array:
        """The state of each window, at its last update; null at others."""
        encoded = encoded_state(self.store, folded.states, folded.timestamp)
        if not groups.each:
            return encoded
        place = np.full(groups.points, -1)
        place[groups.last] = np.arange(groups.count)
        return encoded.take(pa.array(np.maximum(place, 0), mask=place < 0))


def _first_ends(code: Int64s, keys: int, timestamps: Int64s, window: SlidingWindow, clock: int) -> Int64s:
    """The earliest end (ms) of windows that matter to the records of each key. Earlier records are late."""
    first = np.full(keys, np.iinfo(np.int64).max)
    np.minimum.at(first, code, timestamps)
    earliest = clock - window.grace_ms - window.difference_ms
    ends: Int64s = np.maximum(np.maximum(first, earliest) - window.difference_ms, 0)
    return ends


# The operator of the `aggregate` step behind a sliding window.


def aggregate_sliding(node: AggregateSliding, edges: Edges, epoch: TaskEpoch) -> None:
    """See `AggregateSliding`. Raises RowFailedError, SumOverflowError."""
    table = SlidingTable(node.store, _Aggregates(node.store), node.emit, node.old, step_name(node))
    edges[node.flow] = table.run(edges[node.flow], epoch)


@dataclass(frozen=True)
class _Aggregates:
    """A SlidingFold by the aggregates of a store."""

    store: Store

    @property
    def travels(self) -> bool:
        """Whether expressions over aggregates follow."""
        return travels(self.store)

    def fold(self, rows: Rows, found: Updates, stored: Mapping[str, pa.Array], each: bool) -> FoldedWindows:
        """See `SlidingFold`. Raises SumOverflowError too."""
        return fold_windows(self.store.aggregates, rows, found, stored, each)

    def results(self, stored: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """See `SlidingFold`."""
        return results(self.store.aggregates, stored)
