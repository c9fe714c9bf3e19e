"""Protobuf messages from columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Context
from functools import partial
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message_factory import GetMessageClass

from ...records.arrays import BadValueError, Bools, cast_with_row, list_offsets, shown, to_numpy, valid_text
from ...records.schema import readable, widened
from ...records.types import ddl
from ...records.values import in_years
from ..json_texts import json_texts
from .types import (
    DATES,
    DECIMALS,
    DURATIONS,
    JSON,
    TEXTS,
    TIMESTAMPS,
    WRAPPERS,
    MisfitError,
    map_entry,
    natural,
    natural_of,
    scalar,
)

Write = Callable[[pa.Array], list[Any]]
"""Makes the values of a field, as its message takes them: None for a field that is not set. Raises BadValueError."""

_SECOND = 1_000_000
_LONGEST = 315_576_000_000
"""The seconds of the longest Duration: 10,000 years."""

_EXACT = Context(prec=38)

_STORED: Mapping[int, pa.DataType] = {
    FieldDescriptor.TYPE_UINT32: pa.uint32(),
    FieldDescriptor.TYPE_FIXED32: pa.uint32(),
    FieldDescriptor.TYPE_UINT64: pa.uint64(),
    FieldDescriptor.TYPE_FIXED64: pa.uint64(),
}
"""The types without a sign, whose ranges are not those of the type that columns have."""


def field_writer(field: FieldDescriptor, kind: pa.DataType) -> Write:
    """What writes a column of a type to a field. Raises MisfitError."""
    try:
        entry = map_entry(field)
        if entry is not None:
            if not pa.types.is_map(kind):
                raise MisfitError(f"is a map, which cannot be written from {ddl(kind)}")
            keys, items = _value_writer(entry[0], kind.key_type), _value_writer(entry[1], kind.item_type)
            return partial(_maps, keys=keys, items=items)
        if field.is_repeated:
            if not pa.types.is_list(kind):
                raise MisfitError(f"is repeated, which cannot be written from {ddl(kind)}")
            return partial(_lists, items=_value_writer(field, kind.value_type))
        values = _value_writer(field, kind)
    except MisfitError as error:
        raise MisfitError(error.cause, (field.name, *error.path)) from None
    if field.is_required:
        return partial(_without_nulls, values=values, why="the field is required")
    if not field.has_presence:
        return partial(_without_nulls, values=values, why="the field cannot tell it from a default; make it `optional`")
    return partial(_where_valid, values=values)


def _where_valid(column: pa.Array, values: Write) -> list[Any]:
    if not column.null_count:
        return values(column)
    written = iter(values(column.drop_null()))
    return [next(written) if valid else None for valid in column.is_valid().to_pylist()]


def _without_nulls(column: pa.Array, values: Write, why: str) -> list[Any]:
    if column.null_count:
        raise BadValueError(int(np.argmax(to_numpy(column.is_null()))), f"null, and {why}")
    return values(column)


def _lists(column: pa.Array, items: Write) -> list[Any]:
    written = _items(column, column.flatten(), items, "array")
    return [written[start:end] for start, end in pairwise(list_offsets(column).to_pylist())]


def _maps(column: pa.MapArray, keys: Write, items: Write) -> list[Any]:
    entries = column.cast(pa.list_(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])))
    key_column, item_column = entries.flatten().flatten()
    written = list(zip(keys(key_column), _items(column, item_column, items, "map"), strict=True))
    return [dict(written[start:end]) for start, end in pairwise(list_offsets(entries).to_pylist())]


def _items(column: pa.Array, items: pa.Array, write: Write, what: str) -> list[Any]:
    if column.null_count:
        raise BadValueError(int(np.argmax(to_numpy(column.is_null()))), f"null, and a message has no null {what}")
    if items.null_count:
        raise BadValueError(0, f"the {what} has a null in it, and a message has none there")
    return write(items)


# Values of a field, without nulls.


def _value_writer(field: FieldDescriptor, kind: pa.DataType) -> Write:
    if field.message_type is not None:
        return _message_writer(field.message_type, kind)
    if field.enum_type is not None:
        return _enum_writer(field.enum_type, kind)
    plain = scalar(field)
    if pa.types.is_string(plain) and any(fits(kind) for fits in TEXTS):
        return _record_form
    stored = _STORED.get(field.type, plain)
    if readable(kind, plain) or (pa.types.is_integer(stored) and pa.types.is_decimal(kind) and kind.scale == 0):
        return partial(_scalars, stored=stored)
    raise MisfitError(f"holds {ddl(plain)}, which cannot be written from {ddl(kind)}")


def _scalars(column: pa.Array, stored: pa.DataType) -> list[Any]:
    if pa.types.is_string(stored):
        return list(valid_text(column).to_pylist())
    if pa.types.is_integer(stored):
        return _integers(column, stored)
    return list(widened(column, stored).to_pylist())


def _integers(column: pa.Array, stored: pa.DataType) -> list[Any]:
    try:
        return list(pc.cast(column, stored).to_pylist())
    except pa.ArrowInvalid:
        limits, values = np.iinfo(stored.to_pandas_dtype()), column.to_pylist()
        row = next(row for row, value in enumerate(values) if not limits.min <= value <= limits.max)
        raise BadValueError(row, f"{shown(values[row])} is no {stored}") from None


def _record_form(column: pa.Array) -> list[Any]:
    """The texts of decimals and times, which have no characters that JSON would escape."""
    return list(pc.utf8_trim(json_texts(column), characters='"').to_pylist())


def _enum_writer(enum: EnumDescriptor, kind: pa.DataType) -> Write:
    """From names or numbers. Digits are the number of a value without a name, if the enum may have these."""
    is_number = pa.types.is_integer(kind) and readable(kind, pa.int32())
    if not is_number and not pa.types.is_string(kind):
        raise MisfitError(f"is an enum, which cannot be written from {ddl(kind)}")
    numbers: dict[Any, int] = {value.number: value.number for value in enum.values}
    numbers |= {} if is_number else {value.name: value.number for value in enum.values}

    def number(value: Any) -> int | None:
        if value in numbers:
            return numbers[value]
        digits = str(value)
        known = not enum.is_closed and digits.removeprefix("-").isdecimal() and -(2**31) <= int(digits) < 2**31
        return int(digits) if known else None

    def write(column: pa.Array) -> list[Any]:
        values = column.to_pylist()
        written = list(map(number, values))
        if None in written:
            row = written.index(None)
            raise BadValueError(row, f"{shown(values[row])} is no value of the enum {enum.full_name}")
        return written

    return write


def _message_writer(message: Descriptor, kind: pa.DataType) -> Write:
    name, stored = message.full_name, natural(message)
    if pa.types.is_struct(kind):
        return struct_writer(message, {field.name: field.type for field in kind})
    if name in WRAPPERS:
        values = _value_writer(message.fields_by_name["value"], kind)
        return lambda column: [{"value": value} for value in values(column)]
    if name == DECIMALS and pa.types.is_decimal(kind):
        return _decimals
    if stored is None or not readable(kind, stored):
        raise MisfitError(f"is a {name}, which cannot be written from {ddl(kind)}")
    if name in JSON:
        return partial(_json, message=message)
    return {TIMESTAMPS: _timestamps, DURATIONS: _durations, DATES: _dates}[name]


# Messages.


def writers(message: Descriptor, columns: Mapping[str, pa.DataType]) -> Mapping[str, Write]:
    """Name of a column -> what writes it to the field of this name. Raises MisfitError."""
    for name in columns:
        if name not in message.fields_by_name:
            raise MisfitError(f"is missing in the message {message.full_name}", (name,))
    for field in message.fields:
        if field.is_required and field.name not in columns:
            raise MisfitError("is required, and there is no column of this name", (field.name,))
    return {name: field_writer(message.fields_by_name[name], kind) for name, kind in columns.items()}


def in_two_of_one(message: Descriptor, columns: Mapping[str, pa.Array]) -> Iterator[tuple[str, Bools]]:
    """(Why, mask of rows) for each oneof of which rows have more than one field."""
    for oneof in message.oneofs:
        names = [field.name for field in oneof.fields if field.name in columns]
        if len(names) > 1:
            count = np.sum([to_numpy(columns[name].is_valid()) for name in names], axis=0)
            if (count > 1).any():
                yield f"at most one of {', '.join(names)} may be set, the fields of {oneof.name}", count > 1


def struct_writer(message: Descriptor, columns: Mapping[str, pa.DataType]) -> Write:
    """What writes structs as messages. Raises MisfitError."""
    write = writers(message, columns)

    def rows(column: pa.StructArray) -> list[Any]:
        fields = dict(zip(columns, column.flatten(), strict=True))
        for why, mask in in_two_of_one(message, fields):
            raise BadValueError(int(np.argmax(mask)), why)
        values = [_named(name, write[name], field) for name, field in fields.items()]
        return rows_of(list(columns), values, len(column))

    return rows


def rows_of(names: Sequence[str], values: Sequence[list[Any]], rows: int) -> list[dict[str, Any]]:
    """The arguments of each message from the values of its fields."""
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)] if names else [{}] * rows


def _named(name: str, write: Write, column: pa.Array) -> list[Any]:
    try:
        return write(column)
    except BadValueError as error:
        raise BadValueError(error.row, f"{name}: {error.cause}") from None


# Well-known types.


def _years(column: pa.Array) -> pa.Array:
    return cast_with_row(column, column.type, lambda some, _: in_years(some))


def _timestamps(column: pa.Array) -> list[Any]:
    times = to_numpy(_years(column).cast(pa.int64()))
    seconds, micros = times // _SECOND, times % _SECOND
    return [
        {"seconds": second, "nanos": nano}
        for second, nano in zip(seconds.tolist(), (micros * 1000).tolist(), strict=True)
    ]


def _durations(column: pa.Array) -> list[Any]:
    kind, written = natural_of(DURATIONS), []
    for row, value in enumerate(widened(column, kind).to_pylist()):
        nanos = int(value.scaleb(kind.scale))
        second, nano = divmod(abs(nanos), 1000 * _SECOND)
        if second > _LONGEST:
            raise BadValueError(row, f"{value} seconds are more than a Duration has")
        sign = -1 if nanos < 0 else 1
        written.append({"seconds": sign * second, "nanos": sign * nano})
    return written


def _dates(column: pa.Array) -> list[Any]:
    days: list[date] = _years(column).to_pylist()
    return [{"year": day.year, "month": day.month, "day": day.day} for day in days]


def _decimals(column: pa.Array) -> list[Any]:
    """Decimals of Confluent: an unscaled number, big endian, and its scale."""
    kind = column.type
    unscaled = [int(value.scaleb(kind.scale, context=_EXACT)) for value in column.to_pylist()]
    return [
        {
            "value": number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True),
            "precision": kind.precision,
            "scale": kind.scale,
        }
        for number in unscaled
    ]


def _json(column: pa.Array, message: Descriptor) -> list[Any]:
    make, written = GetMessageClass(message), []
    for row, text in enumerate(valid_text(column).to_pylist()):
        try:
            written.append(ParseDict(json.loads(text, parse_int=_exact, parse_constant=_exact), make()))
        except (ValueError, RecursionError, ParseError) as error:
            raise BadValueError(row, f"no JSON of a {message.full_name}: {error}") from None
    return written


def _exact(text: str) -> float:
    """A number as a double, which is all that these messages have. Raises ValueError."""
    number = float(text)
    if not isfinite(number) or int(number) != int(text):
        raise ValueError(f"{text} is no double")
    return number
