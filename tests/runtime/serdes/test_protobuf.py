"""Messages of Protobuf as columns, and columns as messages."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.ir.topology import SchemaRegistry
from headwater.runtime.records.types import parse_columns
from headwater.runtime.serdes.framing import SchemaOptions
from headwater.runtime.serdes.protobuf.schemas import ProtoSchema, ProtoSchemaError
from headwater.runtime.serdes.protobuf.serde import ProtobufSerde, protobuf_serde
from headwater.runtime.serdes.registry import Schema, SchemaReference, SchemaType, registry_of
from headwater.runtime.serdes.serde import Direction, PayloadSpec, Role, SerdeError
from headwater.tests.runtime.serdes.served_registry import served_registry

REGISTERING = ProtobufSerde(SchemaOptions(register=True))
NUMBERS = count()


@pytest.fixture(scope="module")
def settings() -> SchemaRegistry:
    return served_registry()


class Topic:
    """A topic whose values have the columns, with a subject of its own."""

    def __init__(self, settings: SchemaRegistry, columns: str = "", **options: object) -> None:
        self.settings = settings
        self.name = f"orders{next(NUMBERS)}"
        self.columns = parse_columns(columns)
        self.serde = protobuf_serde(**options)

    @property
    def spec(self) -> PayloadSpec:
        return PayloadSpec(self.name, Role.VALUE, self.columns, self.settings)

    def register(self, text: str, *references: SchemaReference) -> int:
        schema = Schema(SchemaType.PROTOBUF, text, references)
        return registry_of(self.settings).register(f"{self.name}-value", schema)

    def with_columns(self, columns: str) -> Topic:
        other = Topic(self.settings, columns)
        other.name, other.serde = self.name, self.serde
        return other

    def write(self, *rows: dict[str, object]):
        columns = pa.RecordBatch.from_pylist(list(rows), self.spec.schema)
        return self.serde.serializer(self.spec).write(columns, np.zeros(len(rows), np.bool_))

    def read(self, *payloads: bytes | None):
        return self.serde.deserializer(self.spec).read(pa.array(payloads, pa.binary()))

    def errors(self, *payloads: bytes | None) -> list[str]:
        return [error for _, error in sorted(self.read(*payloads).errors.items())]


def payload(number: int, message: bytes, indexes: bytes = b"\0") -> bytes:
    return b"\0" + number.to_bytes(4, "big") + indexes + message


# Reading what others write.

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
import "confluent/type/decimal.proto";
message Order {
  enum Status { NEW = 0; SENT = 1; }
  message Line { string product = 1; uint32 quantity = 2; }
  string id = 1;
  optional int32 discount = 2;
  uint64 total = 3;
  Status status = 4;
  repeated Line lines = 5;
  map<string, Line> by_name = 6;
  google.protobuf.Timestamp ordered = 7;
  google.protobuf.Duration took = 8;
  google.protobuf.Struct notes = 9;
  google.protobuf.StringValue coupon = 10;
  google.type.Date due = 11;
  confluent.type.Decimal price = 12;
  oneof payment { string card = 13; sint64 voucher = 14; }
  Order previous = 15;
}
message Payment { string id = 1; }
"""
COLUMNS = """
    id string, discount int, total decimal(20,0), status string,
    lines array<struct<product: string, quantity: bigint>>, by_name map<string, struct<product: string>>,
    ordered timestamp, took decimal(21,9), notes string, coupon string, due date, price decimal(10,2),
    card string, voucher bigint, previous struct<id: string, discount: int>, absent double
"""
FULL = {
    "id": "a",
    "discount": 0,
    "total": Decimal(2**64 - 1),
    "status": "SENT",
    "lines": [{"product": "tea", "quantity": 2**32 - 1}, {"product": "", "quantity": 0}],
    "by_name": [("a", {"product": "x"}), ("b", {"product": ""})],
    "ordered": dt.datetime(2026, 2, 28, 1, 2, 3, 456_789, tzinfo=dt.UTC),
    "took": Decimal("-1.500000001"),
    "notes": '{"a":[1.5,null]}',
    "coupon": "",
    "due": dt.date(2028, 2, 29),
    "price": Decimal("-12.30"),
    "card": None,
    "voucher": -(2**63),
    "previous": {"id": "b", "discount": None},
}
JAVA = (
    "0a0161100018ffffffffffffffffff0120012a0b0a0374656110ffffffff0f2a0032080a016112030a017832050a016212003a0c088bfd88cd06"
    "108898e8d901421608ffffffffffffffffff0110ffb5ca91feffffffff014a180a160a01611211320f0a0911000000000000f83f0a0208005200"
    "5a0708ec0f1002181d62080a02fb32100a180270ffffffffffffffffff017a030a0162"
)
"""The bytes of `FULL` that com.google.protobuf 4.36.2 writes, with entries of maps in order."""
EMPTY = {**dict.fromkeys(FULL), "id": "", "total": Decimal(0), "status": "NEW", "lines": [], "by_name": []}


