"""Converts Arrow columns to plain values and back: to NumPy for fixed widths, to Python values otherwise.

A timestamp becomes its integer, a decimal its 16 bytes. All conversions are lossless.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_NUMPY = {
    pa.bool_(): "u1",
    pa.int8(): "i1",
    pa.int16(): "<i2",
    pa.int32(): "<i4",
    pa.int64(): "<i8",
    pa.float32(): "<f4",
    pa.float64(): "<f8",
}
_BYTES16 = pa.binary(16)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the plain values of a flat column. Raises TypeError for a type that Spark does not have."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_decimal128(kind):
        return _BYTES16
    if kind in _NUMPY or kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.null()):
        return kind
    raise TypeError(f"no column of a store can have type {kind}")


def fixed_width(kind: pa.DataType) -> str | None:
    """The NumPy type of a column's stored values; None for a variable width. Raises TypeError."""
    if pa.types.is_nested(kind):
        for number in range(kind.num_fields):
            fixed_width(kind.field(number).type)
        return None
    plain = plain_type(kind)
    return "V16" if plain == _BYTES16 else _NUMPY.get(plain)


def to_fixed(column: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """The values of a fixed-width column with zeros for nulls, and a mask of the nulls (None: no nulls).

    int16 [7, null] gives ([7, 0], [False, True]).
    """
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    if pa.types.is_boolean(column.type):
        return column.fill_null(False).to_numpy(zero_copy_only=False), nulls
    size = np.dtype(fixed_width(column.type))
    values = np.frombuffer(column.buffers()[1], size, len(column), column.offset * size.itemsize)
    if nulls is not None:
        # The array shares its memory with the column, which is immutable.
        values = values.copy()
        values[nulls] = np.zeros((), size)
    return values, nulls


def from_fixed(values: npt.NDArray[Any], nulls: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """The inverse of `to_fixed`: a column of type `kind`. `nulls`: True for nulls, one per value."""
    if pa.types.is_boolean(kind):
        return pa.array(values.astype(bool), pa.bool_(), mask=nulls)
    valid = pa.array(~nulls).buffers()[1] if nulls.any() else None
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))])


def to_values(column: pa.Array) -> list[Any]:
    """The plain values of a column, with None for nulls.

    Structs become tuples, lists lists, maps lists of pairs: struct<a, b> [{a: 1, b: 2}, null] gives [(1, 2), None], and
    map [{x: 1}, {}] gives [[("x", 1)], []].
    """
    kind = column.type
    if pa.types.is_struct(kind):
        fields = [to_values(column.field(number)) for number in range(kind.num_fields)]
        rows: list[Any] = list(zip(*fields, strict=True)) if fields else [()] * len(column)
    elif pa.types.is_map(kind):
        rows = _cut(list(zip(to_values(column.keys), to_values(column.items), strict=True)), column)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        rows = _cut(to_values(column.values), column)
    else:
        values: list[Any] = _as_plain(column).to_pylist()
        return values
    if column.null_count:
        return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]
    return rows


def from_values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The inverse of `to_values`: a column of type `kind`."""
    if not pa.types.is_nested(kind):
        plain = pa.array(values, plain_type(kind))
        return plain if plain.type == kind else pa.Array.from_buffers(kind, len(plain), plain.buffers())
    nulls = pa.array([value is None for value in values], pa.bool_())
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        children = [
            from_values([None if value is None else value[number] for value in values], field.type)
            for number, field in enumerate(fields)
        ]
        if not fields:
            return pa.array([None if value is None else {} for value in values], kind)
        return pa.StructArray.from_arrays(children, fields=fields, mask=nulls)
    offsets = pa.array(accumulate((len(value or ()) for value in values), initial=0), _offset_type(kind))
    inner = [element for value in values if value for element in value]
    if pa.types.is_map(kind):
        keys = from_values([key for key, _ in inner], kind.key_type)
        items = from_values([item for _, item in inner], kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=nulls)
    lists = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return lists.from_arrays(offsets, from_values(inner, kind.value_type), type=kind, mask=nulls)


def _as_plain(column: pa.Array) -> pa.Array:
    plain = plain_type(column.type)
    if plain == column.type:
        return column
    return pa.Array.from_buffers(plain, len(column), column.buffers(), column.null_count, column.offset)


def _cut(inner: list[Any], column: pa.Array) -> list[list[Any]]:
    """The elements of each list: offsets [2, 3, 5] give [inner[2:3], inner[3:5]]. The offsets of a slice begin above
    0."""
    offsets = column.offsets.to_pylist()
    return [inner[start:end] for start, end in pairwise(offsets)]


def _offset_type(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_large_list(kind) else pa.int32()
