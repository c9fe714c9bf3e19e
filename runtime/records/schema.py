"""Columns of topics, differences between column lists, and reading records with earlier columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..ir.topology import Topic
from .arrays import Bools, Int64s, list_offsets
from .names import UNKNOWN_TYPES
from .types import TIMESTAMP, parse_columns, split_columns

WINDOW_COLUMNS = ("window_start", "window_end")
"""The key columns that a windowed topic has after its declared ones."""

HEADERS = "_headers"
"""The column of headers, as JSON; absent from files without any headers."""

LAST_TIMESTAMP = 253_402_300_799_999
"""The last ms of the year 9999. A later time is probably in another unit, and would soon overflow microseconds."""

CHANGELOG = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("_timestamp", pa.int64())])
"""A store's changelog. A null value deletes the key. Each partition has one lane, of its own task."""


def invalid_timestamps(times: Int64s) -> Bools:
    """A mask of times (ms) that are no valid timestamps: before 1970, as in Kafka, or after 9999."""
    return (times < 0) | (times > LAST_TIMESTAMP)


def times_of_column(column: pa.Array) -> pa.Array:
    """The times in a topic's `timestamp` column as ms, int64; null where the column is null."""
    if not pa.types.is_temporal(column.type):
        return column.cast(pa.int64())
    # Rounded down: a cast would round times before 1970 up, possibly to 1970. Arrow casts a date as midnight.
    times = pc.floor_temporal(column.cast(pa.timestamp("us")), unit="millisecond")
    return times.cast(pa.timestamp("ms")).cast(pa.int64())


def timestamp_error(time: object) -> str | None:
    """Why a value is no valid timestamp, as the end of a sentence; None if it is valid."""
    if type(time) is not int:
        return "is no whole number of ms since 1970"
    if time < 0:
        return "lies before 1970"
    return "lies after 9999, in milliseconds" if time > LAST_TIMESTAMP else None


def is_bound(column: str, data_type: pa.DataType) -> bool:
    """Whether a key column is a window bound, which is shown in ms."""
    return column in WINDOW_COLUMNS and data_type == TIMESTAMP


def may_be_missing(column: str) -> bool:
    """Whether a column is null in records without it: headers, and value columns, which a topic can get later."""
    return column == HEADERS or column.startswith("value.")


def changelog_topic(application: str, store: str) -> str:
    """The changelog topic of a store, named as Kafka Streams names it."""
    return f"{application}-{store}-changelog"


def key_columns(topic: Topic) -> dict[str, pa.DataType]:
    """The key columns by name; window bounds are last."""
    return parse_columns(topic.key) | (dict.fromkeys(WINDOW_COLUMNS, TIMESTAMP) if topic.windowed else {})


def value_columns(topic: Topic) -> dict[str, pa.DataType]:
    """The value columns by name."""
    return parse_columns(topic.value)


def topic_schema(topic: Topic, headers: bool = False) -> pa.Schema:
    """The schema of a topic's records: `key.<column>`, `value.<column>`, `_kind`, `_timestamp`, `_order`.

    `_kind`: see `Kind`; a tombstone has null value columns. `_timestamp`: ms. `_order`, ms: stream time of the writing
    task when it wrote the record; in an external topic, the timestamp. `headers`: whether to add the column of headers.
    """
    fields = [pa.field(f"key.{name}", data_type) for name, data_type in key_columns(topic).items()]
    fields += [pa.field(f"value.{name}", data_type) for name, data_type in value_columns(topic).items()]
    fields += [pa.field("_kind", pa.int8()), pa.field("_timestamp", pa.int64()), pa.field("_order", pa.int64())]
    if headers:
        fields.append(pa.field(HEADERS, pa.string()))
    return pa.schema(fields)


# Differences between two column lists, as a diff for users.


