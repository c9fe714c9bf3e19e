"""Rows of a processor's store during an epoch: reads of committed rows, with the uncommitted changes on top."""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from operator import gt, lt
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from ....python_functions.objects import Row, RowType
from ....python_functions.results import UnfitValueError, converter, to_column, to_python, values_by_name
from ....records.arrays import Bools
from ....records.keys import ESCAPE, decode_keys, encode_keys
from ....state.codec import RowCodec, timestamp_of
from ....state.physical import fixed_width, from_values
from ..keyed.groups import bytes_of
from ..node import EpochStore
from .batches import Columns, Moment, column_of, times_of

# Encodes and decodes single keys and rows. The bytes are those that `records.keys` and `state.codec` make of columns.
#
# Columns are much faster for many rows, but a processor reads and writes one row at a time.

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NTZ = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_TIME = struct.Struct("<q")
_FORMATS = {"u1": "?", "i1": "b", "<i2": "h", "<i4": "i", "<i8": "q", "<f4": "f", "<f8": "d", "V16": "16s"}
_NULL, _VALUE, _END = b"\x00", b"\x01", b"\x00"


class SingleKeys:
    """Encodes keys with the columns `types` (name -> type). Values: as `python_functions.values` makes them."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        self.types = dict(types)
        self._parts = tuple(_key_part(kind) for kind in types.values())

    def encode(self, values: Sequence[Any]) -> bytes:
        r"""The bytes of a key. Fewer values than columns give a prefix. A key with only nulls is a null key.

        Example, for the columns a string and n smallint:

            ("x", 1)    b"\x01x\x00\x01\x80\x01"
            ("x", -1)   b"\x01x\x00\x01\x7f\xff"   less than the key before, as -1 < 1
            ("x",)      b"\x01x\x00"               the prefix of both
            (None, 1)   b"\x00\x01\x80\x01"
        """
        return b"".join(
            [_NULL if value is None else part(value) for part, value in zip(self._parts, values, strict=False)]
        )

    def decode(self, keys: Sequence[bytes]) -> list[tuple[Any, ...]]:
        """The values of keys. Raises UnfitValueError for a time outside Python's range."""
        columns = decode_keys(pa.array(keys, pa.binary()), list(self.types.values()))
        return list(zip(*map(to_python, columns), strict=True))


def _key_part(kind: pa.DataType) -> Callable[[Any], bytes]:
    """The encoder of one key column, for values that are not null."""
    if pa.types.is_string(kind):
        return lambda text: _VALUE + text.encode().replace(b"\x00", b"\x00\xff") + _END
    if pa.types.is_binary(kind):
        return lambda data: _VALUE + data.replace(b"\x00", b"\x00\xff") + _END
    if pa.types.is_boolean(kind):
        return lambda value: b"\x01\x01" if value else b"\x01\x00"
    if pa.types.is_integer(kind):
        return _whole_part(kind.bit_width)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        number, part = _number_of(kind), _whole_part(kind.bit_width)
        return lambda moment: part(number(moment))
    # Floats, decimals and nested values are rare in keys.
    return lambda value: bytes(encode_keys([to_column([value], kind)])[0].as_py())


def _whole_part(bits: int) -> Callable[[int], bytes]:
    lifted, size = 1 << (bits - 1), bits // 8
    return lambda number: _VALUE + (number + lifted).to_bytes(size, "big")


def _number_of(kind: pa.DataType) -> Callable[[Any], int]:
    """The conversion of a date or timestamp to its stored number: days or microseconds since 1970."""
    if pa.types.is_date(kind):
        return lambda day: (day - _EPOCH_DAY).days
    start = _EPOCH if kind.tz else _EPOCH_NTZ
    return lambda moment: (moment - start) // _MICROSECOND


class SingleRows:
    """Decodes rows with the columns `types` (name -> type)."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        kinds = list(types.values())
        widths = [fixed_width(kind) for kind in kinds]
        self._plain = tuple(_plain(kind) for kind in kinds)
        self._fixed: struct.Struct | None = None
        if all(width is not None for width in widths):
            nulls = -(-len(kinds) // 8)
            formats = "".join(_FORMATS[width] for width in widths if width is not None)
            self._fixed = struct.Struct(f"<q{nulls}s{formats}")

    def decode(self, row: bytes) -> tuple[tuple[Any, ...], int]:
        """The values of a row, and its timestamp (ms). Raises UnfitValueError for a time outside Python's range."""
        if self._fixed is None:
            (timestamp,) = _TIME.unpack_from(row)
            values = msgpack.unpackb(row[_TIME.size :], strict_map_key=False)
        else:
            timestamp, nulls, *values = self._fixed.unpack(row)
            missing = int.from_bytes(nulls, "little")
            if missing:
                values = [None if missing >> number & 1 else value for number, value in enumerate(values)]
        try:
            return tuple(
                [
                    value if value is None or plain is None else plain(value)
                    for value, plain in zip(values, self._plain, strict=True)
                ]
            ), timestamp
        except OverflowError as error:
            raise UnfitValueError("a time outside of the years 1 to 9999, which Python does not have") from error


