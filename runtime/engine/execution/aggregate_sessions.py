"""Aggregation in session windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from ...ir.topology import Agg, Store
from ...ir.windows import SessionWindow
from ...records.arrays import Bools, Int64s
from ...records.window_keys import window_segment_length
from ...state.codec import RowCodec
from ...timed_parts import timed
from ..operators.aggregations import AggregateSessions
from ..operators.operator import Emit
from .aggregate import STATE, encoded_state, hide_state, stored_values, travels
from .aggregates.picks import with_order
from .aggregates.registry import aggregate, kept_aggregates, own_state
from .aggregates.sums import SumOverflowError
from .keyed.groups import Groups, bytes_of, group_by, sorted_groups_by, window_column
from .keyed.session_store import Sessions, SessionStore
from .keyed.stored_rows import Versions, changes, stored_columns
from .node import Edges, RowFailedError, TaskEpoch, step_name
from .rows import Rows, null_keys, taken
from .session_merging import Merged, Records, merge

# Folds records into sessions, and merges the states of sessions that a record joins.

Columns = Mapping[str, pa.Array]


@dataclass(frozen=True)
class FoldedSessions:
    """The results of a fold. For chains see `Merged`.

    `values`: result columns, by aggregate. `point`: for each row, the index of its session's result in `values`; -1 for
    a late row. `states`: state columns: of the stored sessions, then at the ends of the chains. `chain_end`: for each
    chain, the index of its state in `states`.
    """

    values: dict[str, pa.Array]
    point: Int64s
    states: dict[str, pa.Array]
    chain_end: Int64s


def fold_sessions(
    aggs: Sequence[Agg], rows: Rows, merged: Merged, stored: Columns, order: Int64s, each: bool
) -> FoldedSessions:
    """Fold rows into their sessions, level by level: a chain needs the end states of the chains on lower levels.

    `stored`: state columns of the stored sessions. `order`: a number for each row, which ascends over all epochs.
    `each`: True for a result at each row, False for one at the last row of each chain. Raises RowFailedError.
    """
    kept = kept_aggregates(aggs)
    fold = _Fold(rows, merged, order, each)
    count = len(next(iter(stored.values()))) if stored else 0
    chain_end = fold.chain_ends(count)
    values, states = {}, dict[str, pa.Array]()
    for agg in kept:
        own = own_state(agg, stored, merges=True)
        values[agg.name], ends = fold.aggregate(agg, own, chain_end)
        states |= {f"{agg.name}.{suffix}": column for suffix, column in ends.items()}
    return FoldedSessions({agg.name: values[agg.name] for agg in aggs}, fold.points(), states, chain_end)


@dataclass(frozen=True)
class _Level:
    """The chains of one level. `rows`: their rows, in order. `place`: for each row, the index of its chain in `chains`.

    `one`: (index in `chains`, version) of chains that continue one session. `several`: the same of chains that merge
    more than one session, with an entry for each session.
    """

    chains: Int64s
    rows: Int64s
    place: Int64s
    one: tuple[Int64s, Int64s]
    several: tuple[Int64s, Int64s]


@dataclass
class _Fold:
    """A fold of rows into sessions, level by level. For the fields see `fold_sessions`. `levels`: from 0."""

    rows: Rows
    merged: Merged
    order: Int64s
    each: bool
    levels: list[_Level] = field(init=False)

    def __post_init__(self) -> None:
        merged = self.merged
        accepted = np.flatnonzero(~merged.late)
        level_of_row = merged.level[merged.chain[accepted]]
        chain, version = merged.made_of
        alone = np.bincount(chain, minlength=len(merged.level))[chain] == 1
        self.levels = []
        for level in range(int(merged.level.max(initial=-1)) + 1):
            chains = np.flatnonzero(merged.level == level)
            place = np.full(len(merged.level), -1)
            place[chains] = np.arange(len(chains))
            rows = accepted[level_of_row == level]
            here = place[chain] >= 0
            pairs = [(place[chain[which]], version[which]) for which in (here & alone, here & ~alone)]
            self.levels.append(_Level(chains, rows, place[merged.chain[rows]], pairs[0], pairs[1]))

    def chain_ends(self, stored: int) -> Int64s:
        """For each chain, the index of its end state, behind the states of the `stored` sessions (a count)."""
        chain_end = np.full(len(self.merged.level), -1)
        begun = stored + np.cumsum([0, *(len(level.chains) for level in self.levels)])
        for level, start in zip(self.levels, begun, strict=False):
            chain_end[level.chains] = start + np.arange(len(level.chains))
        return chain_end

    def points(self) -> Int64s:
        """For each row, the index of its session's result in the values; -1 for a late row."""
        point = np.full(len(self.rows), -1)
        done = 0
        for level in self.levels:
            point[level.rows] = done + (np.arange(len(level.rows)) if self.each else level.place)
            done += len(level.rows) if self.each else len(level.chains)
        return point

    def aggregate(self, agg: Agg, stored: Columns, chain_end: Int64s) -> tuple[pa.Array, dict[str, pa.Array]]:
        """(The results of one aggregate, its state columns). `stored`: its state columns of the stored sessions."""
        function = aggregate(agg, merges=True)
        argument = None if agg.column is None else self.rows.columns[agg.column]
        if argument is not None and function.by_order:
            argument = with_order(argument, self.order)
        states = {suffix: [stored[suffix].cast(kind)] for suffix, kind in function.state.items()}
        values = [pa.nulls(0, function.type)]
        for level in self.levels:
            known = {suffix: pa.concat_arrays(parts) for suffix, parts in states.items()}
            start, exists = self._start(agg, level, known, chain_end)
            groups = Groups(level.place, len(level.chains), self.each, exists)
            rows = pa.array(level.rows)
            try:
                of_level, ends = function.fold(groups, start, None if argument is None else argument.take(rows))
            except SumOverflowError as error:
                raise self._failed(error, level.rows) from error
            values.append(of_level)
            for suffix, column in ends.items():
                states[suffix].append(column)
        return pa.concat_arrays(values), {suffix: pa.concat_arrays(parts) for suffix, parts in states.items()}

    def _start(self, agg: Agg, level: _Level, known: Columns, chain_end: Int64s) -> tuple[Columns, Bools]:
        """(State columns at the start of each chain of a level, whether the chain has such a state).

        `known`: state columns of the stored sessions and of the chains on lower levels.
        """
        function = aggregate(agg, merges=True)
        index = np.full(len(level.chains), -1)
        place, version = level.one
        index[place] = self._state_of(version, chain_end)
        place, version = level.several
        # Number the chains that merge several sessions. Their merged states are appended to the known ones.
        joined, code = np.unique(place, return_inverse=True)
        parts = {suffix: column.take(pa.array(self._state_of(version, chain_end))) for suffix, column in known.items()}
        try:
            made = function.merge(Groups(code, len(joined), False, np.zeros(len(joined), np.bool_)), parts)
        except SumOverflowError as error:
            first = np.full(len(level.chains), -1)
            first[level.place[::-1]] = level.rows[::-1]
            raise self._failed(error, first[place]) from error
        count = len(next(iter(known.values())))
        index[joined] = count + np.arange(len(joined))
        places = pa.array(index, mask=index < 0)
        start = {
            suffix: pa.concat_arrays([column, made[suffix].cast(column.type)]).take(places)
            for suffix, column in known.items()
        }
        return start, index >= 0

    def _state_of(self, version: Int64s, chain_end: Int64s) -> Int64s:
        """The indexes of the states of versions. A version that goes into another chain is the end of its own chain."""
        stored = version < 0
        return np.where(stored, -1 - version, chain_end[self.merged.chain[np.where(stored, 0, version)]])

    def _failed(self, error: SumOverflowError, rows: Int64s) -> Exception:
        return error if error.row is None else RowFailedError(int(self.rows.order[rows[error.row]]), error)


