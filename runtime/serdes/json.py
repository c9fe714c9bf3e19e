"""The serde `json`: payloads are JSON objects with a field for each column."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..expressions.json.conversions import matching, put, read_plain
from ..records.arrays import BadValueError, Bools, Int64s, list_offsets, shown, to_numpy
from ..records.keys import normal_key
from ..records.schema import LAST_TIMESTAMP, is_bound
from ..records.types import ddl
from ..records.values import exact_number, from_json, narrow, parse_text
from .json_texts import json_texts, object_texts
from .serde import (
    Decoded,
    Deserializer,
    Direction,
    Encoded,
    PayloadSpec,
    Problem,
    Role,
    Serializer,
    as_texts,
    by_rows,
    decoded,
    encoded,
)

# Values have the JSON form of records (`docs/log.md`): decimals, times and bytes are texts, window bounds are numbers
# of milliseconds. Other fields than those of columns and of their structs are ignored; a missing one is null.


class JsonSerde:
    """See `Serde`. A key of one column is an object with one field, too."""

    def check(self, spec: PayloadSpec, direction: Direction) -> Sequence[Problem]:
        return [
            Problem(f"the format json has no value of type {ddl(kind)}; declare another type", name)
            for name, kind in spec.columns.items()
            if pa.types.is_null(kind)
        ]

    def deserializer(self, spec: PayloadSpec) -> Deserializer:
        return JsonDeserializer(spec)

    def serializer(self, spec: PayloadSpec) -> Serializer:
        return JsonSerializer(spec)


def _json_type(spec: PayloadSpec, name: str) -> pa.DataType:
    """The type of a column in JSON: window bounds are numbers of milliseconds."""
    return pa.int64() if _is_bound(spec, name) else spec.columns[name]


def _is_bound(spec: PayloadSpec, name: str) -> bool:
    return spec.role is Role.KEY and is_bound(name, spec.columns[name])


# Reading, the fast path: Arrow's JSON reader parses many payloads in one call.
#
# It is as strict as Python's, and rejects all of them for one bad value; then smaller groups are tried. It reads
# numbers and texts; what is a text in JSON only is converted column by column afterwards. A payload that it might read
# otherwise than the slow path goes to the slow path at once:
#
# - what does not begin with `{` and end with `}` (`read_plain` counts objects)
# - NaN and infinity without quotes, which JSON does not have
# - -0, which is no negative zero as an integer, and numbers with huge exponents
# - decimals with an exponent, or with so many digits that Arrow's parser may silently overflow: it multiplies them by
#   ten for each digit of the scale that they do not have

_UNLIKE = "|".join(
    [
        r"\A[ \t\n\r]*(?:[^{ \t\n\r]|\z)",
        r"[^} \t\n\r][ \t\n\r]*\z",
        r"[:,\[][ \t\n\r]*-?(?:NaN|Inf)",
        r"-0[,\]} \t\n\r]",
        r"[0-9.][eE][+-]?[0-9]{4}",
    ]
)
_EXPONENT = r"[-+:,\[\" \t\n\r][0-9]*\.?[0-9]*[eE][+-]?[0-9]+\"?[ \t\n\r]*[,\]}]"
_MOST_DIGITS = 38
"""The digits of all numbers that a decimal can hold."""


@dataclass(frozen=True)
class JsonDeserializer:
    """See `Deserializer`."""

    spec: PayloadSpec

    @cached_property
    def _plain_type(self) -> pa.StructType | None:
        """The type as which Arrow reads the objects; None if it cannot, since a column has a map in it."""
        types = {name: _plain(_json_type(self.spec, name)) for name in self.spec.columns}
        return None if None in types.values() else pa.struct(list(types.items()))

    @cached_property
    def _unlike(self) -> str:
        scale = max(map(_scale, self.spec.columns.values()), default=-1)
        if scale < 0:
            return _UNLIKE
        whole_digits = max(1, _MOST_DIGITS + 1 - scale)
        return "|".join([_UNLIKE, _EXPONENT, f"[^0-9.][0-9]{{{whole_digits}}}"])

    def read(self, payloads: pa.BinaryArray) -> Decoded:
        texts, errors = as_texts(payloads)
        columns, rows = self._read_plain(texts)
        if len(rows):
            others, more = self.read_one_by_one(texts.take(pa.array(rows)))
            columns = [put(column, rows, other) for column, other in zip(columns, others, strict=True)]
            errors |= {int(rows[row]): error for row, error in more.items()}
        for number, name in enumerate(self.spec.columns):
            if _is_bound(self.spec, name):
                columns[number], more = by_rows(columns[number], _from_ms, self.spec.columns[name])
                errors |= _named(name, more)
        return decoded(self.spec, columns, len(payloads), errors)

    def _read_plain(self, texts: pa.StringArray) -> tuple[list[pa.Array], Int64s]:
        """The columns, and the rows that the fast path has not read."""
        if self._plain_type is None or not self.spec.columns:
            columns = [pa.nulls(len(texts), _json_type(self.spec, name)) for name in self.spec.columns]
            return columns, np.flatnonzero(to_numpy(texts.is_valid()))
        plain = read_plain(texts, ~matching(texts, self._unlike), self._plain_type)
        columns, left = [], [plain.places]
        for name, values in zip(self.spec.columns, plain.values.flatten(), strict=True):
            kind = _json_type(self.spec, name)
            column, bad = by_rows(values, partial(_from_plain, data_type=kind), kind)
            columns.append(column)
            left.append(np.fromiter(bad, np.int64))
        rows = np.unique(np.concatenate(left))
        return columns, rows[to_numpy(texts.is_valid())[rows]]

    def read_one_by_one(self, texts: pa.StringArray) -> tuple[list[pa.Array], dict[int, str]]:
        """The slow path, which explains errors: the JSON values of the columns. `texts`: without nulls."""
        objects = list[Mapping[str, Any]]()
        errors = dict[int, str]()
        for row, text in enumerate(texts.to_pylist()):
            try:
                objects.append(self._object(text))
            except (ValueError, RecursionError) as error:
                objects.append({})
                errors[row] = f"no JSON: {error}" if isinstance(error, json.JSONDecodeError) else str(error)
        columns = []
        for name in self.spec.columns:
            kind = _json_type(self.spec, name)
            values = [value.get(name) for value in objects]
            column, bad = _by_rows(values, kind)
            columns.append(column)
            errors = _named(name, bad) | errors
        return columns, errors

    def _object(self, text: str) -> Mapping[str, Any]:
        """The declared fields of a JSON object. Raises ValueError, RecursionError."""
        value = json.loads(text, parse_float=exact_number, parse_int=_integer, object_pairs_hook=_Pairs)
        if value is None:
            absent = "a null key" if self.spec.role is Role.KEY else "a tombstone"
            raise ValueError(f"null is no object; {absent} has no payload")
        if not isinstance(value, _Pairs):
            raise ValueError(f"{shown(_undeclared(value))} is no object")
        types = {name: _json_type(self.spec, name) for name in self.spec.columns}
        return _fields(value, types)


def _named(column: str, causes: Mapping[int, str]) -> dict[int, str]:
    return {row: f"column {column}: {cause}" for row, cause in causes.items()}


def _plain(data_type: pa.DataType) -> pa.DataType | None:
    """The type as which Arrow's JSON reader reads values of a type; None if it cannot."""
    if pa.types.is_map(data_type) or pa.types.is_null(data_type):
        return None
    if pa.types.is_list(data_type):
        item = _plain(data_type.value_type)
        return None if item is None else pa.list_(pa.field(data_type.value_field.name, item))
    if pa.types.is_struct(data_type):
        fields = {field.name: _plain(field.type) for field in data_type}
        return None if None in fields.values() else pa.struct(list(fields.items()))
    if pa.types.is_temporal(data_type) or pa.types.is_binary(data_type):
        return pa.string()
    # Digits are rounded once to a double, then to a float, as in the slow path.
    return pa.float64() if pa.types.is_float32(data_type) else data_type


