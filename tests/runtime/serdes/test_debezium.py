"""Changes of rows as Debezium writes them, in the JSON of Kafka Connect: with a schema in each payload, and without."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.plugins.manager import PluginManager
from headwater.runtime.records.types import parse_columns
from headwater.runtime.serdes.connect_json import ConnectJsonSerde
from headwater.runtime.serdes.registry import Schema, SchemaType, registry_of
from headwater.runtime.serdes.serde import Decoded, Direction, PayloadSpec, Role
from headwater.tests.runtime.serdes.avro_values import by_fastavro
from headwater.tests.runtime.serdes.columns import EARLIEST, LATEST
from headwater.tests.runtime.serdes.served_registry import served_registry

SERDE = PluginManager(installed=False).serdes.create("json", {"envelope": "debezium"})


def read(columns: str, *payloads: object, role: Role = Role.VALUE) -> Decoded:
    written = [
        payload
        if payload is None or isinstance(payload, bytes)
        else json.dumps(payload, separators=(",", ":")).encode()
        for payload in payloads
    ]
    spec = PayloadSpec("shop.public.parcels", role, parse_columns(columns))
    assert not SERDE.check(spec, Direction.READ)
    return SERDE.deserializer(spec).read(pa.array(written, pa.binary()))


def errors(columns: str, *payloads: object) -> dict[int, str]:
    return dict(read(columns, *payloads).errors)


def change(op: str, after: object, before: object = None, **source: object) -> dict[str, object]:
    return {"before": before, "after": after, "source": {"connector": "postgresql", **source}, "op": op, "ts_ms": 5}


def field(name: str, kind: str, logical: str | None = None, **more: object) -> dict[str, object]:
    return {
        "type": kind,
        "optional": True,
        **({"name": logical, "version": 1} if logical else {}),
        **more,
        "field": name,
    }


def struct(name: str, *fields: object) -> dict[str, object]:
    return {"type": "struct", "fields": list(fields), "optional": True, "field": name}


def with_schema(payload: object, *fields: object) -> dict[str, object]:
    """A payload of the JSON converter with `schemas.enable`: an envelope of rows with these fields."""
    rows = [struct(name, *fields) for name in ("before", "after")]
    rest = [struct("source", field("connector", "string")), field("op", "string"), field("ts_ms", "int64")]
    return {"schema": {**struct("", *rows, *rest), "name": "shop.public.parcels.Envelope"}, "payload": payload}


# Changes.


def test_changes_of_rows_are_rows_and_deletions() -> None:
    row = {"id": 1, "color": "red", "unknown": [1]}
    changes = [
        change("c", row),
        change("u", {**row, "color": "blue"}, row),
        change("r", {**row, "color": None}),
        change("d", None, row),
        None,
    ]

    found = read("id int, color string, absent double", *changes)

    assert found.errors == {}
    assert found.deleted is not None
    assert found.deleted.tolist() == [False, False, False, True, False]
    assert found.columns.to_pylist() == [
        {"id": 1, "color": "red", "absent": None},
        {"id": 1, "color": "blue", "absent": None},
        {"id": 1, "color": None, "absent": None},
        *[dict.fromkeys(("id", "color", "absent"))] * 2,
    ]


def test_columns_about_the_change_have_names_of_their_own() -> None:
    columns = "id int, __op string, __ts_ms bigint, __source_lsn bigint, __source_snapshot string"

    found = read(columns, change("u", {"id": 1}, lsn=2**40, snapshot="false"), change("d", None, {"id": 1}, lsn=1))

    assert found.columns.to_pylist() == [
        {"id": 1, "__op": "u", "__ts_ms": 5, "__source_lsn": 2**40, "__source_snapshot": "false"},
        dict.fromkeys(parse_columns(columns)),
    ]


def test_what_is_no_change_of_a_row_is_an_error_of_its_record() -> None:
    found = errors(
        "id int, note string",
        change("t", None),
        change("m", None),
        change("c", None),
        {"id": 1, "note": "flat"},
        change("u", {"id": 1, "note": "__debezium_unavailable_value"}),
        change("u", {"id": "x"}),
        b"[]",
        b'{"schema":1,"payload":',
    )

    assert found == {
        0: "the table was truncated, which is no change of one row; delete the rows, or reset the topic",
        1: "the operation 'm' is no change of a row",
        2: "the envelope has no row in `after`",
        3: "no envelope of Debezium: it has no `op`",
        4: "column note: the database did not tell its value; set its replica identity to FULL",
        5: "column after: 'x' is no int",
        6: "[] is no object",
        7: found[7],
    }
    assert found[7].startswith("no JSON: ")


# Keys.


def test_keys_are_read_with_their_schema_and_without() -> None:
    schema = {"type": "struct", "fields": [{**field("day", "int32", "io.debezium.time.Date")}], "optional": False}

    found = read(
        "id int, day date",
        {"schema": schema, "payload": {"id": 1, "day": 20_000}},
        {"id": 2, "day": 20_001},
        {"id": 3, "day": "2024-10-06"},
        {"schema": schema, "payload": None},
        None,
        role=Role.KEY,
    )

    assert found.errors == {}
    assert [tuple(row.values()) for row in found.columns.to_pylist()] == [
        (1, dt.date(2024, 10, 4)),
        (2, dt.date(2024, 10, 5)),
        (3, dt.date(2024, 10, 6)),
        (None, None),
        (None, None),
    ]


# Types of Connect and Debezium.


def unscaled(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


UTC_TIME = dt.datetime(2026, 11, 28, 1, 2, 3, 456_000, tzinfo=dt.UTC)
NAIVE_TIME = UTC_TIME.replace(tzinfo=None)
MS = 1_795_827_723_456
VALUES = [
    ("date", "int32", "io.debezium.time.Date", {}, -1, dt.date(1969, 12, 31)),
    ("date", "int32", "org.apache.kafka.connect.data.Date", {}, 20_000, dt.date(2024, 10, 4)),
    ("date", "string", "io.debezium.time.IsoDate", {}, "2026-11-28Z", dt.date(2026, 11, 28)),
    ("timestamp", "int64", "io.debezium.time.Timestamp", {}, MS, UTC_TIME),
    ("timestamp", "int64", "org.apache.kafka.connect.data.Timestamp", {}, MS, UTC_TIME),
    ("timestamp", "int64", "io.debezium.time.MicroTimestamp", {}, MS * 1000, UTC_TIME),
    ("timestamp_ntz", "int64", "io.debezium.time.MicroTimestamp", {}, MS * 1000, NAIVE_TIME),
    ("timestamp", "int64", "io.debezium.time.NanoTimestamp", {}, MS * 10**6 + 999, UTC_TIME),
    ("timestamp", "string", "io.debezium.time.ZonedTimestamp", {}, "2026-11-28T02:02:03.456+01:00", UTC_TIME),
    ("bigint", "int64", "io.debezium.time.MicroTime", {}, 5, 5),
    ("bigint", "int64", "io.debezium.time.Timestamp", {}, MS, MS),
    ("decimal(10,2)", "bytes", "org.apache.kafka.connect.data.Decimal", {"scale": "2"}, unscaled(-1234), "-12.34"),
    ("decimal(10,4)", "bytes", "org.apache.kafka.connect.data.Decimal", {"scale": "2"}, unscaled(1234), "12.3400"),
    ("decimal(10,2)", "struct", "io.debezium.data.VariableScaleDecimal", {}, {"scale": 1, "value": "Aw=="}, "0.30"),
    ("decimal(10,2)", "string", None, {}, "12.34", "12.34"),
    ("decimal(10,2)", "double", None, {}, 12.34, "12.34"),
    ("binary", "bytes", None, {}, "AP8=", b"\0\xff"),
    ("string", "string", "io.debezium.data.Json", {}, '{"a":1}', '{"a":1}'),
    ("string", "string", "io.debezium.data.Enum", {"allowed": "a,b"}, "a", "a"),
]


@pytest.mark.parametrize(("declared", "kind", "logical", "parameters", "value", "expected"), VALUES)
def test_value_is_what_its_schema_says(
    declared: str, kind: str, logical: str | None, parameters: dict[str, str], value: object, expected: object
) -> None:
    schema = field("v", kind, logical, parameters=parameters)

    found = read(f"v {declared}", *(with_schema(change("c", {"v": each}), schema) for each in (value, None)))

    expected = Decimal(expected) if declared.startswith("decimal") else expected
    assert found.errors == {}
    assert found.columns.column("v").to_pylist() == [expected, None]


def test_types_in_arrays_and_rows_are_those_of_their_schema() -> None:
    days = {"type": "int32", "name": "io.debezium.time.Date", "optional": True}
    schema = [field("days", "array", items=days), struct("at", field("t", "int64", "io.debezium.time.MicroTimestamp"))]

    found = read(
        "days array<date>, at struct<t: timestamp>",
        with_schema(change("c", {"days": [0, None], "at": {"t": 1}}), *schema),
        with_schema(change("c", {"days": None, "at": None}), *schema),
    )

    assert found.columns.to_pylist() == [
        {"days": [dt.date(1970, 1, 1), None], "at": {"t": dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)}},
        {"days": None, "at": None},
    ]


def test_number_without_a_schema_is_no_time() -> None:
    found = read("d date, t timestamp", change("c", {"d": 1, "t": "2026-01-01T00:00:00Z"}), change("c", {"t": MS}))

    assert found.columns.to_pylist()[0]["d"] == dt.date(1970, 1, 2)
    assert found.errors == {1: f"column after: {MS} is no timestamp"}


def test_value_beyond_its_column_is_an_error_of_its_record() -> None:
    time = field("t", "int64", "io.debezium.time.Timestamp")
    number = field("n", "bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "0"})

    found = errors(
        "t timestamp, n decimal(3,0)",
        with_schema(change("c", {"t": 2**62, "n": "Aw=="}), time, number),
        with_schema(change("c", {"t": 0, "n": unscaled(1000)}), time, number),
        with_schema(change("c", {"t": 0, "n": unscaled(999)}), time, number),
    )

    assert found == {
        0: f"column after: t: {2**62} is no timestamp",
        1: "column after: n: '1000e0' is no decimal(3,0)",
    }


@pytest.mark.parametrize(
    "schema",
    [
        "text",
        [1],
        {"fields": [{"type": "int32"}]},
        {"fields": [{"field": "id", "name": "org.apache.kafka.connect.data.Decimal"}]},
        {"fields": [{"field": "id", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "x"}}]},
    ],
)
def test_schema_that_is_none_of_connect_is_an_error_of_its_records(schema: object) -> None:
    payloads = [json.dumps({"schema": schema, "payload": {"id": 1}}).encode(), b'{"id":"2.00"}']
    spec = PayloadSpec("parcels", Role.VALUE, parse_columns("id decimal(10,2)"))
    read = ConnectJsonSerde().deserializer(spec).read(pa.array(payloads, pa.binary()))
    assert dict(read.errors) == {0: "its schema is not one of Kafka Connect"}
    assert read.columns.to_pylist() == [{"id": None}, {"id": Decimal("2.00")}]


def test_schema_that_changes_between_records_counts_for_its_own_records() -> None:
    first = field("at", "int64", "io.debezium.time.Timestamp")
    second = field("at", "int64", "io.debezium.time.MicroTimestamp")

    found = read(
        "at timestamp",
        with_schema(change("c", {"at": 1}), first),
        with_schema(change("c", {"at": 1000}), second),
        change("c", {"at": "1970-01-01T00:00:00.001Z"}),
        with_schema(change("c", {"at": 1}), first),
        with_schema(None, first),
    )

    assert found.errors == {}
    assert found.deleted is not None
    assert found.deleted.tolist() == [False] * 4 + [True]
    at = dt.datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=dt.UTC)
    assert found.columns.column("at").to_pylist() == [at] * 4 + [None]


@given(st.lists(st.none() | st.datetimes(EARLIEST, LATEST)), st.lists(st.none() | st.integers(-(10**37), 10**37)))
def test_times_and_decimals_of_any_size_come_back(times: list[dt.datetime | None], numbers: list[int | None]) -> None:
    epoch = dt.datetime(1970, 1, 1)
    micros = [None if time is None else (time - epoch) // dt.timedelta(microseconds=1) for time in times]
    schema = [
        field("t", "int64", "io.debezium.time.MicroTimestamp"),
        field("n", "bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "7"}),
    ]
    rows = [{"t": micro} for micro in micros] + [{"n": None if each is None else unscaled(each)} for each in numbers]

    found = read("t timestamp_ntz, n decimal(38,7)", *(with_schema(change("c", row), *schema) for row in rows))

    assert found.errors == {}
    assert found.columns.column("t").to_pylist() == times + [None] * len(numbers)
    scaled = [None if each is None else Decimal(each).scaleb(-7) for each in numbers]
    assert found.columns.column("n").to_pylist() == [None] * len(times) + scaled


# The same in Avro.


def connect(kind: str, name: str, **more: object) -> dict[str, object]:
    """A type of Avro that Kafka Connect has written."""
    return {"type": kind, "connect.version": 1, "connect.name": name, **more}


def test_changes_in_avro_have_the_types_that_connect_names() -> None:
    decimal = {"logicalType": "decimal", "precision": 64, "scale": 2}
    row = {
        "day": connect("int", "io.debezium.time.Date"),
        "ms": connect("long", "io.debezium.time.Timestamp"),
        "us": connect("long", "io.debezium.time.MicroTimestamp"),
        "ns": connect("long", "io.debezium.time.NanoTimestamp"),
        "zoned": connect("string", "io.debezium.time.ZonedTimestamp"),
        "price": connect("bytes", "org.apache.kafka.connect.data.Decimal", **decimal),
    }
    value = {"type": "record", "name": "Value", "namespace": "shop", "fields": []}
    value["fields"] = [{"name": name, "type": ["null", kind], "default": None} for name, kind in row.items()]
    fields = {"before": ["null", value], "after": ["null", "shop.Value"], "op": "string", "ts_ms": ["null", "long"]}
    envelope = {"type": "record", "name": "Envelope", "namespace": "shop"}
    envelope["fields"] = [{"name": name, "type": kind} for name, kind in fields.items()]
    settings = served_registry()
    number = registry_of(settings).register("changes", Schema(SchemaType.AVRO, json.dumps(envelope)))
    rows = [
        {
            "day": 20_000,
            "ms": MS,
            "us": MS * 1000,
            "ns": MS * 10**6,
            "zoned": "2026-11-28T02:02:03.456+01:00",
            "price": Decimal(price),
        }
        for price in ("-12.34", "1000.00")
    ]
    changes = [{"before": None, "after": rows[0], "op": "u", "ts_ms": 5}, {"after": rows[1], "op": "u"}]
    changes.append({"before": rows[0], "after": None, "op": "d"})
    bodies = by_fastavro(envelope, *changes)
    columns = "day date, ms timestamp, us timestamp, ns timestamp, zoned timestamp, price decimal(5,2), __ts_ms bigint"
    spec = PayloadSpec("changes", Role.VALUE, parse_columns(columns), settings)
    serde = PluginManager(installed=False).serdes.create("avro", {"envelope": "debezium"})
    assert not serde.check(spec, Direction.READ)

    found = serde.deserializer(spec).read(
        pa.array([b"\0" + number.to_bytes(4, "big") + body for body in bodies], pa.binary())
    )

    assert found.deleted is not None
    assert found.deleted.tolist() == [False, False, True]
    times = dict.fromkeys(("ms", "us", "ns", "zoned"), UTC_TIME)
    assert found.columns.to_pylist()[0] == {
        "day": dt.date(2024, 10, 4),
        **times,
        "price": Decimal("-12.34"),
        "__ts_ms": 5,
    }
    assert list(found.errors) == [1]
    assert "1000.00" in found.errors[1]


@pytest.mark.parametrize(("number", "fits"), [(10**37, False), (-(10**17), True), (0, True), (1, True)])
def test_decimal_of_an_unknown_precision_does_not_overflow_in_its_column(number: int, fits: bool) -> None:
    decimal = {"logicalType": "decimal", "precision": 64, "scale": 2}
    price = connect("bytes", "org.apache.kafka.connect.data.Decimal", **decimal)
    schema = {"type": "record", "name": "Price", "fields": [{"name": "price", "type": price}]}
    settings = served_registry()
    id_of = registry_of(settings).register("prices", Schema(SchemaType.AVRO, json.dumps(schema)))
    (body,) = by_fastavro(schema, {"price": Decimal(number).scaleb(-2)})
    spec = PayloadSpec("prices", Role.VALUE, parse_columns("price decimal(38,20)"), settings)

    found = PluginManager(installed=False).serdes.create("avro").deserializer(spec)
    read = found.read(pa.array([b"\0" + id_of.to_bytes(4, "big") + body], pa.binary()))

    assert (not read.errors) == fits
    assert read.columns.column("price").to_pylist() == [Decimal(number).scaleb(-2) if fits else None]


def test_envelopes_are_not_written() -> None:
    spec = PayloadSpec("topic", Role.VALUE, {"a": pa.int32()})

    (problem,) = SERDE.check(spec, Direction.WRITE)

    assert problem.message == "`envelope: debezium` is for topics that are read; remove it"
