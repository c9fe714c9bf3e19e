"""JSON Schemas of columns, and whether columns fit a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from ..records.schema import is_bound
from ..records.types import TIMESTAMP, ddl
from .serde import Direction, Role, SerdeError

JsonSchema = Any
"""A schema as parsed JSON: an object, or a boolean."""

_SIMPLE: Mapping[pa.DataType, Mapping[str, str]] = {
    pa.bool_(): {"type": "boolean"},
    pa.int8(): {"type": "integer", "connect.type": "int8"},
    pa.int16(): {"type": "integer", "connect.type": "int16"},
    pa.int32(): {"type": "integer", "connect.type": "int32"},
    pa.int64(): {"type": "integer", "connect.type": "int64"},
    pa.float32(): {"type": "number", "connect.type": "float32"},
    pa.float64(): {"type": "number", "connect.type": "float64"},
    pa.binary(): {"type": "string", "contentEncoding": "base64"},
    pa.date32(): {"type": "string", "format": "date"},
    TIMESTAMP: {"type": "string", "format": "date-time"},
}
"""All other types that are not nested are texts. `connect.type` tells sinks of Kafka Connect the width of numbers."""


_DEEPEST = 32
"""Levels of a schema that are looked at: one that refers to itself has no end."""


# Schemas of columns.


def json_types(role: Role, columns: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The types of columns in JSON: bounds of windows are numbers."""
    is_key = role is Role.KEY
    return {name: pa.int64() if is_key and is_bound(name, kind) else kind for name, kind in columns.items()}


def object_schema(title: str, columns: Mapping[str, pa.DataType]) -> JsonSchema:
    """The schema of objects with a field for each column, and no other: so a column can be added compatibly."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **_object(columns)}


def _object(columns: Mapping[str, pa.DataType]) -> JsonSchema:
    properties = {name: _nullable(kind) for name, kind in columns.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _nullable(kind: pa.DataType) -> JsonSchema:
    return {"oneOf": [{"type": "null"}, _schema(kind)]}


def _schema(kind: pa.DataType) -> JsonSchema:
    if pa.types.is_struct(kind):
        return _object({field.name: field.type for field in kind})
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_type)}
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return {"type": "object", "additionalProperties": _nullable(kind.item_type)}
    if pa.types.is_map(kind):
        return {"type": "array", "items": _object({"key": kind.key_type, "value": kind.item_type})}
    return dict(_SIMPLE.get(kind, {"type": "string"}))


# Whether columns fit.
#
# Only what a schema says by `type`, `properties`, `required`, `items`, `additionalProperties` and alternatives of these
# is looked at. Everything else, such as a pattern, is taken to fit: it is about single values.


def parsed(text: str) -> JsonSchema:
    """A schema from its text. Raises SerdeError."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise SerdeError(f"a schema is no JSON: {error}") from None


def misfit(schema: JsonSchema, columns: Mapping[str, pa.DataType], direction: Direction) -> str | None:
    """Why objects with these columns do not fit a schema, or objects with the schema these columns; None if they do.

    Raises SerdeError.
    """
    try:
        return next(_misfits(schema, schema, pa.struct(list(columns.items())), direction, ""), None)
    except (TypeError, AttributeError, RecursionError):
        raise SerdeError("it is not a JSON Schema") from None


def refuses_null(schema: JsonSchema, columns: Mapping[str, pa.DataType]) -> Iterator[str]:
    """The columns for which a schema does not allow null."""
    for alternative in _alternatives(schema, schema):
        for name in columns:
            value = alternative.get("properties", {}).get(name)
            if value is not None and "null" not in _types(schema, value):
                yield name


def _misfits(root: JsonSchema, schema: JsonSchema, kind: pa.DataType, direction: Direction, path: str) -> Iterator[str]:
    allowed, wanted = _types(root, schema), _wanted(kind, direction)
    if allowed and not allowed & wanted:
        yield f"{path or 'the whole'} is of type {' or '.join(sorted(allowed))} there, and {ddl(kind)} here"
        return
    for alternative in _alternatives(root, schema):
        if pa.types.is_struct(kind):
            yield from _misfits_of_fields(root, alternative, kind, direction, path)
        elif pa.types.is_list(kind) and isinstance(alternative.get("items"), dict):
            yield from _misfits(root, alternative["items"], kind.value_type, direction, f"{path}[]")
        elif pa.types.is_map(kind) and isinstance(alternative.get("additionalProperties"), dict):
            yield from _misfits(root, alternative["additionalProperties"], kind.item_type, direction, f"{path}{{}}")


