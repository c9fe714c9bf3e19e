"""JSON with a schema in a registry: the payloads, the schemas that are written, and whether columns fit them."""

from __future__ import annotations

import datetime as dt
import json
import math
from itertools import count
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from headwater.plugins.manager import PluginManager
from headwater.runtime.records.types import parse_columns
from headwater.runtime.serdes.json_schema_fit import json_types, misfit, object_schema
from headwater.runtime.serdes.registry import RegisteredSchema, Schema, SchemaType, registry_of
from headwater.runtime.serdes.serde import Decoded, Direction, Encoded, PayloadSpec, Role, SerdeError
from headwater.tests.runtime.serdes.columns import TYPES, batches
from headwater.tests.runtime.serdes.served_registry import served_registry
from headwater.tests.runtime.serdes.test_debezium import MS, UTC_TIME, change, unscaled

NUMBERS = count()


def spec_of(columns: str, topic: str | None = None, role: Role = Role.VALUE) -> PayloadSpec:
    return PayloadSpec(topic or f"parcels{next(NUMBERS)}", role, parse_columns(columns), served_registry())


def register(spec: PayloadSpec, schema: object) -> int:
    assert spec.registry is not None
    text = Schema(SchemaType.JSON, json.dumps(schema))
    return registry_of(spec.registry).register(f"{spec.topic}-{spec.role}", text)


def latest(spec: PayloadSpec) -> RegisteredSchema:
    assert spec.registry is not None
    found = registry_of(spec.registry).latest(f"{spec.topic}-{spec.role}")
    assert found is not None
    return found


def write(spec: PayloadSpec, *rows: dict[str, Any], **options: Any) -> Encoded:
    serde = PluginManager(installed=False).serdes.create("json_schema", options)
    columns = pa.RecordBatch.from_pylist(list(rows), spec.schema)
    return serde.serializer(spec).write(columns, np.zeros(len(rows), np.bool_))


def read(spec: PayloadSpec, *payloads: bytes | None, **options: Any) -> Decoded:
    serde = PluginManager(installed=False).serdes.create("json_schema", options)
    return serde.deserializer(spec).read(pa.array(payloads, pa.binary()))


def payload(number: int, value: object) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + json.dumps(value).encode()


def test_payload_is_the_number_of_a_schema_and_an_object() -> None:
    spec = spec_of("id int, color string")

    written = write(spec, {"id": 1, "color": None}, register=True)

    schema = latest(spec)
    head = b"\0" + schema.id.to_bytes(4, "big")
    assert written.payloads.to_pylist() == [head + b'{"id":1,"color":null}']
    assert json.loads(schema.schema.text) == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"{spec.topic}-value",
        "type": "object",
        "properties": {
            "id": {"oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int32"}]},
            "color": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        },
        "additionalProperties": False,
    }


@given(batches(TYPES))
def test_what_is_written_is_valid_by_the_schema_of_its_columns(batch: pa.RecordBatch) -> None:
    types = {field.name: field.type for field in batch.schema}
    spec = PayloadSpec(f"any-{abs(hash(str(types)))}", Role.VALUE, types, served_registry())
    serde = PluginManager(installed=False).serdes.create("json_schema", {"register": True})

    written = serde.serializer(spec).write(batch, np.zeros(len(batch), np.bool_))

    validator = jsonschema.Draft7Validator(object_schema("any", json_types(spec.role, types)))
    for row, body in enumerate(written.payloads.to_pylist()):
        assert (body is None) == (row in written.errors)
        if body is not None:
            validator.validate(json.loads(body[5:]))
    assert all("is no number of JSON Schema" in error for error in written.errors.values())


@pytest.mark.parametrize(
    ("columns", "value"),
    [
        ("x double", math.nan),
        ("x float", math.inf),
        ("x array<struct<a: double>>", [{"a": 1.0}, {"a": -math.inf}]),
        ("x map<string, double>", [("a", math.nan)]),
    ],
)
def test_nan_and_infinity_are_errors_of_their_records(columns: str, value: object) -> None:
    spec = spec_of(columns)

    written = write(spec, {"x": None}, {"x": value}, {"x": None}, register=True)

    assert list(written.errors) == [1]
    assert written.errors[1].startswith("column x: ")
    assert written.errors[1].endswith("is no number of JSON Schema")
    assert written.payloads.is_null().to_pylist() == [False, True, False]


