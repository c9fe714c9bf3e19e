"""The encoding of keys as bytes, and partitions of keys."""

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
from .arrays import Int64s, check_overflow, list_offsets
from .schema import WINDOW_COLUMNS, key_columns

# The hash murmur2 of Kafka's default partitioner, for whole arrays at once.
#
# The constants are those of `org.apache.kafka.common.utils.Utils.murmur2`, so equal bytes have the same hash in Kafka.
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
    # Strings of one length, one after another.
    regular = len(lengths) > 0 and bool((lengths == lengths[0]).all() and (np.diff(starts) == lengths[0]).all())
    hashes: _Words = lengths.astype(np.uint32) ^ _SEED
    if regular:
        _mix_equal_lengths(hashes, words, int(starts[0]), int(lengths[0]))
    else:
        _mix(hashes, words, starts, lengths)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes.view(np.int32)


def _mix(hashes: _Words, word_at: _Words, starts: Ints, lengths: Ints) -> None:
    """Mix the bytes of each string into its hash.

    Round n mixes the n-th word of all strings that have one. Strings of 9, 3 and 4 bytes:

        counts, whole words   [2, 0, 1]
        round 0               rows [0, 2], words at starts + 0
        round 1               row [0], word at starts + 4
        rest, bytes left      [1, 3, 0]
        mask                  0xff for row 0, 0xffffff for row 1: the bytes of the next word that belong to the string
    """
    counts = lengths >> 2
    rows = np.arange(len(lengths))
    for number in range(int(counts.max(initial=0))):
        rows = rows[counts[rows] > number]
        hashes[rows] = _mixed(hashes[rows], word_at[starts[rows] + 4 * number])
    rest = lengths & 3
    rows = np.flatnonzero(rest)
    mask = (np.uint32(1) << (8 * rest[rows]).astype(np.uint32)) - np.uint32(1)
    hashes[rows] = (hashes[rows] ^ (word_at[starts[rows] + 4 * counts[rows]] & mask)) * _M


def _mix_equal_lengths(hashes: _Words, word_at: _Words, start: int, length: int) -> None:
    """`_mix` for contiguous strings of one length: slices instead of gathers, which take most of the time."""
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
    """The little-endian 32-bit word at every byte, aligned or not, without a copy for each.

    Of b"abcdef", these are 0x64636261 (b"abcd" at byte 0), 0x65646362 (b"bcde" at byte 1), and so on; at the end, zeros
    follow: 0x6665 at byte 4. A gather of word_at[starts] then reads the first word of each string.
    """
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    return np.ndarray((len(data) + 1,), dtype=np.dtype("<u4"), buffer=padded.data, strides=(1,))


# The encoding of keys as bytes. The order of the bytes is the order of the values.
#
# Stores, changelogs and the partitioner all use it, so equal keys are equal bytes everywhere.
# `docs/internals/keys.md` specifies it byte by byte. It must never change: stores and topics on disk depend on it.
#
# Each column is a marker (0x00 null, 0x01 value), followed by the content of a value. Nulls come first, as in Spark's
# ascending order. If all columns are null, the key is a null key, without bytes.

_NULL = b"\x00"
_VALUE = b"\x01"
_END = b"\x00"
_NOTHING = b""
ESCAPE = 0xFF
"""The byte after each 0x00 inside a text. A 0x00 without it ends the text. No marker has this value."""

Bools = npt.NDArray[np.bool_]
_Unsigned = npt.NDArray[Any]


class KeyTypeError(HeadwaterError):
    """A column type that a key cannot have: maps have no order, and neither have types with maps in them."""

    def __init__(self, data_type: pa.DataType) -> None:
        super().__init__(f"a key cannot have a column of type {data_type}")


