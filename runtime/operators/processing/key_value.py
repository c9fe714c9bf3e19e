"""A key-value store as a processor sees it: rows one at a time, with the changes of this epoch among them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from ...python_functions.objects import Row, RowType
from ...python_functions.results import normal, taken
from ...python_functions.values import UnfitValueError
from ...records.arrays import to_numpy
from ...records.keys import encode_keys
from ...records.types import parse_columns
from ...state.codec import RowCodec, timestamp_of
from ...topology import Store
from ..keyed.codes import bytes_of
from ..task_epoch import EpochStore
from .columns import Columns, column_of
from .moment import Moment
from .single_rows import SingleKeys, SingleRows

_FIRST_READ, _MOST_READ = 16, 4096
"""How many committed rows a range reads at once: few at first, as most ranges are short."""

_Change = tuple[Row | None, Row | bytes | None, int]
"""The key (None: only its bytes are known), its row or that as bytes (None: deleted), and the row's timestamp."""


class KeyValueStore:
    """Rows by key. Keys and values are given as mappings by column, or as objects with these attributes.

    With a `retention`, a row is there while its timestamp is later than stream time - retention.
    """

    def __init__(self, store: Store, opened: EpochStore, moment: Moment) -> None:
        self._store = store
        self._opened = opened
        self._moment = moment
        self._key_type = RowType(parse_columns(store.key))
        self._value_type = RowType(parse_columns(store.value))
        self._keys = SingleKeys(self._key_type.columns)
        self._rows = SingleRows(self._value_type.columns)
        self._normal = {name: normal(kind) for name, kind in self._key_type.columns.items()}
        self._hashable = not any(pa.types.is_nested(kind) for kind in self._key_type.columns.values())
        self._known: dict[Row, bytes] = {}
        self._read: dict[bytes, bytes | None] = {}
        self._changed: dict[bytes, _Change] = {}
        self._order: list[bytes] = []
        self._unordered: list[bytes] = []

    @property
    def key_types(self) -> Mapping[str, pa.DataType]:
        """The types of the key's columns."""
        return self._key_type.columns

    @property
    def name(self) -> str:
        """The name in the YAML."""
        return self._store.name

    def get(self, key: Any) -> Row | None:
        """The row of a key, or None."""
        return self._get(self._encoded(self._key(key)))

    def put(self, key: Any, value: Any) -> None:
        """Set the row of a key, with the timestamp of the record or punctuation at work; None deletes it."""
        row = self._key(key)
        self._change(self._encoded(row), row, None if value is None else self._value(value))

    def put_if_absent(self, key: Any, value: Any) -> Row | None:
        """Set the row of a key that has none. Returns the row that was there, or None."""
        before = self.get(key)
        if before is None:
            self.put(key, value)
        return before

    def delete(self, key: Any) -> Row | None:
        """Remove the row of a key. Returns the row that was there, or None."""
        before = self.get(key)
        self.put(key, None)
        return before

    def range(self, start: Any = None, end: Any = None) -> Iterator[tuple[Row, Row]]:
        """(key, row) of keys from `start` to `end`, both included, in the order of keys; None leaves a side open.

        What changes meanwhile is not seen.
        """
        lower = None if start is None else self._encoded(self._key(start))
        # No key begins with another one, so the one behind `end` is the first that is longer.
        upper = None if end is None else self._encoded(self._key(end)) + b"\x00"
        return self._between(lower, upper)

    def prefix(self, prefix: Any) -> Iterator[tuple[Row, Row]]:
        """(key, row) of keys that begin with these first columns of the key, in the order of keys."""
        lower = self._keys.encode(self._first_columns(prefix))
        return self._between(lower, _behind(lower))

    def all(self) -> Iterator[tuple[Row, Row]]:
        """(key, row) of all rows, in the order of keys."""
        return self._between(None, None)

    def get_many(self, keys: Columns) -> pa.RecordBatch:
        """The rows of keys, by the key's columns: the value's and `_timestamp`, all null where there is none."""
        encoded = self._encoded_many(keys)
        self.expect([key for key in encoded if key not in self._changed])
        rows = [self._changed[key][1] if key in self._changed else self._read[key] for key in encoded]
        codec = RowCodec(self._value_type.columns)
        times = [self._changed[key][2] if key in self._changed else 0 for key in encoded]
        columns, timestamps = codec.decode(self._bytes_of(rows, times))
        retention = self._store.retention_ms
        there = timestamps >= 0 if retention is None else timestamps > max(self._moment.stream_time - retention, -1)
        found = pa.RecordBatch.from_arrays([*columns, pa.array(timestamps)], names=[*codec.types, "_timestamp"])
        return found if there.all() else found.take(pa.array(np.arange(len(there)), mask=~there))

    def put_many(self, rows: Columns) -> None:
        """Set the rows of keys, given by the columns of key and value; of several of one key the last counts.

        `_timestamp`: of each row, ms; without it that of the last record at work.
        """
        encoded = self._encoded_many(rows)
        times = (
            to_numpy(column_of(rows, "_timestamp", pa.int64(), self.name))
            if "_timestamp" in rows.schema.names
            else np.full(len(encoded), self._moment.timestamp)
        )
        codec = RowCodec(self._value_type.columns)
        values = codec.encode([column_of(rows, name, kind, self.name) for name, kind in codec.types.items()], times)
        self._change_many(encoded, values, times.tolist())

    def delete_many(self, keys: Columns) -> None:
        """Remove the rows of keys, given by the columns of the key."""
        encoded = self._encoded_many(keys)
        self._change_many(encoded, [None] * len(encoded), [self._moment.timestamp] * len(encoded))

    def expect(self, keys: Sequence[bytes]) -> None:
        """Read the rows of keys (encoded) that are likely to be asked for. Reading many at once is quicker."""
        missing = sorted({key for key in keys if key not in self._read})
        self._read.update(zip(missing, self._opened.get_many(missing), strict=True))

    def sweep(self, until: int) -> None:
        """Delete the rows that have expired: those with a timestamp up to `until`, ms."""
        expired = [key for key, row in self._opened.range(None, None) if timestamp_of(row) <= until]
        for key, values in zip(expired, self._keys.decode(expired) if expired else (), strict=True):
            self._change(key, self._key_type.made(values), None)

    def flush(self) -> None:
        """Give the epoch's changes to the store: the last one of each key."""
        self.expect([key for key, (_, row, _) in self._changed.items() if row is None and key not in self._read])
        kept = {
            key: change
            for key, change in sorted(self._changed.items(), key=lambda each: each[0])
            if change[1] is not None or self._read.get(key) is not None
        }
        if not kept:
            return
        rows, times = [row for _, row, _ in kept.values()], [time for _, _, time in kept.values()]
        self._opened.put_many(list(kept), self._bytes_of(rows, times), np.array(times, np.int64))

    def _bytes_of(self, rows: Sequence[Row | bytes | None], times: Sequence[int]) -> list[bytes | None]:
        """Rows as they are stored."""
        made = [(number, row) for number, row in enumerate(rows) if row is not None and type(row) is not bytes]
        found = list(rows)
        if made:
            columns = self._value_type.to_columns([row for _, row in made])
            timestamps = np.array([times[number] for number, _ in made], np.int64)
            encoded = RowCodec(self._value_type.columns).encode(list(columns.values()), timestamps)
            for (number, _), row in zip(made, encoded, strict=True):
                found[number] = row
        return found

    def _encoded_many(self, rows: Columns) -> list[bytes]:
        keys = encode_keys([column_of(rows, name, kind, self.name) for name, kind in self._key_type.columns.items()])
        if keys.null_count:
            raise UnfitValueError(f"a key of the store {self.name!r} cannot be null")
        return bytes_of(keys)

    def _change_many(self, keys: Sequence[bytes], rows: Sequence[bytes | None], times: Sequence[int]) -> None:
        self._unordered += dict.fromkeys(key for key in keys if key not in self._changed)
        self._changed.update((key, (None, row, time)) for key, row, time in zip(keys, rows, times, strict=True))

    def _get(self, key: bytes) -> Row | None:
        change = self._changed.get(key)
        if change is not None:
            return self._visible(change[1], change[2])
        found = self._read[key] if key in self._read else self._fetched(key)
        return None if found is None else self._decoded(found)

    def _fetched(self, key: bytes) -> bytes | None:
        (found,) = self._opened.get_many([key])
        self._read[key] = found
        return found

    def _decoded(self, row: bytes) -> Row | None:
        values, timestamp = self._rows.decode(row)
        retention = self._store.retention_ms
        if retention is not None and timestamp <= self._moment.stream_time - retention:
            return None
        return self._value_type.made(values)

    def _visible(self, row: Row | bytes | None, timestamp: int) -> Row | None:
        retention = self._store.retention_ms
        if row is None or (retention is not None and timestamp <= self._moment.stream_time - retention):
            return None
        return self._value_type.made(self._rows.decode(row)[0]) if type(row) is bytes else self._value_type.copy(row)

    def _change(self, encoded: bytes, key: Row, row: Row | None) -> None:
        if encoded not in self._changed:
            self._unordered.append(encoded)
        self._changed[encoded] = key, row, self._moment.timestamp

    def _between(self, lower: bytes | None, upper: bytes | None) -> Iterator[tuple[Row, Row]]:
        order = self._ordered()
        first = 0 if lower is None else bisect_left(order, lower)
        last = len(order) if upper is None else bisect_left(order, upper)
        # What is there now: what a function changes while it goes through the rows is not seen.
        changes = [(key, self._changed[key]) for key in order[first:last]]
        now = self._moment.stream_time
        return self._merged(changes, lower, upper, now)

    def _merged(
        self, changes: Sequence[tuple[bytes, _Change]], lower: bytes | None, upper: bytes | None, now: int
    ) -> Iterator[tuple[Row, Row]]:
        retention = self._store.retention_ms
        oldest = None if retention is None else now - retention
        place = 0
        for encoded, key, row, timestamp in self._committed(lower, upper):
            while place < len(changes) and changes[place][0] < encoded:
                yield from self._shown(*changes[place], oldest)
                place += 1
            if place < len(changes) and changes[place][0] == encoded:
                yield from self._shown(*changes[place], oldest)
                place += 1
            elif oldest is None or timestamp > oldest:
                yield key, row
        for changed in changes[place:]:
            yield from self._shown(*changed, oldest)

    def _shown(self, encoded: bytes, change: _Change, oldest: int | None) -> Iterator[tuple[Row, Row]]:
        key, row, timestamp = change
        if row is None or (oldest is not None and timestamp <= oldest):
            return
        if key is None:
            key = self._key_type.made(self._keys.decode([encoded])[0])
        yield (
            key,
            self._value_type.made(self._rows.decode(row)[0]) if type(row) is bytes else self._value_type.copy(row),
        )

    def _committed(self, lower: bytes | None, upper: bytes | None) -> Iterator[tuple[bytes, Row, Row, int]]:
        """The rows of before this epoch, read some at a time."""
        found, count = self._opened.range(lower, upper), _FIRST_READ
        while batch := list(islice(found, count)):
            count = min(count * 4, _MOST_READ)
            for (encoded, row), key in zip(batch, self._keys.decode([each for each, _ in batch]), strict=True):
                values, timestamp = self._rows.decode(row)
                yield encoded, self._key_type.made(key), self._value_type.made(values), timestamp

    def _ordered(self) -> list[bytes]:
        """The keys that have changed, in order."""
        if len(self._unordered) > len(self._order) // 8:
            self._order = sorted([*self._order, *self._unordered])
        else:
            for key in self._unordered:
                insort(self._order, key)
        self._unordered = []
        return self._order

    def _key(self, key: Any) -> Row:
        try:
            return self._key_type.of(key)
        except UnfitValueError as error:
            raise UnfitValueError(f"a key of the store {self.name!r}: {error.cause}") from None

    def _value(self, value: Any) -> Row:
        try:
            return self._value_type.of(value)
        except UnfitValueError as error:
            raise UnfitValueError(f"a row of the store {self.name!r}: {error.cause}") from None

    def _encoded(self, key: Row) -> bytes:
        if self._hashable and (known := self._known.get(key)) is not None:
            return known
        values = tuple(key)
        if not any(value is not None for value in values):
            raise UnfitValueError(f"a key of the store {self.name!r} cannot be null")
        encoded = self._keys.encode(values)
        if self._hashable:  # a key is mostly asked for again: to change its row, or with the next records
            self._known[key] = encoded
        return encoded

    def _first_columns(self, prefix: Any) -> list[Any]:
        names = list(self._key_type.columns)
        given = names[: len(prefix)] if isinstance(prefix, Mapping) else [n for n in names if hasattr(prefix, n)]
        if not given or given != names[: len(given)]:
            raise UnfitValueError(f"a prefix of keys of the store {self.name!r} has its first columns: {names}")
        found = taken(prefix, given)
        return [None if value is None else self._normal[name](value) for name, value in zip(given, found, strict=True)]


def _behind(prefix: bytes) -> bytes | None:
    """The least bytes that are behind all that begin with `prefix`."""
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None
