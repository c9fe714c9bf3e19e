"""A topic's records as a table: the same as its records one by one."""

import random
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from headwater.runtime.ingest.append import append
from headwater.runtime.ir.topology import Topic
from headwater.runtime.query.rows import Rows
from headwater.runtime.query.topics import TopicReader, read_table, table_schema

EVERYTHING = Topic(
    "everything",
    2,
    key="k bigint, offset int",
    value="K string, timestamp timestamp, amount decimal(10,2), day date, local timestamp_ntz, raw binary, ok boolean, "
    "n int, x double, many array<int>, pair struct<a:int,b:string>, named map<string,int>",
    windowed=True,
)
WINDOW = {"window_start": 0, "window_end": 60_000}
FULL = {
    "partition": 1,
    "timestamp": 1_714_521_600_001,
    "key": {"k": 2**62 + 1, "offset": 7, **WINDOW},
    "value": {
        "K": "tea",
        "timestamp": "2024-05-01T08:00:00.000001Z",
        "amount": "10.50",
        "day": "2024-05-01",
        "local": "2024-05-01T10:00:00",
        "raw": "AP8=",
        "ok": True,
        "n": 3,
        "x": 0.5,
        "many": [1, None],
        "pair": {"a": 1, "b": "b"},
        "named": {"one": 1},
    },
    "headers": {"source": "test"},
}
NULLS = {"partition": 1, "timestamp": 1_714_521_600_002, "key": {**FULL["key"], "k": 2}, "value": {}}
TOMBSTONE = {"partition": 1, "timestamp": 1_714_521_600_003, "key": {**FULL["key"], "k": 3}, "value": None}


def table(log, topic, limit=None):
    return read_table(topic, TopicReader(log, "demo-seed", topic), limit)


def rows(log, topic):
    def no_session():
        raise AssertionError("no session is needed")

    return Rows("everything", table_schema(topic), lambda: iter(()), lambda: table(log, topic), no_session)


@pytest.fixture
def everything(log):
    append(log, "demo-seed", EVERYTHING, [FULL, NULLS, TOMBSTONE])
    return log


def test_columns_have_the_declared_types_and_names_that_do_not_meet(log):
    schema = table_schema(EVERYTHING)

    assert schema.names[:7] == [
        "partition",
        "offset",
        "timestamp",
        "key.k",
        "key.offset",
        "window_start",
        "window_end",
    ]
    assert schema.names[7:9] == ["K", "value.timestamp"]
    assert schema.names[-2:] == ["tombstone", "headers"]
    assert schema.field("value.timestamp").type == pa.timestamp("us", "UTC")
    assert schema.field("amount").type == pa.decimal128(10, 2)
    assert table(log, EVERYTHING).equals(schema.empty_table())


def test_values_of_all_types_are_there_as_they_are(everything):
    full, nulls, tombstone = table(everything, EVERYTHING).to_pylist()

    assert full == {
        "partition": 1,
        "offset": 0,
        "timestamp": datetime(2024, 5, 1, 0, 0, 0, 1000, UTC),
        "key.k": 2**62 + 1,
        "key.offset": 7,
        "window_start": datetime(1970, 1, 1, tzinfo=UTC),
        "window_end": datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
        "K": "tea",
        "value.timestamp": datetime(2024, 5, 1, 8, 0, 0, 1, UTC),
        "amount": Decimal("10.50"),
        "day": date(2024, 5, 1),
        "local": datetime(2024, 5, 1, 10),
        "raw": b"\x00\xff",
        "ok": True,
        "n": 3,
        "x": 0.5,
        "many": [1, None],
        "pair": {"a": 1, "b": "b"},
        "named": [("one", 1)],
        "tombstone": False,
        "headers": [("source", "test")],
    }
    assert [(each["key.k"], each["K"], each["tombstone"], each["headers"]) for each in (nulls, tombstone)] == [
        (2, None, False, None),
        (3, None, True, None),
    ]


def test_null_in_a_pandas_frame_changes_no_other_value(everything):
    frame = rows(everything, EVERYTHING).to_pandas()

    assert frame["key.k"].tolist() == [2**62 + 1, 2, 3]
    assert frame["n"].dtype == "Int32"
    assert frame["n"].iloc[0] == 3
    assert frame["n"].isna().tolist() == [False, True, True]
    assert frame["tombstone"].tolist() == [False, False, True]
    assert str(frame["value.timestamp"].dtype) == "datetime64[us, UTC]"
    assert frame["named"].iloc[0] == {"one": 1}
    assert (frame["amount"].iloc[0], frame["day"].iloc[0]) == (Decimal("10.50"), date(2024, 5, 1))


def test_empty_pandas_frame_has_the_types_of_a_full_one(log, everything):
    empty = Topic("nothing", 1, EVERYTHING.key, EVERYTHING.value, windowed=True)

    assert dict(rows(log, empty).to_pandas().dtypes) == dict(rows(everything, EVERYTHING).to_pandas().dtypes)


def test_rows_are_shown_in_one_line(log):
    assert repr(rows(log, EVERYTHING)) == (
        "<Rows of everything: partition, offset, timestamp, key.k, key.offset, window_start, window_end, K, ...>"
    )


@pytest.mark.parametrize("limit", [None, 1, 7, 40])
def test_table_has_the_order_of_reading_one_by_one_and_reading_goes_on_behind_it(log, airlines, limit):
    chance = random.Random(7)
    for _ in range(3):
        records = [
            {"partition": chance.randrange(3), "timestamp": chance.randrange(10), "key": None, "value": {"name": "x"}}
            for _ in range(20)
        ]
        append(log, "demo-seed", airlines, records)
    by_rows, by_table = (TopicReader(log, "demo-seed", airlines, start=2) for _ in range(2))

    for _ in range(2):
        expected = [(record.partition, record.offset) for record in by_rows.read(limit)]
        found = read_table(airlines, by_table, limit)
        assert list(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True)) == expected