# A table of sessions: one row for each session, with any kind of fold.
#
# A record that extends a session deletes the row with the old bounds, and inserts a row with the new bounds. The rules
# are Kafka Streams' (`KStreamSessionWindowAggregate`).

_ROWS_BITS = 26
"""The low bits of a row's order hold its index; the high bits the length of the changelog before the epoch."""


SessionFold = Callable[[Rows, Merged, Columns, Int64s, bool], FoldedSessions]
"""Folds records into the rows of their sessions: `fold_sessions` without its first argument. Raises RowFailedError."""


@dataclass(frozen=True)
class SessionTable:
    """Folds by key and session. `emit`, `old`: see `Aggregate`. `headers`: whether changes keep those of their records.

    Records with a null key, or of a closed session, are dropped and counted by `step`. Null values are folded. The
    timestamp of a row is the end of its session.
    """

    store: Store
    fold: SessionFold
    emit: Emit
    old: bool
    step: str
    headers: bool = False

    def run(self, came: Rows, epoch: TaskEpoch) -> Rows:
        """The changes of the table. `came`: the records. Raises RowFailedError."""
        window, kept = self.store.window, self.store.kept_ms
        assert isinstance(window, SessionWindow)
        assert kept is not None
        null = null_keys(list(came.keys.values()), len(came))
        epoch.drop(self.step, "null_key", int(null.sum()))
        rows = came.filter(~null)
        if not self.headers:
            rows = replace(rows, headers=None)
        code, _, encoded = sorted_groups_by([*rows.keys.values()])
        keys = bytes_of(encoded)
        clock = epoch.clock(self.store.name)
        records = Records.of(code, len(keys), rows.timestamp, clock)
        opened = epoch.store(self.store)
        store = SessionStore(opened, window_segment_length(window))
        found = store.find(keys, _first_ends(records, window.gap_ms, clock - kept), clock)
        with timed("sessions"):
            merged = merge(records, found, window, kept)
        epoch.advance(self.store.name, int(records.clock.max(initial=clock)))
        epoch.let_pass(self.store.name)
        epoch.drop(self.step, "late", int(merged.late.sum()))
        codec = RowCodec(stored_columns(self.store))
        stored = dict(zip(codec.types, codec.decode(found.row)[0], strict=True))
        order = (opened.position << _ROWS_BITS) + np.arange(len(rows))
        each = self.emit == "each_update"
        with timed("fold"):
            folded = self.fold(rows, merged, stored, order, each)
        if not travels(self.store):
            store.change(keys, _changed(code, found, merged, folded, codec))
        return hide_state(self._changes(rows, code, found, merged, folded, stored))

    def _changes(
        self,
        rows: Rows,
        code: Int64s,
        found: Sessions,
        merged: Merged,
        folded: FoldedSessions,
        stored: Mapping[str, pa.Array],
    ) -> Rows:
        """The changes of the table: deletions of merged or extended sessions, and the rows that replace them."""
        row, place, version, exists = _events(merged)
        start, end = (
            _of_versions(version, *bounds) for bounds in ((merged.start, found.start), (merged.end, found.end))
        )
        # A group is a key and the bounds of a session. Stored sessions are numbered with them, to find the row before.
        of_key = np.concatenate([found.code, code[row]])
        bounds = [np.concatenate([found.start, start]), np.concatenate([found.end, end])]
        every, _ = group_by([pa.array(each) for each in (of_key, *bounds)])
        present, group = np.unique(every[len(found.code) :], return_inverse=True)
        before = np.full(int(every.max(initial=-1)) + 1, -1)
        before[every[: len(found.code)]] = np.arange(len(found.code))
        before = before[present]
        groups = Groups(group, len(present), self.emit == "each_update", before >= 0)
        values = dict(folded.values)
        if travels(self.store):
            values[STATE] = self._states(merged, folded)
        points = np.where(exists, folded.point[np.where(exists, version, 0)], -1)
        chosen = slice(None) if groups.each else groups.last
        after = _versions(values, points[chosen], end[chosen], exists[chosen])
        was = self._before(before, found, stored)
        context = rows.bare().take(row)
        if place.any():
            context = context.deeper(place)
        key = taken(rows.keys, row)
        times = {"window_start": window_column(start), "window_end": window_column(end)}
        context = context.with_columns(key | times)
        if not groups.each:
            context = context.take(groups.last)
        return changes(groups, context, was, after, self.old)

    def _before(self, before: Int64s, found: Sessions, stored: Mapping[str, pa.Array]) -> Versions:
        exists = before >= 0
        times = np.where(exists, found.end[np.maximum(before, 0)], -1) if len(found.end) else np.full(len(before), -1)
        if not self.old:
            return Versions({}, times, exists)
        return _versions(stored_values(self.store, stored), before, times, exists)

    def _states(self, merged: Merged, folded: FoldedSessions) -> pa.Array:
        """The encoded state at the end of each chain, at its index in the values; null at the others."""
        last = np.full(len(merged.level), -1)
        accepted = np.flatnonzero(~merged.late)
        last[merged.chain[accepted]] = accepted
        encoded = encoded_state(self.store, taken(folded.states, folded.chain_end), merged.end[last])
        points = len(next(iter(folded.values.values())))
        place = np.full(points, -1)
        place[folded.point[last]] = np.arange(len(last))
        return encoded.take(pa.array(place, mask=place < 0))


