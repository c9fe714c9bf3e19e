"""The serde `avro`: records of Avro with the number of their schema in a registry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..ir.topology import SchemaRegistry
from ..records.arrays import Bools, Int64s
from ..records.keys import normal_key
from .avro_cursor import PADDING, Cursor
from .avro_fit import columns_writer
from .avro_read import ColumnsReader
from .avro_resolve import AvroMismatchError, Resolver
from .avro_schema import AvroSchemaError, AvroType, is_full_name, parse_schema, schema_text
from .avro_write import AvroWriter
from .debezium import DebeziumSerde
from .framing import (
    Framed,
    SchemaOptions,
    framed,
    latest_schema,
    registered,
    registry_for,
    schema_of_payloads,
    unframed,
)
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

_ROWS = 8192
"""The rows that are read at once: what belongs to one field of them stays in the processor's cache."""


@dataclass(frozen=True)
class AvroSerde:
    """See `Serde`. `record`: the full name of the record that is registered; None: made of the topic's name."""

    options: SchemaOptions
    record: str | None = None

    def check(self, spec: PayloadSpec, direction: Direction) -> Sequence[Problem]:
        problems = list(self.options.check("avro", spec))
        if self.record is not None and not is_full_name(self.record):
            problems.append(Problem(f"{self.record} is no name of an Avro record; write one such as shop.Order"))
        for name, kind in spec.columns.items():
            try:
                schema_text({name: kind}, "record")
            except AvroSchemaError as error:
                problems.append(Problem(f"{error}; declare another type, or use another format", name))
        return problems

    def deserializer(self, spec: PayloadSpec) -> Deserializer:
        return AvroDeserializer(spec, self.options)

    def serializer(self, spec: PayloadSpec) -> Serializer:
        return AvroSerializer(spec, self.options, self.record)


def avro_serde(record: str | None = None, envelope: str | None = None, **options: Any) -> Serde:
    """The serde with its options as they are written."""
    made = AvroSerde(SchemaOptions.of(**options), record)
    return made if envelope is None else DebeziumSerde(made)


def _record_name(spec: PayloadSpec) -> str:
    """The full name of the record of a topic's keys or values: `headwater.HourlyDelaysValue` for `hourly_delays`."""
    words = re.findall(r"[A-Za-z0-9]+", spec.topic)
    name = "".join(word[0].upper() + word[1:] for word in (*words, spec.role.value))
    return f"headwater.{'_' if name[0].isdigit() else ''}{name}"


@dataclass(frozen=True)
class AvroDeserializer:
    """See `Deserializer`. A field becomes the column with its name, and fields without a column are ignored.

    A schema that is not there or does not fit the columns is an error of its payloads.
    """

    spec: PayloadSpec
    options: SchemaOptions

    def read(self, payloads: pa.BinaryArray) -> Decoded:
        parts = unframed(payloads)
        data = np.concatenate([parts.data, np.frombuffer(PADDING, np.uint8)])
        errors = dict(parts.errors)
        read: list[list[pa.Array]] = []
        order: list[Int64s] = []
        for number, rows in parts.groups():
            reader = self._reader(number)
            if isinstance(reader, str):
                errors |= dict.fromkeys(rows.tolist(), reader)
                continue
            for start in range(0, len(rows), _ROWS):
                some = rows[start : start + _ROWS]
                columns, more = _read(reader, data, parts, some)
                read.append(columns)
                order.append(some)
                errors |= more
        return decoded(self.spec, self._in_order(len(payloads), read, order), len(payloads), errors)

    def _reader(self, number: int) -> ColumnsReader | str:
        """The reader of payloads with a schema, or what is wrong with them."""
        schema = schema_of_payloads(registry_for(self.spec), number, SchemaType.AVRO)
        return schema if isinstance(schema, str) else _resolved(number, schema, _Key.of(self.spec), self.options)

    def _in_order(self, rows: int, read: list[list[pa.Array]], order: list[Int64s]) -> list[pa.Array]:
        if not read:
            return [pa.nulls(rows, kind) for kind in self.spec.columns.values()]
        of_row = np.concatenate(order)
        if len(of_row) == rows and (of_row[:-1] < of_row[1:]).all():
            return [pa.concat_arrays(parts) for parts in zip(*read, strict=True)]
        places = np.zeros(rows, np.int64)
        missing = np.ones(rows, np.bool_)
        places[of_row], missing[of_row] = np.arange(len(of_row)), False
        at = pa.array(places, mask=missing)
        return [pa.concat_arrays(parts).take(at) for parts in zip(*read, strict=True)]


