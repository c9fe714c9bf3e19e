"""The bytes of Java's Avro, written down once by running it: `GenericDatumWriter` of org.apache.avro:avro 1.12.2."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from headwater.runtime.records.types import arrow_type
from headwater.tests.runtime.serdes.avro_values import read, record, write

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
FIXED_DECIMAL = {"type": "fixed", "name": "f", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2}
FIXED_UUID = {"type": "fixed", "name": "f", "size": 16, "logicalType": "uuid"}
SUIT = {"type": "enum", "name": "S", "symbols": ["SPADES", "HEARTS"]}
UNION = ["null", "double", "long"]
ID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
LARGE = Decimal("123456789012345678901234567890123456.78")
LOCAL = dt.datetime(2013, 1, 1, 5, 15, 0, 123_000)
TIME = LOCAL.replace(tzinfo=dt.UTC)


def of_long(logical):
    return {"type": "long", "logicalType": logical}


VECTORS = [
    ("int", "int", 0, "00"),
    ("int", "int", -1, "01"),
    ("int", "int", 63, "7e"),
    ("int", "int", 64, "8001"),
    ("int", "int", -65, "8101"),
    ("int", "int", 2**31 - 1, "feffffff0f"),
    ("int", "int", -(2**31), "ffffffff0f"),
    ("long", "bigint", 2**53 + 1, "8280808080808020"),
    ("long", "bigint", 2**63 - 1, "feffffffffffffffff01"),
    ("long", "bigint", -(2**63), "ffffffffffffffffff01"),
    ("double", "double", -1.5e300, "355800662deb41fe"),
    ("boolean", "boolean", True, "01"),
    ("string", "string", "grüße", "0e6772c3bcc39f65"),
    ("bytes", "binary", b"\x00\xff", "0400ff"),
    (DECIMAL, "decimal(38,2)", Decimal("0.00"), "0200"),
    (DECIMAL, "decimal(38,2)", Decimal("-0.01"), "02ff"),
    (DECIMAL, "decimal(38,2)", Decimal("1.27"), "027f"),
    (DECIMAL, "decimal(38,2)", Decimal("1.28"), "040080"),
    (DECIMAL, "decimal(38,2)", Decimal("-1.28"), "0280"),
    (DECIMAL, "decimal(38,2)", Decimal("-1.29"), "04ff7f"),
    (
        DECIMAL,
        "decimal(38,2)",
        Decimal("123456789012345678901234567890123456.78"),
        "200949b0f6f0023313c4499050de38f34e",
    ),
    (
        DECIMAL,
        "decimal(38,2)",
        Decimal("-123456789012345678901234567890123456.78"),
        "20f6b64f090ffdccec3bb66faf21c70cb2",
    ),
    (FIXED_DECIMAL, "decimal(9,2)", Decimal("-1.29"), "ffffffff7f"),
    ({"type": "string", "logicalType": "uuid"}, "string", ID, "48" + ID.encode().hex()),
    (FIXED_UUID, "string", ID, uuid.UUID(ID).hex),
    ({"type": "int", "logicalType": "date"}, "date", dt.date(1969, 12, 31), "01"),
    (of_long("timestamp-millis"), "timestamp", TIME, "b6f2c5c8fe4e"),
    (of_long("timestamp-micros"), "timestamp", TIME, "f0f585e2e68ce904"),
    (of_long("timestamp-nanos"), "timestamp", TIME, "80f3a0feed828cd525"),
    (of_long("local-timestamp-millis"), "timestamp_ntz", LOCAL, "b6f2c5c8fe4e"),
    (of_long("local-timestamp-micros"), "timestamp_ntz", LOCAL, "f0f585e2e68ce904"),
    (SUIT, "string", "HEARTS", "02"),
    ({"type": "fixed", "name": "f", "size": 3}, "binary", b"abc", "616263"),
    ({"type": "array", "items": ["null", "long"]}, "array<bigint>", [1, None, -3], "06020200020500"),
    ({"type": "array", "items": "long"}, "array<bigint>", [], "00"),
    ({"type": "map", "values": "double"}, "map<string,double>", [("a", 1.5)], "020261000000000000f83f00"),
    (UNION, "bigint", 2**53 + 1, "048280808080808020"),
    (UNION, "double", None, "00"),
]


@pytest.mark.parametrize(("avro", "declared", "value", "written"), VECTORS)
def test_bytes_are_those_of_java(avro, declared, value, written):
    batch = pa.record_batch({"a": pa.array([value], arrow_type(declared))})
    assert write(record(a=avro), batch) == ([bytes.fromhex(written)], {})


@pytest.mark.parametrize(("avro", "declared", "value", "written"), [row for row in VECTORS if row[0] != UNION])
def test_bytes_of_java_are_read(avro, declared, value, written):
    assert read(record(a=avro), [bytes.fromhex(written)], {"a": arrow_type(declared)}) == ([{"a": value}], {})


def test_floats_are_those_of_java():
    kinds = {"f": "float", "d": "double"}
    batch = pa.record_batch({"f": pa.array([0.1], pa.float32()), "d": [float("nan")]})
    assert write(record(**kinds), batch) == ([bytes.fromhex("cdcccc3d" + "000000000000f87f")], {})
