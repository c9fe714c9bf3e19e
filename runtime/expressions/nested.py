"""Arrays, structs and maps, as Spark SQL reads and makes them. All give null for null, but for those that make them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Bools, Int64s, to_numpy
from .calendar import array_of, known, numbers_of, plain
from .kernels import Value, compared


def field(data: pa.Array, index: int) -> Value:
    """A field of structs, null where the struct is."""
    return Value(pc.struct_field(data, [index]))


def struct(*columns: pa.Array, data_type: pa.StructType) -> Value:
    """Structs of columns."""
    return Value(pa.StructArray.from_arrays(columns, fields=list(data_type)))


def array(*columns: pa.Array, data_type: pa.ListType) -> Value:
    """Arrays of one element of each column."""
    rows, many = len(columns[0]), len(columns)
    order = np.arange(rows * many).reshape(many, rows).T.ravel()
    elements = pa.concat_arrays(columns).take(pa.array(order))
    return Value(pa.ListArray.from_arrays(_offsets(np.full(rows, many)), elements, type=data_type))


def size(data: pa.Array) -> Value:
    """How many elements arrays have, or maps entries, as int."""
    valid = known(data)
    return Value(pa.array(_lengths(data).astype(np.int32), mask=None if valid is None else ~valid))


def item(data: pa.Array, index: pa.Array) -> Value:
    """The element at an index from 0. Fails where the array has none there."""
    return _at(data, plain(index), known(data, index), fails=True)


def item_or_null(data: pa.Array, index: pa.Array) -> Value:
    """The element at an index from 0, or null."""
    return _at(data, plain(index), known(data, index), fails=False)


def element(data: pa.Array, place: int, fails: bool) -> Value:
    """The element at a place from 1, or from -1 backwards. Where the array has none: an error, or null."""
    index = np.full(len(data), place - 1, np.int64) if place > 0 else _lengths(data) + place
    return _at(data, index, known(data), fails)


def _at(data: pa.ListArray, index: Int64s, valid: Bools | None, fails: bool) -> Value:
    inside = (index >= 0) & (index < _lengths(data))
    found = inside if valid is None else inside & valid
    places = pa.array(_starts(data) + index, pa.int64(), mask=~found)
    failed = ~inside if valid is None else ~inside & valid
    return Value(data.values.take(places), failed if fails and failed.any() else None)


def contains(data: pa.Array, wanted: pa.Array) -> Value:
    """Whether arrays have an element, or maps a key; null where they do not, but have an element that is null."""
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
    """Which of so many rows have a true value."""
    found = np.zeros(many, np.bool_)
    found[rows[true]] = True
    return found


def extreme(data: pa.Array, most: bool) -> Value:
    """The greatest or the least of the whole numbers, dates or timestamps in arrays; null if there is none."""
    elements, rows = elements_of(data)
    valid = to_numpy(elements.is_valid())
    found = np.full(len(data), -(2**63) if most else 2**63 - 1, np.int64)
    times = pa.types.is_temporal(elements.type)
    numbers = (numbers_of if times else plain)(elements)[valid]
    (np.maximum if most else np.minimum).at(found, rows[valid], numbers)
    any_there = _any(valid, rows, len(data))
    return Value(array_of(np.where(any_there, found, 0), elements.type, None if any_there.all() else any_there))


def cut(data: pa.Array, place: int, most: int) -> Value:
    """At most so many elements from a place on, which counts from 1, or from -1 backwards."""
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
    """The texts in arrays, one behind the other, with a separator between them. Those that are null are left out."""
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
    """The value of a key in maps: that of the first such key, or null."""
    elements, rows = elements_of(data)
    equal = to_numpy(pc.fill_null(pc.equal(elements, wanted.take(pa.array(rows))), False))
    places = (np.repeat(_starts(data) - _before(data), _lengths(data)) + np.arange(len(rows)))[equal]
    hit, first = np.unique(rows[equal], return_index=True)
    found, none = np.zeros(len(data), np.int64), np.ones(len(data), np.bool_)
    found[hit], none[hit] = places[first], False
    return Value(data.items.take(pa.array(found, mask=none)))


def split(data: pa.Array, separator: str, data_type: pa.ListType) -> Value:
    """Texts, cut wherever a separator is."""
    cut = pc.split_pattern(data, separator)
    return Value(_listed(cut, cut.values, data_type))


def elements_of(data: pa.Array) -> tuple[pa.Array, Int64s]:
    """The elements of all arrays, or the keys of all maps, one after the other; and of each the row that it is of."""
    rows = np.repeat(np.arange(len(data)), _lengths(data))
    child = data.keys if pa.types.is_map(data.type) else data.values
    within_row = np.arange(len(rows)) - np.repeat(_before(data), _lengths(data))
    return child.take(pa.array(np.repeat(_starts(data), _lengths(data)) + within_row)), rows


def _before(data: pa.Array) -> Int64s:
    """How many elements there are before each row."""
    lengths = _lengths(data)
    return np.cumsum(lengths) - lengths


def _lengths(data: pa.Array) -> Int64s:
    """How many elements each row has: none where it is null, whatever is stored there."""
    lengths: Int64s = np.diff(to_numpy(data.offsets)).astype(np.int64)
    valid = known(data)
    return lengths if valid is None else lengths * valid


def _starts(data: pa.Array) -> Int64s:
    starts: Int64s = to_numpy(data.offsets)[:-1].astype(np.int64)
    return starts


def _listed(data: pa.Array, child: pa.Array, data_type: pa.ListType) -> pa.Array:
    """The children of arrays or maps as arrays of a type."""
    offsets = pa.array(to_numpy(data.offsets).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, child, type=data_type, mask=data.is_null() if data.null_count else None)


def _offsets(lengths: Int64s) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
