"""Columns of records that were written when their topic had other columns: as which types they can be read, exactly.

A value column that a record lacks is null. A type is widened where each of its values is one of the wider type, too: a
whole number to one with more bits, to a float with as many digits, or to a decimal; a float to a double; a decimal to
one with no fewer digits before and behind the point. So are the parts of lists and maps; the fields of a struct are
columns again. Nothing else is read as another type. Text, above all, is not: 7 as text may have been 07.

Source: the up-casts of Spark SQL (`Cast.canUpCast`), without those that round (bigint to double) and those to text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""Bits of a whole number -> its decimal digits at most."""

_EXACT_BITS = {32: 24, 64: 53}
"""Bits of a float -> those of the whole numbers that it holds exactly."""


def readable(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether stored values can be read as a type, each exactly. Fields of structs may be missing on either side."""
    if stored == wanted or pa.types.is_null(stored):
        return True
    if pa.types.is_list(stored) and pa.types.is_list(wanted):
        return readable(stored.value_type, wanted.value_type)
    if pa.types.is_map(stored) and pa.types.is_map(wanted):
        return readable(stored.key_type, wanted.key_type) and readable(stored.item_type, wanted.item_type)
    if pa.types.is_struct(stored) and pa.types.is_struct(wanted):
        return all_readable(_fields(stored), _fields(wanted))
    if pa.types.is_integer(stored):
        return _holds_integers(wanted, stored.bit_width)
    if pa.types.is_float32(stored):
        return bool(pa.types.is_float64(wanted))
    if pa.types.is_decimal128(stored) and pa.types.is_decimal128(wanted):
        whole = wanted.precision - wanted.scale >= stored.precision - stored.scale
        return bool(whole and wanted.scale >= stored.scale)
    return False


def all_readable(stored: Mapping[str, pa.DataType], wanted: Mapping[str, pa.DataType]) -> bool:
    """Whether records with the columns `stored` can be read as ones with the columns `wanted`."""
    return all(readable(stored[name], kind) for name, kind in wanted.items() if name in stored)


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The narrowest type as which values of both can be read, with all fields of structs; None if there is none."""
    if one == other:
        return one
    if pa.types.is_list(one) and pa.types.is_list(other):
        item = common(one.value_type, other.value_type)
        return None if item is None else pa.list_(pa.field(one.value_field.name, item))
    if pa.types.is_map(one) and pa.types.is_map(other):
        key, item = common(one.key_type, other.key_type), common(one.item_type, other.item_type)
        return None if None in (key, item) else pa.map_(key, item)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        columns = common_columns(_fields(one), _fields(other))
        return None if columns is None else pa.struct(list(columns.items()))
    return other if readable(one, other) else one if readable(other, one) else None


def common_columns(one: Mapping[str, pa.DataType], other: Mapping[str, pa.DataType]) -> dict[str, pa.DataType] | None:
    """The columns of both, each with the common type; None if one has none."""
    found = {**one, **other}
    for name in one.keys() & other.keys():
        kind = common(one[name], other[name])
        if kind is None:
            return None
        found[name] = kind
    return found


def schema_of_both(one: pa.Schema, other: pa.Schema) -> pa.Schema | None:
    """The schema as which records of both can be read; None if a column has no common type. `one` gives the order."""
    if one == other:
        return one
    columns = common_columns(_fields(one), _fields(other))
    return None if columns is None else pa.schema(list(columns.items()))


def widened(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column as one of a type that can be read from its own."""
    stored = column.type
    if stored == wanted:
        return column
    if pa.types.is_null(stored):
        return pa.nulls(len(column), wanted)
    if pa.types.is_list(wanted):
        items = widened(column.flatten(), wanted.value_type)
        return pa.ListArray.from_arrays(_offsets(column), items, type=wanted, mask=column.is_null())
    if pa.types.is_map(wanted):
        whole = column.take(pa.array(np.arange(len(column))))  # a slice of a map has the keys of all of it
        keys, items = widened(whole.keys, wanted.key_type), widened(whole.items, wanted.item_type)
        return pa.MapArray.from_arrays(whole.offsets, keys, items, type=wanted, mask=whole.is_null())
    if pa.types.is_struct(wanted):
        fields = dict(zip(_fields(stored), column.flatten(), strict=True))
        parts = [as_column(fields.get(field.name), len(column), field.type) for field in wanted]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=column.is_null())
    return pc.cast(column, wanted)


def as_column(column: pa.Array | None, rows: int, wanted: pa.DataType) -> pa.Array:
    """The same of a column that may be missing: it is null then."""
    return pa.nulls(rows, wanted) if column is None else widened(column, wanted)


def as_schema(records: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Records with the columns of a schema. They can be read as these: see `unreadable`."""
    if records.schema == schema:
        return records
    have = dict(zip(records.schema.names, records.columns, strict=True))
    columns = [as_column(have.get(field.name), records.num_rows, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def unreadable(stored: pa.Schema, wanted: Iterable[pa.Field]) -> list[tuple[str, pa.DataType, pa.DataType]]:
    """Columns that records have in a type that cannot be read as the wanted one: name, stored and wanted type."""
    have = _fields(stored)
    return [
        (field.name, have[field.name], field.type)
        for field in wanted
        if field.name in have and not readable(have[field.name], field.type)
    ]


def _holds_integers(wanted: pa.DataType, bits: int) -> bool:
    if pa.types.is_integer(wanted):
        return bool(wanted.bit_width >= bits)
    if pa.types.is_floating(wanted):
        return _EXACT_BITS[wanted.bit_width] >= bits
    return bool(pa.types.is_decimal128(wanted) and wanted.precision - wanted.scale >= _DIGITS[bits])


def _fields(kind: pa.DataType | pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in kind}


def _offsets(column: pa.Array) -> pa.Array:
    """Where the items of each row begin, among those of all rows. Works for slices, and for nulls that have items."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
