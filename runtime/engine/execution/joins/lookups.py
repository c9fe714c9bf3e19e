"""Stream-table joins, and joins with global tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ....records.arrays import Bools, Int64s, cast_to
from ....records.keys import encode_keys
from ....records.types import Kind, parse_columns
from ....state.codec import RowCodec
from ...operators.joins import GlobalJoin, StreamTableJoin
from ..aggregate import look_up, row_keys
from ..keyed.groups import group_codes, run_starts
from ..keyed.stored_rows import clock_at, expired, visible_columns
from ..node import Edges, TaskEpoch, step_name
from ..rows import Rows, null_keys, path_order, taken

# The moment at which a join sees a change of a derived table.
#
# In Kafka Streams a lookup reads the stored base table, and applies filters, selects and joins of tables to its rows.
# So a derived row changes at the same moment as its base row. Here each side of a join has a store of its own, and the
# change reaches it later, through other operators. `as_of` gives a derived change the path of its base change.


def as_of(rows: Rows, bases: Iterable[Rows]) -> Rows:
    """The same rows; those made of a change of one of `bases` get the path of that change.

    `bases`: changes of the stored base tables, on the first edge of each fork.

    Example: `base` has changes with the paths (1, 0) and (4, 0). The rows of a later edge of the fork have the paths
    (1, 1, 0), (4, 1, 1) and (6, 1, 0).

        as_of(rows, [base])    paths (1, 0, -1), (4, 0, -1), (6, 1, 0): the first level decides, and -1 fills levels
    """
    for base in bases:
        rows = _as_of(rows, base)
    return rows


def _as_of(rows: Rows, base: Rows) -> Rows:
    if not len(rows) or not len(base):
        return rows
    # A fork appends a level. Rows made of a change share the levels before that with it, and come behind it.
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


# Joins of stream records with rows of tables. Only stream records emit results, with their own key and time.


def join_table(join: StreamTableJoin, edges: Edges, epoch: TaskEpoch) -> None:
    """See `StreamTableJoin`."""
    null = null_keys(list(edges[join.flow].keys.values()), len(edges[join.flow]))
    rows, null = _with_values(edges[join.flow], null, join, epoch)
    changed = edges[join.table]
    # A lookup needs new rows and deletions, not the replaced rows.
    changed = as_of(changed.filter(changed.kind <= Kind.VALUE), [edges[name] for name in join.made_of])
    key = dict(zip(changed.keys, rows.keys.values(), strict=True))
    keys = pa.concat_arrays([row_keys(join.store, changed.keys), row_keys(join.store, key)])
    code, first = group_codes(keys)
    order = path_order([changed, rows])
    # A null key finds nothing: `null` masks it below.
    stored = look_up(join.store, epoch.store(join.store), keys.take(pa.array(first)))
    change = last_before(code, order, len(changed))
    # Index into the stored rows (one for each distinct key), followed by the changes of this epoch.
    index = np.where(change >= 0, change + len(first), code[len(changed) :])
    found = np.concatenate([stored.exists, changed.kind == Kind.VALUE])[index] & ~null
    if join.store.is_windowed:
        times = np.concatenate([changed.timestamp, np.full(len(rows), -1)])
        found &= ~expired(join.store, key, clock_at(join.store, order, times, epoch)[len(changed) :])
    columns = changed.values
    before = visible_columns(join.store, stored)
    values = {
        new: pa.concat_arrays([before[name], cast_to(columns[name], before[name].type)])
        for new, name in join.values.items()
    }
    edges[join.flow] = _joined(rows, values, index, found, null, join, epoch)


def join_global_table(join: GlobalJoin, edges: Edges, epoch: TaskEpoch) -> None:
    """See `GlobalJoin`."""
    store = join.table.store
    looked_up = [
        cast_to(edges[join.flow].columns[join.by[name]], data_type)
        for name, data_type in parse_columns(store.key).items()
    ]
    null = null_keys(looked_up, len(edges[join.flow]))
    keys = encode_keys(looked_up)
    kept = edges[join.flow].kind == Kind.VALUE
    rows, null = _with_values(edges[join.flow], null, join, epoch)
    code, first = group_codes(keys.filter(pa.array(kept)))
    distinct = keys.filter(pa.array(kept)).take(pa.array(first))
    values = epoch.global_table(join.table).get_many([key or b"\x00" for key in distinct.to_pylist()])
    codec = RowCodec(parse_columns(store.value))
    columns = dict(zip(codec.types, codec.decode(values)[0], strict=True))
    found = np.fromiter((value is not None for value in values), np.bool_, len(values))[code] & ~null
    chosen = {new: columns[name] for new, name in join.values.items()}
    edges[join.flow] = _joined(rows, chosen, code, found, null, join, epoch)


def _with_values(rows: Rows, null: Bools, node: StreamTableJoin | GlobalJoin, epoch: TaskEpoch) -> tuple[Rows, Bools]:
    """(The records with a value, whether each has a null key). Counts the others as dropped."""
    here = rows.kind == Kind.VALUE
    epoch.drop(step_name(node), "null_value", int((~here).sum()))
    return rows.filter(here), null[here]


def last_before(code: Int64s, order: Int64s, changes: int) -> Int64s:
    """For each record, the index of the last change of its key before it; -1 without one.

    `code`: the key numbers of all changes, then of all records. `order`: the permutation that sorts these by path.
    `changes`: their number.

    Example: three changes of the keys 0, 1, 0, then three records of the keys 0, 0, 1. In path order: change 0,
    record 0, change 1, change 2, record 1, record 2. Records are numbered behind changes: record 0 is index 3.

        last_before(code=[0, 1, 0, 0, 0, 1], order=[0, 3, 1, 2, 4, 5], changes=3)
            [0, 2, 1]: record 0 sees change 0, record 1 sees change 2, record 2 sees change 1
    """
    if not changes:
        return np.full(len(code) - changes, -1)
    # Stable: inside a key, changes and records keep their path order.
    by_key = order[np.argsort(code[order], kind="stable")]
    is_change = by_key < changes
    places = np.arange(len(by_key))
    last_start = np.maximum.accumulate(np.where(run_starts(code[by_key]), places, 0))
    last_change = np.maximum.accumulate(np.where(is_change, places, -1))
    latest = np.full(len(code), -1)
    # A change before the start of the key is of another key.
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
    """The records with looked-up columns: rows `index` of `values` where `found`, else nulls or (inner) dropped."""
    if node.how == "inner":
        epoch.drop(step_name(node), "null_key", int(null.sum()))
        rows, index, found = rows.filter(found), index[found], found[found]
    return rows.with_columns(None, rows.values | taken(values, index, ~found))
