"""Formats of values through a real broker and a real schema registry."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime import PluginRef
from headwater.runtime.ir.topology import SchemaRegistry, Topic
from headwater.runtime.serdes import registry as registries
from headwater.runtime.serdes.framing import registered
from headwater.runtime.serdes.registry import Registry, Schema, SchemaType
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.kafka.copying import PARTITIONS, Copying, produced, read_all
from headwater.tests.kafka.registry import RegistryServer
from headwater.tests.runtime.serdes.avro_values import by_fastavro, record
from headwater.tests.runtime.serdes.test_debezium import change, field, with_schema

pytestmark = pytest.mark.kafka


def test_changes_of_a_database_become_rows_and_tombstones(kafka: KafkaBroker, tmp_path: Path) -> None:
    words = Topic("words", PARTITIONS, "word string", "n bigint, at timestamp, __op string", writer="p-kafka")
    value = PluginRef("json", {"envelope": "debezium"})
    copying = Copying(kafka, tmp_path, kafka.topic(), "", words, on_error="dead_letter", value=value)
    at = field("at", "int64", "io.debezium.time.MicroTimestamp")
    changes = [
        with_schema(change("r", {"word": "a", "n": 1, "at": 1_000}), field("n", "int64"), at),
        with_schema(change("u", {"word": "a", "n": 2, "at": 2_000}), field("n", "int64"), at),
        with_schema(change("d", None, {"word": "a"}), field("n", "int64"), at),
        None,
        with_schema(change("t", None), field("n", "int64"), at),
        with_schema(change("c", {"word": "a", "n": 3, "at": None}), field("n", "int64"), at),
    ]
    produced(kafka, copying.source, [("a", each) for each in changes])

    (result,) = copying.run(copying.incoming)

    assert (result.status, result.records) == ("caught_up", 6)
    assert [record.value for record in copying.copied()] == [
        {"n": 1, "at": "1970-01-01T00:00:00.001Z", "__op": "r"},
        {"n": 2, "at": "1970-01-01T00:00:00.002Z", "__op": "u"},
        None,
        None,
        {"n": 3, "at": None, "__op": "c"},
    ]
    (letter,) = copying.read(copying.letters)
    assert "the table was truncated" in letter.value["error"]


def test_messages_have_a_registered_schema_and_are_read_after_it_has_changed(
    kafka: KafkaBroker, schema_registry: RegistryServer, tmp_path: Path
) -> None:
    narrow = Topic("words", PARTITIONS, "word string", "n int", writer="p-kafka")
    wide = Topic(
        "words", PARTITIONS, "word string", "n int, at timestamp, tags array<string>, day date", writer="p-kafka"
    )
    first, second, subject = kafka.topic(), kafka.topic(), f"{kafka.topic()}-value"
    value = PluginRef("protobuf", {"subject": subject, "register": True})
    registry = SchemaRegistry(schema_registry.url)
    schema_registry.set_compatibility(subject, "FULL")

    def write(topic: Topic, target: str, *records: tuple[str, object]) -> None:
        copying = Copying(kafka, tmp_path / target, kafka.topic(), target, topic, registry=registry)
        produced(kafka, copying.source, records)
        copying.run(copying.incoming)
        (result,) = copying.run(replace(copying, value=value).outgoing)
        assert (result.status, result.error) == ("caught_up", None)

    write(narrow, first, ("a", {"n": 1}), ("b", None))
    write(wide, second, ("a", {"n": 2, "at": "2026-11-28T01:02:03Z", "tags": ["x"], "day": "2028-02-29"}))
    reading = Copying(kafka, tmp_path, first, "", wide, value=PluginRef("protobuf"), registry=registry)
    reading.run(reading.incoming)
    again = replace(reading, root=tmp_path / "again", source=second)
    again.run(again.incoming)

    assert sorted(((record.key["word"], record.value) for record in reading.copied()), key=str) == [
        ("a", {"n": 1, "at": None, "tags": None, "day": None}),
        ("b", None),
    ]
    assert [record.value for record in again.copied()] == [
        {"n": 2, "at": "2026-11-28T01:02:03Z", "tags": ["x"], "day": "2028-02-29"}
    ]
    latest = Registry(registry).latest(subject)
    assert latest is not None
    assert latest.version == 2
    (written, _) = (record.value() for record in read_all(kafka, first, 1)[0])
    assert written[-3:] == b"\0\x08\x01"


def test_avro_is_read_before_and_after_each_change_of_its_schema(
    kafka: KafkaBroker, schema_registry: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = Topic("words", PARTITIONS, "word string", "n bigint, seats int", writer="p-kafka")
    settings = SchemaRegistry(schema_registry.url)
    copying = Copying(
        *(kafka, tmp_path, kafka.topic(), kafka.topic(), words),
        on_error="dead_letter",
        value=PluginRef("avro"),
        registry=settings,
    )
    registry, subject = Registry(settings), f"{copying.source}-value"

    def put(row: dict[str, object], **fields: object) -> None:
        schema = record(**fields)
        number = registered(registry, subject, Schema(SchemaType.AVRO, json.dumps(schema)))
        (body,) = by_fastavro(schema, row)
        produced(kafka, copying.source, [("a", b"\0" + number.to_bytes(4, "big") + body)])

    seats = {"type": "int", "default": 180}
    put({"n": 1, "seats": 3}, n="int", seats=seats)
    put({"n": 2}, n="long")
    put({"seats": 4, "n": 2**53 + 1, "note": "x"}, seats=seats, n=["null", "long"], note="string")
    put({"m": 4, "seats": 5}, m={"type": "long", "aliases": ["n"]}, seats=seats)
    put({"n": "five", "seats": 6}, n="string", seats=seats)
    produced(kafka, copying.source, [("a", None), ("a", b'{"n": 6}')])

    monkeypatch.setattr(registries, "PATIENCE", 0.0)
    away = replace(copying, registry=SchemaRegistry("http://127.0.0.1:1"))

    (unavailable,) = away.run(away.incoming)
    (result,) = copying.run(copying.incoming)

    assert (unavailable.status, unavailable.records) == ("failed", 0)
    assert "the schema registry at http://127.0.0.1:1: does not answer" in str(unavailable.error)
    assert (result.status, result.error) == ("caught_up", None)
    assert [record.value for record in copying.copied()] == [
        {"n": 1, "seats": 3},
        {"n": 2, "seats": 180},
        {"n": 2**53 + 1, "seats": 4},
        {"n": 4, "seats": 5},
        None,
    ]
    errors = [letter.value["error"] for letter in copying.read(copying.letters)]
    assert ["column n is a string, which cannot be read as bigint" in errors[0], "0x7b" in errors[1]] == [True, True]


def test_avro_without_a_schema_fails_and_is_written_once_it_is_there(
    kafka: KafkaBroker, schema_registry: RegistryServer, tmp_path: Path
) -> None:
    settings = SchemaRegistry(schema_registry.url)
    copying = Copying(kafka, tmp_path, kafka.topic(), kafka.topic(), registry=settings)
    copying.run(copying.incoming)
    writing = replace(copying, value=PluginRef("avro"))

    (failed,) = writing.run(writing.outgoing)  # there is no record yet

    produced(kafka, copying.source, [("a", {"n": 1}), ("b", None)])
    copying.run(copying.incoming)
    assert failed.status == "failed"
    assert f"subject {copying.target}-value of" in str(failed.error)
    registering = replace(copying, value=PluginRef("avro", {"register": True}))
    (result,) = registering.run(registering.outgoing)
    assert (result.status, result.error) == ("caught_up", None)
    (written,) = read_all(kafka, copying.target, 1)
    schema = Registry(settings).latest(f"{copying.target}-value")
    assert schema is not None
    head = b"\0" + schema.id.to_bytes(4, "big")
    assert {record.key(): record.value() for record in written} == {b"a": head + b"\x02\x02", b"b": None}
