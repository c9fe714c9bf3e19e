"""What waits in a buffer, as bytes: the keys of its rows, which are in the order in which changes go on, and the rows.

A store of type `window_changes` has one row for each change that waits, found by its *place*:

    0x02, time (8 bytes), key -> row

A store of type `changes` has two, as the time of a change does not follow from its key:

    0x01, key                 -> row
    0x02, time (8 bytes), key -> 8 bytes without meaning

The time is the end of the window, or that of the first change of the key that waits: ms, written as the start of a
window is in `records.window_keys`. The key is encoded as any key, with the window's end and start as its last columns.
So changes that wait are in the order of time and, of one time, in that of keys, and the oldest are found without
looking at others. Where the number of changes is limited, the row 0x00 has how many wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...records.arrays import Bools, Int64s, concat_some, to_numpy
from ...records.keys.encoding import encode_keys
from ...records.keys.reading import decode_keys
from ...records.keys.windows import first_window_key, split_window_keys, window_keys, without_window
from ...records.schema import WINDOW_COLUMNS
from ...records.types import parse_columns
from ...state.codec import RowCodec
from ...topology import Store

COUNT = b"\x00"
_ROW = b"\x01"
_PLACE = b"\x02"
_LENGTH = 4
_NO_HEADERS = bytes(_LENGTH)


@dataclass(frozen=True)
class Changes:
    """Changes of a table, each with the row that it replaces where that is known.

    `exists`: False for a deletion. `timestamp`: ms. `headers`: JSON strings or nulls; None if no change has any.
    `time`: by which it waits, ms. `old`: None in a store of type `window_changes`, behind which no row is replaced.
    """

    values: Mapping[str, pa.Array]
    exists: Bools
    timestamp: Int64s
    headers: pa.Array | None
    time: Int64s
    old: Replaced | None

    def __len__(self) -> int:
        return len(self.timestamp)

    def take(self, index: Int64s) -> Changes:
        """The changes at `index`, in its order."""
        places = pa.array(index)
        return Changes(
            {name: column.take(places) for name, column in self.values.items()},
            self.exists[index],
            self.timestamp[index],
            None if self.headers is None else self.headers.take(places),
            self.time[index],
            None if self.old is None else self.old.take(index),
        )

    def then(self, others: Changes) -> Changes:
        """These, then the others, of the same buffer."""
        return Changes(
            {name: pa.concat_arrays([column, others.values[name]]) for name, column in self.values.items()},
            np.concatenate([self.exists, others.exists]),
            np.concatenate([self.timestamp, others.timestamp]),
            concat_some([(self.headers, len(self)), (others.headers, len(others))], pa.string()),
            np.concatenate([self.time, others.time]),
            None if self.old is None or others.old is None else self.old.then(others.old),
        )


@dataclass(frozen=True)
class Replaced:
    """The rows that changes replace. Where one does not exist, its columns are null."""

    values: Mapping[str, pa.Array]
    exists: Bools
    timestamp: Int64s

    def take(self, index: Int64s) -> Replaced:
        """Those at `index`, in its order."""
        places = pa.array(index)
        values = {name: column.take(places) for name, column in self.values.items()}
        return Replaced(values, self.exists[index], self.timestamp[index])

    def then(self, others: Replaced) -> Replaced:
        """These, then the others."""
        return Replaced(
            {name: pa.concat_arrays([column, others.values[name]]) for name, column in self.values.items()},
            np.concatenate([self.exists, others.exists]),
            np.concatenate([self.timestamp, others.timestamp]),
        )


def key_order(store: Store) -> list[str]:
    """The key columns of a buffer, in the order in which they are encoded."""
    names = list(parse_columns(store.key))
    return [name for name in names if name not in WINDOW_COLUMNS] + [n for n in WINDOW_COLUMNS[::-1] if n in names]


def encoded_keys(store: Store, key: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """The keys of changes."""
    return encode_keys([key[name] for name in key_order(store)])


def decoded_keys(store: Store, keys: pa.BinaryArray) -> dict[str, pa.Array]:
    """The inverse of `encoded_keys`: the key columns, in the order of the store."""
    types = parse_columns(store.key)
    order = key_order(store)
    columns = dict(zip(order, decode_keys(keys, [types[name] for name in order]), strict=True))
    return {name: columns[name] for name in types}


def window_ends(key: Mapping[str, pa.Array]) -> Int64s:
    """The ends of the windows of keys, ms."""
    ends: Int64s = to_numpy(key[WINDOW_COLUMNS[1]].cast(pa.int64())) // 1000
    return ends


def row_keys(keys: pa.BinaryArray) -> pa.BinaryArray:
    """Where the rows of a store of type `changes` are."""
    return pc.binary_join_element_wise(_ROW, keys, b"")


def place_keys(times: Int64s, keys: pa.BinaryArray) -> pa.BinaryArray:
    """The places of changes."""
    return pc.binary_join_element_wise(_PLACE, window_keys(times, keys), b"")


def first_place(after: int | None = None) -> bytes:
    """The key before all places, or before those of later times than `after` (ms)."""
    return _PLACE if after is None else _PLACE + first_window_key(after + 1)


def split_places(places: Sequence[bytes]) -> tuple[Int64s, list[bytes]]:
    """The times (ms) and keys of the changes that have places."""
    return split_window_keys([place[1:] for place in places])


def waiting_key(store: Store, row: bytes) -> bytes | None:
    """The key of the change that a row of the store holds; None for rows that hold none."""
    if store.type == "window_changes":
        return without_window(row[1:]) if row.startswith(_PLACE) else None
    return row[1:] if row.startswith(_ROW) else None


class ChangeCodec:
    """Encodes changes as rows of a buffer: the columns (`RowCodec`), then the headers and their length."""

    def __init__(self, store: Store) -> None:
        self._value = parse_columns(store.value)
        self._with_old = store.type == "changes"
        types = {f"new.{name}": kind for name, kind in self._value.items()} | {"exists": pa.bool_()}
        if self._with_old:
            types |= {"time": pa.int64(), "existed": pa.bool_(), "old_timestamp": pa.int64()}
            types |= {f"old.{name}": kind for name, kind in self._value.items()}
        self._codec = RowCodec(types)

    def encode(self, changes: Changes) -> list[bytes]:
        """A row for each change."""
        columns = {f"new.{name}": changes.values[name] for name in self._value}
        columns["exists"] = pa.array(changes.exists)
        if changes.old is not None:
            columns |= {f"old.{name}": changes.old.values[name] for name in self._value}
            columns["existed"] = pa.array(changes.old.exists)
            columns["old_timestamp"] = pa.array(changes.old.timestamp)
            columns["time"] = pa.array(changes.time)
        rows = self._codec.encode([columns[name] for name in self._codec.types], changes.timestamp)
        if changes.headers is None:
            return [row + _NO_HEADERS for row in rows]
        texts = [b"" if text is None else text.encode() for text in changes.headers.to_pylist()]
        return [row + text + len(text).to_bytes(_LENGTH, "little") for row, text in zip(rows, texts, strict=True)]

    def decode(self, rows: Sequence[bytes], times: Int64s | None = None) -> Changes:
        """The changes of rows. `times`: those by which they wait, ms, where the rows have none."""
        headers: pa.Array | None = None
        if all(row.endswith(_NO_HEADERS) for row in rows):
            bodies = [row[:-_LENGTH] for row in rows]
        else:
            ends = [len(row) - _LENGTH - int.from_bytes(row[-_LENGTH:], "little") for row in rows]
            headers = pa.array(
                [row[end:-_LENGTH].decode() or None for row, end in zip(rows, ends, strict=True)], pa.string()
            )
            bodies = [row[:end] for row, end in zip(rows, ends, strict=True)]
        found, timestamps = self._codec.decode(bodies)
        columns = dict(zip(self._codec.types, found, strict=True))
        old = None
        if self._with_old:
            old = Replaced(
                {name: columns[f"old.{name}"] for name in self._value},
                _flags(columns["existed"]),
                to_numpy(columns["old_timestamp"]),
            )
            times = to_numpy(columns["time"])
        assert times is not None
        values = {name: columns[f"new.{name}"] for name in self._value}
        return Changes(values, _flags(columns["exists"]), timestamps, headers, times.astype(np.int64), old)


def _flags(column: pa.BooleanArray) -> Bools:
    found: Bools = to_numpy(column).astype(np.bool_)
    return found