def test_every_kind_of_field_is_written_as_by_java_and_comes_back(settings: SchemaRegistry) -> None:
    topic = Topic(settings, COLUMNS.rpartition(",")[0])
    number = topic.register(ORDER)

    written = topic.write(FULL, EMPTY)
    read = topic.with_columns(COLUMNS).read(*written.payloads.to_pylist())

    assert (written.errors, read.errors) == ({}, {})
    assert written.payloads[0].as_py() == payload(number, bytes.fromhex(JAVA))
    assert read.columns.to_pylist() == [{**FULL, "absent": None}, {**EMPTY, "absent": None}]


def test_message_without_any_field_has_defaults_where_nothing_tells_them_from_null(settings: SchemaRegistry) -> None:
    topic = Topic(settings, COLUMNS)
    number = topic.register(ORDER)

    assert topic.read(payload(number, b"")).columns.to_pylist() == [{**EMPTY, "absent": None}]


@pytest.mark.parametrize(
    ("message", "indexes"),
    [("a.First", "00"), ("First.Inner", "040000"), ("Second", "0202"), ("a.Third.Two", "040402")],
)
def test_indexes_of_a_message_are_those_of_confluent(settings: SchemaRegistry, message: str, indexes: str) -> None:
    topic = Topic(settings, "x int", message=message)
    number = topic.register(
        """syntax = "proto3"; package a;
        message First { optional int32 x = 1; message Inner { optional int32 x = 1; } }
        message Second { optional int32 x = 1; }
        message Third { message One {} map<string, One> m = 9; message Two { optional int32 x = 1; } }"""
    )

    written = topic.write({"x": 5}).payloads.to_pylist()

    assert written == [payload(number, bytes.fromhex("0805"), bytes.fromhex(indexes))]
    assert topic.read(*written).columns.to_pylist() == [{"x": 5}]


def test_payload_of_another_message_is_an_error_that_names_both(settings: SchemaRegistry) -> None:
    topic = Topic(settings, "id string")
    number = topic.register(ORDER)

    read = topic.read(*(payload(number, b"\x0a\x01a", bytes.fromhex(indexes)) for indexes in ("00", "0202", "0208")))

    assert read.columns.to_pylist() == [{"id": "a"}, {"id": None}, {"id": None}]
    assert read.errors == {
        1: f"it is a shop.Payment of schema {number}, not a shop.Order",
        2: "it is no shop.Order: the schema has no message with the index 4; "
        "it has shop.Order, shop.Payment, shop.Order.Line",
    }


