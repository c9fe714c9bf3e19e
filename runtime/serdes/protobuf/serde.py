"""The serde `protobuf`: payloads are messages with a field for each column, behind the number of their schema."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...expressions.json.conversions import put
from ...records.arrays import Bools
from ...records.keys import normal_key
from ...records.types import ddl
from ..framing import (
    SchemaOptions,
    SubjectNameStrategy,
    framed,
    latest_schema,
    registered,
    registry_for,
    schema_of_payloads,
    unframed,
)
from ..registry import Registry, Schema, SchemaType
from ..serde import (
    Decoded,
    Deserializer,
    Direction,
    Encoded,
    PayloadSpec,
    Problem,
    Role,
    SerdeError,
    Serializer,
    by_halves,
    by_rows,
    decoded,
    encoded,
)
from .indexes import read_indexes, written_indexes
from .reading import Read, field_reader
from .schemas import MessageType, NoSuchMessageError, ProtoSchema, ProtoSchemaError
from .text import message_name, proto_text
from .types import MisfitError
from .writing import Write, in_two_of_one, rows_of, writers

Columns = tuple[tuple[str, pa.DataType], ...]

_BEYOND = 2**31 - 1
"""The end of what `binary_slice` takes: without one, that of pyarrow 26.0.1 fails for an even number of rows."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class ProtobufSerde:
    """See `Serde`. `message`: the name of the message, None for the first one of its schema."""

    options: SchemaOptions
    message: str | None = None

    def check(self, spec: PayloadSpec, direction: Direction) -> Sequence[Problem]:
        problems = list(self.options.check("protobuf", spec))
        by_record = self.options.subject_name_strategy is not SubjectNameStrategy.TOPIC
        if by_record and self.message is None and self.options.subject is None:
            problems.append(Problem("this strategy names subjects by messages; add `message`"))
        for name, kind in spec.columns.items():
            reason = _unnamed(name) or _unheld(kind)
            if reason is not None:
                problems.append(Problem(f"the format protobuf has no {reason}; use another format or type", name))
        return problems

    def deserializer(self, spec: PayloadSpec) -> Deserializer:
        return _Deserializer(self, spec)

    def serializer(self, spec: PayloadSpec) -> Serializer:
        return _Serializer(self, spec)


def protobuf_serde(message: str | None = None, **options: Any) -> ProtobufSerde:
    """The serde with the options from the YAML."""
    return ProtobufSerde(SchemaOptions.of(**options), message)


def _unnamed(name: str) -> str | None:
    return None if _NAME.fullmatch(name) else f"field of the name {name!r}"


def _unheld(kind: pa.DataType) -> str | None:
    """What of a type Protobuf does not have; None if it has all."""
    if pa.types.is_null(kind):
        return "type void"
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        item = kind.value_type if pa.types.is_list(kind) else kind.item_type
        if pa.types.is_list(item) or pa.types.is_map(item):
            return f"type {ddl(kind)}, as it has no array or map of arrays or maps"
        key = pa.string() if pa.types.is_list(kind) else kind.key_type
        if not (pa.types.is_integer(key) or pa.types.is_string(key) or pa.types.is_boolean(key)):
            return f"type {ddl(kind)}, as keys of maps are whole numbers, texts or booleans"
        return _unheld(item)
    if pa.types.is_struct(kind):
        reasons = (_unnamed(field.name) or _unheld(field.type) for field in kind)
        return next((reason for reason in reasons if reason is not None), None)
    return None


# Reading.


@dataclass(frozen=True)
class _Deserializer:
    serde: ProtobufSerde
    spec: PayloadSpec

    def read(self, payloads: pa.BinaryArray) -> Decoded:
        parts = unframed(payloads)
        errors = dict(parts.errors)
        columns = [pa.nulls(len(payloads), kind) for kind in self.spec.columns.values()]
        for number, rows in parts.groups():
            found, bad = self._read(number, parts.bodies(rows))
            columns = [put(column, rows, one) for column, one in zip(columns, found, strict=True)]
            errors |= {int(rows[row]): error for row, error in bad.items()}
        return decoded(self.spec, columns, len(payloads), errors)

    def _read(self, number: int, bodies: pa.BinaryArray) -> tuple[list[pa.Array], dict[int, str]]:
        """The columns of payloads with one schema, and the errors of rows. Raises RegistryError."""
        registry, columns = registry_for(self.spec), tuple(self.spec.columns.items())
        try:
            reader = _reader(registry, number, self.serde.message, columns)
        except _UnreadableSchemaError as error:
            return [pa.nulls(len(bodies), kind) for _, kind in columns], dict.fromkeys(range(len(bodies)), str(error))
        messages, errors = reader.messages(bodies)
        read = []
        for name, kind in columns:
            if name not in reader.fields:
                read.append(pa.nulls(len(bodies), kind))
                continue
            column, bad = by_rows(messages, reader.fields[name], kind)
            read.append(column)
            errors = {row: f"column {name}: {cause}" for row, cause in bad.items()} | errors
        return read, errors


class _UnreadableSchemaError(Exception):
    """Payloads with a schema cannot be read, whatever they hold."""


