"""Keys as bytes, and their partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import HeadwaterError
from ..ir.topology import Topic
from ..timed_parts import timed
from .arrays import Int64s, unbroken
from .schema import WINDOW_COLUMNS, key_columns

# The hash murmur2 as Kafka's default partitioner computes it, for whole arrays at once.
#
# The constants are Kafka's (`org.apache.kafka.common.utils.Utils.murmur2`), so the same bytes have the same hash there.
# The expected values in the tests come from Kafka.

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint32]

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_MIX_SHIFT = np.uint32(24)


def murmur2(data: Bytes, starts: Ints, lengths: Ints) -> npt.NDArray[np.int32]:
    """The signed 32-bit hash of each byte string `data[start : start + length]`."""
    words = _words(data)
    alike = len(lengths) > 0 and bool((lengths == lengths[0]).all() and (np.diff(starts) == lengths[0]).all())
    hashes: _Words = lengths.astype(np.uint32) ^ _SEED
    if alike:
        _mix_alike(hashes, words, int(starts[0]), int(lengths[0]))
    else:
        _mix(hashes, words, starts, lengths)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes.view(np.int32)


def _mix(hashes: _Words, word_at: _Words, starts: Ints, lengths: Ints) -> None:
    """Mix the bytes of each string into its hash."""
    counts = lengths >> 2
    rows = np.arange(len(lengths))
    for number in range(int(counts.max(initial=0))):
        rows = rows[counts[rows] > number]
        hashes[rows] = _mixed(hashes[rows], word_at[starts[rows] + 4 * number])
    rest = lengths & 3
    rows = np.flatnonzero(rest)
    mask = (np.uint32(1) << (8 * rest[rows]).astype(np.uint32)) - np.uint32(1)
    hashes[rows] = (hashes[rows] ^ (word_at[starts[rows] + 4 * counts[rows]] & mask)) * _M


def _mix_alike(hashes: _Words, word_at: _Words, start: int, length: int) -> None:
    """The same for strings of one length, one after the other: nothing has to be picked out, which takes most."""
    every = slice(start, start + (len(hashes) - 1) * length + 1, length or None)
    for number in range(length >> 2):
        hashes[:] = _mixed(hashes, word_at[4 * number :][every])
    if length & 3:
        mask = np.uint32((1 << 8 * (length & 3)) - 1)
        hashes ^= word_at[4 * (length >> 2) :][every] & mask
        hashes *= _M


def _mixed(hashes: _Words, word: _Words) -> _Words:
    word = word * _M
    word ^= word >> _MIX_SHIFT
    return (hashes * _M) ^ (word * _M)


def _words(data: Bytes) -> _Words:
    """The little-endian word at each byte, so that one gather reads four bytes, aligned or not."""
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    return np.ndarray((len(data) + 1,), dtype=np.dtype("<u4"), buffer=padded.data, strides=(1,))


# The encoding of keys as bytes. The order of the bytes is the order of the values.
#
# Stores, changelogs and the partitioner all use it, so equal keys are equal bytes everywhere. `docs/keys.md` specifies
# it byte by byte. It must never change, because stores and topics on disk depend on it.
#
# Each column is a marker (0x00 null, 0x01 value), followed by the content of a value. Nulls come first, as in Spark's
# ascending order. A key whose columns are all null is a null key and has no bytes at all.

_NULL = b"\x00"
_VALUE = b"\x01"
_END = b"\x00"
_NOTHING = b""
ESCAPE = 0xFF
"""Follows each 0x00 inside a text. A 0x00 without it ends the text. No marker has this value."""

Bools = npt.NDArray[np.bool_]
_Unsigned = npt.NDArray[Any]


class KeyTypeError(HeadwaterError):
    """A column type that a key cannot have: maps have no order, and neither has a type that contains one."""

    def __init__(self, data_type: pa.DataType) -> None:
        super().__init__(f"a key cannot have a column of type {data_type}")
        self.data_type = data_type


def encode_keys(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """The encoded keys of the given columns (at least one), row by row.

    Null if all columns are null. Raises KeyTypeError.
    """
    with timed("encode keys"):
        encoded = [_encode(column) for column in columns]
        joined = encoded[0] if len(encoded) == 1 else pc.binary_join_element_wise(*encoded, _NOTHING)
    # A key is null only if all columns are: one column without nulls is enough to skip the check.
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


def partition_of(keys: pa.BinaryArray, partitions: int) -> Ints:
    """Each key's partition: Kafka's positive murmur2 of its bytes, modulo `partitions`; -1 for a null key."""
    data, starts, lengths = binary_parts(keys)
    # Kafka's `Utils.toPositive`: it clears the sign bit, and does not negate.
    found = (murmur2(data, starts, lengths) & np.int32(0x7FFFFFFF)).astype(np.int64) % partitions
    if keys.null_count:
        found[keys.is_null().to_numpy(zero_copy_only=False)] = -1
    return found


def binary_parts(array: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """A binary or string array as (bytes, starts, lengths), without copying the bytes. The length of a null is 0."""
    if not len(array):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, positions, values = array.buffers()
    # A slice shares the buffers of its array, so its own offsets begin at `array.offset`.
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
        # Texts hardly ever contain 0x00. Looking for one costs less than the replacement, which copies all bytes.
        used = data[starts[0] : starts[-1] + lengths[-1]] if len(starts) else data
        escaped = not used.all()
        if len(starts) and not escaped and not text.null_count and (lengths == lengths[0]).all():
            return _encode_alike(used.reshape(len(starts), int(lengths[0])))
        if escaped:
            text = unbroken(pc.replace_substring(text, pattern=b"\x00", replacement=bytes([0, ESCAPE])))
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


def _encode_alike(texts: Bytes) -> pa.BinaryArray:
    """Texts of one length, without nulls and 0x00, as rows of a matrix: several times as fast as joining them."""
    count, length = texts.shape
    matrix = np.empty((count, length + 2), np.uint8)
    matrix[:, 0] = 1
    matrix[:, 1:-1] = texts
    matrix[:, -1] = 0
    return binary_array(matrix.ravel(), np.full(count, length + 2, np.int64))


def _list_offsets(column: pa.ListArray) -> pa.Array:
    """Where each list starts in `column.flatten()`, and where the last one ends."""
    # `flatten` leaves out the elements of null lists, which the column's own offsets may still count.
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
    # A null is its marker alone: the bytes of its value are cut out of the matrix.
    matrix[~valid, 0] = 0
    kept = np.repeat(valid[:, None], 1 + width, axis=1)
    kept[:, 0] = True
    return binary_array(matrix[kept], np.where(valid, 1 + width, 1))


def _sortable(column: pa.Array) -> list[_Unsigned]:
    """A fixed-width column as unsigned words, most significant first, in the order of the values."""
    data_type = column.type
    if pa.types.is_decimal128(data_type):
        # Arrow keeps 128-bit decimals as little-endian two's complement: the second word has the sign.
        pairs = np.frombuffer(column.buffers()[1], np.dtype("<u8"))[2 * column.offset :][: 2 * len(column)]
        return [pairs[1::2] ^ np.uint64(1 << 63), pairs[0::2]]
    plain = storage(data_type)
    if plain == np.bool_:
        return [column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8)]
    values = column.view(pa.from_numpy_dtype(plain)).fill_null(0).to_numpy(zero_copy_only=False)
    bits = values.view(f"u{plain.itemsize}")
    sign = bits.dtype.type(1 << (8 * plain.itemsize - 1))
    if plain.kind == "i":
        # Flipping the sign bit puts negative numbers before the others in the order of unsigned words.
        return [bits ^ sign]
    bits = _equal_floats(values).view(bits.dtype)
    # Positive floats sort by their bits already. Negative ones sort the other way round, so all bits are flipped.
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


def storage(data_type: pa.DataType) -> np.dtype[Any]:
    """The numpy type in which a fixed-width column is stored."""
    if pa.types.is_boolean(data_type):
        return np.dtype(np.bool_)
    if pa.types.is_float32(data_type) or pa.types.is_float64(data_type):
        return np.dtype(f"f{data_type.bit_width // 8}")
    if pa.types.is_signed_integer(data_type) or pa.types.is_timestamp(data_type) or pa.types.is_date32(data_type):
        return np.dtype(f"i{data_type.bit_width // 8}")
    raise KeyTypeError(data_type)


# Encoded keys back as columns: the inverse of `keys`.


class KeyFormatError(HeadwaterError):
    """Bytes that are no encoded key of the expected types."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(f"not the bytes of a key with columns {', '.join(map(str, types))}")
        self.types = tuple(types)


