"""The rows of a table as they are when a record is processed, for records of the same task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....records.arrays import Bools, Int64s, typed
from ....records.keys.reading import decode_keys
from ....records.kinds import Kind
from ....records.types import parse_columns
from ....topology import Store
from ...keyed.codes import group_codes
from ...keyed.expiry import expired as has_expired
from ...keyed.lookups import look_up, row_keys
from ...keyed.stored_rows import StoredRows, visible_columns
from ...rows import Rows, path_order
from ...task_epoch import TaskEpoch


@dataclass(frozen=True)
class RowsAt:
    """`columns`, `timestamp` (ms): of all versions of the rows that are looked up. `index`: for each record the version
    at that moment, which has no meaning where not `exists`.
    """

    columns: dict[str, pa.Array]
    timestamp: Int64s
    index: Int64s
    exists: Bools

    @classmethod
    def of(
        cls,
        store: Store,
        table: Rows,
        records: Rows,
        names: Iterable[str],
        epoch: TaskEpoch,
        expired: Store | None = None,
    ) -> RowsAt:
        """Look up the keys of records; a null key has no row.

        `store`: as it was when the epoch began. `table`: the changes of the epoch. `names`: the value columns wanted.
        `expired`: where the rows are that the store had forgotten by then.
        """
        changed = table.filter(table.kind <= Kind.VALUE)
        keys = row_keys(expired or store, records.keys)
        all_keys = pa.concat_arrays([row_keys(expired or store, changed.keys), keys])
        code, first = group_codes(all_keys)
        distinct = all_keys.take(pa.array(first))
        if expired is None:
            stored = look_up(store, epoch.store(store), distinct)
            before = visible_columns(store, stored)
        else:
            stored = _also_expired(store, expired, distinct, epoch)
            before = stored.columns
        change = last_before(code, path_order([changed, records]), len(changed))
        index = np.where(change >= 0, change + len(first), code[len(changed) :])
        exists = np.concatenate([stored.exists, changed.kind == Kind.VALUE])[index]
        exists &= keys.is_valid().to_numpy(zero_copy_only=False)
        now = changed.values
        columns = {name: pa.concat_arrays([before[name], typed(now[name], before[name].type)]) for name in names}
        return cls(columns, np.concatenate([stored.timestamp, changed.timestamp]), index, exists)

    def taken(self, rows: Bools) -> dict[str, pa.Array]:
        """The columns for each record; null where not in `rows`."""
        picked = pa.array(self.index, mask=~rows)
        return {name: column.take(picked) for name, column in self.columns.items()}


def _also_expired(store: Store, expired: Store, keys: pa.BinaryArray, epoch: TaskEpoch) -> StoredRows:
    """The rows of the keys (`row_keys` of `expired`) when the epoch began, with the columns that users see."""
    types = parse_columns(expired.key)
    key = dict(zip(types, decode_keys(keys, list(types.values())), strict=True))
    inside = look_up(store, epoch.store(store), row_keys(store, key))
    outside = look_up(expired, epoch.store(expired), keys)
    gone = has_expired(store, key, np.full(len(keys), epoch.clock_before(store.name)))
    picked = np.where(gone, len(keys), 0) + np.arange(len(keys))
    there = visible_columns(store, inside)
    return StoredRows(
        np.concatenate([inside.exists, outside.exists])[picked],
        {
            name: pa.concat_arrays([typed(there[name], column.type), column]).take(pa.array(picked))
            for name, column in outside.columns.items()
        },
        np.concatenate([inside.timestamp, outside.timestamp])[picked],
    )


def last_before(code: Int64s, order: Int64s, changes: int) -> Int64s:
    """For each record the last change of its key before it; -1 if there is none.

    `code`: keys of all changes and then all records. `order`: the permutation that sorts them by path.
    """
    if not changes:
        return np.full(len(code) - changes, -1)
    # Stable, so that within a key changes and records keep their order by path.
    by_key = order[np.argsort(code[order], kind="stable")]
    starts = np.ones(len(by_key), np.bool_)
    starts[1:] = code[by_key][1:] != code[by_key][:-1]
    places = np.arange(len(by_key))
    last_start = np.maximum.accumulate(np.where(starts, places, 0))
    last_change = np.maximum.accumulate(np.where(by_key < changes, places, -1))
    latest = np.full(len(code), -1)
    # A last change before the start of the key is one of another key.
    latest[by_key] = np.where(last_change >= last_start, by_key[last_change], -1)
    return latest[changes:]
