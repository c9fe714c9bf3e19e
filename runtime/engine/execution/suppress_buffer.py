"""The buffer of `suppress`: its store rows, reading, and writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...ir.topology import Store
from ...records.arrays import Bools, Int64s, cast_to, concat_some, to_numpy
from ...records.keys import decode_keys, encode_keys
from ...records.schema import WINDOW_COLUMNS
from ...records.types import Kind, parse_columns
from ...records.window_keys import first_window_key, split_window_keys, window_keys, without_window
from ...state.codec import RowCodec
from .keyed.groups import group_by, sorted_groups, window_times
from .keyed.stored_rows import Versions, changes_of
from .node import EpochStore
from .rows import Rows, after_old, is_old, taken

# The store of a buffer. Its keys are sorted in the order in which changes are released.
#
# A store of type `window_changes` has one row for each waiting change. Its key is the *place* of the change:
#
#     0x02, time (8 bytes), key -> row
#
# A store of type `changes` has two rows, because the time of a change does not follow from its key:
#
#     0x01, key                 -> row
#     0x02, time (8 bytes), key -> 8 bytes without meaning
#
# The time is the end of the window, or the time of the first waiting change of the key. It is in ms, encoded like a
# window start in `records.window_keys`. The key is encoded like any key, with window end and start as its last columns.
# So places are sorted by time, then by key, and the oldest changes are the first rows of a scan. If the number of
# changes is limited, the row 0x00 has the number of waiting changes.

COUNT = b"\x00"
_ROW = b"\x01"
_PLACE = b"\x02"
_LENGTH = 4
_NO_HEADERS = bytes(_LENGTH)


@dataclass(frozen=True)
class Changes:
    """Changes of a table, one entry for each in all arrays and columns.

    `new`: the new rows, or deletions. `headers`: JSON strings or nulls; None if no change has any. `time`: the time by
    which a change waits, ms. `old`: the replaced rows; None in a store of type `window_changes`, because final results
    replace no rows.
    """

    new: Versions
    headers: pa.Array | None
    time: Int64s
    old: Versions | None

    def __len__(self) -> int:
        return len(self.time)

    def then(self, others: Changes) -> Changes:
        """These changes, then the others. Both are of the same buffer."""
        return Changes(
            self.new.then(others.new),
            concat_some([(self.headers, len(self)), (others.headers, len(others))], pa.string()),
            np.concatenate([self.time, others.time]),
            None if self.old is None or others.old is None else self.old.then(others.old),
        )


def key_order(store: Store) -> list[str]:
    """The key columns of a buffer, in the order in which they are encoded."""
    names = list(parse_columns(store.key))
    return [name for name in names if name not in WINDOW_COLUMNS] + [n for n in WINDOW_COLUMNS[::-1] if n in names]


def encoded_keys(store: Store, key: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """The encoded keys of changes. `key`: key columns, by name."""
    return encode_keys([key[name] for name in key_order(store)])


def decoded_keys(store: Store, keys: pa.BinaryArray) -> dict[str, pa.Array]:
    """The inverse of `encoded_keys`: the key columns, in the order of the store."""
    types = parse_columns(store.key)
    order = key_order(store)
    columns = dict(zip(order, decode_keys(keys, [types[name] for name in order]), strict=True))
    return {name: columns[name] for name in types}


def window_ends(key: Mapping[str, pa.Array]) -> Int64s:
    """The window ends of keys, int64, ms."""
    return window_times(key[WINDOW_COLUMNS[1]])


def row_keys(keys: pa.BinaryArray) -> pa.BinaryArray:
    """The store keys of rows in a store of type `changes`. `keys`: encoded."""
    return pc.binary_join_element_wise(_ROW, keys, b"")


def place_keys(times: Int64s, keys: pa.BinaryArray) -> pa.BinaryArray:
    """The places of changes. `times`: ms. `keys`: encoded."""
    return pc.binary_join_element_wise(_PLACE, window_keys(times, keys), b"")


def first_place(after: int | None = None) -> bytes:
    """The lower bound of all places, or of places with times later than `after` (ms)."""
    return _PLACE if after is None else _PLACE + first_window_key(after + 1)


def split_places(places: Sequence[bytes]) -> tuple[Int64s, list[bytes]]:
    """(Times in ms, encoded keys) of places."""
    return split_window_keys([place[1:] for place in places])


def waiting_key(store: Store, row: bytes) -> bytes | None:
    """The encoded key of the change in a store row; None for a row without a change. `row`: its store key."""
    if store.type == "window_changes":
        return without_window(row[1:]) if row.startswith(_PLACE) else None
    return row[1:] if row.startswith(_ROW) else None


class ChangeCodec:
    """Encodes changes as rows of a buffer: columns (`RowCodec`), then headers (text), then their length (4 bytes)."""

    def __init__(self, store: Store) -> None:
        self._value = parse_columns(store.value)
        self._with_old = store.type == "changes"
        types = {f"new.{name}": kind for name, kind in self._value.items()} | {"exists": pa.bool_()}
        if self._with_old:
            types |= {"time": pa.int64(), "existed": pa.bool_(), "old_timestamp": pa.int64()}
            types |= {f"old.{name}": kind for name, kind in self._value.items()}
        self._codec = RowCodec(types)

    def encode(self, changes: Changes) -> list[bytes]:
        """One encoded row for each change."""
        columns = {f"new.{name}": changes.new.values[name] for name in self._value}
        columns["exists"] = pa.array(changes.new.exists)
        if changes.old is not None:
            columns |= {f"old.{name}": changes.old.values[name] for name in self._value}
            columns["existed"] = pa.array(changes.old.exists)
            columns["old_timestamp"] = pa.array(changes.old.timestamp)
            columns["time"] = pa.array(changes.time)
        rows = self._codec.encode([columns[name] for name in self._codec.types], changes.new.timestamp)
        if changes.headers is None:
            return [row + _NO_HEADERS for row in rows]
        texts = [b"" if text is None else text.encode() for text in changes.headers.to_pylist()]
        return [row + text + len(text).to_bytes(_LENGTH, "little") for row, text in zip(rows, texts, strict=True)]

    def decode(self, rows: Sequence[bytes], times: Int64s | None = None) -> Changes:
        """Decode changes. `times`: the times by which they wait, ms, for a store of type `window_changes`."""
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
            values = {name: columns[f"old.{name}"] for name in self._value}
            old = Versions(values, to_numpy(columns["old_timestamp"]), _flags(columns["existed"]))
            times = to_numpy(columns["time"])
        assert times is not None
        values = {name: columns[f"new.{name}"] for name in self._value}
        new = Versions(values, timestamps, _flags(columns["exists"]))
        return Changes(new, headers, times.astype(np.int64), old)


def _flags(column: pa.BooleanArray) -> Bools:
    found: Bools = to_numpy(column).astype(np.bool_)
    return found


# A buffer during one epoch: reads the changes that are released or replaced, and writes new ones.

_WIDTH = 8


@dataclass(frozen=True)
class Waiting:
    """Waiting changes and their encoded keys."""

    keys: pa.BinaryArray
    changes: Changes


class Buffer:
    """The waiting changes of a store during an epoch. Changes that stay the same are neither read nor written."""

    def __init__(self, store: Store, opened: EpochStore) -> None:
        self._opened = opened
        self._codec = ChangeCodec(store)
        self._by_key = store.type == "changes"

    def read(self, keys: pa.BinaryArray, times: Int64s, passed: int, oldest: int) -> Waiting:
        """The waiting changes with times up to `passed` (ms), at least `oldest` (a count), and those of `keys`.

        `keys`: encoded. `times`: window ends of these keys, ms; unused in a store of type `changes`.
        """
        due = [*self._opened.range(first_place(), first_place(passed))]
        if len(due) < oldest:
            due = [*islice(self._opened.range(first_place(), None), oldest)]
        stored, waiting = split_places([place for place, _ in due])
        if self._by_key:
            wanted = sorted({*keys.to_pylist(), *waiting})
            found = self._opened.get_many(row_keys(pa.array(wanted, pa.binary())).to_pylist())
            there = {key: row for key, row in zip(wanted, found, strict=True) if row is not None}
            return Waiting(pa.array(there, pa.binary()), self._codec.decode([*there.values()]))
        rows = {key: (time, row) for key, time, (_, row) in zip(waiting, stored.tolist(), due, strict=True)}
        found = self._opened.get_many(place_keys(times, keys).to_pylist())
        others = zip(keys.to_pylist(), times.tolist(), found, strict=True)
        rows |= {key: (time, row) for key, time, row in others if row is not None}
        stored = np.array([time for time, _ in rows.values()], np.int64)
        return Waiting(pa.array(rows, pa.binary()), self._codec.decode([row for _, row in rows.values()], stored))

    def take_away(self, keys: pa.BinaryArray, times: Int64s) -> None:
        """Delete released changes. `keys`: encoded. `times`: the times by which they waited, ms."""
        self._put(place_keys(times, keys), [None] * len(keys), times)
        if self._by_key:
            self._put(row_keys(keys), [None] * len(keys), times)

    def keep(self, waiting: Waiting, begun: Int64s) -> None:
        """Write waiting changes. `begun`: the indexes of those without an entry so far, which get a new place."""
        places, changes = place_keys(waiting.changes.time, waiting.keys), waiting.changes
        rows: list[bytes | None] = [*self._codec.encode(changes)]
        self._put(row_keys(waiting.keys) if self._by_key else places, rows, changes.new.timestamp)
        if self._by_key:
            self._put(places.take(pa.array(begun)), [bytes(_WIDTH)] * len(begun), changes.time[begun])

    def count(self) -> int:
        """The number of waiting changes: the stored number, or else a count of all places."""
        (noted,) = self._opened.get_many([COUNT])
        if noted is not None:
            return int.from_bytes(noted[_WIDTH:], "little")
        return sum(1 for _ in self._opened.range(first_place(), None))

    def note_count(self, count: int | None) -> None:
        """Store the number of waiting changes; None deletes it: without a limit it would become outdated."""
        (noted,) = self._opened.get_many([COUNT])
        value = None if count is None else bytes(_WIDTH) + count.to_bytes(_WIDTH, "little")
        if noted != value:
            self._opened.put_many([COUNT], [value], np.zeros(1, np.int64))

    def _put(self, keys: pa.BinaryArray, rows: list[bytes | None], times: Int64s) -> None:
        if len(keys):
            self._opened.put_many(keys.to_pylist(), rows, times)


# The changes of an epoch: waiting ones, then arriving ones.


@dataclass(frozen=True)
class Pool:
    """Waiting and arriving changes. The first `waiting` ones wait since an earlier epoch.

    `code`: for each change, the index of its key in `keys`. `keys`: encoded, ascending. `columns`: the key columns of
    each change.
    """

    code: Int64s
    keys: pa.BinaryArray
    columns: Mapping[str, pa.Array]
    changes: Changes
    waiting: int

    def keys_of(self, index: Int64s) -> pa.BinaryArray:
        """The encoded keys of the changes at these indexes."""
        return self.keys.take(pa.array(self.code[index]))

    def entries(self, first: Int64s, last: Int64s) -> Changes:
        """Entries: each is the `last` of some changes of a key, with the time and the replaced row of the `first` one.

        `first`, `last`: indexes of changes, one for each entry.
        """
        changes = self.changes
        return Changes(
            changes.new.take(last),
            None if changes.headers is None else changes.headers.take(pa.array(last)),
            changes.time[first],
            None if changes.old is None else changes.old.take(first),
        )

    def changed(self, at: Rows, first: Int64s, last: Int64s, old: bool) -> Rows:
        """Entries as rows. `at`: rows that give path and order, one for each entry. `old`: with replaced rows.

        Example: two entries, of which only the first replaces a row, give OLD and VALUE of entry 0, VALUE of entry 1.
        """
        entries = self.entries(first, last)
        context = replace(at, headers=entries.headers).with_columns(taken(self.columns, last))
        return changes_of(context, entries.old if old else None, entries.new)


@dataclass(frozen=True)
class Arriving:
    """The arriving changes of an epoch. `everything`: with replaced rows. `rows`: without them.

    `code`: key number of each of `rows`. `first`: the first of `rows` for each key. `keys`: the encoded key of each
    number. `time`: the time by which each of `rows` waits, ms.
    """

    everything: Rows
    rows: Rows
    code: Int64s
    first: Int64s
    keys: pa.BinaryArray
    time: Int64s

    @classmethod
    def of(cls, store: Store, everything: Rows) -> Arriving:
        """Group the changes on an edge by key."""
        rows = everything.filter(~is_old(everything.kind))
        code, first = group_by([*rows.keys.values()])
        time = window_ends(rows.keys) if store.type == "window_changes" else rows.timestamp
        return cls(everything, rows, code, first, encoded_keys(store, taken(rows.keys, first)), time)


def pooled(store: Store, waiting: Waiting, arriving: Arriving) -> Pool:
    """Waiting changes, then arriving ones, with a common numbering of keys."""
    count, rows = len(waiting.keys), arriving.rows
    of_both, _, keys = sorted_groups(pa.concat_arrays([waiting.keys, arriving.keys]))
    code = np.concatenate([of_both[:count], of_both[count:][arriving.code]])
    changes = _changes(store, arriving)
    if not count:
        return Pool(code, keys, rows.keys, changes, 0)
    before, have = decoded_keys(store, waiting.keys), rows.keys
    columns = {name: pa.concat_arrays([cast_to(before[name], have[name].type), have[name]]) for name in have}
    return Pool(code, keys, columns, waiting.changes.then(changes), count)


def _changes(store: Store, arriving: Arriving) -> Changes:
    everything, rows = arriving.everything, arriving.rows
    types, have = parse_columns(store.value), rows.values
    values = {name: cast_to(have[name], kind) for name, kind in types.items()}
    old = None
    if store.type == "changes":
        follows = after_old(everything.kind)[~is_old(everything.kind)]
        place = np.flatnonzero(~is_old(everything.kind)) - 1
        replaced = pa.array(place, mask=~follows)
        columns = everything.values
        old = Versions(
            {name: cast_to(columns[name], kind).take(replaced) for name, kind in types.items()},
            everything.timestamp[np.maximum(place, 0)],
            follows,
        )
    return Changes(Versions(values, rows.timestamp, rows.kind == Kind.VALUE), rows.headers, arriving.time, old)
