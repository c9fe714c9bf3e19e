"""The rows of a table that keys of records mean, however its store lays them out."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from ...records.keys.session_segments import segment_length, split_sessions
from ...records.keys.windows import split_window_keys, window_keys
from ...topology import Store
from ...windows import SessionWindow, SlidingWindow
from ..task_epoch import EpochStore
from .session_store import SessionStore
from .stored_rows import RowStore, StoredRows, session_keys, store_keys, stored_columns

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
