"""Aggregation by key, or by key and time window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ...ir.topology import Store
from ...ir.windows import SessionWindow, SlidingWindow
from ...records.arrays import Bools, Int64s
from ...records.types import Kind
from ...records.window_keys import split_sessions, split_window_keys, window_keys, window_segment_length
from ...state.codec import RowCodec
from ...timed_parts import timed
from ..operators.aggregations import Aggregate
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

# Lookups of rows by key, for all layouts of stores.

_NO_KEY = bytes(17)
"""Stands for a null key, because stores have no empty key. It is as long as a key with two times."""


def row_keys(store: Store, key: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """Bytes that identify the row of each key, in any layout; null for a null key."""
    if store.type != "session":
        return store_keys(store, key)
    plain, starts, ends = session_keys(key)
    return window_keys(starts, window_keys(ends, plain))


def look_up(store: Store, opened: EpochStore, keys: pa.BinaryArray) -> StoredRows:
    """The rows of keys (`row_keys`). The row of a null key is meaningless."""
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
    return StoredRows.of(types, SessionStore(opened, window_segment_length(store.window)).rows(plain, starts, ends))


# The state of aggregates, where `Materialize` stores it instead of the aggregation.
#
# Users see results of aggregates, for example an average. The store has their state, for example a sum and a count.
# If expressions over aggregates follow an aggregation, `Materialize` stores their results with the state. Until then
# the encoded state of a row travels with its last change, in `Rows.state`.

STATE = "_state"
"""The column of encoded state, before `hide_state` moves it to `Rows.state`."""


def travels(store: Store) -> bool:
    """Whether expressions over aggregates follow, so that `Materialize` writes the store instead of the aggregation."""
    return bool(store.aggregates) and len(stored_columns(store)) > len(hidden_columns(store))


def encoded_state(store: Store, states: Mapping[str, pa.Array], timestamps: Int64s) -> pa.Array:
    """The states as one binary column. `states`: the columns of `hidden_columns`. `timestamps`: ms."""
    types = hidden_columns(store)
    return pa.array(RowCodec(types).encode([states[name] for name in types], timestamps), pa.binary())


def state_at_points(store: Store, groups: Groups, states: Mapping[str, pa.Array], timestamps: Int64s) -> pa.Array:
    """The encoded state of each group at its last point. Null at the others, because only the last row is stored."""
    state = encoded_state(store, states, timestamps)
    if not groups.each:
        return state
    index = np.full(groups.points, -1)
    index[groups.last] = np.arange(groups.count)
    return state.take(pa.array(index, mask=index < 0))


def stored_values(store: Store, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """The value columns of stored rows, with STATE if it travels. `columns`: as stored: aggregates have their state.

    Without aggregates, Python code has computed the rows, and they are stored as they are.
    """
    if not store.aggregates:
        return dict(columns)
    values = results(store.aggregates, columns, store.type == "session")
    if travels(store):
        values[STATE] = pa.nulls(len(next(iter(columns.values()))), pa.binary())
    return values


def decoded_state(store: Store, encoded: Sequence[bytes | None]) -> dict[str, pa.Array]:
    """The state columns of encoded states; null for None."""
    codec = RowCodec(hidden_columns(store))
    return dict(zip(codec.types, codec.decode(encoded)[0], strict=True))


def hide_state(rows: Rows) -> Rows:
    """Move the column STATE to `Rows.state`, because SQL does not need it."""
    values = rows.values
    if STATE not in values:
        return rows
    state = values.pop(STATE)
    return replace(rows.with_columns(None, values), state=state)


# The operator of the `aggregate` step: folds the rows of one key (and window) into one row of a table.


def aggregate_by_key(node: Aggregate, edges: Edges, epoch: TaskEpoch) -> None:
    """See `Aggregate`. Raises SumOverflowError."""
    if node.of == "table" and row_count(node.store.aggregates) is None:
        raise ValueError(f"store {node.store.name} has an aggregate that cannot take back rows of a table")
    step, used = step_name(node), {agg.column for agg in node.store.aggregates}
    by_group = grouped(usable(edges[node.flow], node.store, step, epoch), node.store, used, step, epoch)
    rows, keys = by_group.rows, bytes_of(by_group.keys)
    store = RowStore(epoch.store(node.store), stored_columns(node.store))
    # One read for all keys of the epoch, in the order of the store.
    stored = store.get(keys)
    sign = np.where(is_old(rows.kind), -1, 1).astype(np.int8) if node.of == "table" else None
    groups = Groups(by_group.code, len(keys), node.emit == "each_update", stored.exists, sign)
    with timed("fold"):
        after, ends = _fold(node, groups, rows, stored)
    exists = groups.ends(after.exists)
    if not travels(node.store):
        store.put(keys, ends, groups.ends(after.timestamp), exists, stored.exists)
    before = Versions(stored_values(node.store, stored.columns) if node.old else {}, stored.timestamp, stored.exists)
    context = at_points(groups, rows, by_group.columns)
    groups, context, after = without_halves(groups, context, rows.kind, after)
    edges[node.flow] = hide_state(changes(groups, context, before, after, node.old))


def _fold(node: Aggregate, groups: Groups, rows: Rows, stored: StoredRows) -> tuple[Versions, dict[str, pa.Array]]:
    """(The rows of the groups at the points, their state after the last row of each group)."""
    values: dict[str, pa.Array] = {}
    ends: dict[str, pa.Array] = {}
    for agg in kept_aggregates(node.store.aggregates):
        argument = None if agg.column is None else rows.columns[agg.column]
        try:
            values[agg.name], state = aggregate(agg).fold(groups, own_state(agg, stored.columns), argument)
        except SumOverflowError as error:
            raise error if error.row is None else RowFailedError(int(rows.order[error.row]), error) from error
        ends |= {f"{agg.name}.{suffix}": column for suffix, column in state.items()}
    times, exists = _times(node, groups, rows, stored)
    values = {agg.name: values[agg.name] for agg in node.store.aggregates}
    if travels(node.store):
        values[STATE] = state_at_points(node.store, groups, ends, groups.ends(times))
    return Versions(values, times, exists), ends


def _times(node: Aggregate, groups: Groups, rows: Rows, stored: StoredRows) -> tuple[Int64s, Bools]:
    """(Timestamp in ms, existence) of the groups' rows at the points. A row of a table ends when its count is 0."""
    # A missing row has the timestamp -1, which must not win against that of a record.
    start = np.where(stored.exists, stored.timestamp, LOWEST)
    counter = row_count(node.store.aggregates)
    if groups.sign is None or counter is None:
        return groups.maxima(start, rows.timestamp), np.ones(groups.points, np.bool_)
    by_row = Groups(groups.code, groups.count, True, groups.exists, groups.sign)
    before = stored_counts(own_state(counter, stored.columns))
    counts = by_row.counts(before, np.ones(len(rows), np.bool_))
    gone = (counts == 0) & (rows.kind != Kind.OLD_SAME_GROUP)
    # A deleted group starts anew: its next row does not depend on earlier timestamps.
    life, lives = by_row.split_after(gone)
    starts = np.concatenate([start, np.full(lives - groups.count, LOWEST)])
    times = Groups(life, lives, True, groups.exists).maxima(starts, rows.timestamp)
    return (times, ~gone) if groups.each else (times[groups.last], ~gone[groups.last])