def test_what_is_no_message_is_an_error_of_its_row(settings: SchemaRegistry) -> None:
    topic = Topic(settings, "id string, total decimal(20,0), ordered timestamp")
    number = topic.register(ORDER)
    avro = registry_of(settings).register("other", Schema(SchemaType.AVRO, '"int"'))

    errors = topic.errors(
        payload(number, b"\x0a\x05a"),
        payload(number, b"\x0a\x01\xff"),
        payload(number, b"", b""),
        payload(number, b"\x3a\x07\x08\xff\xff\xff\xff\xff\x7f"),
        payload(number, b"", b"\x02\x03"),
        payload(999, b""),
        payload(avro, b""),
    )

    assert [error.partition(" shop.Order: ")[0] for error in errors[:2]] == ["no", "no"]
    assert errors[2:] == [
        "the indexes of its message are cut off, or no numbers",
        "column ordered: 4398046511103 seconds and 0 nanos are no time of the years 1 to 9999",
        "-2 is no index of a message",
        "the schema registry has no schema 999",
        f"schema {avro} is AVRO, not PROTOBUF",
    ]


def test_enum_value_without_a_name_is_its_number(settings: SchemaRegistry) -> None:
    topic = Topic(settings, "status string")
    number = topic.register(ORDER)
    numbers = Topic(settings, "status int")
    numbers.name = topic.name

    read = topic.read(payload(number, b"\x20\x01"), payload(number, b"\x20\x07"))
    written = topic.write({"status": "7"}, {"status": "SENT"}, {"status": "GONE"})

    assert read.columns.to_pylist() == [{"status": "SENT"}, {"status": "7"}]
    assert written.payloads.to_pylist() == [payload(number, b"\x20\x07"), payload(number, b"\x20\x01"), None]
    assert written.errors == {2: "column status: 'GONE' is no value of the enum shop.Order.Status"}
    assert numbers.read(payload(number, b"\x20\x07")).columns.to_pylist() == [{"status": 7}]


def test_fields_of_proto2_keep_null_and_required_ones_must_be_there(settings: SchemaRegistry) -> None:
    topic = Topic(settings, "id string, level int, state string, g struct<x: int>")
    number = topic.register(
        """syntax = "proto2"; message Reading { enum State { OFF = 0; ON = 1; } required string id = 1;
        optional int32 level = 2 [default = 9]; optional State state = 3 [default = ON];
        optional group G = 4 { optional int32 x = 1; } }"""
    )
    written = topic.write({"id": "a", "g": {"x": 3}}, {"id": None})

    read = topic.read(
        *written.payloads.to_pylist()[:1],
        payload(number, b"\x10\x01"),
        payload(number, b"\x0a\x01\xff"),
        payload(number, b"\x0a\x01a\x18\x07"),
    )

    assert written.errors == {1: "column id: null, and the field is required"}
    nothing = {"level": None, "state": None, "g": None}
    assert read.columns.to_pylist() == [
        {"id": "a", **nothing, "g": {"x": 3}},
        {"id": None, **nothing},
        {"id": None, **nothing},
        {"id": "a", **nothing},
    ]
    assert read.errors == {1: "no Reading: the required id is missing", 2: r"column id: b'\xff' is not UTF-8"}


