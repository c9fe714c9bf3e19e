"""Writers of Avro values: from columns to the type of a schema, each value as bytes of an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import BadValueError, Int64s, check_overflow, list_offsets, shown, to_numpy, valid_text
from ..records.keys import binary_array
from ..records.schema import widened

_NOTHING = pa.scalar(b"", pa.binary())
_LONGEST = 10
_DECIMAL = 16


class AvroWriter(Protocol):
    """Writes the values of a column."""

    def write(self, column: pa.Array) -> pa.BinaryArray:
        """The bytes of each value. Raises BadValueError for one that the schema cannot hold, also for a null.

        The row of the error is not that of the column: see `by_rows`.
        """
        ...


@dataclass(frozen=True)
class ValueWriter:
    """Writes values without parts. `kind`: to which the column is widened; `encode`: from it, without nulls."""

    kind: pa.DataType
    encode: Callable[[pa.Array], pa.BinaryArray]

    def write(self, column: pa.Array) -> pa.BinaryArray:
        _check_no_null(column)
        return self.encode(widened(column, self.kind))


@dataclass(frozen=True)
class UnionWriter:
    """Writes one branch of a union, or its null. `head`, `null`: the numbers of both as bytes; None without a null."""

    inner: AvroWriter
    head: bytes
    null: bytes | None

    def write(self, column: pa.Array) -> pa.BinaryArray:
        if self.null is None:
            _check_no_null(column)
        present = to_numpy(column.is_valid())
        values = column if present.all() else column.filter(pa.array(present))
        written = _joined([pa.scalar(self.head, pa.binary()), self.inner.write(values)])
        if present.all():
            return written
        rows = pa.array(np.cumsum(present) - 1, mask=~present)
        return written.take(rows).fill_null(pa.scalar(self.null, pa.binary()))


@dataclass(frozen=True)
class ConstantWriter:
    """Writes the default of a field that has no column. Its column is the one of another field."""

    value: bytes

    def write(self, column: pa.Array) -> pa.BinaryArray:
        return pa.array([self.value], pa.binary()).take(pa.array(np.zeros(len(column), np.int64)))


@dataclass(frozen=True)
class ItemsWriter:
    """Writes lists, or maps, which have a `key`: one block with all items, then an empty one."""

    item: AvroWriter
    key: AvroWriter | None = None

    def write(self, column: pa.Array) -> pa.BinaryArray:
        _check_no_null(column)
        if self.key is None:
            offsets, items = list_offsets(column), self.item.write(column.flatten())
        else:
            whole = column.take(pa.array(np.arange(len(column))))  # `keys` of a slice are those of the whole array
            offsets = whole.offsets
            items = _joined([self.key.write(whole.keys), self.item.write(whole.items)])
        counts = np.diff(to_numpy(offsets)).astype(np.int64)
        texts = check_overflow(pc.binary_join(pa.ListArray.from_arrays(offsets, items), _NOTHING))
        end = pa.scalar(b"\0", pa.binary())
        blocks = _joined([numbers(pa.array(counts)), texts, end])
        return blocks if counts.all() else pc.if_else(pa.array(counts > 0), blocks, end)


@dataclass(frozen=True)
class RecordWriter:
    """Writes structs, or all columns. `fields`: (name, number of the column, writer) in the schema's order."""

    fields: Sequence[tuple[str, int, AvroWriter]]

    def write(self, column: pa.Array) -> pa.BinaryArray:
        _check_no_null(column)
        parts = []
        columns = column.flatten()
        for name, number, writer in self.fields:
            try:
                parts.append(writer.write(columns[number] if columns else column))
            except BadValueError as error:
                raise BadValueError(error.row, f"field {name}: {error.cause}") from None
        return _joined(parts) if parts else binary_array(np.zeros(0, np.uint8), np.zeros(len(column), np.int64))


def _check_no_null(column: pa.Array) -> None:
    if column.null_count:
        row = int(np.flatnonzero(to_numpy(column.is_null()))[0])
        raise BadValueError(row, "it is null, and the schema has no null there")


def _joined(parts: Sequence[pa.Array | pa.Scalar]) -> pa.BinaryArray:
    return check_overflow(pc.binary_join_element_wise(*parts, _NOTHING))


# Values without parts. The arrays have no nulls.


def numbers(column: pa.Array) -> pa.BinaryArray:
    """`int` and `long`: numbers of variable length."""
    values: Int64s = to_numpy(column).astype(np.int64)
    words = (values.view(np.uint64) << np.uint64(1)) ^ (values >> np.int64(63)).view(np.uint64)
    octets = np.zeros((len(words), _LONGEST), np.uint8)
    sizes: Int64s = np.ones(len(words), np.int64)
    octets[:, 0] = words & np.uint64(0x7F)
    for byte in range(1, _LONGEST):
        words = words >> np.uint64(7)
        more = words > 0
        if not more.any():
            break
        octets[more, byte - 1] |= 0x80
        octets[:, byte] = words & np.uint64(0x7F)
        sizes += more
    return binary_array(octets[np.arange(_LONGEST) < sizes[:, None]], sizes)


