"""JSON as the JSON converter of Kafka Connect writes it: with its schema beside it or without, and Connect's types."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..expressions.json.conversions import put
from ..records.arrays import BadValueError, Int64s, cast_with_row, list_offsets, to_numpy
from ..records.values import in_years, parse_text
from .json import JsonDeserializer, JsonSerde
from .serde import Decoded, Deserializer, Direction, PayloadSpec, Problem, Serializer, by_rows, decoded

# With `schemas.enable` a payload is `{"schema":{...},"payload":{...}}`. Values are what their schema says: days, times
# in several units, decimals in base64 without a scale. Without a schema only dates are known: they have no other unit.

Columns = tuple[tuple[str, pa.DataType], ...]

Convert = Callable[[pa.Array], pa.Array]
"""Makes the declared type of what JSON has in its place. Raises BadValueError."""

_DAYS = "io.debezium.time.Date", "org.apache.kafka.connect.data.Date"
_DECIMALS = "org.apache.kafka.connect.data.Decimal"
_SCALED_DECIMALS = "io.debezium.data.VariableScaleDecimal"
_ISO_DATES = "io.debezium.time.IsoDate"
_PER_SECOND = {
    "io.debezium.time.Timestamp": 1_000,
    "org.apache.kafka.connect.data.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1_000_000,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
}
"""Names of times since 1970 -> their units in a second. All others are texts with their zone."""

_HEAD = re.compile(r'[ \t\n\r]*\{[ \t\n\r]*"schema"[ \t\n\r]*:[ \t\n\r]*')
_PAYLOAD = re.compile(r'[ \t\n\r]*,[ \t\n\r]*"payload"[ \t\n\r]*:[ \t\n\r]*')
_BEGINS_WITH_SCHEMA = rf"\A{_HEAD.pattern}"
_READER = json.JSONDecoder()


class ConnectJsonSerde:
    """See `Serde`. It only reads."""

    def check(self, spec: PayloadSpec, direction: Direction) -> Sequence[Problem]:
        return JsonSerde().check(spec, direction)

    def deserializer(self, spec: PayloadSpec) -> Deserializer:
        return _Deserializer(spec)

    def serializer(self, spec: PayloadSpec) -> Serializer:
        raise NotImplementedError("the JSON of Kafka Connect is only read")


@dataclass(frozen=True)
class _Group:
    """Payloads with equal schemas. `schema`: as JSON, empty without one. `values`: what follows it."""

    schema: str
    rows: Int64s
    values: pa.BinaryArray


@dataclass(frozen=True)
class _Deserializer:
    spec: PayloadSpec

    def read(self, payloads: pa.BinaryArray) -> Decoded:
        columns = [pa.nulls(len(payloads), kind) for kind in self.spec.columns.values()]
        errors, deleted = dict[int, str](), np.zeros(len(payloads), np.bool_)
        for group in _groups(payloads):
            # `"payload":null` is what Connect itself takes for no value.
            deleted[group.rows] = group.schema and to_numpy(pc.equal(group.values, b"null"))
            values = pc.if_else(pa.array(deleted[group.rows]), pa.scalar(None, pa.binary()), group.values)
            found, bad = read_connect(self.spec, group.schema, values)
            columns = [put(column, group.rows, one) for column, one in zip(columns, found, strict=True)]
            errors |= {int(group.rows[row]): error for row, error in bad.items()}
        return replace(decoded(self.spec, columns, len(payloads), errors), deleted=deleted)


def read_connect(
    spec: PayloadSpec, schema: str, values: pa.BinaryArray
) -> tuple[Sequence[pa.Array], Mapping[int, str]]:
    """The columns of JSON values with a schema of Connect, as JSON, or without one if it is empty; errors of rows."""
    columns = tuple(spec.columns.items())
    try:
        types, converts = _conversions(schema, columns)
    except (KeyError, TypeError, ValueError, AttributeError):
        nothing = [pa.nulls(len(values), kind) for _, kind in columns]
        return nothing, dict.fromkeys(range(len(values)), "its schema is not one of Kafka Connect")
    read = JsonDeserializer(replace(spec, columns=types)).read(values)
    found, errors = list(read.columns.columns), dict(read.errors)
    for number, ((name, kind), convert) in enumerate(zip(columns, converts, strict=True)):
        if convert is not None:
            found[number], bad = by_rows(found[number], convert, kind)
            errors = {row: f"column {name}: {cause}" for row, cause in bad.items()} | errors
    if errors and not schema and any(converts):
        # Dates may be texts, too.
        rows = np.array(sorted(errors), np.int64)
        again = JsonDeserializer(spec).read(values.take(pa.array(rows)))
        found = [put(column, rows, one) for column, one in zip(found, again.columns.columns, strict=True)]
        errors = {int(rows[row]): error for row, error in again.errors.items()}
    return found, errors


# Schemas beside values.


def _groups(payloads: pa.BinaryArray) -> Iterator[_Group]:
    """Payloads by what comes before their values. A topic has few schemas, so few payloads are looked into."""
    left = np.flatnonzero(to_numpy(payloads.is_valid()))
    with_schema = to_numpy(pc.match_substring_regex(payloads.take(pa.array(left)), _BEGINS_WITH_SCHEMA))
    plain, left = [left[~with_schema]], left[with_schema]
    while len(left):
        parts = _parts(payloads[left[0]].as_py())
        if parts is None:
            plain.append(left[:1])
            left = left[1:]
            continue
        schema, head = parts
        candidates = payloads.take(pa.array(left))
        same = to_numpy(pc.and_(pc.starts_with(candidates, head), pc.ends_with(candidates, b"}")))
        rows, left = left[same], left[~same]
        values = candidates.filter(pa.array(same))
        yield _Group(schema, rows, pc.binary_slice(values, len(head), -1))
    rows = np.sort(np.concatenate(plain))
    yield _Group("", rows, payloads.take(pa.array(rows)))


def _parts(payload: bytes) -> tuple[str, bytes] | None:
    """The schema of a payload, and the bytes before its value; None if these are not its two fields."""
    try:
        text = payload.decode()
        start = _HEAD.match(text)
        assert start is not None
        _, end = _READER.raw_decode(text, start.end())
    except (ValueError, RecursionError):
        return None
    before = _PAYLOAD.match(text, end)
    if before is None or not text.endswith("}"):
        return None
    return text[start.end() : end], text[: before.end()].encode()


# Types.


@lru_cache(maxsize=256)
def _conversions(schema: str, columns: Columns) -> tuple[Mapping[str, pa.DataType], Sequence[Convert | None]]:
    """What JSON has in place of the columns, and what makes the columns of it where it is something else."""
    kind = pa.struct(list(columns))
    fields = _fields(json.loads(schema)) if schema else None
    made = [_conversion(each.type, None if fields is None else fields.get(each.name, {})) for each in kind]
    return dict(zip(dict(columns), (kind for kind, _ in made), strict=True)), [convert for _, convert in made]


def _fields(schema: Any) -> dict[str, Any]:
    """Name -> schema of the fields of a struct."""
    return {field["field"]: field for field in (schema or {}).get("fields") or ()}


def _conversion(kind: pa.DataType, schema: Any) -> tuple[pa.DataType, Convert | None]:
    """See `_conversions`. `schema`: None without any."""
    name = None if schema is None else schema.get("name")
    if pa.types.is_struct(kind):
        fields = None if schema is None else _fields(schema)
        parts = [_conversion(each.type, None if fields is None else fields.get(each.name, {})) for each in kind]
        if any(convert for _, convert in parts):
            plain = pa.struct([(each.name, part) for each, (part, _) in zip(kind, parts, strict=True)])
            return plain, partial(_structs, kind=kind, converts=[convert for _, convert in parts])
    elif pa.types.is_list(kind):
        item, convert = _conversion(kind.value_type, None if schema is None else schema.get("items") or {})
        if convert is not None:
            return pa.list_(pa.field("element", item)), partial(_lists, kind=kind, convert=convert)
    elif pa.types.is_date(kind) and (schema is None or name in _DAYS):
        return pa.int32(), _dates
    elif pa.types.is_date(kind) and name == _ISO_DATES:
        return pa.string(), _iso_dates
    elif pa.types.is_timestamp(kind) and name in _PER_SECOND:
        return pa.int64(), partial(_times, kind=kind, per_second=_PER_SECOND[name])
    elif pa.types.is_decimal(kind) and name == _DECIMALS:
        return pa.binary(), partial(_decimals, kind=kind, scale=int(schema["parameters"]["scale"]))
    elif pa.types.is_decimal(kind) and name == _SCALED_DECIMALS:
        return pa.struct([("scale", pa.int32()), ("value", pa.binary())]), partial(_scaled_decimals, kind=kind)
    return kind, None


def _structs(column: pa.StructArray, kind: pa.StructType, converts: Sequence[Convert | None]) -> pa.Array:
    parts = []
    for part, field, convert in zip(column.flatten(), kind, converts, strict=True):
        try:
            parts.append(part if convert is None else convert(part))
        except BadValueError as error:
            raise BadValueError(error.row, f"{field.name}: {error.cause}") from None
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())


def _lists(column: pa.ListArray, kind: pa.ListType, convert: Convert) -> pa.Array:
    return pa.ListArray.from_arrays(list_offsets(column), convert(column.flatten()), type=kind, mask=column.is_null())


def _dates(column: pa.Array) -> pa.Array:
    return cast_with_row(column, pa.date32(), lambda some, kind: in_years(some.cast(kind)))


def _iso_dates(column: pa.Array) -> pa.Array:
    return parse_text(pc.utf8_rtrim(column, characters="Z"), pa.date32())


def _times(column: pa.Array, kind: pa.DataType, per_second: int) -> pa.Array:
    """Times in microseconds; digits behind them are dropped."""

    def cast(some: pa.Array, kind: pa.DataType) -> pa.Array:
        if per_second <= 1_000_000:
            micros = pc.multiply_checked(some, pa.scalar(1_000_000 // per_second, pa.int64()))
        else:
            numbers = to_numpy(some.fill_null(0)) // (per_second // 1_000_000)
            micros = pa.array(numbers, mask=to_numpy(some.is_null()))
        return in_years(micros.cast(kind))

    return cast_with_row(column, kind, cast)


def _decimals(column: pa.Array, kind: pa.DataType, scale: int) -> pa.Array:
    """Decimals from unscaled numbers, big endian."""
    return parse_text(pa.array([_number(value, scale) for value in column.to_pylist()], pa.string()), kind)


def _scaled_decimals(column: pa.Array, kind: pa.DataType) -> pa.Array:
    rows = column.to_pylist()
    return parse_text(pa.array([row and _number(row["value"], row["scale"] or 0) for row in rows], pa.string()), kind)


def _number(value: bytes | None, scale: int) -> str | None:
    return None if value is None else f"{int.from_bytes(value, 'big', signed=True)}e{-scale}"
