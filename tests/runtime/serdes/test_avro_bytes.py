"""Values of Avro as columns and back, compared with fastavro, and with Java's Avro by its bytes."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import uuid
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.records.types import TIMESTAMP, arrow_type
from headwater.runtime.serdes.avro_resolve import AvroMismatchError
from headwater.runtime.serdes.avro_schema import AvroSchemaError, natural_type, parse_schema, schema_text
from headwater.tests.runtime.serdes.avro_values import by_fastavro, read, record, write
from headwater.tests.runtime.serdes.columns import AVRO_TYPES, SIMPLE, batches

HOUR = dt.datetime(2013, 1, 1, 5, 15, tzinfo=dt.UTC)
LOCAL = HOUR.replace(tzinfo=None)
BEFORE_1970 = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC)


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def number(precision, scale):
    return logical("bytes", "decimal", precision=precision, scale=scale)


def shown(value):
    """A value of fastavro as one of Arrow, comparable."""
    if isinstance(value, dict):
        return {name: shown(item) for name, item in value.items()}
    return [shown(item) for item in value] if isinstance(value, list) else value


@given(batches(AVRO_TYPES))
def test_columns_come_back(batch):
    schema = json.loads(schema_text({field.name: field.type for field in batch.schema}, "shop.Order"))

    payloads, errors = write(schema, batch)
    rows, more = read(schema, payloads, {field.name: field.type for field in batch.schema})

    assert (errors, more) == ({}, {})
    assert repr(rows) == repr(batch.to_pylist())


@given(batches(st.sampled_from([kind for kind in SIMPLE if not pa.types.is_decimal(kind)]), most_columns=5))
def test_bytes_are_those_of_fastavro(batch):
    schema = json.loads(schema_text({field.name: field.type for field in batch.schema}, "shop.Order"))

    payloads, errors = write(schema, batch)

    assert errors == {}
    assert payloads == by_fastavro(schema, *batch.to_pylist())


@given(st.lists(st.decimals(-(10**16), 10**16, places=2), max_size=5))
def test_decimals_are_those_of_fastavro(values):
    for kind in (
        number(19, 2),
        {"type": "fixed", "name": "d", "size": 9, "logicalType": "decimal", "precision": 19, "scale": 2},
        {"type": "fixed", "name": "d", "size": 20, "logicalType": "decimal", "precision": 19, "scale": 2},
    ):
        schema = record(a=kind)
        batch = pa.record_batch({"a": pa.array(values, pa.decimal128(19, 2))})
        payloads, errors = write(schema, batch)
        assert errors == {}
        read_back = [fastavro.schemaless_reader(io.BytesIO(each), fastavro.parse_schema(schema)) for each in payloads]
        assert [row["a"] for row in read_back] == values
        assert read(schema, by_fastavro(schema, *batch.to_pylist()), {"a": pa.decimal128(19, 2)}) == (
            batch.to_pylist(),
            {},
        )


FIXED_UUID = {"type": "fixed", "name": "id", "size": 16, "logicalType": "uuid"}
SUIT = {"type": "enum", "name": "Suit", "symbols": ["SPADES", "HEARTS"]}
ID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"

READ = [
    ("int", 7, "bigint", 7),
    ("int", 7, "smallint", 7),
    ("int", 7, "double", 7.0),
    ("int", 7, "decimal(12,2)", Decimal("7.00")),
    ("long", 2**53 + 1, "bigint", 2**53 + 1),
    ("float", 0.5, "double", 0.5),
    (logical("int", "date"), dt.date(2013, 1, 1), "date", dt.date(2013, 1, 1)),
    (logical("long", "timestamp-millis"), HOUR, "timestamp", HOUR),
    (logical("long", "timestamp-micros"), HOUR, "timestamp", HOUR),
    (logical("long", "timestamp-nanos"), 1357017300_000_000_999, "timestamp", HOUR),
    (
        logical("long", "timestamp-nanos"),
        -1,
        "timestamp",
        BEFORE_1970,
    ),
    (logical("long", "timestamp-millis"), HOUR, "bigint", 1357017300000),
    (
        logical("long", "local-timestamp-millis"),
        LOCAL,
        "timestamp_ntz",
        LOCAL,
    ),
    (
        logical("long", "local-timestamp-micros"),
        LOCAL,
        "timestamp_ntz",
        LOCAL,
    ),
    (logical("int", "time-millis"), dt.time(0, 0, 1), "int", 1000),
    (logical("long", "time-micros"), dt.time(0, 0, 1), "bigint", 1_000_000),
    (logical("string", "uuid"), uuid.UUID(ID), "string", ID),
    (FIXED_UUID, uuid.UUID(ID).bytes, "string", ID),
    (FIXED_UUID, uuid.UUID(ID).bytes, "binary", uuid.UUID(ID).bytes),
    ({"type": "fixed", "name": "mac", "size": 3}, b"abc", "binary", b"abc"),
    (SUIT, "HEARTS", "string", "HEARTS"),
    (["null", SUIT], None, "string", None),
    (["string", "null"], "x", "string", "x"),
    (["null", "int", "long"], 2**40, "bigint", 2**40),
    (["null", "string", SUIT], "SPADES", "string", "SPADES"),
    (["long"], 5, "bigint", 5),
    ("null", None, "string", None),
    ({"type": "array", "items": ["null", "int"]}, [1, None, 3], "array<bigint>", [1, None, 3]),
    ({"type": "map", "values": "double"}, {"a": 1.5}, "map<string,double>", [("a", 1.5)]),
    (logical("long", "unheard-of"), 5, "bigint", 5),
]


@pytest.mark.parametrize(("written", "value", "declared", "expected"), READ)
def test_written_type_is_read_as_the_declared_one(written, value, declared, expected):
    schema = record(before="string", a=written, after="int")
    payloads = by_fastavro(schema, {"before": "x", "a": value, "after": 1}, {"before": "", "a": value, "after": -1})
    columns = {"after": pa.int32(), "a": arrow_type(declared)}

    assert read(schema, payloads, columns) == ([{"after": 1, "a": expected}, {"after": -1, "a": expected}], {})


@pytest.mark.parametrize(
    ("written", "declared", "cause"),
    [
        ("long", "int", "column a is a long, which cannot be read as int"),
        ("double", "float", "column a is a double, which cannot be read as float"),
        ("string", "int", "column a is a string, which cannot be read as int"),
        (["null", "string", "long"], "string", "column a is a long, which cannot be read as string"),
        ({"type": "array", "items": "long"}, "array<int>", r"column a\[\] is a long, which cannot be read as int"),
        (record(b="int"), "string", "column a is a record shop.Order, which cannot be read as string"),
        (
            number(9, 2),
            "decimal(9,1)",
            r"decimal\(9,2\)\), which",
        ),
    ],
)
def test_type_that_loses_something_is_named(written, declared, cause):
    schema = {"type": "record", "name": "x", "fields": [{"name": "a", "type": written}]}
    with pytest.raises(AvroMismatchError, match=cause):
        read(schema, [], {"a": arrow_type(declared)})


def test_schema_without_a_record_is_the_only_column():
    payloads = by_fastavro("long", 1, 2)
    assert read("long", payloads, {"id": pa.int64()}) == ([{"id": 1}, {"id": 2}], {})
    assert write("long", pa.record_batch({"id": [1, 2]})) == (payloads, {})
    with pytest.raises(AvroMismatchError, match="the schema is one long, and the columns are a, b"):
        read("long", [], {"a": pa.int64(), "b": pa.int64()})


def test_union_of_a_record_and_null_is_the_record_as_connect_writes_it():
    schema = ["null", record(id="long")]
    payloads = by_fastavro(schema, {"id": 1}, None)
    assert read(schema, payloads, {"id": pa.int64()}) == ([{"id": 1}, {"id": None}], {})
    assert write(schema, pa.record_batch({"id": [1]})) == (payloads[:1], {})
    with pytest.raises(AvroMismatchError, match="a value is a string, which has no fields"):
        read([record(id="long"), "string"], [], {"id": pa.int64()})


def test_record_that_contains_itself_has_no_type():
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    flat = record(a="int", b={"type": "array", "items": record(c=["null", "string"])})
    assert natural_type(parse_schema(json.dumps(node))) is None
    flat["fields"][1]["type"]["items"]["name"] = "Line"
    assert natural_type(parse_schema(json.dumps(flat))) == arrow_type("struct<a:int,b:array<struct<c:string>>>")


def test_undeclared_fields_are_passed_over_also_if_they_contain_themselves():
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "name", "type": "string"}, {"name": "next", "type": ["null", "Node"]}],
    }
    schema = record(node=node, tags={"type": "map", "values": {"type": "array", "items": "bytes"}}, a="int")
    chain = {"name": "x", "next": {"name": "y", "next": None}}
    payloads = by_fastavro(schema, {"node": chain, "tags": {"k": [b"1", b"2"], "l": []}, "a": 5})

    assert read(schema, payloads, {"a": pa.int32()}) == ([{"a": 5}], {})


@pytest.mark.parametrize("payload", [b"", b"\0", b"\0\0", b"\4"])
def test_record_that_contains_itself_first_and_ends_too_early_is_an_error(payload):
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["Node", "null"]}]}
    assert set(read(record(node=node, a="int"), [payload], {"a": pa.int32()})[1]) == {0}


def test_items_in_several_blocks_are_one_list():
    # A block of two with its size in bytes, a block of one, the end; then the next field.
    payload = bytes([3, 4, 2, 4, 2, 6, 0, 8])
    assert read(
        record(a={"type": "array", "items": "int"}, b="int"),
        [payload],
        {"a": arrow_type("array<int>"), "b": pa.int32()},
    ) == (
        [{"a": [1, 2, 3], "b": 4}],
        {},
    )


# Payloads that are no values.

WHOLE = record(
    a="string",
    b=["null", "double"],
    c={"type": "array", "items": {"type": "map", "values": "long"}},
    d="boolean",
    e=SUIT,
)
COLUMNS = {
    "a": pa.string(),
    "b": pa.float64(),
    "c": arrow_type("array<map<string,bigint>>"),
    "d": pa.bool_(),
    "e": pa.string(),
}
ROW = {"a": "UA", "b": 1.5, "c": [{"x": 1}, {}], "d": True, "e": "SPADES"}


@given(st.binary(max_size=24))
def test_any_bytes_are_a_value_or_an_error_and_other_rows_do_not_change(payload):
    (good,) = by_fastavro(WHOLE, ROW)

    rows, errors = read(WHOLE, [good, payload, good], COLUMNS)

    assert (rows[0], rows[2]) == ({**ROW, "c": [[("x", 1)], []]},) * 2
    assert set(errors) <= {1}
    try:
        known = fastavro.schemaless_reader(source := io.BytesIO(payload), fastavro.parse_schema(WHOLE))
        known = known if not source.read() else None
    except Exception:
        known = None
    if 1 not in errors:
        assert known is not None


@pytest.mark.parametrize("length", range(len(by_fastavro(WHOLE, ROW)[0])))
def test_payload_that_ends_too_early_is_an_error(length):
    (good,) = by_fastavro(WHOLE, ROW)
    _, errors = read(WHOLE, [good[:length], good], COLUMNS)
    assert set(errors) == {0}


@pytest.mark.parametrize(
    ("kind", "payload", "cause"),
    [
        ("int", b"\x02\x00", "1 bytes are left behind the value"),
        ("int", b"", "the bytes end in column a"),
        ("int", b"\x80\x80\x80\x80\x20", "column a has more than the 4 bytes of an int"),
        ("long", b"\xff" * 11, "column a is a number with more than 10 bytes"),
        ("boolean", b"\x02", "column a is no boolean"),
        ("string", b"\x01", "column a has -1 bytes"),
        ("string", b"\x08abc", "the bytes end in column a"),
        ("string", b"\x02\xff", "column a: the byte 0xff at position 1 is not UTF-8"),
        (["null", "int"], b"\x04", "column a is no branch of its union"),
        (SUIT, b"\x04", "column a is no symbol of its enum"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\xff\x0f", "column a has more items than bytes"),
        (
            number(2, 0),
            b"\x02\x64",
            "column a: it has more digits",
        ),
        (
            number(2, 0),
            b"\x00",
            "column a: no bytes are no decimal",
        ),
    ],
)
def test_error_says_what_is_wrong(kind, payload, cause):
    schema = record(a=kind)
    declared = {
        "int": "int", "long": "bigint", "boolean": "boolean", "string": "string", "union": "int", "enum": "string",
        "array": "array<int>", "bytes": "decimal(2,0)",
    }[parse_schema(json.dumps(kind)).name]  # fmt: skip
    _, errors = read(schema, [payload], {"a": arrow_type(declared)})
    assert list(errors) == [0]
    assert errors[0].startswith(cause)


@pytest.mark.parametrize(
    ("kind", "declared", "value"),
    [
        (logical("int", "date"), "date", 2**30),
        (logical("long", "timestamp-micros"), "timestamp", 2**62),
        (logical("long", "timestamp-millis"), "timestamp", 2**51),
        (logical("long", "timestamp-millis"), "timestamp", 2**62),
    ],
)
def test_time_outside_of_the_years_1_to_9999_is_an_error_of_its_row(kind, declared, value):
    payloads = by_fastavro(record(a=kind["type"]), {"a": value}, {"a": 0})
    assert set(read(record(a=kind), payloads, {"a": arrow_type(declared)})[1]) == {0}


def test_int_beyond_a_smaller_column_is_an_error_of_its_row():
    payloads = by_fastavro(record(a="int"), {"a": 127}, {"a": 128})
    assert read(record(a="int"), payloads, {"a": pa.int8()})[1] == {1: "column a: 128 is no tinyint"}


def test_schema_that_is_none_is_named():
    for text in ('{"type": "record"}', '"nothing"', "[", '{"type": "array"}', "1"):
        with pytest.raises(AvroSchemaError):
            parse_schema(text)


# Evolution: what the columns get from records before and after a change.

OLD = record(id="long", carrier="string")
OLD_ROWS = by_fastavro(OLD, {"id": 1, "carrier": "UA"})


def test_added_field_has_the_default_of_the_latest_schema_and_null_without_one():
    new = record(id="long", carrier="string", seats={"type": "int", "default": 180}, note=["null", "string"])
    columns = {"id": pa.int64(), "seats": pa.int64(), "note": pa.string()}

    assert read(OLD, OLD_ROWS, columns) == ([{"id": 1, "seats": None, "note": None}], {})
    assert read(OLD, OLD_ROWS, columns, new) == ([{"id": 1, "seats": 180, "note": None}], {})


def test_removed_field_is_null():
    payloads = by_fastavro(record(id="long"), {"id": 1})
    assert read(record(id="long"), payloads, {"id": pa.int64(), "carrier": pa.string()}) == (
        [{"id": 1, "carrier": None}],
        {},
    )


@pytest.mark.parametrize("declared", ["carrier", "airline"])
def test_renamed_field_is_found_by_its_alias_from_either_side(declared):
    new = record(id="long", airline={"type": "string", "aliases": ["carrier"]})
    new_rows = by_fastavro(new, {"id": 2, "airline": "AA"})
    columns = {declared: pa.string()}

    assert read(OLD, OLD_ROWS, columns, new) == ([{declared: "UA"}], {})
    assert read(new, new_rows, columns, new) == ([{declared: "AA"}], {})


def test_alias_is_not_taken_from_a_column_of_that_name():
    new = record(airline={"type": "string", "aliases": ["carrier"]})
    payloads = by_fastavro(new, {"airline": "AA"})
    assert read(new, payloads, {"carrier": pa.string(), "airline": pa.string()}) == (
        [{"carrier": None, "airline": "AA"}],
        {},
    )


def test_nested_records_change_too():
    def order(*fields):
        address = {"type": "record", "name": "Address", "fields": list(fields)}
        return record(address=["null", address])

    old = order({"name": "town", "type": "string"})
    new = order(
        {"name": "city", "type": "string", "aliases": ["town"]}, {"name": "zip", "type": "string", "default": "-"}
    )
    payloads = by_fastavro(old, {"address": {"town": "Oslo"}}, {"address": None})

    assert read(old, payloads, {"address": arrow_type("struct<city:string,zip:string>")}, new) == (
        [{"address": {"city": "Oslo", "zip": "-"}}, {"address": None}],
        {},
    )


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("boolean", True, True),
        ("long", -(2**40), -(2**40)),
        ("double", 1.5, 1.5),
        ("string", "grüße", "grüße"),
        ("bytes", "\u00ff", b"\xff"),
        (SUIT, "HEARTS", "HEARTS"),
        (["null", "string"], None, None),
        (["null", "string"], "late", "late"),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ({"type": "map", "values": "int"}, {"a": 1}, [("a", 1)]),
        (number(4, 2), "\u00ff", Decimal("-0.01")),
        (record(b={"type": "int", "default": 3}), {}, {"b": 3}),
    ],
)
def test_default_has_the_type_of_its_field(kind, default, expected):
    new = {"type": "record", "name": "o", "fields": [{"name": "a", "type": kind, "default": default}]}
    declared = {
        bool: "boolean",
        int: "bigint",
        float: "double",
        str: "string",
        bytes: "binary",
        Decimal: "decimal(4,2)",
    }
    nested = {"array": "array<int>", "map": "map<string,int>", "record": "struct<b:int>"}
    text = nested.get(kind.get("type") if isinstance(kind, dict) else "") or declared.get(type(expected), "string")
    assert read(OLD, OLD_ROWS, {"a": arrow_type(text)}, new) == ([{"a": expected}], {})


# Writing in a schema that is there.


def test_branch_of_a_union_follows_from_the_type_and_not_from_the_value():
    schema = record(
        a=["null", "double", "long"],
        b=["null", logical("int", "date"), logical("long", "timestamp-millis")],
    )
    payloads, errors = write(
        schema, pa.record_batch({"a": pa.array([2**53 + 1, None]), "b": pa.array([HOUR, HOUR], TIMESTAMP)})
    )

    assert errors == {}
    read_back = [fastavro.schemaless_reader(io.BytesIO(each), fastavro.parse_schema(schema)) for each in payloads]
    assert read_back == [{"a": 2**53 + 1, "b": HOUR}, {"a": None, "b": HOUR}]
    assert [type(row["a"]) for row in read_back] == [int, type(None)]


def test_column_is_widened_and_a_field_without_column_has_its_default():
    schema = record(
        id="double",
        carrier={"type": "string", "aliases": ["airline"], "default": "?"},
        seats={"type": "int", "default": 180},
    )
    payloads, errors = write(schema, pa.record_batch({"airline": ["UA"], "id": pa.array([7], pa.int32())}))
    assert (payloads, errors) == (by_fastavro(schema, {"id": 7.0, "carrier": "UA", "seats": 180}), {})


@pytest.mark.parametrize(
    ("schema", "batch", "cause"),
    [
        (record(a="int"), {"a": pa.array([1], pa.int64())}, "column a is bigint, and the schema has int for it"),
        (record(a="int"), {"a": pa.array([1], pa.int32()), "b": [1]}, "record shop.Order has no field for column b"),
        (
            record(a="int", b="int"),
            {"a": pa.array([1], pa.int32())},
            "field b has no default, and there is no column",
        ),
        (
            record(a=["null", "int", "string"]),
            {"a": [1.5]},
            "column a is double, and the schema has union of null",
        ),
    ],
)
def test_columns_that_a_schema_does_not_hold_are_named(schema, batch, cause):
    with pytest.raises(AvroMismatchError, match=cause):
        write(schema, pa.record_batch(batch))


@pytest.mark.parametrize(
    ("kind", "values", "cause"),
    [
        ("string", pa.array(["a", None]), "field a: it is null, and the schema has no null there"),
        (SUIT, pa.array(["HEARTS", "CLUBS"]), "field a: 'CLUBS' is no symbol of the enum: SPADES, HEARTS"),
        (
            {"type": "fixed", "name": "f", "size": 2},
            pa.array([b"ab", b"abc"]),
            "field a: it has 3 bytes, and the schema 2",
        ),
        (
            logical("long", "timestamp-millis"),
            pa.array([HOUR, HOUR.replace(microsecond=1)], TIMESTAMP),
            "field a: 2013-01-01 05:15:00.000001+00:00 is finer than the schema's milliseconds",
        ),
        (FIXED_UUID, pa.array([ID, "x"]), "field a: 'x' is no UUID"),
        (
            {"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 3, "scale": 0},
            pa.array([Decimal(-128), Decimal(128)], pa.decimal128(3, 0)),
            "field a: 128 needs more than 1 bytes",
        ),
    ],
)
def test_value_that_the_schema_cannot_hold_is_an_error_of_its_row(kind, values, cause):
    payloads, errors = write(record(a=kind), pa.record_batch({"a": values}))
    assert (payloads[1], errors) == (None, {1: cause})
    assert payloads[0] is not None


def test_nan_and_infinity_are_written_as_they_are():
    batch = pa.record_batch({"a": [math.nan, -math.inf]})
    assert write(record(a="double"), batch) == (by_fastavro(record(a="double"), *batch.to_pylist()), {})
