"""Columns from Protobuf messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import accumulate, chain, repeat
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import Error as JsonFormatError
from google.protobuf.json_format import MessageToDict

from ...records.arrays import BadValueError, Int64s, cast_with_row, shown
from ...records.schema import readable, widened
from ...records.types import ddl
from ...records.values import parse_text
from .types import (
    DATES,
    DECIMALS,
    DURATIONS,
    TEXTS,
    TIMESTAMPS,
    WRAPPERS,
    MisfitError,
    map_entry,
    natural,
    natural_of,
    scalar,
)

Read = Callable[[Sequence[Any]], pa.Array]
"""Makes a column of messages, or of values of a field. Raises BadValueError."""

_SECOND = 1_000_000
_EARLIEST, _LATEST = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999 in seconds: those of a Timestamp."""


def field_reader(field: FieldDescriptor, wanted: pa.DataType) -> Read:
    """What reads a field of messages as a column. Raises MisfitError.

    A field with presence that is not set is null; one without has the default of its type. A list or map has no null.
    """
    get = attrgetter(field.name) if field.name.isidentifier() else partial(_get, name=field.name)
    try:
        entry = map_entry(field)
        if entry is not None:
            if not pa.types.is_map(wanted):
                raise MisfitError(f"is a map, which cannot be read as {ddl(wanted)}")
            keys, items = _value_reader(entry[0], wanted.key_type), _value_reader(entry[1], wanted.item_type)
            return partial(_maps, get=get, keys=keys, items=items, wanted=wanted)
        if field.is_repeated:
            if not pa.types.is_list(wanted):
                raise MisfitError(f"is repeated, which cannot be read as {ddl(wanted)}")
            return partial(_lists, get=get, items=_value_reader(field, wanted.value_type), wanted=wanted)
        values = _value_reader(field, wanted)
    except MisfitError as error:
        raise MisfitError(error.cause, (field.name, *error.path)) from None
    if not field.has_presence:
        return lambda messages: values(list(map(get, messages)))
    return partial(_with_presence, name=field.name, get=get, values=values)


def _get(message: Any, name: str) -> Any:
    return getattr(message, name)


def _with_presence(messages: Sequence[Any], name: str, get: Callable[[Any], Any], values: Read) -> pa.Array:
    # As a function of the class: the method of each message would be looked up, which takes four times as long.
    has = type(messages[0]).HasField if messages else None
    is_set = np.fromiter(map(has, messages, repeat(name)) if has else (), np.bool_, len(messages))
    if is_set.all():
        return values(list(map(get, messages)))
    # Only what is set: an empty message need not be a value, such as a Date without a year.
    column = values([get(messages[row]) for row in np.flatnonzero(is_set).tolist()])
    return column.take(pa.array(np.cumsum(is_set) - 1, mask=~is_set))


def _offsets(lists: Sequence[Any]) -> pa.Array:
    return pa.array([0, *accumulate(map(len, lists))], pa.int32())


def _lists(messages: Sequence[Any], get: Callable[[Any], Any], items: Read, wanted: pa.DataType) -> pa.Array:
    lists = list(map(get, messages))
    return pa.ListArray.from_arrays(_offsets(lists), items(list(chain.from_iterable(lists))), type=wanted)


def _maps(messages: Sequence[Any], get: Callable[[Any], Any], keys: Read, items: Read, wanted: pa.DataType) -> pa.Array:
    # Sorted, as the order in a message is that of a hash table.
    maps = [sorted(get(message).items()) for message in messages]
    entries = list(chain.from_iterable(maps))
    key_column, item_column = keys([key for key, _ in entries]), items([item for _, item in entries])
    return pa.MapArray.from_arrays(_offsets(maps), key_column, item_column, type=wanted)


# Values of a field, without nulls.


def _value_reader(field: FieldDescriptor, wanted: pa.DataType) -> Read:
    if field.message_type is not None:
        return _message_reader(field.message_type, wanted)
    if field.enum_type is not None:
        return _enum_reader(field.enum_type, wanted)
    stored = scalar(field)
    if pa.types.is_string(stored) and any(fits(wanted) for fits in TEXTS):
        return lambda values: parse_text(_texts(values), wanted)
    if readable(stored, wanted):
        return partial(_scalars, stored=stored, wanted=wanted)
    if stored == pa.int32() and pa.types.is_integer(wanted):
        return lambda values: cast_with_row(pa.array(values, stored), wanted, pc.cast)
    raise MisfitError(f"holds {ddl(stored)}, which cannot be read as {ddl(wanted)}")


