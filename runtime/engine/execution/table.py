"""Operators that store the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from ...ir.topology import Store
from ...records.arrays import Bools, Int64s, cast_to
from ...records.types import Kind
from ...records.window_keys import has_segments, row_step
from ...state.codec import RowCodec
from ..operators.tables import Materialize, Table
from .aggregate import decoded_state, row_keys
from .keyed.groups import Groups, bytes_of, group_codes, last_rows, sorted_groups
from .keyed.session_store import Sessions, SessionStore
from .keyed.stored_rows import RowStore, Versions, at_points, changes, session_keys, store_keys, stored_columns
from .node import Edges, TaskEpoch, step_name
from .rows import Rows, null_keys, taken

# The operator of a table: stores the last row of each key.


def keep_rows(table: Table, edges: Edges, epoch: TaskEpoch) -> None:
    """See `Table`."""
    rows = edges[table.flow]
    null = null_keys(list(rows.keys.values()), len(rows))
    epoch.drop(step_name(table), "null_key", int(null.sum()))
    rows = rows.filter(~null)
    code, first, keys = sorted_groups(store_keys(table.store, rows.keys))
    encoded = bytes_of(keys)
    types = stored_columns(table.store)
    store = RowStore(epoch.store(table.store), types)
    stored = store.get(encoded)
    have = rows.values
    values = {name: cast_to(have[name], data_type) for name, data_type in types.items()}
    groups = Groups(code, len(first), table.emit == "each_update", stored.exists)
    exists = rows.kind == Kind.VALUE
    last = groups.last
    final = taken(values, last)
    store.put(encoded, final, rows.timestamp[last], exists[last], stored.exists)
    before = Versions(stored.columns, stored.timestamp, stored.exists)
    after = (
        Versions(values, rows.timestamp, exists) if groups.each else Versions(final, rows.timestamp[last], exists[last])
    )
    context = at_points(groups, rows, taken(rows.keys, first))
    edges[table.flow] = changes(groups, context, before, after, table.old)


# Stores the rows of a table computed by SQL: expressions over aggregates, filtered or projected tables.


def materialize(node: Materialize, edges: Edges, epoch: TaskEpoch) -> None:
    """See `Materialize`."""
    everything = edges[node.flow]
    edges[node.flow] = replace(everything, state=None)
    rows = everything.filter(everything.kind <= Kind.VALUE)
    if node.store.is_windowed and not node.store.aggregates and len(rows):
        epoch.advance(node.store.name, int(rows.timestamp.max()))
    last = _last_changes(node.store, rows)
    rows = rows.take(last)
    columns = decoded_state(node.store, [None] * len(rows) if rows.state is None else rows.state.to_pylist())
    types = stored_columns(node.store)
    have = rows.values
    columns |= {name: cast_to(have[name], kind) for name, kind in types.items() if name not in columns}
    exists = rows.kind == Kind.VALUE
    if has_segments(node.store):
        _put_in_segments(node, rows, columns, exists, SessionStore(epoch.store(node.store), row_step(node.store)))
        return
    store = RowStore(epoch.store(node.store), types)
    store.put(store_keys(node.store, rows.keys).to_pylist(), columns, rows.timestamp, exists, ~exists)


def _put_in_segments(
    node: Materialize, rows: Rows, columns: Mapping[str, pa.Array], exists: Bools, store: SessionStore
) -> None:
    keys, starts, ends = session_keys(rows.keys)
    code, _, distinct = sorted_groups(keys)
    codec = RowCodec(stored_columns(node.store))
    encoded = codec.encode([columns[name] for name in codec.types], rows.timestamp)
    there = [row if kept else None for row, kept in zip(encoded, exists.tolist(), strict=True)]
    store.change(bytes_of(distinct), Sessions(code, starts, ends, there))


def _last_changes(store: Store, rows: Rows) -> Int64s:
    """The index of the last change of each key, or key and window."""
    code, first = group_codes(row_keys(store, rows.keys))
    return last_rows(code, len(first))
