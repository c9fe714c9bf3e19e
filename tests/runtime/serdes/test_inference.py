"""Columns are inferred from samples only where all of them agree, and each doubt names two records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.runtime.records.types import ddl
from headwater.runtime.serdes.inference import inferred
from headwater.runtime.serdes.registered import registered
from headwater.runtime.serdes.registry import Registry, Schema, SchemaType
from headwater.runtime.serdes.serde import SerdeError
from headwater.tests.runtime.serdes.served_registry import served_registry


def columns(*objects: Any) -> dict[str, tuple[str | None, str]]:
    payloads = [(f"t[0]@{number}", json.dumps(value).encode()) for number, value in enumerate(objects)]
    found = inferred(payloads, "value")
    assert found is not None
    return {column.name: (None if column.type is None else ddl(column.type), column.note) for column in found.columns}


@pytest.mark.parametrize(
    ("values", "type_", "note"),
    [
        ([1, 2], "bigint", ""),
        ([1, None, 0.5], "double", ""),
        ([1, 2**64], "decimal(38,0)", ""),
        ([10**40], "double", ""),
        ([True], "boolean", ""),
        ([True, 1], None, "a boolean at t[0]@0, a whole number at t[0]@1"),
        (["x", "2024-05-01"], "string", ""),
        (["2024-05-01"], "date", ""),
        (["2024-05-01T08:00:00.123+02:00"], "timestamp", ""),
        (["2024-05-01T08:00:00"], "string", ""),
        ([None], None, "always null"),
        ([[]], None, "its items: always null"),
        ([[1], ["x"]], None, "its items: a whole number at t[0]@0, a text at t[0]@1"),
        ([{"b": 1}, {"c": None}], "struct<b:bigint>", "without c: always null"),
        ([{"b": {}}], None, "without b: an object without fields"),
        ([{"b": 1, "c\nd": None}], "struct<b:bigint>", 'without "c\\nd": always null'),
        ([{"b": 1}, [1]], None, "an object at t[0]@0, a list at t[0]@1"),
    ],
)
def test_type_holds_all_values_or_is_none_and_says_why(values: list[Any], type_: str | None, note: str) -> None:
    assert columns(*({"a": value} for value in values)) == {"a": (type_, note)}


def test_fields_that_cannot_be_columns_are_left_out() -> None:
    found = columns({"a.b": 1, "A": 1, "a": 2, "": 3})
    assert {name: type_ for name, (type_, _) in found.items()} == {"a.b": None, "A": "bigint", "a": None, "": None}


@pytest.mark.parametrize(
    ("payloads", "form", "certain"),
    [
        ([b"a", "ü".encode()], "string", True),
        ([b""], "string", True),
        ([b"6ba7b810-9dad-11d1-80b4-00c04fd430c8"], "uuid", True),
        ([bytes(8), bytes(7) + b"\x01"], "bigint", False),
        ([b"\x00\x00\x00\x01"], "int", False),
        ([b"\x00\xff\x01"], "binary", False),
        ([b'{"a": 1}', b"x"], "string", True),
        ([b'{"a": 1}'], "json", True),
    ],
)
def test_format_is_guessed_from_all_payloads(payloads: list[bytes], form: str, certain: bool) -> None:
    found = inferred([("t[0]@0", payload) for payload in payloads], "key")
    assert found is not None
    assert (found.format, found.certain) == (form, certain)


def test_wanted_format_wins_and_names_what_is_none() -> None:
    payloads = [("t[0]@0", b'{"a": 1}'), ("t[0]@1", b"x")]
    assert [column.name for column in inferred(payloads, "key", "binary").columns] == ["key"]
    assert inferred(payloads, "key", "json").why == "JSON objects, but for t[0]@1"
    assert inferred([], "key") is None


@pytest.mark.parametrize(
    ("schema", "body", "cause"),
    [
        (Schema(SchemaType.AVRO, '{"type": "nothing"}'), b"", "schema {} of the registry: "),
        (
            Schema(SchemaType.PROTOBUF, 'syntax = "proto3"; message A {}'),
            b"",
            "a payload with schema {} of the registry: ",
        ),
    ],
)
def test_schema_or_payload_that_cannot_be_read_is_an_error_with_a_way_out(
    schema: Schema, body: bytes, cause: str
) -> None:
    registry = Registry(served_registry())
    number = registry.register("t-value", schema)
    with pytest.raises(SerdeError) as caught:
        registered(registry, [("t[0]@0", b"\0" + number.to_bytes(4, "big") + body)])
    assert caught.value.message.startswith(cause.format(number))
    assert caught.value.hint