@dataclass(frozen=True)
class _Reader:
    """Reads payloads of one schema. `fields`: name of a column -> what reads it, without those that are missing."""

    schema: ProtoSchema
    number: int
    message: MessageType
    indexes: tuple[int, ...]
    fields: Mapping[str, Read]

    def messages(self, bodies: pa.BinaryArray) -> tuple[Sequence[Any], dict[int, str]]:
        """The messages, empty ones for those that cannot be read, and why they cannot."""
        head = written_indexes(self.indexes)
        if pc.all(pc.starts_with(bodies, head), min_count=0).as_py():
            return self.message.parse_all(pc.binary_slice(bodies, len(head), _BEYOND).to_pylist())
        errors, tails = dict[int, str](), list[bytes]()
        for row, body in enumerate(bodies.to_pylist()):
            try:
                tails.append(body[self._start(body) :])
            except ValueError as error:
                errors[row] = str(error)
                tails.append(b"")
        messages, bad = self.message.parse_all(tails)
        return messages, bad | errors

    def _start(self, body: bytes) -> int:
        """Where the message begins, behind its indexes. Raises ValueError."""
        indexes, at = read_indexes(body)
        if indexes != self.indexes:
            raise ValueError(self._other(indexes))
        return at

    def _other(self, indexes: tuple[int, ...]) -> str:
        wanted = self.message.descriptor.full_name
        try:
            return f"it is a {self.schema.message(indexes).full_name} of schema {self.number}, not a {wanted}"
        except NoSuchMessageError as error:
            return f"it is no {wanted}: {error}"


# A schema keeps its number forever, so a worker compiles it once.
@lru_cache(maxsize=256)
def _reader(registry: Registry, number: int, name: str | None, columns: Columns) -> _Reader:
    """Raises _UnreadableSchemaError, RegistryError."""
    found = schema_of_payloads(registry, number, SchemaType.PROTOBUF)
    if isinstance(found, str):
        raise _UnreadableSchemaError(found)
    schema = ProtoSchema(found.text, registry.imported(found))
    try:
        indexes = schema.indexes(name)
    except (NoSuchMessageError, ProtoSchemaError) as error:
        raise _UnreadableSchemaError(f"schema {number}: {error}") from None
    message = schema.message(indexes)
    fields = message.fields_by_name
    try:
        readers = {column: field_reader(fields[column], kind) for column, kind in columns if column in fields}
    except MisfitError as error:
        raise _UnreadableSchemaError(f"schema {number} does not fit the columns: {error}") from None
    return _Reader(schema, number, MessageType(message), indexes, readers)


# Writing.


@dataclass(frozen=True)
class _Serializer:
    serde: ProtobufSerde
    spec: PayloadSpec

    def write(self, columns: pa.RecordBatch, absent: Bools) -> Encoded:
        writer = _writer(
            registry_for(self.spec), self.spec.topic, self.spec.role, self.serde, tuple(self.spec.columns.items())
        )
        rows = np.flatnonzero(~absent)
        given = {
            name: normal_key(column) if self.spec.role is Role.KEY else column
            for name, column in zip(self.spec.columns, columns.take(pa.array(rows)).columns, strict=True)
        }
        bodies, errors = writer.bodies(given, len(rows))
        payloads = put(pa.nulls(len(columns), pa.binary()), rows, framed(pa.array(bodies, pa.binary()), writer.number))
        return encoded(payloads, absent, {int(rows[row]): error for row, error in errors.items()})


@dataclass(frozen=True)
class _Writer:
    """Writes messages of one schema. `head`: the indexes of the message."""

    number: int
    message: MessageType
    head: bytes
    fields: Mapping[str, Write]

    def bodies(self, columns: Mapping[str, pa.Array], rows: int) -> tuple[list[bytes], dict[int, str]]:
        """Indexes and messages, empty ones for those that cannot be written, and why they cannot."""
        errors, values = dict[int, str](), []
        for name, column in columns.items():
            written, bad = by_halves(column, self.fields[name], [None], list.__add__)
            values.append(written)
            errors = {row: f"column {name}: {cause}" for row, cause in bad.items()} | errors
        for why, mask in in_two_of_one(self.message.descriptor, columns):
            errors = dict.fromkeys(np.flatnonzero(mask).tolist(), why) | errors
        make, head = self.message.make, self.head
        return [
            head if row in errors else head + make(**arguments).SerializePartialToString(deterministic=True)
            for row, arguments in enumerate(rows_of(list(columns), values, rows))
        ], errors


@lru_cache(maxsize=64)
def _writer(registry: Registry, topic: str, role: Role, serde: ProtobufSerde, columns: Columns) -> _Writer:
    """Raises SerdeError."""
    types = dict(columns)
    name = serde.message or message_name(topic, role)
    subject = serde.options.subject_of(PayloadSpec(topic, role, types), name)
    latest = latest_schema(registry, subject, serde.options, SchemaType.PROTOBUF)
    schema = None if latest is None else ProtoSchema(latest.schema.text, registry.imported(latest.schema))
    if latest is not None and schema is not None:
        try:
            return _fitting(latest.id, schema, serde.message, types)
        except (MisfitError, NoSuchMessageError) as error:
            if not serde.options.register:
                hint = "declare columns that the schema holds, register another schema, or write `register: true`"
                raise SerdeError(
                    f"the columns do not fit schema {latest.id} of subject {subject}: {error}", hint
                ) from None
    before = None
    if schema is not None:
        with suppress(NoSuchMessageError):
            before = schema.message(schema.indexes(serde.message))
            name = before.full_name
    new = Schema(SchemaType.PROTOBUF, proto_text(name, types, before))
    return _fitting(registered(registry, subject, new), ProtoSchema(new.text, {}), name, types)


def _fitting(number: int, schema: ProtoSchema, name: str | None, columns: Mapping[str, pa.DataType]) -> _Writer:
    """Raises MisfitError, NoSuchMessageError."""
    indexes = schema.indexes(name)
    message = schema.message(indexes)
    return _Writer(number, MessageType(message), written_indexes(indexes), writers(message, columns))
