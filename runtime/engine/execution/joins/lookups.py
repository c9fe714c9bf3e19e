"""Joins of a stream with a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ....ir import declarations
from ....records.arrays import Bools, Int64s, cast_to
from ....records.keys import encode_keys
from ....records.types import Kind, parse_columns
from ....state.codec import RowCodec
from ..aggregate import look_up, row_keys
from ..keyed.groups import group_codes
from ..keyed.stored_rows import clock_at, expired, visible_columns
from ..node import Edges, TaskEpoch, step_name
from ..rows import Rows, null_keys, path_order

# When a join sees what a change of a table has come to behind other steps.
#
# Kafka Streams keeps rows where they are stored, and looks through filters, selects and joins of tables: what these
# have made of a row is another one as soon as the stored row is. Here each side of a join has a store of its own, which
# changes on the way. So what a change comes to is seen from the moment of the change on.


def as_of(rows: Rows, bases: Iterable[Rows]) -> Rows:
    """The same rows, those that come from a change of one of `bases` with the path of that change.

    `bases`: changes of tables, on edges that come before all others that are made of the table (the first of a fork).
    """
    for base in bases:
        rows = _as_of(rows, base)
    return rows


def _as_of(rows: Rows, base: Rows) -> Rows:
    if not len(rows) or not len(base):
        return rows
    # All that a change becomes has the path of the change before it was forked, and comes behind the first copy.
    forked = len(base.path) - 1
    order = path_order([base, rows])
    latest = np.maximum.accumulate(np.where(order < len(base), order, -1))
    before = np.empty(len(order), np.int64)
    before[order] = latest
    before = before[len(base) :]
    comes = before >= 0
    for mine, its in zip(rows.path[:forked], base.path[:forked], strict=True):
        comes &= mine == its[before]
    path = [
        np.where(comes, base.path[level][before] if level < len(base.path) else -1, mine)
        for level, mine in enumerate(rows.path)
    ]
    return replace(rows, path=tuple(path))


# Joins of a stream's records with rows of tables.
#
# Only the stream's records trigger output; key and time are theirs.


@dataclass(frozen=True)
class StreamTableJoin(declarations.StreamTableJoin):
    """Looks up the key in a table as it is when the record is processed.

    That is the row of `store` at the start of the epoch, with the changes on edge `table` that precede the record in
    path order, or come from changes on edges of `made_of` that do. `values`: new column -> column of the table.

    | | null value | null key |
    |---|---|---|
    | inner | dropped, counted | dropped, counted |
    | left | dropped, counted | goes on with nulls |
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        null = null_keys(list(edges[self.flow].keys.values()), len(edges[self.flow]))
        rows, null = _with_values(edges[self.flow], null, self, epoch)
        changed = edges[self.table]
        # Old rows of a table's changes say what was replaced. A lookup needs only the new ones and deletions.
        changed = as_of(changed.filter(changed.kind <= Kind.VALUE), [edges[name] for name in self.made_of])
        key = dict(zip(changed.keys, rows.keys.values(), strict=True))
        keys = pa.concat_arrays([row_keys(self.store, changed.keys), row_keys(self.store, key)])
        code, first = group_codes(keys)
        order = path_order([changed, rows])
        # `null` masks what is found for a null key.
        stored = look_up(self.store, epoch.store(self.store), keys.take(pa.array(first)))
        change = _latest(code, order, len(changed))
        # An index into the stored rows, one for each distinct key, followed by the changes of this epoch.
        index = np.where(change >= 0, change + len(first), code[len(changed) :])
        found = np.concatenate([stored.exists, changed.kind == Kind.VALUE])[index] & ~null
        if self.store.is_windowed:
            times = np.concatenate([changed.timestamp, np.full(len(rows), -1)])
            found &= ~expired(self.store, key, clock_at(self.store, order, times, epoch)[len(changed) :])
        columns = changed.values
        before = visible_columns(self.store, stored)
        values = {
            new: pa.concat_arrays([before[name], cast_to(columns[name], before[name].type)])
            for new, name in self.values.items()
        }
        edges[self.flow] = _joined(rows, values, index, found, null, self, epoch)


@dataclass(frozen=True)
class GlobalJoin(declarations.GlobalJoin):
    """Looks up any columns in a global table. `by`: key column of the table -> physical column of the flow.

    | | null value | looked-up key null |
    |---|---|---|
    | inner | dropped, counted | dropped, counted |
    | left | dropped, counted | goes on with nulls |
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        store = self.table.store
        looked_up = [
            cast_to(edges[self.flow].columns[self.by[name]], data_type)
            for name, data_type in parse_columns(store.key).items()
        ]
        null = null_keys(looked_up, len(edges[self.flow]))
        keys = encode_keys(looked_up)
        kept = edges[self.flow].kind == Kind.VALUE
        rows, null = _with_values(edges[self.flow], null, self, epoch)
        code, first = group_codes(keys.filter(pa.array(kept)))
        distinct = keys.filter(pa.array(kept)).take(pa.array(first))
        values = epoch.global_table(self.table).get_many([key or b"\x00" for key in distinct.to_pylist()])
        codec = RowCodec(parse_columns(store.value))
        columns = dict(zip(codec.types, codec.decode(values)[0], strict=True))
        found = np.fromiter((value is not None for value in values), np.bool_, len(values))[code] & ~null
        chosen = {new: columns[name] for new, name in self.values.items()}
        edges[self.flow] = _joined(rows, chosen, code, found, null, self, epoch)


def _with_values(rows: Rows, null: Bools, node: StreamTableJoin | GlobalJoin, epoch: TaskEpoch) -> tuple[Rows, Bools]:
    """The records that have a value, and which of them have a null key."""
    here = rows.kind == Kind.VALUE
    epoch.drop(step_name(node), "null_value", int((~here).sum()))
    return rows.filter(here), null[here]


def _latest(code: Int64s, order: Int64s, changes: int) -> Int64s:
    """For each record the last change of its key before it; -1 if there is none.

    `code`: keys of all changes and then all records. `order`: the permutation that sorts them by path.
    """
    if not changes:
        return np.full(len(code) - changes, -1)
    # Stable, so that within a key changes and records keep their order by path.
    by_key = order[np.argsort(code[order], kind="stable")]
    is_change = by_key < changes
    starts = np.ones(len(by_key), np.bool_)
    starts[1:] = code[by_key][1:] != code[by_key][:-1]
    places = np.arange(len(by_key))
    last_start = np.maximum.accumulate(np.where(starts, places, 0))
    last_change = np.maximum.accumulate(np.where(is_change, places, -1))
    latest = np.full(len(code), -1)
    # A last change before the start of the key is one of another key.
    latest[by_key] = np.where(last_change >= last_start, by_key[last_change], -1)
    return latest[changes:]


def _joined(
    rows: Rows,
    values: Mapping[str, pa.Array],
    index: Int64s,
    found: Bools,
    null: Bools,
    node: StreamTableJoin | GlobalJoin,
    epoch: TaskEpoch,
) -> Rows:
    """The records with the looked-up columns: the rows at `index` of `values` where `found`."""
    if node.how == "inner":
        epoch.drop(step_name(node), "null_key", int(null.sum()))
        rows, index, found = rows.filter(found), index[found], found[found]
    picked = pa.array(index, mask=~found)
    return rows.with_columns(None, rows.values | {new: column.take(picked) for new, column in values.items()})
