"""Computes the changes of a table from its rows before and after: what is emitted, and with which old rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...records.arrays import Bools, Int8s, Int64s
from ...records.kinds import Kind
from ..rows import Rows
from .groups import Groups


@dataclass(frozen=True)
class Versions:
    """Versions of rows, one after another: values, time in ms, and whether the row exists."""

    values: Mapping[str, pa.Array]
    timestamp: Int64s
    exists: Bools


def changes(
    groups: Groups, context: Rows, key: Mapping[str, pa.Array], before: Versions, after: Versions, old: bool
) -> Rows:
    """The changes of a table, in the order of the records that made them.

    `groups`: the records by key. `before`: each group's row at the start of the epoch; `after`: the row after each
    point. `context`, `key`: path, order, headers and key columns of the records. With points at rows each record gives
    a change. With one point for each group, a row that came and went or a deletion of a missing row gives none. `old`:
    with the replaced rows.
    """
    if groups.each:
        rows = np.arange(len(groups.code))
        point = rows
        previous = groups.previous
    else:
        # One change for each group, in the order of the last record of each.
        point = np.argsort(groups.last, kind="stable")
        point = point[before.exists[point] | after.exists[point]]
        rows = groups.last[point]
        previous = np.full(len(rows), -1)
    if not old:
        kind = np.where(after.exists[point], Kind.VALUE, Kind.TOMBSTONE).astype(np.int8)
        return _rows(context, key, rows, after, point, kind)
    # The pool of versions: those before the epoch by group, then those after each point.
    pool = _both(before, after)
    replaced = np.where(previous < 0, groups.code[rows], groups.count + previous)
    pairs = np.stack([replaced, groups.count + point], axis=1).ravel()
    kept = np.ones(len(pairs), np.bool_)
    # A row that is new has no old row before it.
    kept[0::2] = pool.exists[replaced]
    is_new = np.tile([False, True], len(rows))[kept]
    index = pairs[kept]
    kind = np.where(is_new, np.where(pool.exists[index], Kind.VALUE, Kind.TOMBSTONE), Kind.OLD).astype(np.int8)
    return _rows(context, key, np.repeat(rows, 2)[kept], pool, index, kind)


def _both(before: Versions, after: Versions) -> Versions:
    return Versions(
        {name: pa.concat_arrays([before.values[name], column]) for name, column in after.values.items()},
        np.concatenate([before.timestamp, after.timestamp]),
        np.concatenate([before.exists, after.exists]),
    )


def _rows(
    context: Rows, key: Mapping[str, pa.Array], record: Int64s, versions: Versions, index: Int64s, kind: Int8s
) -> Rows:
    """The `versions` at `index` as rows of the records at `record`."""
    records = pa.array(record)
    places = pa.array(index, mask=kind == Kind.TOMBSTONE)
    bare = Rows(
        tuple(level[record] for level in context.path),
        kind,
        versions.timestamp[index],
        context.order[record],
        None if context.headers is None else context.headers.take(records),
        {},
        (),
        (),
    )
    return bare.with_columns(
        {name: column.take(records) for name, column in key.items()},
        {name: column.take(places) for name, column in versions.values.items()},
    )
