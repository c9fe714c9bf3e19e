"""Encoded keys back as columns: the inverse of `keys`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ....errors import HeadwaterError
from ..murmur2 import Bytes, Ints
from .encoding import ESCAPE, Bools, binary_array, binary_parts, storage


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