PARCEL = {
    "type": "object",
    "definitions": {"Place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
    "properties": {
        "id": {"type": "integer"},
        "weight": {"type": ["number", "null"]},
        "to": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/Place"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "free": {},
    },
    "required": ["id"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("id int, weight double, to struct<city: string>, tags array<string>, free date", None),
        ("id string", "id is of type integer there, and string here"),
        ("id int, size int", "size is not there, and no other properties are allowed"),
        ("weight double", "id is required"),
        ("id int, to struct<street: string>", "to.city is required"),
        ("id int, to struct<city: int>", "to.city is of type string there, and int here"),
        ("id int, tags array<int>", "tags[] is of type string there, and int here"),
        ("id int, weight decimal(3,1)", "weight is of type null or number there, and decimal(3,1) here"),
    ],
)
def test_columns_that_do_not_fit_the_schema_end_a_run_that_writes(columns: str, reason: str | None) -> None:
    spec = spec_of(columns)
    number = register(spec, PARCEL)

    if reason is None:
        assert write(spec).errors == {}
        return
    with pytest.raises(SerdeError, match="do not fit") as raised:
        write(spec)
    assert f"schema {number} of subject {spec.topic}-value: {reason} (" in str(raised.value)


def test_null_that_the_schema_does_not_allow_is_an_error_of_its_record() -> None:
    spec = spec_of("id int, weight double")
    number = register(spec, PARCEL)

    written = write(spec, {"id": 1, "weight": None}, {"id": None, "weight": 1.0})

    assert written.payloads.to_pylist() == [payload(number, {"id": 1, "weight": None}).replace(b" ", b""), None]
    assert written.errors == {1: f"column id: null, which schema {number} does not allow"}


def test_columns_that_do_not_fit_a_schema_are_an_error_of_all_records_with_it() -> None:
    spec = spec_of("id string")
    number = register(spec, PARCEL)

    found = read(spec, payload(number, {"id": 1}))

    assert found.errors == {
        0: f"schema {number} does not fit the columns: id is of type integer there, and string here"
    }


@pytest.mark.parametrize("schema", [{"properties": {"a": {"type": 5}}}, {"oneOf": [{"$ref": "#"}]}])
def test_schema_that_cannot_be_compared_with_columns_is_an_error(schema: object) -> None:
    with pytest.raises(SerdeError, match="it is not a JSON Schema"):
        misfit(schema, parse_columns("a bigint"), Direction.READ)


def test_each_record_is_read_by_the_names_of_its_fields() -> None:
    spec = spec_of("id bigint, color string")
    first = register(spec, {"type": "object", "properties": {"id": {"type": "integer"}}})
    second = register(spec, {"type": "object", "properties": {"color": {"type": "string"}, "id": {"type": "number"}}})
    assert spec.registry is not None
    avro = registry_of(spec.registry).register("other", Schema(SchemaType.AVRO, '"int"'))

    found = read(
        spec,
        payload(second, {"color": "red", "id": 2**40}),
        payload(first, {"id": 1}),
        None,
        payload(first, {"id": "x"}),
        payload(9999, {}),
        payload(avro, {}),
    )

    nothing = {"id": None, "color": None}
    assert found.columns.to_pylist() == [{"id": 2**40, "color": "red"}, {"id": 1, "color": None}, *[nothing] * 4]
    assert dict(sorted(found.errors.items())) == {
        3: "column id: 'x' is no bigint",
        4: "the schema registry has no schema 9999",
        5: f"schema {avro} is AVRO, not JSON",
    }


def test_schema_is_registered_only_if_the_latest_one_does_not_hold_the_columns() -> None:
    spec = spec_of("id int, color string")
    write(spec, register=True)
    write(spec_of("id int", spec.topic), register=True)
    write(spec_of("id int, color string, size double", spec.topic), register=True)

    assert latest(spec).version == 2
    assert list(json.loads(latest(spec).schema.text)["properties"]) == ["id", "color", "size"]


def test_key_with_a_window_has_numbers_for_its_bounds() -> None:
    spec = spec_of("id int, window_start timestamp, window_end timestamp", role=Role.KEY)
    at = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)

    written = write(spec, {"id": 1, "window_start": at, "window_end": at}, register=True)
    again = read(spec, *written.payloads.to_pylist())

    (text,) = written.payloads.to_pylist()
    assert text[5:] == b'{"id":1,"window_start":1000,"window_end":1000}'
    assert (again.errors, again.columns.to_pylist()) == ({}, [{"id": 1, "window_start": at, "window_end": at}])


def test_changes_by_debezium_have_the_types_in_their_schema() -> None:
    spec = spec_of("at timestamp, price decimal(10,2), lines array<struct<day: date>>")
    day = {"type": "integer", "title": "io.debezium.time.Date", "connect.type": "int32"}
    price = {"type": "string", "title": "org.apache.kafka.connect.data.Decimal", "connect.parameters": {"scale": "2"}}
    row = {
        "at": {"oneOf": [{"type": "null"}, {"type": "integer", "title": "io.debezium.time.MicroTimestamp"}]},
        "price": price,
        "lines": {"type": "array", "items": {"type": "object", "properties": {"day": day}}},
    }
    after = {"oneOf": [{"type": "null"}, {"type": "object", "title": "Value", "properties": row}]}
    number = register(spec, {"type": "object", "title": "Envelope", "properties": {"after": after, "op": {}}})
    value = {"at": MS * 1000, "price": unscaled(-1234), "lines": [{"day": 1}]}

    found = read(spec, payload(number, change("c", value)), payload(number, change("d", None)), envelope="debezium")

    assert found.errors == {}
    assert found.deleted is not None
    assert found.deleted.tolist() == [False, True]
    assert json.loads(json.dumps(found.columns.to_pylist()[0], default=str)) == {
        "at": str(UTC_TIME),
        "price": "-12.34",
        "lines": [{"day": "1970-01-02"}],
    }


def test_envelope_whose_schema_is_not_json_is_an_error_of_its_records() -> None:
    spec = spec_of("id int")
    assert spec.registry is not None
    number = registry_of(spec.registry).register("odd", Schema(SchemaType.JSON, "{no JSON"))

    found = read(spec, payload(number, change("c", {"id": 1})), None, envelope="debezium")

    assert found.errors.keys() == {0}
    assert f"schema {number} cannot be read" in found.errors[0]


def test_strategy_by_records_needs_a_subject() -> None:
    serde = PluginManager(installed=False).serdes.create("json_schema", {"subject_name_strategy": "record"})

    (problem,) = serde.check(spec_of("a int"), Direction.WRITE)

    assert problem.message == "the format json_schema has no names of records for this strategy; write `subject`"
