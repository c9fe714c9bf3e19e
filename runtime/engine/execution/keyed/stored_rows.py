"""Rows of stores as columns, and changes of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from operator import is_not

import numpy as np
import pyarrow as pa

from ....ir.topology import Store
from ....records.arrays import Bools, Int8s, Int64s
from ....records.keys import encode_keys
from ....records.schema import WINDOW_COLUMNS
from ....records.types import Kind, parse_columns
from ....records.window_keys import window_keys
from ....state.codec import RowCodec
from ..aggregates.registry import results, state_columns
from ..node import EpochStore, TaskEpoch
from ..rows import Rows, taken
from .groups import Groups, window_times

# The columns of stores, and reading and writing of rows by key.


def hidden_columns(store: Store) -> dict[str, pa.DataType]:
    """The state columns of a store's aggregates."""
    return state_columns(store.aggregates, merges=store.type == "session")


def stored_columns(store: Store) -> dict[str, pa.DataType]:
    """The columns of a store's rows: the state of its aggregates, then value columns that are no aggregates."""
    names = {agg.name for agg in store.aggregates}
    value = {name: kind for name, kind in parse_columns(store.value).items() if name not in names}
    return hidden_columns(store) | value


def store_keys(store: Store, key: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """The encoded keys of a store, except a session store. For window stores see `records.window_keys`."""
    if store.type != "window":
        return encode_keys(list(key.values()))
    plain = encode_keys([column for name, column in key.items() if name not in WINDOW_COLUMNS])
    return window_keys(window_times(key[WINDOW_COLUMNS[0]]), plain)


def session_keys(key: Mapping[str, pa.Array]) -> tuple[pa.BinaryArray, Int64s, Int64s]:
    """(Encoded keys without window, window starts, window ends). Times in ms; 0 for null."""
    plain = encode_keys([column for name, column in key.items() if name not in WINDOW_COLUMNS])
    start, end = (window_times(key[name]) for name in WINDOW_COLUMNS)
    return plain, start, end


@dataclass(frozen=True)
class StoredRows:
    """Rows read by key, one entry for each key. A missing row has `exists` False, null columns, `timestamp` -1 (ms)."""

    exists: Bools
    columns: dict[str, pa.Array]
    timestamp: Int64s

    @classmethod
    def of(cls, types: Mapping[str, pa.DataType], values: Sequence[bytes | None]) -> StoredRows:
        """Decode rows. `types`: the columns of the store. `values`: None for a missing row."""
        columns, timestamps = RowCodec(types).decode(values)
        exists = np.fromiter(map(is_not, values, repeat(None)), np.bool_, len(values))
        return cls(exists, dict(zip(types, columns, strict=True)), timestamps)


def visible_columns(store: Store, rows: StoredRows) -> dict[str, pa.Array]:
    """The value columns of a store's rows, as users see them: aggregates as results, not as state."""
    have = {**rows.columns, **results(store.aggregates, rows.columns, store.type == "session")}
    return {name: have[name] for name in parse_columns(store.value)}


class RowStore:
    """A store during an epoch, as columns. `types`: its columns."""

    def __init__(self, store: EpochStore, types: Mapping[str, pa.DataType]) -> None:
        self._store = store
        self._codec = RowCodec(types)

    def get(self, keys: Sequence[bytes]) -> StoredRows:
        """The rows of encoded keys at the start of the epoch."""
        return StoredRows.of(self._codec.types, self._store.get_many(keys))

    def put(
        self,
        keys: Sequence[bytes],
        columns: Mapping[str, pa.Array],
        timestamps: Int64s,
        exists: Bools,
        existed: Bools,
    ) -> None:
        """Write rows. A row that `existed` and no longer `exists` is deleted; one that never existed is not written."""
        values: list[bytes | None] = list(self._codec.encode([columns[name] for name in self._codec.types], timestamps))
        # The usual case: no deletions.
        if exists.all():
            self._store.put_many(keys, values, timestamps)
            return
        for row in np.flatnonzero(~exists).tolist():
            values[row] = None
        changed = np.flatnonzero(exists | existed)
        rows = changed.tolist()
        self._store.put_many([keys[row] for row in rows], [values[row] for row in rows], timestamps[changed])


# Computes the changes of a table, with or without replaced rows, from its rows before and after.


@dataclass(frozen=True)
class Versions:
    """Versions of rows: value columns, time in ms, and whether the row exists. One entry for each version."""

    values: Mapping[str, pa.Array]
    timestamp: Int64s
    exists: Bools

    def take(self, index: Int64s) -> Versions:
        """The versions at these indexes, in this order."""
        return Versions(taken(self.values, index), self.timestamp[index], self.exists[index])

    def then(self, others: Versions) -> Versions:
        """These versions, then the others, with the columns of the others."""
        return Versions(
            {name: pa.concat_arrays([self.values[name], column]) for name, column in others.values.items()},
            np.concatenate([self.timestamp, others.timestamp]),
            np.concatenate([self.exists, others.exists]),
        )


def at_points(groups: Groups, rows: Rows, columns: Mapping[str, pa.Array]) -> Rows:
    """The record of each point, with key columns only. If points are groups, it is the last record of the group.

    `columns`: the key columns of each group.
    """
    bare = rows.bare()
    if not groups.each:
        return bare.take(groups.last).with_columns(columns)
    return bare.with_columns(taken(columns, groups.code))


def changes(groups: Groups, context: Rows, before: Versions, after: Versions, old: bool) -> Rows:
    """The changes of a table, in the order of the records that made them.

    `groups`: the records by key. `before`: the row of each group at the start of the epoch. `after`: the row after each
    point. `context`: the records of the points, see `at_points`. `old`: with replaced rows.

    If points are rows, each record gives a change. If points are groups, each group gives at most one: no change for a
    row that was both inserted and deleted, or for a deletion of a missing row.

    Example: rows 0 and 2 are of group 0, which had the value a before; row 1 is of group 1. Row 2 deletes.

        groups    Groups(code=[0, 1, 0], count=2, each=True, exists=[True, False])
        before    values [a, null], timestamps [5, -1]
        after     values [b, x, null], timestamps [7, 8, 9], exists [True, True, False]

        changes(groups, context, before, after, old=True)
            record       0      0      1      2      2
            kind         OLD    VALUE  VALUE  OLD    TOMBSTONE
            timestamp    5      7      8      7      9
            value        a      b      x      b      null
    """
    if groups.each:
        point = np.arange(len(groups.code))
        previous = groups.previous if old else point
    else:
        # One change for each group, in the order of their last records.
        point = np.argsort(groups.last, kind="stable")
        point = point[before.exists[point] | after.exists[point]]
        previous = np.full(len(point), -1)
    if not old:
        if groups.each:
            return changes_of(context, None, after)
        return replace(changes_of(context.take(point), None, after.take(point)), collapsed=True)
    # The pool of versions: one before the epoch for each group, then one after each point.
    replaced = np.where(previous < 0, groups.point_code[point], groups.count + previous)
    return _pairs(context, point, before.then(after), replaced, groups.count + point)


def changes_of(context: Rows, before: Versions | None, after: Versions) -> Rows:
    """The changes of a table. `before`, `after`: one version for each row of `context`; None: without replaced rows."""
    point = np.arange(len(context))
    if before is not None:
        return _pairs(context, point, before.then(after), point, len(context) + point)
    return _rows(context, after, point, np.where(after.exists, Kind.VALUE, Kind.TOMBSTONE).astype(np.int8))


def without_halves(groups: Groups, context: Rows, kind: Int8s, after: Versions) -> tuple[Groups, Rows, Versions]:
    """(`groups`, `context`, `after`) without points between the halves of a change in one group. `kind`: of records."""
    half = kind == Kind.OLD_SAME_GROUP
    if not groups.each or not half.any():
        return groups, context, after
    kept = np.flatnonzero(~half)
    without = Groups(groups.code[kept], groups.count, True, groups.exists)
    return without, context.take(kept), after.take(kept)


def _pairs(context: Rows, point: Int64s, pool: Versions, replaced: Int64s, new: Int64s) -> Rows:
    """For each point a replaced row, if it exists, then a new row. `replaced`, `new`: indexes of versions in `pool`."""
    pairs = np.stack([replaced, new], axis=1).ravel()
    kept = np.ones(len(pairs), np.bool_)
    # Without a replaced row, the old row is skipped.
    kept[0::2] = pool.exists[replaced]
    is_new = np.tile([False, True], len(point))[kept]
    index = pairs[kept]
    kind = np.where(is_new, np.where(pool.exists[index], Kind.VALUE, Kind.TOMBSTONE), Kind.OLD).astype(np.int8)
    return _rows(context.take(np.repeat(point, 2)[kept]), pool, index, kind)


def _rows(context: Rows, versions: Versions, index: Int64s, kind: Int8s) -> Rows:
    """The `versions` at `index` as rows. `context`: for each, the row that gives path and key."""
    values = taken(versions.values, index, kind == Kind.TOMBSTONE)
    return replace(context, kind=kind, timestamp=versions.timestamp[index]).with_columns(None, values)


# Expiry of rows of windowed tables, by the clock of the table at the moment of a lookup.
#
# Expired rows are deleted from disk later, by committed clocks. If a lookup relied on the disk, its result would depend
# on where epochs end.


def clock_at(store: Store, order: Int64s, times: Int64s, epoch: TaskEpoch) -> Int64s:
    """The clock of a table (ms) after each row: the greatest time of its changes so far.

    `times`: int64, ms; -1 for rows that are no changes of the table. `order`: the permutation that sorts rows by path.
    """
    clock = np.empty(len(order), np.int64)
    clock[order] = np.maximum.accumulate(times[order])
    return np.maximum(clock, epoch.clock_before(store.name))


def expired(store: Store, key: Mapping[str, pa.Array], clock: Int64s) -> Bools:
    """Whether each key has expired at its clock (ms). `key`: the key columns, with those of the window."""
    kept = store.kept_ms
    if not store.is_windowed or kept is None:
        return np.zeros(len(clock), np.bool_)
    bound = key["window_end" if store.type == "session" else "window_start"]
    return window_times(bound) <= clock - kept
