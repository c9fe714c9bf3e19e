"""Computes the changes of a table from its rows before and after: what is emitted, and with which old rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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


def at_points(groups: Groups, rows: Rows, columns: Mapping[str, pa.Array]) -> Rows:
    """The record of each point, which is the last one of its group if the points are groups, with its key alone.

    `columns`: the key columns of each group.
    """
    bare = replace(rows, columns={}, key=(), value=(), state=None)
    if not groups.each:
        return bare.take(groups.last).with_columns(columns)
    code = pa.array(groups.code)
    return bare.with_columns({name: column.take(code) for name, column in columns.items()})


def changes(groups: Groups, context: Rows, before: Versions, after: Versions, old: bool) -> Rows:
    """The changes of a table, in the order of the records that made them.

    `groups`: the records by key. `before`: each group's row at the start of the epoch; `after`: the row after each
    point. `context`: the records of the points, see `at_points`. With points at rows each record gives a change. With
    one point for each group, a row that came and went or a deletion of a missing row gives none. `old`: with the
    replaced rows.
    """
    if groups.each:
        point = np.arange(len(groups.code))
        previous = groups.previous if old else point
    else:
        # One change for each group, in the order of the last record of each.
        point = np.argsort(groups.last, kind="stable")
        point = point[before.exists[point] | after.exists[point]]
        previous = np.full(len(point), -1)
    if not old:
        kind = np.where(after.exists[point], Kind.VALUE, Kind.TOMBSTONE).astype(np.int8)
        return replace(_rows(context, point, after, point, kind), collapsed=not groups.each)
    # The pool of versions: those before the epoch by group, then those after each point.
    replaced = np.where(previous < 0, groups.point_code[point], groups.count + previous)
    return _pairs(context, point, _both(before, after), replaced, groups.count + point)


def changes_of(context: Rows, before: Versions, after: Versions) -> Rows:
    """The changes of a table, each with the row that it replaces. `before`, `after`: the rows at each of `context`."""
    point = np.arange(len(context))
    return _pairs(context, point, _both(before, after), point, len(context) + point)


def without_halves(groups: Groups, context: Rows, kind: Int8s, after: Versions) -> tuple[Groups, Rows, Versions]:
    """The changes without the points between a subtracted row and the row that follows it in the same group."""
    half = kind == Kind.OLD_SAME_GROUP
    if not groups.each or not half.any():
        return groups, context, after
    kept = np.flatnonzero(~half)
    index = pa.array(kept)
    return (
        Groups(groups.code[kept], groups.count, True, groups.exists),
        context.take(kept),
        Versions(
            {name: column.take(index) for name, column in after.values.items()},
            after.timestamp[kept],
            after.exists[kept],
        ),
    )


def _both(before: Versions, after: Versions) -> Versions:
    return Versions(
        {name: pa.concat_arrays([before.values[name], column]) for name, column in after.values.items()},
        np.concatenate([before.timestamp, after.timestamp]),
        np.concatenate([before.exists, after.exists]),
    )


def _pairs(context: Rows, point: Int64s, pool: Versions, replaced: Int64s, new: Int64s) -> Rows:
    """The versions `replaced` and `new` of each of the points, one after another."""
    pairs = np.stack([replaced, new], axis=1).ravel()
    kept = np.ones(len(pairs), np.bool_)
    # A row that is new has no old row before it.
    kept[0::2] = pool.exists[replaced]
    is_new = np.tile([False, True], len(point))[kept]
    index = pairs[kept]
    kind = np.where(is_new, np.where(pool.exists[index], Kind.VALUE, Kind.TOMBSTONE), Kind.OLD).astype(np.int8)
    return _rows(context, np.repeat(point, 2)[kept], pool, index, kind)


def _rows(context: Rows, point: Int64s, versions: Versions, index: Int64s, kind: Int8s) -> Rows:
    """The `versions` at `index` as rows of the records of each `point`."""
    places = pa.array(index, mask=kind == Kind.TOMBSTONE)
    values = {name: column.take(places) for name, column in versions.values.items()}
    changed = replace(context.take(point), kind=kind, timestamp=versions.timestamp[index])
    return changed.with_columns(None, values)
