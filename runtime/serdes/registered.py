"""The columns of payloads that have the number of a schema in a registry: those of the schema, not of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from .framing import HEAD
from .inference import Column, Inferred, Payload, inferred
from .registry import Registry, SchemaType
from .serde import SerdeError


def registered(registry: Registry, payloads: Sequence[Payload]) -> Inferred | None:
    """The format and the columns of payloads; None if they have no number of a schema that the registry knows.

    Records may have several schemas; that of the last one counts. Raises SerdeError.
    """
    if not payloads or any(payload[:1] != b"\0" or len(payload) < HEAD for _, payload in payloads):
        return None
    _, last = payloads[-1]
    number = int.from_bytes(last[1:HEAD], "big")
    schema = registry.schema(number)
    if schema is None:
        return None
    why = f"schema {number} of the registry"
    match schema.type:
        case SchemaType.AVRO:
            return _of_avro(schema.text, registry.imported(schema), why)
        case SchemaType.PROTOBUF:
            return _of_protobuf(schema.text, registry.imported(schema), last[HEAD:], why)
    bodies = [(place, payload[HEAD:]) for place, payload in payloads]
    found = inferred(bodies, "value", "json")
    assert found is not None
    return Inferred("json_schema", found.columns, f"{why}; types are those of the records")


def _of_avro(text: str, imported: Mapping[str, str], why: str) -> Inferred:
    from .avro_schema import AvroSchemaError, natural_type, parse_schema

    try:
        avro = parse_schema(text, imported.values())
    except AvroSchemaError as error:
        raise SerdeError(f"{why}: {error}", "declare the topic without the import") from None
    if avro.name == "record":
        columns = [_column(field.name, natural_type(field.type), f"{field.type}") for field in avro.fields]
    else:
        columns = [_column("value", natural_type(avro), str(avro))]
    return Inferred("avro", tuple(columns), why)


def _of_protobuf(text: str, imported: Mapping[str, str], body: bytes, why: str) -> Inferred:
    try:
        from .protobuf.indexes import FIRST, read_indexes
        from .protobuf.schemas import ProtoSchema
        from .protobuf.types import natural_columns
    except ModuleNotFoundError:
        raise SerdeError(f"{why} needs packages for Protobuf", "pip install 'headwater[protobuf]'") from None

    try:
        indexes, _ = read_indexes(body)
    except ValueError as error:
        raise SerdeError(f"a payload with {why}: {error}", "declare the topic without the import") from None
    message = ProtoSchema(text, imported).message(indexes)
    types = natural_columns(message)
    columns = [_column(field.name, types.get(field.name), "a field that no type holds") for field in message.fields]
    options = {} if indexes == FIRST else {"message": message.full_name}
    return Inferred("protobuf", tuple(columns), f"{why}, message {message.full_name}", options=options)


def _column(name: str, kind: pa.DataType | None, otherwise: str) -> Column:
    return Column(name, kind, "" if kind is not None else f"no column holds {otherwise}")