def decode_keys(keys: pa.BinaryArray, types: Sequence[pa.DataType]) -> list[pa.Array]:
    """The columns of encoded keys; a null key gives nulls. Raises KeyFormatError."""
    data, starts, lengths = binary_parts(keys)
    here = keys.is_valid().to_numpy(zero_copy_only=False)
    reader = _Reader(data, starts.copy())
    columns = [reader.column(data_type, here) for data_type in types]
    if reader.broken or not np.array_equal(reader.at[here], (starts + lengths)[here]):
        raise KeyFormatError(types)
    return columns


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

    def _take(self, dtype: np.dtype[Any], rows: Bools) -> npt.NDArray[Any]:
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
        plain = storage(data_type)
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
        ends = zeros[self._data[np.minimum(zeros + 1, len(self._data) - 1)] != ESCAPE]
        starts = self.at[present]
        stops = ends[np.minimum(np.searchsorted(ends, starts), len(ends) - 1)]
        self.at[present] = stops + 1
        lengths = np.zeros(len(present), np.int64)
        lengths[present] = np.maximum(stops - starts, 0)
        content = self._data[_ranges(starts, lengths[present])]
        text = binary_array(content, lengths)
        if not content.all():
            text = pc.replace_substring(text, pattern=bytes([0, ESCAPE]), replacement=b"\x00")
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


# Finds the partition of each record.


def key_partitions(topic: Topic, table: pa.Table | pa.RecordBatch) -> Int64s:
    """The partition of each record by its key, without the window; -1 for a null key."""
    names = [name for name in key_columns(topic) if name not in WINDOW_COLUMNS or not topic.windowed]
    if not names:
        return np.full(table.num_rows, -1, np.int64)
    columns = [pa.concat_arrays(_chunks(table.column(f"key.{name}"))) for name in names]
    return partition_of(encode_keys(columns), topic.partitions)


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    if isinstance(column, pa.ChunkedArray):
        return column.chunks or [pa.array([], column.type)]
    return [column]