def _scalars(values: Sequence[Any], stored: pa.DataType, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_string(stored):
        return _texts(values)
    # A decimal of Arrow is made of decimals of Python only, and 20 digits are those of uint64.
    plain = pa.array(values, pa.uint64()).cast(stored) if pa.types.is_decimal(stored) else pa.array(values, stored)
    return widened(plain, wanted)


def _texts(values: Sequence[Any]) -> pa.StringArray:
    """Texts. Of proto2, those that are not UTF-8 come as bytes."""
    if bytes in set(map(type, values)):
        row = next(row for row, value in enumerate(values) if isinstance(value, bytes))
        raise BadValueError(row, f"{shown(values[row])} is not UTF-8")
    return pa.array(values, pa.string())


def _enum_reader(enum: EnumDescriptor, wanted: pa.DataType) -> Read:
    """Names, or numbers. A number without a name is its digits, as a text."""
    if pa.types.is_integer(wanted) and readable(pa.int32(), wanted):
        return lambda values: pa.array(values, wanted)
    if not pa.types.is_string(wanted):
        raise MisfitError(f"is an enum, which cannot be read as {ddl(wanted)}")
    names = {value.number: value.name for value in reversed(enum.values)}  # of aliases the first
    return lambda values: pa.array([names.get(value) or str(value) for value in values], pa.string())


def _message_reader(message: Descriptor, wanted: pa.DataType) -> Read:
    if pa.types.is_struct(wanted):
        return struct_reader(message, {field.name: field.type for field in wanted}, wanted)
    name, stored = message.full_name, natural(message)
    if name in WRAPPERS:
        return _wrapped_reader(message.fields_by_name["value"], wanted)
    if name == DECIMALS and pa.types.is_decimal(wanted):
        return lambda values: _decimals(values, wanted)
    if stored is None or not readable(stored, wanted):
        raise MisfitError(f"is a {name}, which cannot be read as {ddl(wanted)}")
    read = {TIMESTAMPS: _timestamps, DURATIONS: _durations, DATES: _dates}.get(name, _json)
    return lambda values: widened(read(values), wanted)


def _wrapped_reader(field: FieldDescriptor, wanted: pa.DataType) -> Read:
    values = _value_reader(field, wanted)
    return lambda messages: values([message.value for message in messages])


def struct_reader(message: Descriptor, columns: Mapping[str, pa.DataType], wanted: pa.StructType) -> Read:
    """What reads messages as structs. Fields that the message does not have are null."""
    fields = message.fields_by_name
    readers = {name: field_reader(fields[name], kind) if name in fields else None for name, kind in columns.items()}

    def read(messages: Sequence[Any]) -> pa.Array:
        if not readers:
            return pa.array([{}] * len(messages), wanted)
        parts = [
            pa.nulls(len(messages), kind) if reader is None else _named(name, reader, messages)
            for (name, reader), kind in zip(readers.items(), columns.values(), strict=True)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(wanted))

    return read


def _named(name: str, read: Read, messages: Sequence[Any]) -> pa.Array:
    try:
        return read(messages)
    except BadValueError as error:
        raise BadValueError(error.row, f"{name}: {error.cause}") from None


# Well-known types.


def _integers(values: Sequence[Any], name: str) -> Int64s:
    return np.fromiter(map(attrgetter(name), values), np.int64, len(values))


def _timestamps(values: Sequence[Any]) -> pa.Array:
    """Microseconds: digits behind them are dropped, as in texts."""
    seconds, nanos = _integers(values, "seconds"), _integers(values, "nanos")
    bad = (seconds < _EARLIEST) | (seconds > _LATEST) | (nanos < 0) | (nanos >= 1000 * _SECOND)
    if bad.any():
        row = int(np.argmax(bad))
        raise BadValueError(row, f"{seconds[row]} seconds and {nanos[row]} nanos are no time of the years 1 to 9999")
    return pa.array(seconds * _SECOND + nanos // 1000).cast(natural_of(TIMESTAMPS))


def _durations(values: Sequence[Any]) -> pa.Array:
    kind = natural_of(DURATIONS)
    nanos = [value.seconds * 1000 * _SECOND + value.nanos for value in values]
    for row, value in enumerate(nanos):
        if len(str(abs(value))) > kind.precision:
            raise BadValueError(row, f"{values[row].seconds} seconds are too many")
    return pa.array([Decimal(value).scaleb(-kind.scale) for value in nanos], kind)


def _dates(values: Sequence[Any]) -> pa.Array:
    texts = [f"{value.year:04}-{value.month:02}-{value.day:02}" for value in values]
    return parse_text(pa.array(texts, pa.string()), natural_of(DATES))


def _decimals(values: Sequence[Any], wanted: pa.Decimal128Type) -> pa.Array:
    """Decimals of Confluent: an unscaled number, big endian, and its scale."""
    texts = [f"{int.from_bytes(value.value, 'big', signed=True)}e{-value.scale}" for value in values]
    return parse_text(pa.array(texts, pa.string()), wanted)


def _json(values: Sequence[Any]) -> pa.Array:
    texts = []
    for row, value in enumerate(values):
        try:
            texts.append(json.dumps(MessageToDict(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")))
        except (ValueError, JsonFormatError) as error:
            raise BadValueError(row, f"no JSON: {error}") from None
    return pa.array(texts, pa.string())
