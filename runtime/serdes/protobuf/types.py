"""Which type of a column a field of Protobuf has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ...records.types import TIMESTAMP
from ..serde import SerdeError

TIMESTAMPS = "google.protobuf.Timestamp"
DURATIONS = "google.protobuf.Duration"
DATES = "google.type.Date"
DECIMALS = "confluent.type.Decimal"
JSON = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)

_WELL_KNOWN: Mapping[str, pa.DataType] = {
    TIMESTAMPS: TIMESTAMP,
    DURATIONS: pa.decimal128(21, 9),
    DATES: pa.date32(),
    **dict.fromkeys(JSON, pa.string()),
}
"""A Duration is a number of seconds, with all its digits."""

_SCALARS: Mapping[int, pa.DataType] = {
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_UINT32: pa.int64(),
    FieldDescriptor.TYPE_FIXED32: pa.int64(),
    FieldDescriptor.TYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.TYPE_FIXED64: pa.decimal128(20, 0),
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
}

TEXTS = (pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp)
"""Types that a field of type string can hold, in the record form. Protobuf itself has none for most of them."""


class MisfitError(SerdeError):
    """A field and a column do not fit. `path`: the names of fields, from the outermost one."""

    def __init__(self, cause: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f"the field {'.'.join(path)} {cause}")
        self.cause = cause
        self.path = path


def map_entry(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor] | None:
    """The key and the value of a map, which is a repeated message with these fields; None of another field."""
    message = field.message_type
    if message is None or not message.GetOptions().map_entry:
        return None
    return message.fields_by_name["key"], message.fields_by_name["value"]


def scalar(field: FieldDescriptor) -> pa.DataType:
    """The type of a field that is neither an enum nor a message."""
    return _SCALARS[field.type]


def natural_of(name: str) -> Any:
    """The type of a well-known message."""
    return _WELL_KNOWN[name]


def natural(message: Descriptor, within: tuple[str, ...] = ()) -> pa.DataType | None:
    """The type of a message: a struct, if it is not well known. Without fields that have none."""
    name = message.full_name
    if name in _WELL_KNOWN:
        return _WELL_KNOWN[name]
    if name in WRAPPERS:
        return scalar(message.fields_by_name["value"])
    if name == DECIMALS or name in within:  # the scale is told by values only; a message in itself has no end
        return None
    return pa.struct(list(_columns(message, (*within, name))))


def natural_columns(message: Descriptor) -> Mapping[str, pa.DataType]:
    """The columns as which a message can be read in full. A field that no type holds is omitted."""
    return dict(_columns(message, (message.full_name,)))


def _columns(message: Descriptor, within: tuple[str, ...]) -> Iterator[tuple[str, pa.DataType]]:
    for field in message.fields:
        kind = _field_type(field, within)
        if kind is not None:
            yield field.name, kind


def _field_type(field: FieldDescriptor, within: tuple[str, ...]) -> pa.DataType | None:
    entry = map_entry(field)
    if entry is not None:
        key, item = (_value_type(part, within) for part in entry)
        return None if item is None else pa.map_(key, item)
    kind = _value_type(field, within)
    return pa.list_(pa.field("element", kind)) if field.is_repeated and kind is not None else kind


def _value_type(field: FieldDescriptor, within: tuple[str, ...]) -> pa.DataType | None:
    if field.enum_type is not None:
        return pa.string()
    return scalar(field) if field.message_type is None else natural(field.message_type, within)
