"""Rows of stores as columns: which columns a store has, and how rows are read and written by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import is_not

import numpy as np
import pyarrow as pa

from ...records.arrays import Bools, Int64s, to_numpy
from ...records.keys.encoding import encode_keys
from ...records.keys.windows import window_keys
from ...records.schema import WINDOW_COLUMNS
from ...records.types import parse_columns
from ...state.codec import RowCodec
from ...topology import Store
from ..aggregates.registry import results, state_columns
from ..task_epoch import EpochStore


def hidden_columns(store: Store) -> dict[str, pa.DataType]:
    """The columns of the state of a store's aggregates."""
    return state_columns(store.aggregates, merges=store.type == "session")


def stored_columns(store: Store) -> dict[str, pa.DataType]:
    """The columns of a store's rows: the hidden state of its aggregates, then its other value columns."""
    names = {agg.name for agg in store.aggregates}
    value = {name: kind for name, kind in parse_columns(store.value).items() if name not in names}
    return hidden_columns(store) | value


def store_keys(store: Store, key: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """The encoded keys of a store. For those of window stores see `records.window_keys`; not for session stores."""
    if store.type != "window":
        return encode_keys(list(key.values()))
    plain = encode_keys([column for name, column in key.items() if name not in WINDOW_COLUMNS])
    return window_keys(to_numpy(key[WINDOW_COLUMNS[0]].cast(pa.int64()).fill_null(0)) // 1000, plain)


def session_keys(key: Mapping[str, pa.Array]) -> tuple[pa.BinaryArray, Int64s, Int64s]:
    """The encoded keys of a session store, and the bounds of the sessions in ms (0 where they are null)."""
    plain = encode_keys([column for name, column in key.items() if name not in WINDOW_COLUMNS])
    start, end = (to_numpy(key[name].cast(pa.int64()).fill_null(0)) // 1000 for name in WINDOW_COLUMNS)
    return plain, start, end


@dataclass(frozen=True)
class StoredRows:
    """Rows read by key. `exists`: which keys have a row. For others the columns are null and `timestamp` (ms) is -1."""

    exists: Bools
    columns: dict[str, pa.Array]
    timestamp: Int64s

    @classmethod
    def of(cls, types: Mapping[str, pa.DataType], values: Sequence[bytes | None]) -> StoredRows:
        """Decode rows. `types`: the columns of their store."""
        columns, timestamps = RowCodec(types).decode(values)
        exists = np.fromiter(map(is_not, values, repeat(None)), np.bool_, len(values))
        return cls(exists, dict(zip(types, columns, strict=True)), timestamps)


def visible_columns(store: Store, rows: StoredRows) -> dict[str, pa.Array]:
    """The value columns of a store's rows, as users see them."""
    have = {**rows.columns, **results(store.aggregates, rows.columns, store.type == "session")}
    return {name: have[name] for name in parse_columns(store.value)}


class RowStore:
    """An epoch's store as rows. `types`: its columns."""

    def __init__(self, store: EpochStore, types: Mapping[str, pa.DataType]) -> None:
        self._store = store
        self._codec = RowCodec(types)

    def get(self, keys: Sequence[bytes]) -> StoredRows:
        """The rows of the keys."""
        return StoredRows.of(self._codec.types, self._store.get_many(keys))

    def put(
        self,
        keys: Sequence[bytes],
        columns: Mapping[str, pa.Array],
        timestamps: Int64s,
        exists: Bools,
        existed: Bools,
    ) -> None:
        """Change the rows of the keys. A row that `existed` and does not exist any more is deleted."""
        values: list[bytes | None] = list(self._codec.encode([columns[name] for name in self._codec.types], timestamps))
        # The usual case: nothing is deleted, and nothing need be picked out.
        if exists.all():
            self._store.put_many(keys, values, timestamps)
            return
        for row in np.flatnonzero(~exists).tolist():
            values[row] = None
        changed = np.flatnonzero(exists | existed)
        rows = changed.tolist()
        self._store.put_many([keys[row] for row in rows], [values[row] for row in rows], timestamps[changed])