def _plain(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """The conversion of a stored value to a Python value. None if both are equal."""
    if pa.types.is_date(kind):
        return lambda days: _EPOCH_DAY + timedelta(days=days)
    if pa.types.is_timestamp(kind):
        start = _EPOCH if kind.tz else _EPOCH_NTZ
        return lambda micros: start + timedelta(microseconds=micros)
    if pa.types.is_decimal(kind):
        scale = -kind.scale
        return lambda data: Decimal(int.from_bytes(data, "little", signed=True)).scaleb(scale)
    if pa.types.is_nested(kind):
        return lambda value: to_python(from_values([value], kind))[0]
    return None


# Rows of a processor's store by encoded key: the committed rows, with the changes of the epoch on top.

_FIRST_READ, _MOST_READ = 16, 4096
"""How many committed rows a range reads at once. It starts small, because most ranges are short."""

TIMESTAMP = "_timestamp"
"""The column of the rows' timestamps (ms) in batches."""

_Change = tuple[Row | bytes | None, int]
"""A row as an object or as bytes (None: deleted), and its timestamp in ms."""

Found = tuple[bytes, Row, int]
"""An encoded key, its row, and the row's timestamp in ms."""


class EpochRows:
    """The rows of a store by encoded key. `types`: the value columns. Timestamps are ms. The caller handles expiry."""

    def __init__(self, store: str, types: Mapping[str, pa.DataType], opened: EpochStore, moment: Moment) -> None:
        """`store`: its name, for messages. `moment`: the current record. It also guards against use after the epoch."""
        self._moment = moment
        self._store = store
        self._type = RowType(types)
        self._codec = RowCodec(types)
        self._single = SingleRows(types)
        self._opened = opened
        self._read: dict[bytes, bytes | None] = {}
        self._changed: dict[bytes, _Change] = {}
        self._order: list[bytes] = []
        self._unordered: list[bytes] = []

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """The types of the columns."""
        return self._type.columns

    def row(self, value: Any) -> Row | None:
        """A row from a processor's value, see `RowType.of`. None for None. Raises UnfitValueError."""
        try:
            return None if value is None else self._type.of(value)
        except UnfitValueError as error:
            raise UnfitValueError(f"a row of the store {self._store!r}: {error.cause}") from None

    def get(self, key: bytes) -> tuple[Row, int] | None:
        """The row of a key and its timestamp. None if the row does not exist."""
        self._moment.reject_outside()
        change = self._changed.get(key)
        if change is not None:
            row, timestamp = change
            return None if row is None else (self._own(row), timestamp)
        found = self._read[key] if key in self._read else self._fetched(key)
        if found is None:
            return None
        values, timestamp = self._single.decode(found)
        return self._type.made(values), timestamp

    def put(self, key: bytes, row: Row | bytes | None, timestamp: int) -> None:
        """Set the row of a key; None deletes it."""
        self._moment.reject_outside()
        if key not in self._changed:
            self._unordered.append(key)
        self._changed[key] = row, timestamp

    def between(self, lower: bytes | None, upper: bytes | None, *, reverse: bool = False) -> Iterator[list[Found]]:
        """The current rows with `lower <= key < upper`, in key order, in batches. None leaves a side open.

        `reverse`: in descending key order. Later changes are not visible in the result.
        """
        self._moment.reject_outside()
        order = self._ordered()
        first = 0 if lower is None else bisect_left(order, lower)
        last = len(order) if upper is None else bisect_left(order, upper)
        # A copy, so that changes during the iteration are not visible.
        changes = [(key, *self._changed[key]) for key in order[first:last]]
        if reverse:
            changes.reverse()
        return self._merged(changes, self._committed(lower, upper, reverse), gt if reverse else lt)

    def first_key(self, lower: bytes) -> bytes | None:
        """The first committed key that is not below `lower`. None if there is none."""
        return next((key for key, _ in self._opened.range(lower, None)), None)

    def expect(self, keys: Sequence[bytes]) -> None:
        """Prefetch the rows of keys that are likely to be read. One read of many keys is faster."""
        missing = sorted({key for key in keys if key not in self._read})
        self._read.update(zip(missing, self._opened.get_many(missing), strict=True))

    def stored(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The current rows of keys, encoded. None where a row does not exist."""
        self._moment.reject_outside()
        self.expect([key for key in keys if key not in self._changed])
        rows = [self._changed[key][0] if key in self._changed else self._read[key] for key in keys]
        return self._bytes_of(rows, [self._changed[key][1] if key in self._changed else 0 for key in keys])

    def count(self, after: int) -> int:
        """The number of current rows with a timestamp later than `after`."""
        self._moment.reject_outside()
        kept = sum(1 for row, time in self._changed.values() if row is not None and time > after)
        before = (key for key, row in self._opened.range(None, None) if timestamp_of(row) > after)
        return kept + sum(1 for key in before if key not in self._changed)

    def get_columns(self, keys: Sequence[bytes], there: Bools | None = None, after: int = -1) -> pa.RecordBatch:
        """The rows of keys: their columns and `_timestamp`, one row for each key.

        All columns are null where no row exists, or where its timestamp is not later than `after`. `there`: False
        where the row has expired in any case.
        """
        columns, timestamps = self._codec.decode(self.stored(keys))
        there = (timestamps > max(after, -1)) & (True if there is None else there)
        found = pa.RecordBatch.from_arrays([*columns, pa.array(timestamps)], names=[*self.types, TIMESTAMP])
        return found if there.all() else found.take(pa.array(np.arange(len(there)), mask=~there))

    def put_columns(self, keys: Sequence[bytes], rows: Columns, timestamp: int) -> None:
        """Set the rows of keys. `rows`: the value columns. Its `_timestamp` column, if any, replaces `timestamp`."""
        times = np.full(len(keys), timestamp)
        if TIMESTAMP in rows.schema.names:
            times = times_of(rows, TIMESTAMP, self._store)
        columns = [column_of(rows, name, kind, self._store) for name, kind in self.types.items()]
        for key, row, time in zip(keys, self._codec.encode(columns, times), times.tolist(), strict=True):
            self.put(key, row, time)

    def older(self, until: int) -> list[bytes]:
        """The keys of committed rows with timestamps up to `until`."""
        return [key for key, row in self._opened.range(None, None) if timestamp_of(row) <= until]

    def flush(self) -> None:
        """Write the epoch's changes to the store: the last change of each key. Skips deletions of missing rows."""
        self.expect([key for key, (row, _) in self._changed.items() if row is None and key not in self._read])
        kept = [
            (key, row, time)
            for key, (row, time) in sorted(self._changed.items(), key=lambda each: each[0])
            if row is not None or self._read.get(key) is not None
        ]
        if not kept:
            return
        times = [time for _, _, time in kept]
        rows = self._bytes_of([row for _, row, _ in kept], times)
        self._opened.put_many([key for key, _, _ in kept], rows, np.array(times, np.int64))

    def _own(self, row: Row | bytes) -> Row:
        """A copy of a row for a processor, which may change lists in it."""
        return self._type.made(self._single.decode(row)[0]) if type(row) is bytes else self._type.copy(row)

    def _bytes_of(self, rows: Sequence[Row | bytes | None], times: Sequence[int]) -> list[bytes | None]:
        """Rows, encoded. `times`: their timestamps, ms. Rows that are bytes or None stay as they are."""
        made = [(number, row) for number, row in enumerate(rows) if row is not None and type(row) is not bytes]
        found = list(rows)
        if made:
            columns = self._type.to_columns([row for _, row in made])
            timestamps = np.array([times[number] for number, _ in made], np.int64)
            encoded = self._codec.encode(list(columns.values()), timestamps)
            for (number, _), row in zip(made, encoded, strict=True):
                found[number] = row
        return found

    def _fetched(self, key: bytes) -> bytes | None:
        (found,) = self._opened.get_many([key])
        self._read[key] = found
        return found

    def _merged(
        self,
        changes: Sequence[tuple[bytes, Row | bytes | None, int]],
        committed: Iterable[list[tuple[bytes, bytes]]],
        before: Callable[[bytes, bytes], bool],
    ) -> Iterator[list[Found]]:
        """The committed rows, merged with the changes. `before`: whether its first key precedes its second."""
        place = 0
        for batch in committed:
            found: list[Found] = []
            for key, row in batch:
                while place < len(changes) and before(changes[place][0], key):
                    found += self._there(*changes[place])
                    place += 1
                if place < len(changes) and changes[place][0] == key:
                    found += self._there(*changes[place])
                    place += 1
                else:
                    values, timestamp = self._single.decode(row)
                    found.append((key, self._type.made(values), timestamp))
            yield found
        yield [each for change in changes[place:] for each in self._there(*change)]

    def _there(self, key: bytes, row: Row | bytes | None, timestamp: int) -> list[Found]:
        return [] if row is None else [(key, self._own(row), timestamp)]

    def _committed(
        self, lower: bytes | None, upper: bytes | None, reverse: bool
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """The committed rows, read in batches."""
        found, count = self._opened.range(lower, upper, reverse=reverse), _FIRST_READ
        while True:
            batch = list(islice(found, count))
            if not batch:
                return
            count = min(count * 4, _MOST_READ)
            yield batch

    def _ordered(self) -> list[bytes]:
        """The changed keys, sorted."""
        if len(self._unordered) > len(self._order) // 8:
            self._order = sorted([*self._order, *self._unordered])
        else:
            for key in self._unordered:
                insort(self._order, key)
        self._unordered = []
        return self._order


# Keys of a processor's store: conversion between a processor's objects and bytes.


class StoreKeys:
    """Encodes and decodes keys with the columns `types` (name -> type). `store`: its name, for messages.

    A processor passes a key as a mapping by column, or as an object with these attributes. Anything else raises
    UnfitValueError.
    """

    def __init__(self, store: str, types: Mapping[str, pa.DataType]) -> None:
        self._store = store
        self._type = RowType(types)
        self._single = SingleKeys(types)
        self._normal = {name: converter(kind) for name, kind in types.items()}
        self._hashable = not any(pa.types.is_nested(kind) for kind in types.values())
        # 0.0 and -0.0 are the same key, so a float key cannot be cached by its bytes.
        self._exact = self._hashable and not any(pa.types.is_floating(kind) for kind in types.values())
        self._known: dict[Row, bytes] = {}
        self._given: dict[bytes, Row] = {}

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """The types of the columns."""
        return self._type.columns

    def encoded(self, key: Any) -> bytes:
        """The bytes of a key. Raises UnfitValueError, also for a null key."""
        if key is None:
            raise UnfitValueError(f"a key of the store {self._store!r} cannot be null")
        try:
            row = self._type.of(key)
        except UnfitValueError as error:
            raise UnfitValueError(f"a key of the store {self._store!r}: {error.cause}") from None
        if self._hashable and (known := self._known.get(row)) is not None:
            return known
        values = tuple(row)
        if not any(value is not None for value in values):
            raise UnfitValueError(f"a key of the store {self._store!r} cannot be null")
        encoded = self._single.encode(values)
        if self._hashable:  # most keys are used again: to change the row, or with the next records
            self._known[row] = encoded
        if self._exact:
            self._given[encoded] = row
        return encoded

    def encoded_prefix(self, prefix: Any) -> bytes:
        """The common prefix of all keys with these values in the first key columns. Raises UnfitValueError."""
        names = list(self._type.columns)
        given = names[: len(prefix)] if isinstance(prefix, Mapping) else [n for n in names if hasattr(prefix, n)]
        if not given or given != names[: len(given)]:
            raise UnfitValueError(f"a prefix of keys of the store {self._store!r} has its first columns: {names}")
        found = zip(given, values_by_name(prefix, given), strict=True)
        return self._single.encode([None if value is None else self._normal[name](value) for name, value in found])

    def encoded_many(self, rows: Columns) -> list[bytes]:
        """The bytes of keys. `rows`: a batch with the key columns. Raises UnfitValueError."""
        keys = encode_keys([column_of(rows, name, kind, self._store) for name, kind in self._type.columns.items()])
        if keys.null_count:
            raise UnfitValueError(f"a key of the store {self._store!r} cannot be null")
        return bytes_of(keys)

    def decoded(self, keys: Sequence[bytes]) -> list[Row]:
        """The keys as objects, from their bytes."""
        unknown = [key for key in keys if key not in self._given]
        read = dict(zip(unknown, self._single.decode(unknown), strict=True)) if unknown else {}
        return [self._given[key] if key in self._given else self._type.made(read[key]) for key in keys]


def behind(key: bytes) -> bytes:
    """An upper bound for a range over an encoded key, or over all keys with this prefix.

    It is greater than all bytes that begin with the key or prefix, and less than all keys behind them. A column is
    followed by the marker of the next column, or by a time. ESCAPE follows only within a longer text.
    """
    return key + bytes([ESCAPE])
