"""Aggregations, also in windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ...ir import declarations
from ...ir.topology import Store
from ...ir.windows import SessionWindow, SlidingWindow
from ...records.arrays import Bools, Int64s
from ...records.session_keys import segment_length, split_sessions
from ...records.types import Kind
from ...records.window_keys import split_window_keys, window_keys
from ...state.codec import RowCodec
from ...timed_parts import timed
from .aggregates.picks import stored_counts
from .aggregates.registry import aggregate, kept_aggregates, own_state, results, row_count
from .aggregates.sums import SumOverflowError
from .keyed.groups import LOWEST, Groups, bytes_of, grouped, usable
from .keyed.session_store import SessionStore
from .keyed.stored_rows import (
    RowStore,
    StoredRows,
    Versions,
    at_points,
    changes,
    hidden_columns,
    session_keys,
    store_keys,
    stored_columns,
    without_halves,
)
from .node import Edges, EpochStore, RowFailedError, TaskEpoch, step_name
from .rows import Rows, is_old

# The rows of a table that keys of records mean, however its store lays them out.

_NO_KEY = bytes(17)
"""In place of a null key, which has no bytes, while stores have no empty key. It is as long as one with two times."""


def row_keys(store: Store, key: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """Bytes that say which row a key means; null for a null key."""
    if store.type != "session":
        return store_keys(store, key)
    plain, starts, ends = session_keys(key)
    return window_keys(starts, window_keys(ends, plain))


def look_up(store: Store, opened: EpochStore, keys: pa.BinaryArray) -> StoredRows:
    """The rows of keys (`row_keys`). What a null key gets has no meaning."""
    known = [key or _NO_KEY for key in keys.to_pylist()]
    types = stored_columns(store)
    match store.window:
        case SessionWindow():
            starts, ends, plain = split_sessions(known)
        case SlidingWindow():
            starts, plain = split_window_keys(known)
            ends = starts + store.window.difference_ms
        case _:
            return RowStore(opened, types).get(known)
    return StoredRows.of(types, SessionStore(opened, segment_length(store.window)).rows(plain, starts, ends))


# The hidden state of aggregates on its way from the operator that computes it to the one that stores it.
#
# Where expressions over aggregates follow an aggregate, `Materialize` stores both. Until then the state of a row
# travels with its last change, encoded, in `Rows.state`.

STATE = "_state"
"""The column with encoded hidden state on its way to `Rows.state`."""


def travels(store: Store) -> bool:
    """Whether expressions over aggregates follow, so that `Materialize` writes the store."""
    return len(stored_columns(store)) > len(hidden_columns(store))


def encoded_state(store: Store, states: Mapping[str, pa.Array], timestamps: Int64s) -> pa.Array:
    """The states as bytes."""
    types = hidden_columns(store)
    return pa.array(RowCodec(types).encode([states[name] for name in types], timestamps), pa.binary())


def decoded_state(store: Store, encoded: Sequence[bytes | None]) -> dict[str, pa.Array]:
    """The states that were encoded; null where there is none."""
    codec = RowCodec(hidden_columns(store))
    return dict(zip(codec.types, codec.decode(encoded)[0], strict=True))


def hide_state(rows: Rows) -> Rows:
    """Move encoded state out of the columns, as SQL does not need it."""
    values = rows.values
    if STATE not in values:
        return rows
    state = values.pop(STATE)
    return replace(rows.with_columns(None, values), state=state)


# The operator of the `aggregate` step: the rows of one key (and window) become one row of a table.


@dataclass(frozen=True)
class Aggregate(declarations.Aggregate):
    """Aggregates by key, and by window if `store.window` is set. The aggregates are in `store.aggregates`.

    `of`: a stream, or a table that was re-grouped. Then OLD rows are subtracted, and all aggregates must support that.
    `emit`: every update, or one change for each key and epoch. `old`: with the replaced rows.

    | | null key | null value | late |
    |---|---|---|---|
    | stream | dropped, counted | dropped, counted | - |
    | stream, windows | dropped, counted | aggregated | counted for each closed window |

    A row's timestamp is the greatest of its records'. If the store has value columns that are no aggregates,
    expressions over aggregates follow. Then the state of each key travels with its last change (`Rows.state`), and
    `Materialize` stores both.
    """

    def __post_init__(self) -> None:
        if self.of == "table" and row_count(self.store.aggregates) is None:
            raise ValueError(f"store {self.store.name} has an aggregate that cannot take back rows of a table")

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises SumOverflowError."""
        step, used = step_name(self), {agg.column for agg in self.store.aggregates}
        by_group = grouped(usable(edges[self.flow], self.store, step, epoch), self.store, used, step, epoch)
        rows, keys = by_group.rows, bytes_of(by_group.keys)
        store = RowStore(epoch.store(self.store), self._types)
        # One read for all keys of the epoch, in the order of the store.
        stored = store.get(keys)
        sign = np.where(is_old(rows.kind), -1, 1).astype(np.int8) if self.of == "table" else None
        groups = Groups(by_group.code, len(keys), self.emit == "each_update", stored.exists, sign)
        with timed("fold"):
            after, ends = self._fold(groups, rows, stored)
        exists = groups.ends(after.exists)
        if not travels(self.store):
            store.put(keys, ends, groups.ends(after.timestamp), exists, stored.exists)
        before = Versions(self._before(stored) if self.old else {}, stored.timestamp, stored.exists)
        context = at_points(groups, rows, by_group.columns)
        groups, context, after = without_halves(groups, context, rows.kind, after)
        edges[self.flow] = hide_state(changes(groups, context, before, after, self.old))

    @property
    def _types(self) -> dict[str, pa.DataType]:
        return stored_columns(self.store)

    def _fold(self, groups: Groups, rows: Rows, stored: StoredRows) -> tuple[Versions, dict[str, pa.Array]]:
        """The groups' rows at the points, and their hidden state at the end."""
        values: dict[str, pa.Array] = {}
        ends: dict[str, pa.Array] = {}
        for agg in kept_aggregates(self.store.aggregates):
            argument = None if agg.column is None else rows.columns[agg.column]
            try:
                values[agg.name], state = aggregate(agg).fold(groups, own_state(agg, stored.columns), argument)
            except SumOverflowError as error:
                raise error if error.row is None else RowFailedError(int(rows.order[error.row]), error) from error
            ends |= {f"{agg.name}.{suffix}": column for suffix, column in state.items()}
        times, exists = self._times(groups, rows, stored)
        versions = Versions({agg.name: values[agg.name] for agg in self.store.aggregates}, times, exists)
        if travels(self.store):
            return self._with_state(groups, versions, ends), ends
        return versions, ends

    def _with_state(self, groups: Groups, versions: Versions, ends: Mapping[str, pa.Array]) -> Versions:
        times = groups.ends(versions.timestamp)
        state = encoded_state(self.store, ends, times)
        if groups.each:
            # Only the last point of a group is stored, so the other points carry no state through the pipe.
            index = np.zeros(groups.points, np.int64)
            index[groups.last] = np.arange(groups.count)
            absent = np.ones(groups.points, np.bool_)
            absent[groups.last] = False
            state = state.take(pa.array(index, mask=absent))
        return Versions({**versions.values, STATE: state}, versions.timestamp, versions.exists)

    def _times(self, groups: Groups, rows: Rows, stored: StoredRows) -> tuple[Int64s, Bools]:
        """Timestamp and existence of the groups' rows at the points."""
        # A missing row has the timestamp -1, which must not win against a record's.
        start = np.where(stored.exists, stored.timestamp, LOWEST)
        counter = row_count(self.store.aggregates)
        if groups.sign is None or counter is None:
            return groups.maxima(start, rows.timestamp), np.ones(groups.points, np.bool_)
        by_row = Groups(groups.code, groups.count, True, groups.exists, groups.sign)
        before = stored_counts(own_state(counter, stored.columns))
        counts = by_row.counts(before, np.ones(len(rows), np.bool_))
        gone = (counts == 0) & (rows.kind != Kind.OLD_SAME_GROUP)
        # A group that was deleted starts again: its next row does not depend on earlier timestamps.
        life, lives = by_row.split_after(gone)
        starts = np.concatenate([start, np.full(lives - groups.count, LOWEST)])
        times = Groups(life, lives, True, groups.exists).maxima(starts, rows.timestamp)
        return (times, ~gone) if groups.each else (times[groups.last], ~gone[groups.last])

    def _before(self, stored: StoredRows) -> dict[str, pa.Array]:
        carried = {STATE: pa.nulls(len(stored.exists), pa.binary())} if travels(self.store) else {}
        return results(self.store.aggregates, stored.columns) | carried
