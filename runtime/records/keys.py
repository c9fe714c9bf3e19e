"""The encoding of keys as bytes. The order of the bytes is the order of the values.

Stores, changelogs and the partitioner all use it, so equal keys are equal bytes everywhere. `docs/keys.md` specifies it
byte by byte. It must never change, because stores and topics on disk depend on it.

Each column is a marker (0x00 null, 0x01 value), followed by the content of a value. Nulls come first, as in Spark's
ascending order. A key whose columns are all null is a null key and has no bytes at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import HeadwaterError
from .murmur2 import Bytes, Ints, murmur2

_NULL = pa.scalar(b"\x00", pa.binary())
_VALUE = pa.scalar(b"\x01", pa.binary())
_END = pa.scalar(b"\x00", pa.binary())
_NOTHING = pa.scalar(b"", pa.binary())
_ESCAPE = 0xFF
"""Follows each 0x00 inside a text. A 0x00 without it ends the text. No marker has this value."""

Bools = npt.NDArray[np.bool_]
_Unsigned = npt.NDArray[Any]


class KeyTypeError(HeadwaterError):
    """A column type that a key cannot have: maps have no order, and neither has a type that contains one."""

    def __init__(self, data_type: pa.DataType) -> None:
        super().__init__(f"a key cannot have a column of type {data_type}")
        self.data_type = data_type


class KeyFormatError(HeadwaterError):
    """Bytes that are no encoded key of the expected types."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(f"not the bytes of a key with columns {', '.join(map(str, types))}")
        self.types = tuple(types)