def _misfits_of_fields(
    root: JsonSchema, schema: JsonSchema, kind: pa.StructType, direction: Direction, path: str
) -> Iterator[str]:
    properties = schema.get("properties", {})
    for field in kind:
        name = f"{path}.{field.name}" if path else field.name
        if field.name in properties:
            yield from _misfits(root, properties[field.name], field.type, direction, name)
        elif direction is Direction.WRITE and schema.get("additionalProperties") is False:
            yield f"{name} is not there, and no other properties are allowed"
    if direction is Direction.WRITE:
        missing = [name for name in schema.get("required", ()) if kind.get_field_index(name) < 0]
        yield from (f"{path}.{name} is required".removeprefix(".") for name in missing)


def _alternatives(root: JsonSchema, schema: JsonSchema) -> list[Mapping[str, Any]]:
    """The schemas of which a value needs one, but for that of null."""
    schema = _resolved(root, schema)
    if not isinstance(schema, dict):
        return []
    inner = [*schema.get("oneOf", ()), *schema.get("anyOf", ())]
    if not inner:
        return [] if schema.get("type") == "null" else [schema]
    return [found for each in inner for found in _alternatives(root, each)]


def as_connect(schema: JsonSchema) -> Mapping[str, Any]:
    """A schema as one of Kafka Connect, whose JSON Schemas have the names of logical types as titles."""
    return _as_connect(schema, schema, 0)


def _as_connect(root: JsonSchema, schema: JsonSchema, depth: int) -> Mapping[str, Any]:
    alternatives = _alternatives(root, schema)
    if not alternatives or depth > _DEEPEST:
        return {}
    found = alternatives[0]
    fields = [
        {**_as_connect(root, each, depth + 1), "field": name} for name, each in found.get("properties", {}).items()
    ]
    items = _as_connect(root, found.get("items", True), depth + 1)
    return {"name": found.get("title"), "parameters": found.get("connect.parameters"), "fields": fields, "items": items}


def _types(root: JsonSchema, schema: JsonSchema) -> frozenset[str]:
    """The types that a schema allows; empty if it does not say."""
    schema = _resolved(root, schema)
    if not isinstance(schema, dict):
        return frozenset()
    inner = [_types(root, each) for each in (*schema.get("oneOf", ()), *schema.get("anyOf", ()))]
    if inner:
        return frozenset().union(*inner) if all(inner) else frozenset()
    declared = schema.get("type", ())
    return frozenset([declared] if isinstance(declared, str) else declared)


def _resolved(root: JsonSchema, schema: JsonSchema) -> JsonSchema:
    """A schema without the local references at its top. Those to other files are taken to fit."""
    seen = set[str]()
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and schema["$ref"] not in seen:
        seen.add(schema["$ref"])
        if not schema["$ref"].startswith("#"):
            return True
        target = root
        for part in schema["$ref"].removeprefix("#").strip("/").split("/"):
            target = (
                target.get(part.replace("~1", "/").replace("~0", "~"), True)
                if isinstance(target, dict) and part
                else target
            )
        schema = target
    return schema


def _wanted(kind: pa.DataType, direction: Direction) -> frozenset[str]:
    """The types of JSON that a column has."""
    if pa.types.is_boolean(kind):
        return frozenset({"boolean"})
    if pa.types.is_integer(kind):
        return frozenset({"integer", "number"})
    if pa.types.is_floating(kind):
        return frozenset({"number"} if direction is Direction.WRITE else {"number", "integer"})
    if pa.types.is_decimal(kind):
        return frozenset({"string"} if direction is Direction.WRITE else {"string", "number", "integer"})
    if pa.types.is_struct(kind):
        return frozenset({"object"})
    if pa.types.is_map(kind):
        return frozenset({"object"} if pa.types.is_string(kind.key_type) else {"array"})
    return frozenset({"array"} if pa.types.is_list(kind) else {"string"})
