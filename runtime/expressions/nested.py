"""Functions of arrays, structs and maps with the semantics of Spark SQL.

Functions that read them give null for null. `data` is an Arrow list, map or struct array with one value per row.

An Arrow list array has `offsets` into one child array. Bytes below a null row may still contain elements, so lengths
are 0 there. The helpers below give, for [[10, 20, 30], null, [], [40, 50]], whose null row covers two elements:

    child         [10, 20, 30, 98, 99, 40, 50]
    offsets       [0, 3, 5, 5, 7]
    _lengths      [3, 0, 0, 2]     elements of each row
    _starts       [0, 3, 5, 5]     position of the first element of each row in the child
    _before       [0, 3, 3, 3]     elements in all rows before
    elements_of   [10, 20, 30, 40, 50], and their rows [0, 0, 0, 3, 3]
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Bools, Int64s, to_numpy
from .calendar import array_of, known, numbers_of, plain
from .kernels import Value, compared


def field(data: pa.Array, index: int) -> Value:
    """The field of structs at an index, null where the struct is null."""
    return Value(pc.struct_field(data, [index]))


def struct(*columns: pa.Array, data_type: pa.StructType) -> Value:
    """Structs with one field for each column."""
    return Value(pa.StructArray.from_arrays(columns, fields=list(data_type)))


def array(*columns: pa.Array, data_type: pa.ListType) -> Value:
    """Arrays with one element from each column.

    Example:

        columns       [1, 2, 3] and [4, 5, null]
        concatenated  [1, 2, 3, 4, 5, null]
        order         [0, 3, 1, 4, 2, 5]     row by row, from column to column
        result        [[1, 4], [2, 5], [3, null]]
    """
    rows, many = len(columns[0]), len(columns)
    order = np.arange(rows * many).reshape(many, rows).T.ravel()
    elements = pa.concat_arrays(columns).take(pa.array(order))
    return Value(pa.ListArray.from_arrays(_offsets(np.full(rows, many)), elements, type=data_type))


def size(data: pa.Array) -> Value:
    """The number of elements of arrays, or of entries of maps, as int32."""
    valid = known(data)
    return Value(pa.array(_lengths(data).astype(np.int32), mask=None if valid is None else ~valid))


def item(data: pa.Array, index: pa.Array) -> Value:
    """The element at an index, counted from 0. An index out of range fails the row."""
    return _at(data, plain(index), known(data, index), fails=True)


def item_or_null(data: pa.Array, index: pa.Array) -> Value:
    """The element at an index, counted from 0. An index out of range gives null."""
    return _at(data, plain(index), known(data, index), fails=False)


def element(data: pa.Array, place: int, fails: bool) -> Value:
    """The element at a position, counted from 1, or from the end if negative (-1 is the last).

    Out of range: the row fails if `fails`, otherwise null. Position -1 with `fails`:

        data    [[10, 20, 30], null, [], [40, 50]]
        index   [2, -1, -1, 1]
        result  [30, null, null, 50]
        failed  [False, False, True, False]
    """
    index = np.full(len(data), place - 1, np.int64) if place > 0 else _lengths(data) + place
    return _at(data, index, known(data), fails)


def _at(data: pa.ListArray, index: Int64s, valid: Bools | None, fails: bool) -> Value:
    inside = (index >= 0) & (index < _lengths(data))
    found = inside if valid is None else inside & valid
    places = pa.array(_starts(data) + index, pa.int64(), mask=~found)
    failed = ~inside if valid is None else ~inside & valid
    return Value(data.values.take(places), failed if fails and failed.any() else None)


def contains(data: pa.Array, wanted: pa.Array) -> Value:
    """Whether arrays contain an element, or maps a key. Null if not found in an array that has a null element.

    Example:

        data    [[20, null], [30, null], [30], null]
        wanted  [20, 20, 20, 20]
        result  [True, null, False, null]
    """
    elements, rows = elements_of(data)
    of_each = wanted.take(pa.array(rows))
    equal = (
        compared(pc.equal, elements, of_each) if pa.types.is_floating(elements.type) else pc.equal(elements, of_each)
    )
    hit = _any(to_numpy(pc.fill_null(equal, False)), rows, len(data))
    valid = known(data, wanted)
    unknown = ~hit & _any(to_numpy(elements.is_null()), rows, len(data))
    return Value(pa.array(hit, mask=unknown if valid is None else unknown | ~valid))


def _any(true: Bools, rows: Int64s, many: int) -> Bools:
    """A mask of `many` rows: whether a row has a true element. `rows`: the row of each element."""
    found = np.zeros(many, np.bool_)
    found[rows[true]] = True
    return found


def extreme(data: pa.Array, most: bool) -> Value:
    """The greatest or least integer, date or timestamp in each array.

    Null elements do not count; an array without others gives null: the greatest of [[3, null, 5], [null], [], null]
    are [5, null, null, null].
    """
    elements, rows = elements_of(data)
    valid = to_numpy(elements.is_valid())
    found = np.full(len(data), -(2**63) if most else 2**63 - 1, np.int64)
    times = pa.types.is_temporal(elements.type)
    numbers = (numbers_of if times else plain)(elements)[valid]
    (np.maximum if most else np.minimum).at(found, rows[valid], numbers)
    any_there = _any(valid, rows, len(data))
    return Value(array_of(np.where(any_there, found, 0), elements.type, None if any_there.all() else any_there))


def cut(data: pa.Array, place: int, most: int) -> Value:
    """`slice`: at most `most` elements from a position, counted from 1, or from the end if negative.

    Position 2, at most 5, of the array in the docstring of this module:

        lengths  [3, 0, 0, 2]
        begin    [1, 1, 1, 1]
        many     [2, 0, 0, 1]           elements that are kept of each row
        before   [0, 2, 2, 2]           kept elements in all rows before
        places   [1, 2, 6]              positions in the child: start + begin + number within the row
        result   [[20, 30], null, [], [50]]
    """
    lengths = _lengths(data)
    begin = np.full(len(data), place - 1, np.int64) if place > 0 else lengths + place
    many = np.where((begin < 0) | (begin >= lengths), 0, np.minimum(lengths - begin, most))
    before = np.cumsum(many) - many
    places = np.repeat(_starts(data) + begin - before, many) + np.arange(many.sum())
    null = data.is_null() if data.null_count else None
    return Value(
        pa.ListArray.from_arrays(_offsets(many), data.values.take(pa.array(places)), type=data.type, mask=null)
    )


def joined(data: pa.Array, separator: str) -> Value:
    """`array_join`: the strings of each array with a separator between them. Null elements are skipped.

    With "-": [["a", null, "b"], [null], [], null] gives ["a-b", "", "", null].
    """
    elements, rows = elements_of(data)
    valid = to_numpy(elements.is_valid())
    offsets = _offsets(np.bincount(rows[valid], minlength=len(data)))
    found = pc.binary_join(pa.ListArray.from_arrays(offsets, elements.filter(pa.array(valid))), separator)
    there = known(data)
    return Value(found if there is None else pc.if_else(pa.array(there), found, pa.scalar(None, found.type)))


def keys(data: pa.Array, data_type: pa.ListType) -> Value:
    """The keys of maps."""
    return Value(_listed(data, data.keys, data_type))


def values(data: pa.Array, data_type: pa.ListType) -> Value:
    """The values of maps, in the order of their keys."""
    return Value(_listed(data, data.items, data_type))


def of_key(data: pa.Array, wanted: pa.Array) -> Value:
    """The value of a key in each map: of the first such key, or null.

    Example:

        data    [{a: 1, b: 2}, null, {b: 3, b: 4}]
        wanted  ["b", "b", "b"]
        equal   [False, True, True, True]     of all keys
        places  [1, 2, 3]                     positions of these keys in the child
        hit     [0, 2], first [0, 1]          rows with the key, and their first entry in `places`
        result  [2, null, 3]
    """
    elements, rows = elements_of(data)
    equal = to_numpy(pc.fill_null(pc.equal(elements, wanted.take(pa.array(rows))), False))
    places = (np.repeat(_starts(data) - _before(data), _lengths(data)) + np.arange(len(rows)))[equal]
    hit, first = np.unique(rows[equal], return_index=True)
    found, none = np.zeros(len(data), np.int64), np.ones(len(data), np.bool_)
    found[hit], none[hit] = places[first], False
    return Value(data.items.take(pa.array(found, mask=none)))


def split(data: pa.Array, separator: str, data_type: pa.ListType) -> Value:
    """Strings split at a separator, which is not a regular expression: "a,b" gives ["a", "b"], "" gives [""]."""
    cut = pc.split_pattern(data, separator)
    return Value(_listed(cut, cut.values, data_type))


def elements_of(data: pa.Array) -> tuple[pa.Array, Int64s]:
    """The elements of all arrays (or the keys of all maps) in one array, and the row of each element as int64."""
    rows = np.repeat(np.arange(len(data)), _lengths(data))
    child = data.keys if pa.types.is_map(data.type) else data.values
    within_row = np.arange(len(rows)) - np.repeat(_before(data), _lengths(data))
    return child.take(pa.array(np.repeat(_starts(data), _lengths(data)) + within_row)), rows


def _before(data: pa.Array) -> Int64s:
    """The number of elements in all rows before each row."""
    lengths = _lengths(data)
    return np.cumsum(lengths) - lengths


def _lengths(data: pa.Array) -> Int64s:
    """The number of elements of each row: 0 where the row is null, whatever its offsets say."""
    lengths: Int64s = np.diff(to_numpy(data.offsets)).astype(np.int64)
    valid = known(data)
    return lengths if valid is None else lengths * valid


def _starts(data: pa.Array) -> Int64s:
    starts: Int64s = to_numpy(data.offsets)[:-1].astype(np.int64)
    return starts


def _listed(data: pa.Array, child: pa.Array, data_type: pa.ListType) -> pa.Array:
    """`child`, a child array of `data`, as lists with the offsets and nulls of `data`."""
    offsets = pa.array(to_numpy(data.offsets).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, child, type=data_type, mask=data.is_null() if data.null_count else None)


def _offsets(lengths: Int64s) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