def words(column: pa.Array, dtype: str) -> pa.BinaryArray:
    """`boolean`, `float` and `double`: of a fixed size."""
    values = np.ascontiguousarray(to_numpy(column).astype(dtype))
    return binary_array(values.view(np.uint8), np.full(len(values), values.dtype.itemsize, np.int64))


def sized(column: pa.Array) -> pa.BinaryArray:
    """`bytes` and `string`: behind their length."""
    values = (valid_text(column) if pa.types.is_string(column.type) else column).cast(pa.binary())
    return _joined([numbers(pc.binary_length(values)), values])


def fixed(column: pa.BinaryArray, size: int) -> pa.BinaryArray:
    """`fixed` of bytes."""
    lengths = to_numpy(pc.binary_length(column))
    other = np.flatnonzero(lengths != size)
    if len(other):
        raise BadValueError(int(other[0]), f"it has {lengths[other[0]]} bytes, and the schema {size}")
    return column


def symbols(column: pa.StringArray, known: Sequence[str]) -> pa.BinaryArray:
    """`enum`: the number of a symbol."""
    places = pc.index_in(column, pa.array(known, pa.string()))
    if places.null_count:
        row = int(np.flatnonzero(to_numpy(places.is_null()))[0])
        raise BadValueError(row, f"{shown(column[row].as_py())} is no symbol of the enum: {', '.join(known)}")
    return numbers(places)


def times(column: pa.Array, unit: str) -> pa.BinaryArray:
    """`timestamp-*` and `local-timestamp-*`."""
    values: Int64s = to_numpy(column.cast(pa.int64()))
    if unit == "millis":
        finer = np.flatnonzero(values % 1000)
        if len(finer):
            raise BadValueError(
                int(finer[0]), f"{column[int(finer[0])].as_py()} is finer than the schema's milliseconds"
            )
        values = values // 1000
    elif unit == "nanos":
        beyond = np.flatnonzero(np.abs(values) > (2**63 - 1) // 1000)
        if len(beyond):
            row = int(beyond[0])
            raise BadValueError(row, f"{column[row].as_py()} is beyond the schema's nanoseconds")
        values = values * 1000
    return numbers(pa.array(values))


def uuids(column: pa.StringArray) -> pa.BinaryArray:
    """`uuid` as a fixed of 16 bytes."""
    hexadecimal = pc.replace_substring(column, "-", "")
    written = []
    for row, text in enumerate(hexadecimal.to_pylist()):
        try:
            written.append(bytes.fromhex(text))
        except ValueError:
            written.append(b"")
        if len(written[-1]) != _DECIMAL:
            raise BadValueError(row, f"{shown(column[row].as_py())} is no UUID")
    return pa.array(written, pa.binary())


def decimals(column: pa.Array, size: int | None) -> pa.BinaryArray:
    """`decimal`: digits as a number in two's complement, big endian: the fewest bytes, or `size` of them."""
    whole = column.take(pa.array(np.arange(len(column))))  # without an offset
    little = np.frombuffer(whole.buffers()[1], np.uint8)[: _DECIMAL * len(whole)].reshape(len(whole), _DECIMAL)
    sign = np.where(little[:, -1:] >= 0x80, np.uint8(0xFF), np.uint8(0))
    # A byte that only repeats the sign is not needed, if the byte below it has the same sign.
    needed = little != sign
    needed[:, 1:] |= (little[:, :-1] >= 0x80) != (sign == 0xFF)
    sizes: Int64s = np.where(needed.any(axis=1), _DECIMAL - np.argmax(needed[:, ::-1], axis=1), 1).astype(np.int64)
    big = little[:, ::-1]
    if size is None:
        octets = big[np.arange(_DECIMAL) >= _DECIMAL - sizes[:, None]]
        return _joined([numbers(pa.array(sizes)), binary_array(octets, sizes)])
    large = np.flatnonzero(sizes > size)
    if len(large):
        raise BadValueError(int(large[0]), f"{column[int(large[0])].as_py()} needs more than {size} bytes")
    wide = np.concatenate([np.repeat(sign, max(0, size - _DECIMAL), axis=1), big[:, max(0, _DECIMAL - size) :]], axis=1)
    return binary_array(np.ascontiguousarray(wide).reshape(-1), np.full(len(whole), size, np.int64))