@dataclass(frozen=True)
class ColumnChanges:
    """Differences between two column lists. `added`, `dropped`: name and type. `retyped`: name, old and new type.

    `reordered`: whether the common columns are in another order.
    """

    added: tuple[tuple[str, str], ...]
    dropped: tuple[tuple[str, str], ...]
    retyped: tuple[tuple[str, str, str], ...]
    reordered: bool

    @classmethod
    def between(cls, was: str, is_: str) -> ColumnChanges:
        """The differences between two lists in Spark SQL DDL. Raises TypeSyntaxError."""
        old, new = dict(split_columns(was)), dict(split_columns(is_))
        kept = [name for name in old if name in new]
        return cls(
            tuple((name, new[name]) for name in new if name not in old),
            tuple((name, old[name]) for name in old if name not in new),
            tuple((name, old[name], new[name]) for name in kept if old[name] != new[name]),
            kept != [name for name in new if name in old],
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """The diff: `+ gate string`, `- tail string`, `~ delay int -> double`."""
        return (
            *(f"+ {name} {_shown(type_)}" for name, type_ in self.added),
            *(f"- {name} {type_}" for name, type_ in self.dropped),
            *(f"~ {name} {was} -> {is_}" for name, was, is_ in self.retyped),
            *(("~ the order of columns",) if self.reordered else ()),
        )


def unknown_columns(columns: str) -> list[str]:
    """Names of the columns with types that are not known yet."""
    return [name for name, type_ in split_columns(columns) if type_ in UNKNOWN_TYPES]


def _shown(type_: str) -> str:
    return "(its type is not known yet)" if type_ in UNKNOWN_TYPES else type_


# Reading records that were written when their topic had other columns: the types as which a column can be read exactly.
#
# A missing value column is null. A type is widened if all of its values are values of the wider type: an integer to
# one with more bits, to a float with enough digits, or to a decimal; a float to a double; a decimal to one with at
# least as many digits before and after the point. The same holds for the elements of lists and maps, and for fields of
# structs, which may also be missing. Nothing else is converted, above all no text: 7 as text may have been 07.
#
# Source: the up-casts of Spark SQL (`Cast.canUpCast`), without those that round (bigint to double) and those to text.

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""Bits of an integer type -> its greatest number of decimal digits."""

_EXACT_BITS = {32: 24, 64: 53}
"""Bits of a float type -> bits of the integers that it can hold exactly."""


def readable(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether all values of a type can be read exactly as another type.

    Fields of structs may be missing on either side.
    """
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
    """Whether records with the columns `stored` can be read as records with the columns `wanted`."""
    return all(readable(stored[name], kind) for name, kind in wanted.items() if name in stored)


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The narrowest type as which values of both types can be read, with all fields of structs; None without one."""
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
    """The columns of both lists with their common types; None if a column has no common type."""
    columns = {**one, **other}
    for name in one.keys() & other.keys():
        kind = common(one[name], other[name])
        if kind is None:
            return None
        columns[name] = kind
    return columns


def schema_of_both(one: pa.Schema, other: pa.Schema) -> pa.Schema | None:
    """The schema as which records of both can be read, in the order of `one`; None if a column has no common type."""
    if one == other:
        return one
    columns = common_columns(_fields(one), _fields(other))
    return None if columns is None else pa.schema(list(columns.items()))


def widened(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The column as a column of the type `wanted`. Its own type is `readable` as that."""
    stored = column.type
    if stored == wanted:
        return column
    if pa.types.is_null(stored):
        return pa.nulls(len(column), wanted)
    if pa.types.is_list(wanted):
        items = widened(column.flatten(), wanted.value_type)
        return pa.ListArray.from_arrays(list_offsets(column), items, type=wanted, mask=column.is_null())
    if pa.types.is_map(wanted):
        whole = column.take(pa.array(np.arange(len(column))))  # `keys` of a slice returns the keys of the whole array
        keys, items = widened(whole.keys, wanted.key_type), widened(whole.items, wanted.item_type)
        return pa.MapArray.from_arrays(whole.offsets, keys, items, type=wanted, mask=whole.is_null())
    if pa.types.is_struct(wanted):
        fields = dict(zip(_fields(stored), column.flatten(), strict=True))
        parts = [as_column(fields.get(field.name), len(column), field.type) for field in wanted]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=column.is_null())
    return pc.cast(column, wanted)


def as_column(column: pa.Array | None, rows: int, wanted: pa.DataType) -> pa.Array:
    """The `widened` column; nulls for a missing column."""
    return pa.nulls(rows, wanted) if column is None else widened(column, wanted)


def as_schema(records: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Records with the columns of a schema, as which they can be read (see `unreadable`)."""
    if records.schema == schema:
        return records
    stored = dict(zip(records.schema.names, records.columns, strict=True))
    columns = [as_column(stored.get(field.name), records.num_rows, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def unreadable(stored: pa.Schema, wanted: Iterable[pa.Field]) -> list[tuple[str, pa.DataType, pa.DataType]]:
    """Columns that cannot be read as the wanted type: name, stored type and wanted type."""
    types = _fields(stored)
    return [
        (field.name, types[field.name], field.type)
        for field in wanted
        if field.name in types and not readable(types[field.name], field.type)
    ]


def _holds_integers(wanted: pa.DataType, bits: int) -> bool:
    if pa.types.is_integer(wanted):
        return bool(wanted.bit_width >= bits)
    if pa.types.is_floating(wanted):
        return _EXACT_BITS[wanted.bit_width] >= bits
    return bool(pa.types.is_decimal128(wanted) and wanted.precision - wanted.scale >= _DIGITS[bits])


def _fields(kind: pa.DataType | pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in kind}