def encode_keys(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """The encoded keys of the given columns (at least one), row by row.

    Null if all columns are null. Raises KeyTypeError.
    """
    encoded = [_encode(column) for column in columns]
    joined = encoded[0] if len(encoded) == 1 else pc.binary_join_element_wise(*encoded, _NOTHING)
    if any(column.null_count == 0 for column in columns):
        return joined
    missing = columns[0].is_null()
    for column in columns[1:]:
        missing = pc.and_(missing, column.is_null())
    return pc.if_else(missing, pa.scalar(None, pa.binary()), joined)


def normal_key(column: pa.Array) -> pa.Array:
    """A key column in which equal keys are identical: 0.0 for -0.0, and one NaN, also inside arrays and structs.

    Decoding gives only these values. So readers of a key see the same value, whichever record of it came last.
    """
    data_type = column.type
    if not holds_floats(data_type):
        return column
    if pa.types.is_struct(data_type):
        fields = [normal_key(field) for field in column.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(data_type), mask=column.is_null())
    if pa.types.is_list(data_type):
        offsets = _list_offsets(column)
        return pa.ListArray.from_arrays(offsets, normal_key(column.flatten()), type=data_type, mask=column.is_null())
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(_equal_floats(values), data_type, mask=_null_mask(column))


def _null_mask(column: pa.Array) -> Bools | None:
    """Where a column is null; None if nowhere."""
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None


def decode_keys(keys: pa.BinaryArray, types: Sequence[pa.DataType]) -> list[pa.Array]:
    """The columns of encoded keys; a null key gives nulls. Raises KeyFormatError."""
    data, starts, lengths = binary_parts(keys)
    here = keys.is_valid().to_numpy(zero_copy_only=False)
    reader = _Reader(data, starts.copy())
    columns = [reader.column(data_type, here) for data_type in types]
    if reader.broken or not np.array_equal(reader.at[here], (starts + lengths)[here]):
        raise KeyFormatError(types)
    return columns


def partition_of(keys: pa.BinaryArray, partitions: int) -> Ints:
    """Each key's partition: Kafka's positive murmur2 of its bytes, modulo `partitions`; -1 for a null key."""
    data, starts, lengths = binary_parts(keys)
    found = (murmur2(data, starts, lengths) & np.int32(0x7FFFFFFF)).astype(np.int64) % partitions
    if keys.null_count:
        found[keys.is_null().to_numpy(zero_copy_only=False)] = -1
    return found


def binary_parts(array: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """A binary or string array as (bytes, starts, lengths), without copying the bytes. The length of a null is 0."""
    if not len(array):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, positions, values = array.buffers()
    offsets: Ints = np.frombuffer(positions, np.int32)[array.offset :][: len(array) + 1].astype(np.int64)
    data = np.zeros(0, np.uint8) if values is None else np.frombuffer(values, np.uint8)
    return data, offsets[:-1], offsets[1:] - offsets[:-1]


def binary_array(data: Bytes, lengths: Ints) -> pa.BinaryArray:
    """The inverse of `binary_parts`, for values that lie one after another."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.BinaryArray.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _encode(column: pa.Array) -> pa.BinaryArray:
    """Marker and content of each row; never null."""
    data_type = column.type
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        text = column.cast(pa.binary())
        data, starts, lengths = binary_parts(text)
        used = data[starts[0] : starts[-1] + lengths[-1]] if len(starts) else data
        if not used.all():
            text = pc.replace_substring(text, pattern=b"\x00", replacement=bytes([0, _ESCAPE]))
        return _marked(pc.binary_join_element_wise(_VALUE, text, _END, _NOTHING))
    if pa.types.is_struct(data_type):
        if data_type.num_fields == 0:
            raise KeyTypeError(data_type)
        fields = pc.binary_join_element_wise(_VALUE, *map(_encode, column.flatten()), _NOTHING)
        return pc.if_else(column.is_valid(), fields, _NULL)
    if pa.types.is_list(data_type):
        elements = pc.binary_join_element_wise(_VALUE, _encode(column.flatten()), _NOTHING)
        joined = pc.binary_join(pa.ListArray.from_arrays(_list_offsets(column), elements), _NOTHING)
        return pc.if_else(column.is_valid(), pc.binary_join_element_wise(_VALUE, joined, _END, _NOTHING), _NULL)
    return _encode_fixed(column)


def _list_offsets(column: pa.ListArray) -> pa.Array:
    """Where each list starts in `column.flatten()`, and where the last one ends."""
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.array(offsets)


def _marked(values: pa.BinaryArray) -> pa.BinaryArray:
    return values.fill_null(_NULL) if values.null_count else values


def _encode_fixed(column: pa.Array) -> pa.BinaryArray:
    words = _sortable(column)
    width = sum(word.dtype.itemsize for word in words)
    matrix = np.empty((len(column), 1 + width), np.uint8)
    matrix[:, 0] = 1
    at = 1
    for word in words:
        size = word.dtype.itemsize
        matrix[:, at : at + size] = word.astype(word.dtype.newbyteorder(">")).view(np.uint8).reshape(-1, size)
        at += size
    if not column.null_count:
        return binary_array(matrix.ravel(), np.full(len(column), 1 + width, np.int64))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    matrix[~valid, 0] = 0
    kept = np.repeat(valid[:, None], 1 + width, axis=1)
    kept[:, 0] = True
    return binary_array(matrix[kept], np.where(valid, 1 + width, 1))


def _sortable(column: pa.Array) -> list[_Unsigned]:
    """A fixed-width column as unsigned words, most significant first, in the order of the values."""
    data_type = column.type
    if pa.types.is_decimal128(data_type):
        pairs = np.frombuffer(column.buffers()[1], np.dtype("<u8"))[2 * column.offset :][: 2 * len(column)]
        return [pairs[1::2] ^ np.uint64(1 << 63), pairs[0::2]]
    plain = _storage(data_type)
    if plain == np.bool_:
        return [column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8)]
    values = column.view(pa.from_numpy_dtype(plain)).fill_null(0).to_numpy(zero_copy_only=False)
    bits = values.view(f"u{plain.itemsize}")
    sign = bits.dtype.type(1 << (8 * plain.itemsize - 1))
    if plain.kind == "i":
        return [bits ^ sign]
    bits = _equal_floats(values).view(bits.dtype)
    return [np.where(bits & sign, ~bits, bits | sign)]


def _equal_floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Floats in which equal numbers have equal bytes.

    Adding 0 turns -0.0 into 0.0. Every NaN becomes the same one, which sorts after infinity.
    """
    return np.where(np.isnan(values), np.array(np.nan, values.dtype), values + values.dtype.type(0))


def holds_floats(data_type: pa.DataType) -> bool:
    """Whether equal values of a type may differ in bytes."""
    if pa.types.is_nested(data_type):
        return any(holds_floats(data_type.field(number).type) for number in range(data_type.num_fields))
    return bool(pa.types.is_float32(data_type) or pa.types.is_float64(data_type))


def _storage(data_type: pa.DataType) -> np.dtype[Any]:
    """The numpy type in which a fixed-width column is stored."""
    if pa.types.is_boolean(data_type):
        return np.dtype(np.bool_)
    if pa.types.is_float32(data_type) or pa.types.is_float64(data_type):
        return np.dtype(f"f{data_type.bit_width // 8}")
    if pa.types.is_signed_integer(data_type) or pa.types.is_timestamp(data_type) or pa.types.is_date32(data_type):
        return np.dtype(f"i{data_type.bit_width // 8}")
    raise KeyTypeError(data_type)


class _Reader:
    """Decodes many keys side by side. `at`: the next byte of each."""

    def __init__(self, data: Bytes, at: Ints) -> None:
        self._data = np.concatenate([data, np.zeros(16, np.uint8)])
        self.at = at
        self.broken = False

    def column(self, data_type: pa.DataType, here: Bools) -> pa.Array:
        """The next column for the rows in `here`; null elsewhere."""
        marker = self._take(np.dtype(np.uint8), here)
        present = here.copy()
        present[here] = marker == 1
        self.broken |= bool((marker > 1).any())
        if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
            # Not checked: Spark's strings may contain bytes that are not UTF-8.
            return self._text(present).cast(data_type, safe=False)
        if pa.types.is_struct(data_type):
            fields = [self.column(field.type, present) for field in data_type]
            return pa.StructArray.from_arrays(fields, fields=list(data_type), mask=pa.array(~present))
        if pa.types.is_list(data_type):
            return self._list(data_type, present)
        return self._fixed(data_type, present)

    def _take(self, dtype: np.dtype[Any], rows: Bools) -> _Unsigned:
        """The next big-endian word of the rows. Moves the rows past it."""
        everywhere = np.ndarray(
            (len(self._data) - dtype.itemsize + 1,), dtype.newbyteorder(">"), self._data.data, strides=(1,)
        )
        at = self.at[rows]
        self.at[rows] += dtype.itemsize
        # A broken key may point anywhere. What is read there is discarded.
        return everywhere[np.minimum(at, len(everywhere) - 1)].astype(dtype)

    def _fixed(self, data_type: pa.DataType, present: Bools) -> pa.Array:
        mask = None if present.all() else ~present
        if pa.types.is_decimal128(data_type):
            words = np.zeros((len(present), 2), np.dtype("<u8"))
            words[present, 1] = self._take(np.dtype(np.uint64), present) ^ np.uint64(1 << 63)
            words[present, 0] = self._take(np.dtype(np.uint64), present)
            validity = None if mask is None else pa.array(present).buffers()[1]
            return pa.Array.from_buffers(data_type, len(present), [validity, pa.py_buffer(words)])
        plain = _storage(data_type)
        words = self._take(np.dtype(f"u{plain.itemsize}"), present)
        if plain == np.bool_:
            values = words.astype(np.bool_)
        else:
            sign = words.dtype.type(1 << (8 * plain.itemsize - 1))
            if plain.kind == "f":
                words = np.where(words & sign, words ^ sign, ~words)
            else:
                words ^= sign
            values = words.view(plain)
        if mask is not None:
            everywhere = np.zeros(len(present), plain)
            everywhere[present] = values
            values = everywhere
        return pa.array(values, mask=mask).view(data_type)

    def _text(self, present: Bools) -> pa.BinaryArray:
        zeros = np.flatnonzero(self._data == 0)
        ends = zeros[self._data[np.minimum(zeros + 1, len(self._data) - 1)] != _ESCAPE]
        starts = self.at[present]
        stops = ends[np.minimum(np.searchsorted(ends, starts), len(ends) - 1)]
        self.at[present] = stops + 1
        lengths = np.zeros(len(present), np.int64)
        lengths[present] = np.maximum(stops - starts, 0)
        content = self._data[_ranges(starts, lengths[present])]
        text = binary_array(content, lengths)
        if not content.all():
            text = pc.replace_substring(text, pattern=bytes([0, _ESCAPE]), replacement=b"\x00")
        return text if present.all() else pc.if_else(pa.array(present), text, pa.scalar(None, pa.binary()))

    def _list(self, data_type: pa.DataType, present: Bools) -> pa.Array:
        """Decode lists, one round for each element: 0x01 announces an element, 0x00 ends the list."""
        rounds: list[pa.Array] = []
        rows: list[Ints] = []
        more = present.copy()
        while more.any():
            marker = self._take(np.dtype(np.uint8), more)
            self.broken |= bool((marker > 1).any())
            more[more] = marker == 1
            rounds.append(self.column(data_type.value_type, more).filter(pa.array(more)))
            rows.append(np.flatnonzero(more))
        owners = np.concatenate([np.zeros(0, np.int64), *rows])
        elements = pa.concat_arrays([pa.array([], data_type.value_type), *rounds])
        offsets = np.zeros(len(present) + 1, np.int32)
        np.cumsum(np.bincount(owners, minlength=len(present)), out=offsets[1:])
        elements = elements.take(pa.array(np.argsort(owners, kind="stable")))
        return pa.ListArray.from_arrays(pa.array(offsets), elements, type=data_type, mask=pa.array(~present))


def _ranges(starts: Ints, lengths: Ints) -> Ints:
    """The indices `start, start + 1, ...` of each range, one range after another."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