# Writing what fields do not hold.


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"id": None}, "column id: null, and the field cannot tell it from a default; make it `optional`"),
        ({"total": Decimal(2**64)}, "column total: 18446744073709551616 is no uint64"),
        ({"lines": None}, "column lines: null, and a message has no null array"),
        ({"lines": [None]}, "column lines: the array has a null in it, and a message has none there"),
        ({"lines": [{"product": "a", "quantity": -1}]}, "column lines: quantity: -1 is no uint32"),
        ({"by_name": [("a", {"product": None})]}, "column by_name: product: null, and the field cannot tell it"),
        ({"card": "x", "voucher": 1}, "at most one of card, voucher may be set, the fields of payment"),
        ({"notes": "[]"}, "column notes: no JSON of a google.protobuf.Struct: "),
        ({"notes": '{"a":9007199254740993}'}, "column notes: no JSON of a google.protobuf.Struct: 9007199254740993"),
        (
            {"took": Decimal(316_000_000_000)},
            "column took: 316000000000.000000000 seconds are more than a Duration has",
        ),
    ],
)
def test_value_that_a_message_does_not_hold_is_an_error_of_its_row(
    settings: SchemaRegistry, row: dict[str, object], error: str
) -> None:
    topic = Topic(settings, COLUMNS.rpartition(",")[0])
    topic.register(ORDER)

    written = topic.write(FULL, {**FULL, **row}, FULL)

    assert list(written.errors) == [1]
    assert written.errors[1].startswith(error)
    assert written.payloads.is_null().to_pylist() == [False, True, False]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ("total bigint", "the field total holds decimal(20,0), which cannot be read as bigint"),
        ("lines array<struct<quantity: int>>", "the field lines.quantity holds bigint, which cannot be read as int"),
        ("lines struct<a: int>", "the field lines is repeated, which cannot be read as struct<a:int>"),
        ("by_name string", "the field by_name is a map, which cannot be read as string"),
        ("status double", "the field status is an enum, which cannot be read as double"),
        ("ordered date", "the field ordered is a google.protobuf.Timestamp, which cannot be read as date"),
        ("previous string", "the field previous is a shop.Order, which cannot be read as string"),
    ],
)
def test_column_that_does_not_hold_a_field_is_an_error_of_all_records_with_the_schema(
    settings: SchemaRegistry, columns: str, error: str
) -> None:
    topic = Topic(settings, columns)
    number = topic.register(ORDER)

    assert topic.errors(payload(number, b"")) == [f"schema {number} does not fit the columns: {error}"]


# The second day.


def test_fields_are_found_by_name_in_every_version_of_a_schema(settings: SchemaRegistry) -> None:
    topic = Topic(settings, "id string, quantity bigint, color string, note string")
    message = 'syntax = "proto3"; message Order {{ {} }}'
    first = topic.register(message.format("string id = 1; int32 quantity = 2; optional string note = 3;"))
    widened = topic.register(message.format("string id = 1; int64 quantity = 2; optional string note = 3;"))
    renumbered = topic.register(message.format("string id = 2; int64 quantity = 1; optional string color = 5;"))

    read = topic.read(
        payload(renumbered, b"\x12\x01c\x08\x02\x2a\x03red"),
        payload(first, b"\x0a\x01a\x10\x01\x1a\x01n"),
        None,
        payload(widened, b"\x0a\x01b\x10\x80\x80\x80\x80\x80\x80\x04\x22\x01u"),
    )

    assert read.errors == {}
    assert read.columns.to_pylist() == [
        {"id": "c", "quantity": 2, "color": "red", "note": None},
        {"id": "a", "quantity": 1, "color": None, "note": "n"},
        dict.fromkeys(topic.columns),
        {"id": "b", "quantity": 2**44, "color": None, "note": None},
    ]
    narrow = topic.with_columns("quantity int")
    assert narrow.read(payload(first, b"\x10\x01")).columns.to_pylist() == [{"quantity": 1}]
    misfit = "the field quantity holds bigint, which cannot be read as int"
    assert narrow.read(payload(widened, b""), payload(first, b"")).errors == {
        0: f"schema {widened} does not fit the columns: {misfit}"
    }


def test_registered_schema_keeps_its_numbers_when_columns_come_and_go(settings: SchemaRegistry) -> None:
    topic = Topic(settings, "id string, at timestamp, tags array<string>, line struct<a: int, b: date>", register=True)
    topic.write()
    fewer = topic.with_columns("color string, id string, line struct<c: decimal(5,2), b: date>")
    fewer.write()
    more = topic.with_columns("id string, size smallint, color string, line struct<c: decimal(5,2), b: date>")
    more.write()
    latest = registry_of(settings).latest(f"{topic.name}-value")
    assert latest is not None

    assert latest.version == 3
    assert (
        latest.schema.text
        == f"""syntax = "proto3";
import "google/type/date.proto";
message {topic.name.capitalize()}Value {{
  reserved 2 to 2, 3 to 3;
  optional string id = 1;
  optional int32 size = 6;
  optional string color = 5;
  message Line {{
    reserved 1 to 1;
    optional string c = 3;
    optional google.type.Date b = 2;
  }}
  optional Line line = 4;
}}
"""
    )
    written = topic.with_columns("color string").write({"color": "red"})
    assert written.payloads.to_pylist() == [payload(latest.id, b"\x2a\x03red")]
    assert registry_of(settings).latest(f"{topic.name}-value") == latest


