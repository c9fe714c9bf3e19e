"""The serde `json_schema`: JSON objects behind the number of their schema, as Confluent's serializer writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..expressions.json.conversions import put
from ..records.arrays import BadValueError, Bools, to_numpy
from .connect_json import read_connect
from .debezium import DebeziumSerde
from .framing import (
    SchemaOptions,
    SubjectNameStrategy,
    framed,
    latest_schema,
    registered,
    registry_for,
    schema_of_payloads,
    unframed,
)
from .json import JsonDeserializer, JsonSerde, JsonSerializer
from .json_schema_fit import as_connect, json_types, misfit, object_schema, parsed, refuses_null
from .registry import Registry, Schema, SchemaType
from .serde import (
    Decoded,
    Deserializer,
    Direction,
    Encoded,
    PayloadSpec,
    Problem,
    Role,
    Serde,
    SerdeError,
    Serializer,
    by_rows,
    decoded,
    encoded,
)

Columns = tuple[tuple[str, pa.DataType], ...]


@dataclass(frozen=True)
class JsonSchemaSerde:
    """See `Serde`. `connect`: whether values are of the types of Kafka Connect, as their schemas say."""

    options: SchemaOptions
    connect: bool = False

    def check(self, spec: PayloadSpec, direction: Direction) -> Sequence[Problem]:
        problems = [*self.options.check("json_schema", spec), *JsonSerde().check(spec, direction)]
        if self.options.subject is None and self.options.subject_name_strategy is not SubjectNameStrategy.TOPIC:
            problems.append(
                Problem("the format json_schema has no names of records for this strategy; write `subject`")
            )
        return problems

    def deserializer(self, spec: PayloadSpec) -> Deserializer:
        return _Deserializer(spec, self.connect)

    def serializer(self, spec: PayloadSpec) -> Serializer:
        return _Serializer(self.options, spec)


def json_schema_serde(envelope: str | None = None, **options: Any) -> Serde:
    """The serde with the options from the YAML."""
    given = SchemaOptions.of(**options)
    return JsonSchemaSerde(given) if envelope is None else DebeziumSerde(JsonSchemaSerde(given, connect=True))


# Reading.


@dataclass(frozen=True)
class _Deserializer:
    spec: PayloadSpec
    connect: bool

    def read(self, payloads: pa.BinaryArray) -> Decoded:
        registry, parts = registry_for(self.spec), unframed(payloads)
        errors = dict(parts.errors)
        columns = [pa.nulls(len(payloads), kind) for kind in self.spec.columns.values()]
        for number, rows in parts.groups():
            schema = schema_of_payloads(registry, number, SchemaType.JSON)
            if isinstance(schema, str):
                errors |= dict.fromkeys(rows.tolist(), schema)
                continue
            why = None if self.connect else _misfit(schema.text, _columns(self.spec))
            if why is not None:
                errors |= dict.fromkeys(rows.tolist(), f"schema {number} does not fit the columns: {why}")
                continue
            try:
                found, bad = self._read(schema.text, parts.bodies(rows))
            except (SerdeError, RecursionError) as error:
                errors |= dict.fromkeys(rows.tolist(), f"schema {number} cannot be read: {error}")
                continue
            columns = [put(column, rows, one) for column, one in zip(columns, found, strict=True)]
            errors |= {int(rows[row]): error for row, error in bad.items()}
        return decoded(self.spec, columns, len(payloads), errors)

    def _read(self, schema: str, bodies: pa.BinaryArray) -> tuple[Sequence[pa.Array], Mapping[int, str]]:
        """Columns, and errors of rows."""
        if self.connect:
            return read_connect(self.spec, _connect(schema), bodies)
        read = JsonDeserializer(self.spec).read(bodies)
        return read.columns.columns, read.errors


@lru_cache(maxsize=256)
def _connect(schema: str) -> str:
    return json.dumps(as_connect(parsed(schema)))


@lru_cache(maxsize=256)
def _misfit(schema: str, columns: Columns) -> str | None:
    try:
        return misfit(parsed(schema), dict(columns), Direction.READ)
    except SerdeError as error:
        return str(error)


def _columns(spec: PayloadSpec) -> Columns:
    return tuple(json_types(spec.role, spec.columns).items())


# Writing.


@dataclass(frozen=True)
class _Serializer:
    options: SchemaOptions
    spec: PayloadSpec

    def write(self, columns: pa.RecordBatch, absent: Bools) -> Encoded:
        target = _target(registry_for(self.spec), self.options, self.spec.topic, self.spec.role, _columns(self.spec))
        written = JsonSerializer(self.spec).write(columns, absent)
        errors = dict(written.errors)
        for name, column in zip(self.spec.columns, columns.columns, strict=True):
            _, bad = by_rows(column, _finite, column.type)
            if name in target.without_null:
                nulls = np.flatnonzero(to_numpy(column.is_null())).tolist()
                bad |= dict.fromkeys(nulls, f"null, which schema {target.number} does not allow")
            errors = {row: f"column {name}: {cause}" for row, cause in bad.items()} | errors
        return encoded(framed(written.payloads, target.number), absent, errors)


def _finite(column: pa.Array) -> pa.Array:
    """The column. Raises BadValueError for what JSON Schema has no number for, at any depth."""
    if pa.types.is_floating(column.type):
        finite = pc.fill_null(pc.is_finite(column), True)
        if not pc.all(finite, min_count=0).as_py():
            row = finite.index(False).as_py()
            raise BadValueError(row, f"{column[row].as_py()} is no number of JSON Schema")
    elif pa.types.is_struct(column.type):
        for part in column.flatten():
            _finite(part)
    elif pa.types.is_list(column.type):
        _finite(column.flatten())
    elif pa.types.is_map(column.type):
        entry = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
        _finite(column.cast(pa.list_(entry)).flatten())
    return column


@dataclass(frozen=True)
class _Target:
    """A schema to write by. `without_null`: the columns that must not be null."""

    number: int
    without_null: frozenset[str]


# A worker asks once which schema it writes by.
@lru_cache(maxsize=64)
def _target(registry: Registry, options: SchemaOptions, topic: str, role: Role, columns: Columns) -> _Target:
    """Raises SerdeError."""
    types: Mapping[str, pa.DataType] = dict(columns)
    subject = options.subject_of(PayloadSpec(topic, role, types), topic)
    latest = latest_schema(registry, subject, options, SchemaType.JSON)
    if latest is not None:
        why = misfit(parsed(latest.schema.text), types, Direction.WRITE)
        if why is None:
            return _Target(latest.id, frozenset(refuses_null(parsed(latest.schema.text), types)))
        if not options.register:
            hint = "declare columns that the schema holds, register another schema, or write `register: true`"
            raise SerdeError(f"the columns do not fit schema {latest.id} of subject {subject}: {why}", hint)
    new = Schema(SchemaType.JSON, json.dumps(object_schema(f"{topic}-{role}", types), ensure_ascii=False))
    return _Target(registered(registry, subject, new), frozenset())