def _read(
    reader: ColumnsReader, data: npt.NDArray[np.uint8], parts: Framed, rows: Int64s
) -> tuple[list[pa.Array], dict[int, str]]:
    """The columns of payloads with one schema, and errors by row of all payloads."""
    cursor = Cursor(data, parts.starts[rows], parts.lengths[rows])
    everything = np.arange(len(rows))
    try:
        columns = reader.read_columns(cursor, everything)
    except RecursionError:  # of a record that contains itself too often: found by halves
        return _read_halves(reader, data, parts, rows)
    cursor.end(everything)
    return columns, {int(rows[row]): error for row, error in cursor.errors.items()}


def _read_halves(
    reader: ColumnsReader, data: npt.NDArray[np.uint8], parts: Framed, rows: Int64s
) -> tuple[list[pa.Array], dict[int, str]]:
    if len(rows) == 1:
        row = int(rows[0])
        nothing = Framed(parts.numbers, data, parts.starts, np.zeros_like(parts.lengths), {})
        return _read(reader, data, nothing, rows)[0], {row: "its records contain themselves too often"}
    first, errors = _read(reader, data, parts, rows[: len(rows) // 2])
    last, more = _read(reader, data, parts, rows[len(rows) // 2 :])
    return [pa.concat_arrays(both) for both in zip(first, last, strict=True)], errors | more


# Readers and writers are made once for each schema in a process.


@dataclass(frozen=True)
class _Key:
    """A PayloadSpec that can be hashed."""

    topic: str
    role: Role
    columns: tuple[tuple[str, pa.DataType], ...]
    registry: SchemaRegistry | None

    @classmethod
    def of(cls, spec: PayloadSpec) -> _Key:
        return cls(spec.topic, spec.role, tuple(spec.columns.items()), spec.registry)

    @property
    def spec(self) -> PayloadSpec:
        return PayloadSpec(self.topic, self.role, dict(self.columns), self.registry)


@lru_cache(maxsize=1024)
def _resolved(number: int, schema: Schema, key: _Key, options: SchemaOptions) -> ColumnsReader | str:
    """The reader of payloads with a schema, or why there is none."""
    spec = key.spec
    registry = registry_for(spec)
    try:
        avro = _parsed(registry, schema)
        resolver = Resolver()
        reader = resolver.columns(avro, spec.columns, None)
        if resolver.lacking:
            latest = registry.latest(options.subject_of(spec, avro.full_name))
            if latest is not None and latest.id != number and latest.schema.type is SchemaType.AVRO:
                reader = Resolver().columns(avro, spec.columns, _parsed(registry, latest.schema))
    except AvroSchemaError as error:
        return f"schema {number}: {error}"
    except AvroMismatchError as error:
        return f"schema {number} does not fit the columns: {error}"
    return reader


@lru_cache(maxsize=1024)
def _fitted(key: _Key, options: SchemaOptions, record: str | None) -> tuple[int, AvroWriter]:
    """The number of the schema that is written, and the writer for it. Raises SerdeError."""
    spec = key.spec
    registry = registry_for(spec)
    name = record or _record_name(spec)
    subject = options.subject_of(spec, name)
    latest = latest_schema(registry, subject, options, SchemaType.AVRO)
    if latest is not None:
        try:
            avro = _parsed(registry, latest.schema)
            if record is None:
                name = avro.full_name or name  # a record with another name is incompatible
            return latest.id, columns_writer(avro, spec.columns)
        except (AvroMismatchError, AvroSchemaError) as error:
            if not options.register:
                raise SerdeError(
                    f"schema {latest.id}, the latest of subject {subject}, does not hold the {spec.role}s of topic "
                    f"{spec.topic}: {error}",
                    "change the columns, register another schema, or write `register: true`",
                ) from None
    schema = Schema(SchemaType.AVRO, schema_text(spec.columns, name))
    return registered(registry, subject, schema), columns_writer(_parsed(registry, schema), spec.columns)


def _parsed(registry: Registry, schema: Schema) -> AvroType:
    return parse_schema(schema.text, registry.imported(schema).values())


@dataclass(frozen=True)
class AvroSerializer:
    """See `Serializer`. `record`: see `AvroSerde`."""

    spec: PayloadSpec
    options: SchemaOptions
    record: str | None

    def write(self, columns: pa.RecordBatch, absent: Bools) -> Encoded:
        number, writer = _fitted(_Key.of(self.spec), self.options, self.record)
        parts = [normal_key(column) if self.spec.role is Role.KEY else column for column in columns.columns]
        kept = np.flatnonzero(~absent)
        if parts:
            rows = pa.StructArray.from_arrays(parts, fields=list(self.spec.schema)).take(pa.array(kept))
        else:
            rows = pa.array([{}] * len(kept), pa.struct([]))
        written, errors = by_rows(rows, writer.write, pa.binary())
        places = np.zeros(len(absent), np.int64)
        places[kept] = np.arange(len(kept))
        payloads = framed(written, number).take(pa.array(places, mask=absent))
        return encoded(payloads, absent, {int(kept[row]): error for row, error in errors.items()})