def test_reserved_words_of_no_column_end_a_run_that_registers(settings: SchemaRegistry) -> None:
    topic = Topic(settings, "a_b int, aB int", register=True)

    with pytest.raises(SerdeError, match=r'no Protobuf: schema.proto:.* "a_b"'):
        topic.write()


def test_schema_with_references_is_read_with_what_it_imports(settings: SchemaRegistry) -> None:
    topic = Topic(settings, "id string, by struct<name: string>")
    inner = registry_of(settings)
    inner.register(
        "names", Schema(SchemaType.PROTOBUF, 'syntax = "proto3"; package n; message Name { string name = 1; }')
    )
    text = 'syntax = "proto3"; import "people/name.proto"; message Order { string id = 1; n.Name by = 2; }'
    number = topic.register(text, SchemaReference("people/name.proto", "names", 1))

    written = topic.write({"id": "a", "by": {"name": "b"}})

    assert written.payloads.to_pylist() == [payload(number, b"\x0a\x01a\x12\x03\x0a\x01b")]
    assert topic.read(*written.payloads.to_pylist()).columns.to_pylist() == [{"id": "a", "by": {"name": "b"}}]


@pytest.mark.parametrize("name", ["{folder}/x.proto", "a/../../x.proto"])
def test_import_outside_of_the_folder_of_a_schema_is_not_written(tmp_path: Path, name: str) -> None:
    imported = name.format(folder=tmp_path)
    with pytest.raises(ProtoSchemaError, match=r"x\.proto, which is not the path"):
        assert ProtoSchema('syntax = "proto3"; message A {}', {imported: 'syntax = "proto3";'}).file
    assert not list(tmp_path.iterdir())


def test_descriptor_in_base64_is_a_schema_too(settings: SchemaRegistry) -> None:
    topic = Topic(settings, "id string, at timestamp")
    pool = ProtoSchema(ORDER.replace("ordered", "at"), {}).file
    number = topic.register(base64.b64encode(pool.serialized_pb).decode())

    assert topic.read(payload(number, b"\x0a\x01a\x3a\x00")).columns.to_pylist() == [
        {"id": "a", "at": dt.datetime(1970, 1, 1, tzinfo=dt.UTC)}
    ]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("a array<array<int>>", "type array<array<int>>, as it has no array or map of arrays or maps"),
        ("a struct<b: map<string, array<int>>>", "type map<string,array<int>>, as it has no array or map of arrays"),
        ("a map<double, int>", "type map<double,int>, as keys of maps are whole numbers, texts or booleans"),
        ("a struct<`b c`: int>", "field of the name 'b c'"),
        ("`1a` int", "field of the name '1a'"),
    ],
)
def test_type_that_no_message_holds_is_a_problem_of_its_column(
    settings: SchemaRegistry, columns: str, problem: str
) -> None:
    topic = Topic(settings, columns)

    for direction in Direction:
        (found,) = topic.serde.check(topic.spec, direction)
        assert found.column == next(iter(topic.columns))
        assert found.message.startswith(f"the format protobuf has no {problem}")


def test_strategy_by_messages_needs_the_name_of_the_message(settings: SchemaRegistry) -> None:
    topic = Topic(settings, "a int", subject_name_strategy="record")

    (problem,) = topic.serde.check(topic.spec, Direction.WRITE)

    assert problem.message == "this strategy names subjects by messages; add `message`"