def encode_keys(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """The encoded key of each row. `columns`: at least one. Null if all columns are null. Raises KeyTypeError.

    columns       [7, null] smallint and ["a\\0b", null] string
    first row     01 8007, the marker and 7 with its sign bit flipped; 01 61 00ff 62 00, the marker, "a",
                  an escaped 0x00, "b", the end
    second row    null
    """
    with timed("encode keys"):
        encoded = [_encode(column) for column in columns]
        joined = encoded[0] if len(encoded) == 1 else pc.binary_join_element_wise(*encoded, _NOTHING)
    # A key is null only if all columns are null. One column without nulls rules that out.
    if any(column.null_count == 0 for column in columns):
        return joined
    missing = columns[0].is_null()
    for column in columns[1:]:
        missing = pc.and_(missing, column.is_null())
    return pc.if_else(missing, pa.scalar(None, pa.binary()), joined)


def normal_key(column: pa.Array) -> pa.Array:
    """The column with identical values for equal keys: 0.0 for -0.0 and one NaN, also inside arrays and structs.

    Decoding returns only these values. So readers of a key see the same value, whichever record was the last.
    """
    data_type = column.type
    if not holds_floats(data_type):
        return column
    if pa.types.is_struct(data_type):
        fields = [normal_key(field) for field in column.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(data_type), mask=column.is_null())
    if pa.types.is_list(data_type):
        offsets = list_offsets(column)
        return pa.ListArray.from_arrays(offsets, normal_key(column.flatten()), type=data_type, mask=column.is_null())
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(_equal_floats(values), data_type, mask=_null_mask(column))


def _null_mask(column: pa.Array) -> Bools | None:
    """A mask of the nulls of a column; None without nulls."""
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None


def partition_of(keys: pa.BinaryArray, partitions: int) -> Ints:
    """The partition of each encoded key: Kafka's positive murmur2 modulo `partitions`; -1 for a null key."""
    data, starts, lengths = binary_parts(keys)
    # Kafka's `Utils.toPositive` clears the sign bit, and does not negate.
    numbers = (murmur2(data, starts, lengths) & np.int32(0x7FFFFFFF)).astype(np.int64) % partitions
    if keys.null_count:
        numbers[keys.is_null().to_numpy(zero_copy_only=False)] = -1
    return numbers


def binary_parts(array: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """A binary or string array as (bytes, starts, lengths), without a copy of the bytes. The length of a null is 0.

    array              [b"ab", null, b"", b"cde"]
    data               b"abcde"
    starts, lengths    [0, 2, 2, 2], [2, 0, 0, 3]
    of the slice [1:]  the same data, [2, 2, 2], [0, 0, 3]
    """
    if not len(array):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, offset_buffer, values = array.buffers()
    # A slice shares the buffers of its array, so its own offsets begin at `array.offset`.
    offsets: Ints = np.frombuffer(offset_buffer, np.int32)[array.offset :][: len(array) + 1].astype(np.int64)
    data = np.zeros(0, np.uint8) if values is None else np.frombuffer(values, np.uint8)
    return data, offsets[:-1], offsets[1:] - offsets[:-1]


def binary_array(data: Bytes, lengths: Ints) -> pa.BinaryArray:
    """The inverse of `binary_parts` for contiguous values: b"abcde" and [2, 0, 3] give [b"ab", b"", b"cde"]."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.BinaryArray.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _encode(column: pa.Array) -> pa.BinaryArray:
    """Marker and content of each row; never null."""
    data_type = column.type
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        text = column.cast(pa.binary())
        data, starts, lengths = binary_parts(text)
        # Texts hardly ever contain 0x00. A search for one costs less than the replacement, which copies all bytes.
        used = data[starts[0] : starts[-1] + lengths[-1]] if len(starts) else data
        escaped = not used.all()
        if len(starts) and not escaped and not text.null_count and (lengths == lengths[0]).all():
            return _encode_equal_lengths(used.reshape(len(starts), int(lengths[0])))
        if escaped:
            text = check_overflow(pc.replace_substring(text, pattern=b"\x00", replacement=bytes([0, ESCAPE])))
        return _marked(pc.binary_join_element_wise(_VALUE, text, _END, _NOTHING))
    if pa.types.is_struct(data_type):
        if data_type.num_fields == 0:
            raise KeyTypeError(data_type)
        fields = pc.binary_join_element_wise(_VALUE, *map(_encode, column.flatten()), _NOTHING)
        return pc.if_else(column.is_valid(), fields, _NULL)
    if pa.types.is_list(data_type):
        elements = pc.binary_join_element_wise(_VALUE, _encode(column.flatten()), _NOTHING)
        joined = pc.binary_join(pa.ListArray.from_arrays(list_offsets(column), elements), _NOTHING)
        return pc.if_else(column.is_valid(), pc.binary_join_element_wise(_VALUE, joined, _END, _NOTHING), _NULL)
    return _encode_fixed(column)


def _encode_equal_lengths(texts: Bytes) -> pa.BinaryArray:
    """Texts of one length, without nulls and 0x00, as rows of a matrix: several times as fast as joining them.

    The rows 61 62 and 63 64 become 01 61 62 00 and 01 63 64 00: marker, text, end.
    """
    count, length = texts.shape
    matrix = np.empty((count, length + 2), np.uint8)
    matrix[:, 0] = 1
    matrix[:, 1:-1] = texts
    matrix[:, -1] = 0
    return binary_array(matrix.ravel(), np.full(count, length + 2, np.int64))


def _marked(values: pa.BinaryArray) -> pa.BinaryArray:
    return values.fill_null(_NULL) if values.null_count else values


def _encode_fixed(column: pa.Array) -> pa.BinaryArray:
    """Marker and big-endian value of each row, for types of a fixed width.

    column, tinyint   [1, null, -1]
    words             [0x81, 0x80, 0x7f], with the sign bit flipped; the null counts as 0
    matrix            01 81, 00 80, 01 7f
    kept              all but the value of the null: 01 81 00 01 7f
    lengths           [2, 1, 2]
    """
    words = _sortable(column)
    width = sum(word.dtype.itemsize for word in words)
    matrix = np.empty((len(column), 1 + width), np.uint8)
    matrix[:, 0] = 1
    start = 1
    for word in words:
        size = word.dtype.itemsize
        matrix[:, start : start + size] = word.astype(word.dtype.newbyteorder(">")).view(np.uint8).reshape(-1, size)
        start += size
    if not column.null_count:
        return binary_array(matrix.ravel(), np.full(len(column), 1 + width, np.int64))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    # A null is its marker alone, so the bytes of its value are removed from the matrix.
    matrix[~valid, 0] = 0
    kept = np.repeat(valid[:, None], 1 + width, axis=1)
    kept[:, 0] = True
    return binary_array(matrix[kept], np.where(valid, 1 + width, 1))


def _sortable(column: pa.Array) -> list[_Unsigned]:
    """A fixed-width column as arrays of unsigned words, most significant first; their order is that of the values.

    -1, 0, 1 as tinyint        0x7f, 0x80, 0x81: sign bit flipped
    -1.0, 0.0, 1.0 as float    0x407fffff, 0x80000000, 0xbf800000: all bits of negative numbers flipped, else the sign
    """
    data_type = column.type
    if pa.types.is_decimal128(data_type):
        # Arrow stores 128-bit decimals as little-endian two's complement: the second word has the sign.
        pairs = np.frombuffer(column.buffers()[1], np.dtype("<u8"))[2 * column.offset :][: 2 * len(column)]
        return [pairs[1::2] ^ np.uint64(1 << 63), pairs[0::2]]
    plain = storage(data_type)
    if plain == np.bool_:
        return [column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8)]
    values = column.view(pa.from_numpy_dtype(plain)).fill_null(0).to_numpy(zero_copy_only=False)
    bits = values.view(f"u{plain.itemsize}")
    sign = bits.dtype.type(1 << (8 * plain.itemsize - 1))
    if plain.kind == "i":
        # With the sign bit flipped, negative numbers are the smaller unsigned words.
        return [bits ^ sign]
    bits = _equal_floats(values).view(bits.dtype)
    # The bits of positive floats sort like their values. Those of negative ones sort in reverse, so all bits are
    # flipped.
    return [np.where(bits & sign, ~bits, bits | sign)]


def _equal_floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Floats with equal bytes for equal numbers.

    The addition of 0 turns -0.0 into 0.0. All NaN become the same one, which sorts after infinity.
    """
    return np.where(np.isnan(values), np.array(np.nan, values.dtype), values + values.dtype.type(0))


def holds_floats(data_type: pa.DataType) -> bool:
    """Whether equal values of a type may have different bytes: floats, also nested ones."""
    if pa.types.is_nested(data_type):
        return any(holds_floats(data_type.field(number).type) for number in range(data_type.num_fields))
    return bool(pa.types.is_float32(data_type) or pa.types.is_float64(data_type))


def storage(data_type: pa.DataType) -> np.dtype[Any]:
    """The NumPy type of the values of a fixed-width column. Raises KeyTypeError for other types."""
    if pa.types.is_boolean(data_type):
        return np.dtype(np.bool_)
    if pa.types.is_float32(data_type) or pa.types.is_float64(data_type):
        return np.dtype(f"f{data_type.bit_width // 8}")
    if pa.types.is_signed_integer(data_type) or pa.types.is_timestamp(data_type) or pa.types.is_date32(data_type):
        return np.dtype(f"i{data_type.bit_width // 8}")
    raise KeyTypeError(data_type)


# Decoding: columns from encoded keys.


class KeyFormatError(HeadwaterError):
    """Bytes that are not an encoded key of the expected types."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(f"not the bytes of a key with columns {', '.join(map(str, types))}")


def decode_keys(keys: pa.BinaryArray, types: Sequence[pa.DataType]) -> list[pa.Array]:
    """The columns of encoded keys, with nulls for a null key. Raises KeyFormatError."""
    data, starts, lengths = binary_parts(keys)
    valid = keys.is_valid().to_numpy(zero_copy_only=False)
    reader = _Reader(data, starts.copy())
    columns = [reader.column(data_type, valid) for data_type in types]
    if reader.corrupt or not np.array_equal(reader.position[valid], (starts + lengths)[valid]):
        raise KeyFormatError(types)
    return columns


class _Reader:
    """Decodes all keys at once, column by column. `position`: the next byte of each key.

    Columns of two keys with a smallint and a string:

        data                       01 8007 01 61 00, and 01 8009 00 (the second string is null)
        position at first          [0, 6]
        markers, then words        01, 01; 8007, 8009 -> [7, 9], position [3, 9]
        markers, then texts        01, 00; the first key's text ends at 5 -> ["a", null], position [6, 10]
    """

    def __init__(self, data: Bytes, position: Ints) -> None:
        self._data = np.concatenate([data, np.zeros(16, np.uint8)])
        self.position = position
        self.corrupt = False

    def column(self, data_type: pa.DataType, rows: Bools) -> pa.Array:
        """The next column of the keys in the mask `rows`; null for the others."""
        marker = self._take(np.dtype(np.uint8), rows)
        present = rows.copy()
        present[rows] = marker == 1
        self.corrupt |= bool((marker > 1).any())
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
        """The next big-endian word of the keys in the mask `rows`, whose positions move past it."""
        everywhere = np.ndarray(
            (len(self._data) - dtype.itemsize + 1,), dtype.newbyteorder(">"), self._data.data, strides=(1,)
        )
        starts = self.position[rows]
        self.position[rows] += dtype.itemsize
        # A corrupt key may have any position. The word is discarded then.
        return everywhere[np.minimum(starts, len(everywhere) - 1)].astype(dtype)

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
        """The next text of the keys in the mask; null for the others. Texts end at the first 0x00 without ESCAPE.

        data             61 00 ff 62 00 63 00: "a\\0b" and "c"
        zeros            [1, 4, 6]
        ends             [4, 6]: the byte after 1 is ESCAPE
        starts, stops    [0, 5], [4, 6]: the first of the ends from each start on
        content          61 00 ff 62 63, lengths [4, 1], unescaped at last
        """
        zeros = np.flatnonzero(self._data == 0)
        ends = zeros[self._data[np.minimum(zeros + 1, len(self._data) - 1)] != ESCAPE]
        starts = self.position[present]
        stops = ends[np.minimum(np.searchsorted(ends, starts), len(ends) - 1)]
        self.position[present] = stops + 1
        lengths = np.zeros(len(present), np.int64)
        lengths[present] = np.maximum(stops - starts, 0)
        content = self._data[ranges(starts, lengths[present])]
        text = binary_array(content, lengths)
        if not content.all():
            text = pc.replace_substring(text, pattern=bytes([0, ESCAPE]), replacement=b"\x00")
        return text if present.all() else pc.if_else(pa.array(present), text, pa.scalar(None, pa.binary()))

    def _list(self, data_type: pa.DataType, present: Bools) -> pa.Array:
        """Decode lists. Round n reads the n-th element of all lists: 0x01 precedes an element, 0x00 ends the list.

        lists                       [1, 2], [3]
        elements of the rounds      [1, 3], [2]
        owners, rows of these       [0, 1, 0]
        stable order of owners      [0, 2, 1]: the elements [1, 2, 3]
        offsets, sums of counts     [0, 2, 3]
        """
        rounds: list[pa.Array] = []
        rows: list[Ints] = []
        more = present.copy()
        while more.any():
            marker = self._take(np.dtype(np.uint8), more)
            self.corrupt |= bool((marker > 1).any())
            more[more] = marker == 1
            rounds.append(self.column(data_type.value_type, more).filter(pa.array(more)))
            rows.append(np.flatnonzero(more))
        owners = np.concatenate([np.zeros(0, np.int64), *rows])
        elements = pa.concat_arrays([pa.array([], data_type.value_type), *rounds])
        offsets = np.zeros(len(present) + 1, np.int32)
        np.cumsum(np.bincount(owners, minlength=len(present)), out=offsets[1:])
        elements = elements.take(pa.array(np.argsort(owners, kind="stable")))
        return pa.ListArray.from_arrays(pa.array(offsets), elements, type=data_type, mask=pa.array(~present))


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """The indices `start, start + 1, ...` of each range, one range after another.

    starts, lengths                         [10, 3, 7], [2, 0, 3]
    before, indices of earlier ranges       [0, 2, 2]
    starts - before, repeated by lengths    [10, 10, 5, 5, 5]
    plus 0, 1, 2, 3, 4                      [10, 11, 7, 8, 9]
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def key_partitions(topic: Topic, table: pa.Table | pa.RecordBatch) -> Int64s:
    """The partition of each record, by its key without window bounds; -1 for a null key."""
    names = [name for name in key_columns(topic) if name not in WINDOW_COLUMNS or not topic.windowed]
    if not names:
        return np.full(table.num_rows, -1, np.int64)
    columns = [pa.concat_arrays(_chunks(table.column(f"key.{name}"))) for name in names]
    return partition_of(encode_keys(columns), topic.partitions)


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    if isinstance(column, pa.ChunkedArray):
        return column.chunks or [pa.array([], column.type)]
    return [column]
