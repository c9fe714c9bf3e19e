"""Numbers the distinct keys, and windows, of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...records.arrays import Int64s, to_numpy
from ...records.keys.encoding import encode_keys
from ...records.keys.order import as_numbers, last_in_order
from ...timed_parts import timed

_TABLE = 8
"""Up to so many times as many cells as rows, a table of all numbers is made."""


def last_rows(code: Int64s, count: int) -> Int64s:
    """The last row of each of `count` groups."""
    last = np.empty(count, np.int64)
    # Of several assignments to one index, numpy keeps the last.
    last[code] = np.arange(len(code))
    return last


def group_codes(keys: pa.Array) -> tuple[Int64s, Int64s]:
    """(The group of each row, the first row of each group).

    Groups are numbered as they first appear. Null is a value.
    """
    with timed("group"):
        numbers = as_numbers(keys) if _is_bytes(keys.type) and not keys.null_count else None
        if numbers is not None:
            keys = pa.array(numbers)
        encoded = keys.dictionary_encode(null_encoding="encode")
        code = to_numpy(encoded.indices).astype(np.int64)
        first = np.empty(len(encoded.dictionary), np.int64)
        # From the end, because of several assignments to one index numpy keeps the last.
        first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
        return code, first


def group_by(columns: Sequence[pa.Array]) -> tuple[Int64s, Int64s]:
    """`group_codes` for keys of several columns (at least one). Keys are equal if their encoded bytes are.

    Raises KeyTypeError.
    """
    if not all(_plain(column.type) for column in columns):
        return group_codes(encode_keys(columns))
    code, first = group_codes(columns[0])
    for column in columns[1:]:
        more, distinct = group_codes(column)
        # Renumbered after each column: the product of all columns' counts could exceed 64 bits.
        code, first = group_codes(pa.array(code * len(distinct) + more))
    return code, first


def by_key(code: Int64s, first: Int64s, keys: pa.BinaryArray) -> tuple[Int64s, Int64s, pa.BinaryArray]:
    """Groups numbered in ascending order of their keys, and the keys. Stores are fastest in that order."""
    with timed("sort keys"):
        place = last_in_order(keys)
        number = np.empty(len(place), np.int64)
        number[place] = np.arange(len(place))
        return number[code], first[place], keys.take(pa.array(place))


def bytes_of(keys: pa.BinaryArray) -> list[bytes]:
    """Keys as stores take them."""
    # Numpy makes a list of bytes faster than `to_pylist`.
    found: list[bytes] = keys.to_numpy(zero_copy_only=False).tolist()
    return found


@dataclass(frozen=True)
class Windows:
    """Groups of a key and a window each. `code`: the group of each row. `key`, `window`: the number of each group's."""

    code: Int64s
    key: Int64s
    window: Int64s


def by_window(code: Int64s, count: int, window: Int64s) -> Windows:
    """Groups by key and window, in the order of the windows and then of the keys.

    `code`: the key of each row, 0 to `count` - 1. `window`: the number of each row's window.
    """
    with timed("group"):
        if not len(code):
            return Windows(code, code, code)
        windows, place = _distinct(window, int(window.min()), int(window.max()) + 1)
        groups, code = _distinct(place * count + code, 0, len(windows) * count)
        return Windows(code, groups % count, windows[groups // count])


def _distinct(numbers: Int64s, least: int, end: int) -> tuple[Int64s, Int64s]:
    """(The distinct numbers in ascending order, the place of each row's number among them).

    All numbers are at least `least` and below `end`. A table of all numbers in between is several times as fast as
    sorting, if it is not much larger than there are rows.
    """
    if end - least > _TABLE * len(numbers):
        distinct, place = np.unique(numbers, return_inverse=True)
        return distinct, place
    cells = numbers - least
    there = np.zeros(end - least, np.bool_)
    there[cells] = True
    distinct = np.flatnonzero(there)
    place = np.empty(end - least, np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct + least, place[cells]


def _plain(data_type: pa.DataType) -> bool:
    """Whether Arrow and encoded keys agree on which values are equal. For floating point numbers they do not."""
    return not (pa.types.is_floating(data_type) or pa.types.is_nested(data_type))


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_binary(data_type))