def _scale(data_type: pa.DataType) -> int:
    """The greatest scale of the decimals in a type; -1 without any."""
    if pa.types.is_nested(data_type):
        return max((_scale(data_type.field(number).type) for number in range(data_type.num_fields)), default=-1)
    return data_type.scale if pa.types.is_decimal(data_type) else -1


def _from_plain(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """A column of the type `_plain(data_type)` as one of `data_type`. Raises BadValueError, of a nested row or not."""
    if pa.types.is_list(data_type):
        items = _from_plain(column.flatten(), data_type.value_type)
        return pa.ListArray.from_arrays(list_offsets(column), items, type=data_type, mask=column.is_null())
    if pa.types.is_struct(data_type) and data_type.num_fields:
        fields = [_from_plain(part, field.type) for part, field in zip(column.flatten(), data_type, strict=True)]
        return pa.StructArray.from_arrays(fields, fields=list(data_type), mask=column.is_null())
    if pa.types.is_floating(data_type):
        if not pc.all(pc.is_finite(column), min_count=0).as_py():
            raise BadValueError(0, "beyond the range of a double")
        try:
            return narrow(column) if pa.types.is_float32(data_type) else column
        except pa.ArrowInvalid as error:
            raise BadValueError(0, str(error)) from error
    if pa.types.is_decimal(data_type):
        return _in_precision(column)
    return parse_text(column, data_type) if column.type != data_type else column


def _in_precision(column: pa.Array) -> pa.Array:
    """The decimals. Raises BadValueError for more digits than their type has, which Arrow's JSON reader lets pass."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadValueError(0, str(error)) from error
    return column


def _from_ms(column: pa.Array) -> pa.Array:
    """Window bounds from milliseconds. Raises BadValueError."""
    try:
        return column.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        numbers = column.to_pylist()
        row = next(row for row, number in enumerate(numbers) if abs(number or 0) > LAST_TIMESTAMP)
        raise BadValueError(row, f"{numbers[row]} is no time in milliseconds") from None


# Reading, the slow path: one payload after another, with Python's reader.


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with all its fields, also with those of equal names."""


def _integer(digits: str) -> Any:
    """An integer; a decimal, which no column holds, if it has more digits than Python makes an integer of."""
    try:
        return int(digits)
    except ValueError:
        return exact_number(digits)


def _by_rows(values: list[Any], data_type: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    return by_rows(values, partial(from_json, data_type=data_type), data_type)


def _fields(pairs: _Pairs, types: Mapping[str, pa.DataType]) -> dict[str, Any]:
    """The fields of an object that are declared. Raises ValueError for one that it has twice."""
    values = dict[str, Any]()
    for name, value in pairs:
        if name in types:
            if name in values:
                raise ValueError(f"an object has the name {name!r} more than once")
            values[name] = _declared(value, types[name])
    return values


def _declared(value: Any, data_type: pa.DataType) -> Any:
    """A JSON value without the fields that its type does not declare."""
    if isinstance(value, _Pairs) and pa.types.is_struct(data_type):
        return _fields(value, {field.name: field.type for field in data_type})
    if isinstance(value, _Pairs) and pa.types.is_map(data_type):
        return _fields(value, {name: data_type.item_type for name, _ in value})
    if type(value) is list and pa.types.is_list(data_type):
        return [_declared(item, data_type.value_type) for item in value]
    if type(value) is list and pa.types.is_map(data_type):
        entry = pa.struct([("key", data_type.key_type), ("value", data_type.item_type)])
        return [_declared(item, entry) for item in value]
    return _undeclared(value)


def _undeclared(value: Any) -> Any:
    """A JSON value that its type does not fit, for the error message."""
    if isinstance(value, _Pairs):
        return {name: _undeclared(field) for name, field in value}
    return [_undeclared(item) for item in value] if isinstance(value, list) else value


# Writing.


@dataclass(frozen=True)
class JsonSerializer:
    """See `Serializer`. Every column is a field, null ones too."""

    spec: PayloadSpec

    def write(self, columns: pa.RecordBatch, absent: Bools) -> Encoded:
        errors = dict[int, str]()
        texts = list[pa.StringArray]()
        for name, column in zip(self.spec.columns, columns.columns, strict=True):
            if self.spec.role is Role.KEY:
                column = normal_key(column)
            if _is_bound(self.spec, name):
                column = pa.array(column.cast(pa.int64()).to_numpy(zero_copy_only=False) // 1000)
            text, bad = by_rows(column, json_texts, pa.string())
            texts.append(text)
            errors = _named(name, bad) | errors
        payloads = object_texts(list(self.spec.columns), texts) if texts else pa.array(["{}"] * columns.num_rows)
        return encoded(payloads.cast(pa.binary()), absent, errors)