def _first_ends(records: Records, gap: int, hidden: int) -> Int64s:
    """For each key, the earliest end (ms) of sessions that its records can touch. Ends up to `hidden` have expired."""
    earliest = np.full(records.keys, np.iinfo(np.int64).max)
    np.minimum.at(earliest, records.code, records.timestamp)
    ends: Int64s = np.maximum(np.maximum(earliest - gap, hidden), 0)
    return ends


def _events(merged: Merged) -> tuple[Int64s, Int64s, Int64s, Bools]:
    """All changes of sessions, in order: (row, index in the row's changes, version, whether it exists then).

    Example: row 0 extends the stored session (version -1), row 1 begins a session, and row 2 merges both.

        removed         rows [0, 2, 2], versions [-1, 0, 1]
        _events(merged)
            row         [0, 0, 1, 2, 2, 2]
            index       [0, 1, 0, 0, 1, 2]
            version     [-1, 0, 1, 0, 1, 2]
            exists      [False, True, True, False, False, True]
    """
    by_row, version = merged.removed
    accepted = np.flatnonzero(~merged.late)
    removed = np.bincount(by_row, minlength=len(merged.late))
    starts = np.cumsum(removed) - removed
    row = np.concatenate([by_row, accepted])
    place = np.concatenate([np.arange(len(by_row)) - starts[by_row], removed[accepted]])
    order = np.lexsort((place, row))
    exists = np.arange(len(row)) >= len(by_row)
    return row[order], place[order], np.concatenate([version, accepted])[order], exists[order]


