"""The serde `avro` with a real schema registry."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.runtime.ir.topology import SchemaRegistry
from headwater.runtime.serdes.avro import avro_serde
from headwater.runtime.serdes.framing import IncompatibleSchemaError, SchemaMissingError, registered
from headwater.runtime.serdes.registry import Registry, Schema, SchemaReference, SchemaType
from headwater.runtime.serdes.serde import Direction, PayloadSpec, Role, SerdeError
from headwater.tests.kafka.registry import RegistryServer
from headwater.tests.runtime.serdes.avro_values import by_fastavro, record

pytestmark = pytest.mark.kafka

COLUMNS = {"id": pa.int64(), "carrier": pa.string()}
BATCH = pa.record_batch({"id": [1, 2], "carrier": ["UA", None]})
JSON_SCHEMA = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
NONE_ABSENT = np.zeros(2, np.bool_)


@pytest.fixture
def registry(schema_registry: RegistryServer) -> Registry:
    return Registry(SchemaRegistry(schema_registry.url))


@pytest.fixture
def spec(schema_registry: RegistryServer) -> PayloadSpec:
    """Values of a topic that no other test has."""
    return PayloadSpec(f"orders-{uuid.uuid4().hex[:8]}", Role.VALUE, COLUMNS, SchemaRegistry(schema_registry.url))


def put(registry: Registry, spec: PayloadSpec, schema: object, *references: SchemaReference) -> int:
    return registered(registry, f"{spec.topic}-value", Schema(SchemaType.AVRO, json.dumps(schema), references))


def payload(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


def test_records_of_several_schemas_are_read_in_their_order(registry: Registry, spec: PayloadSpec) -> None:
    old, new = record(id="int"), record(carrier=["null", "string"], id="long", note={"type": "string", "default": ""})
    first, second = put(registry, spec, old), put(registry, spec, new)
    of_old, of_new = by_fastavro(old, {"id": 1}, {"id": 3}), by_fastavro(new, {"id": 2, "carrier": "UA", "note": "x"})
    payloads = [
        *(payload(first, of_old[0]), None, payload(second, of_new[0]), payload(first, of_old[1])),
        *(payload(first, b"\xff"), payload(999_999, of_old[0]), b"{}"),
    ]

    read = avro_serde().deserializer(spec).read(pa.array(payloads, pa.binary()))

    ids = read.columns.column("id").to_pylist()
    assert (ids, read.columns.column("carrier").to_pylist()[2]) == ([1, None, 2, 3, None, None, None], "UA")
    assert read.errors == {
        4: "the bytes end in column id",
        5: "the schema registry has no schema 999999",
        6: "2 bytes are too few: a payload begins with the number of its schema, in 5 bytes",
    }


def test_schema_that_does_not_fit_is_an_error_of_its_records_only(registry: Registry, spec: PayloadSpec) -> None:
    good, bad = put(registry, spec, record(id="long")), put(registry, spec, record(id="string"))
    other = registered(registry, f"{spec.topic}-other", Schema(SchemaType.JSON, JSON_SCHEMA))
    payloads = [payload(bad, b"\x02x"), payload(good, b"\x02"), payload(other, b"{}")]

    read = avro_serde().deserializer(spec).read(pa.array(payloads, pa.binary()))

    assert read.columns.column("id").to_pylist() == [None, 1, None]
    assert read.errors == {
        0: f"schema {bad} does not fit the columns: column id is a string, which cannot be read as bigint",
        2: f"schema {other} is JSON, not AVRO",
    }


def test_missing_field_has_the_default_that_the_subject_has_now(registry: Registry, spec: PayloadSpec) -> None:
    old = put(registry, spec, record(id="long"))
    put(registry, spec, record(id="long", carrier={"type": "string", "default": "?"}))

    read = avro_serde().deserializer(spec).read(pa.array([payload(old, b"\x02")]))

    assert read.columns.to_pylist() == [{"id": 1, "carrier": "?"}]


def test_imported_type_is_known(registry: Registry, spec: PayloadSpec) -> None:
    carrier = {"type": "enum", "name": "shop.Carrier", "symbols": ["AA", "UA"]}
    registered(registry, f"{spec.topic}-carrier", Schema(SchemaType.AVRO, json.dumps(carrier)))
    imported = SchemaReference("shop.Carrier", f"{spec.topic}-carrier", 1)
    number = put(registry, spec, record(id="long", carrier="shop.Carrier"), imported)

    read = avro_serde().deserializer(spec).read(pa.array([payload(number, b"\x02\x02")]))

    assert (read.columns.to_pylist(), read.errors) == ([{"id": 1, "carrier": "UA"}], {})


def test_record_that_contains_itself_too_often_is_an_error_of_its_row(registry: Registry, spec: PayloadSpec) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    number = put(registry, spec, record(node=node, id="long"))
    deep, flat = payload(number, b"\x02" * 9_999 + b"\0\2"), payload(number, b"\x02\0\2")

    read = avro_serde().deserializer(spec).read(pa.array([flat, deep, flat]))

    assert read.columns.column("id").to_pylist() == [1, None, 1]
    assert read.errors == {1: "its records contain themselves too often"}


# Writing.


def test_schema_has_to_be_there_unless_it_is_registered(registry: Registry, spec: PayloadSpec) -> None:
    with pytest.raises(
        SchemaMissingError, match=rf"subject {spec.topic}-value of .* has no schema .*write `register: true`"
    ):
        avro_serde().serializer(spec).write(BATCH, NONE_ABSENT)

    written = avro_serde(register=True, record="shop.Order").serializer(spec).write(BATCH, NONE_ABSENT)

    latest = registry.latest(f"{spec.topic}-value")
    assert latest is not None
    assert written.payloads.to_pylist()[0][:5] == payload(latest.id, b"")
    assert json.loads(latest.schema.text) == {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": ["null", "long"], "default": None},
            {"name": "carrier", "type": ["null", "string"], "default": None},
        ],
    }
    assert avro_serde().serializer(spec).write(BATCH, NONE_ABSENT) == written


@pytest.mark.parametrize("register", [False, True])
def test_columns_are_written_in_the_latest_schema_and_its_limits_are_errors_of_rows(
    registry: Registry, spec: PayloadSpec, register: bool
) -> None:
    put(registry, spec, record(id="string"))
    schema = record(carrier="string", id="double", note={"type": "string", "default": "-"})
    number = put(registry, spec, schema)

    narrow = replace(spec, columns={"id": pa.int32(), "carrier": pa.string()})
    batch = pa.record_batch({"id": pa.array([1, 2, 3], pa.int32()), "carrier": ["UA", None, None]})
    written = avro_serde(register=register).serializer(narrow).write(batch, np.array([False, False, True]))

    (expected,) = by_fastavro(schema, {"id": 1.0, "carrier": "UA", "note": "-"})
    assert written.payloads.to_pylist() == [payload(number, expected), None, None]
    assert written.errors == {1: "field carrier: it is null, and the schema has no null there"}


def test_schema_that_does_not_hold_the_columns_is_no_record_s_error(registry: Registry, spec: PayloadSpec) -> None:
    number = put(registry, spec, record(id="int"))
    with pytest.raises(SerdeError, match=f"schema {number}, the latest of subject {spec.topic}-value, does not hold"):
        avro_serde().serializer(spec).write(BATCH, NONE_ABSENT)


def test_incompatible_columns_are_told_and_not_registered(
    registry: Registry, schema_registry: RegistryServer, spec: PayloadSpec
) -> None:
    first = put(registry, spec, record(id="string"))
    schema_registry.set_compatibility(f"{spec.topic}-value", "BACKWARD")

    with pytest.raises(IncompatibleSchemaError, match="reader union lacking writer type: STRING"):
        avro_serde(register=True).serializer(spec).write(BATCH, NONE_ABSENT)

    latest = registry.latest(f"{spec.topic}-value")
    assert latest is not None
    assert latest.id == first


def test_payloads_are_those_of_confluent_s_serializer_and_it_reads_ours(spec: PayloadSpec) -> None:
    assert spec.registry is not None
    client = SchemaRegistryClient({"url": spec.registry.url})
    written = avro_serde(register=True).serializer(spec).write(BATCH, NONE_ABSENT).payloads.to_pylist()
    text = client.get_latest_version(f"{spec.topic}-value").schema
    context = SerializationContext(spec.topic, MessageField.VALUE)
    serializer = AvroSerializer(client, text, conf={"auto.register.schemas": False})

    assert [serializer(row, context) for row in BATCH.to_pylist()] == written
    assert [AvroDeserializer(client)(each, context) for each in written] == BATCH.to_pylist()


def test_check_needs_a_registry_and_types_that_avro_has() -> None:
    def problems(columns: dict[str, pa.DataType], **options: object) -> list[tuple[str | None, str]]:
        serde = avro_serde(**options)
        spec = PayloadSpec("orders", Role.VALUE, columns, SchemaRegistry(""))
        return [(each.column, each.message) for each in serde.check(spec, Direction.WRITE)]

    no_registry = PayloadSpec("orders", Role.VALUE, COLUMNS)
    (problem,) = avro_serde().check(no_registry, Direction.READ)
    assert problem.message == "the format avro needs a schema registry; add `registry` to the cluster in profiles.yml"
    assert problems(COLUMNS) == []
    by_number = pa.map_(pa.int32(), pa.string())
    assert problems({"m": pa.list_(by_number)}) == [
        ("m", "maps of Avro have texts as keys, and these have int; declare another type, or use another format")
    ]
    assert problems(COLUMNS, record="3 orders") == [
        (None, "3 orders is no name of an Avro record; write one such as shop.Order")
    ]