def _of_versions(version: Int64s, of_rows: Int64s, of_stored: Int64s) -> Int64s:
    """A property of versions. `of_rows`: by row. `of_stored`: by stored session.

    Example: _of_versions([-1, 0, 1, -2], of_rows=[50, 51], of_stored=[7, 8]) is [7, 50, 51, 8].
    """
    return np.concatenate([of_stored[::-1], of_rows])[version + len(of_stored)]


def _versions(values: Mapping[str, pa.Array], points: Int64s, times: Int64s, exists: Bools) -> Versions:
    return Versions(taken(values, points, points < 0), times, exists)


def _changed(code: Int64s, found: Sessions, merged: Merged, folded: FoldedSessions, codec: RowCodec) -> Sessions:
    """The changes of the store: deletions of stored sessions, then the sessions at the end of the epoch."""
    gone = -1 - merged.replaced[merged.replaced < 0]
    there = ~merged.late
    there[merged.replaced[merged.replaced >= 0]] = False
    rows = np.flatnonzero(there)
    ends = pa.array(folded.chain_end[merged.chain[rows]])
    encoded = codec.encode([folded.states[name].take(ends) for name in codec.types], merged.end[rows])
    return Sessions(
        np.concatenate([found.code[gone], code[rows]]),
        np.concatenate([found.start[gone], merged.start[rows]]),
        np.concatenate([found.end[gone], merged.end[rows]]),
        [*([None] * len(gone)), *encoded],
    )


# The operator of the `aggregate` step in session windows.


def aggregate_sessions(node: AggregateSessions, edges: Edges, epoch: TaskEpoch) -> None:
    """See `AggregateSessions`. Raises RowFailedError, SumOverflowError."""
    fold = partial(fold_sessions, node.store.aggregates)
    table = SessionTable(node.store, fold, node.emit, node.old, step_name(node), node.headers)
    edges[node.flow] = table.run(edges[node.flow], epoch)
