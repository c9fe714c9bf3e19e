import datetime as dt
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.ingest import append as append_module
from headwater.runtime.ingest import seed_rows
from headwater.runtime.ingest.append import append
from headwater.runtime.ingest.incoming import from_python
from headwater.runtime.ingest.record_form import Sieve
from headwater.runtime.ingest.seed_rows import yielded_rows
from headwater.runtime.ir.topology import Topic
from headwater.runtime.log.errors import SeedError, TopicChangedError
from headwater.runtime.records.keys import encode_keys, partition_of
from headwater.runtime.records.record_json import records_of, to_json
from headwater.runtime.records.schema import topic_schema
from headwater.runtime.records.types import columns_ddl
from headwater.runtime.records.values import from_json, parse_json

NOON = dt.datetime(2013, 1, 1, 12, tzinfo=dt.UTC)
NOON_MS = 1_357_041_600_000
APPLICATION = "demo-seed"


def flight(carrier="UA", flight=1, delay=0.5, at=NOON):
    return {"carrier": carrier, "flight": flight, "delay": delay, "at": at}


def test_appended_objects_are_read_back_as_records(log, flights, read):
    result = append(log, APPLICATION, flights, [flight("UA", 1), flight("UA", 2, None)])
    (partition,) = result.offsets
    assert (result.records, result.commit, result.offsets[partition]) == (2, 1, (0, 2))
    first, second = read(flights)
    assert (first.partition, first.offset, first.timestamp, first.headers) == (partition, 0, NOON_MS, {})
    assert first.key == {"carrier": "UA"}
    assert first.value == {"flight": 1, "delay": 0.5, "at": "2013-01-01T12:00:00Z"}
    assert (second.offset, second.value["delay"]) == (1, None)


@pytest.mark.parametrize("form", ["objects", "table", "tables", "records"])
def test_records_of_many_bytes_are_converted_and_written_in_pieces_of_few(log, read, monkeypatch, form):
    monkeypatch.setattr(append_module, "WRITE_BYTES", 3000)
    monkeypatch.setattr(seed_rows, "PIECE_BYTES", 2000)
    topic = Topic("texts", 3, "k string", "v string")
    rows = [{"k": None if number % 2 else str(number), "v": "x" * (number * 97 % 1500)} for number in range(40)]
    rows[20]["v"] = "y" * 9000
    given = {
        "objects": rows,
        "table": pa.Table.from_pylist(rows),
        "tables": [pa.Table.from_pylist(rows[:15]), pa.Table.from_pylist(rows[15:])],
        "records": [{"key": {"k": row["k"]}, "value": {"v": row["v"]}, "timestamp": 0} for row in rows],
    }[form]
    sizes = []

    class Writing:
        def __getattr__(self, name):
            return getattr(log, name)

        def write(self, application, name, file, table, *more):
            sizes.append((table.nbytes, table.num_rows))
            return log.write(application, name, file, table, *more)

    append(Writing(), APPLICATION, topic, given, None if form == "records" else [0] * 40)
    assert len(sizes) > 8
    assert all(size <= 3000 or count == 1 for size, count in sizes)
    partitions = {row["v"]: number % 3 for number, row in enumerate(rows) if row["k"] is None}
    found = read(topic)
    assert sorted(each.value["v"] for each in found) == sorted(row["v"] for row in rows)
    assert all(each.partition == partitions[each.value["v"]] for each in found if each.key is None)
    order = [row["v"] for row in rows]
    for partition in range(3):
        places = [order.index(each.value["v"]) for each in found if each.partition == partition]
        assert places == sorted(places)


def test_rows_that_do_not_fit_are_left_out_of_objects_and_of_tables(log, flights, read):
    lenient = replace(flights, on_error="skip")
    numbers = list(range(1, 200))
    numbers[57] = numbers[120] = "x"
    objects = append(log, APPLICATION, lenient, [flight("UA", number) for number in numbers])
    table = pa.table({"carrier": ["AA"] * 3, "flight": ["1", "y", "3"], "delay": ["0"] * 3, "at": [NOON] * 3})
    rows = append(log, APPLICATION, lenient, table)

    assert (objects.records, [each.place for each in objects.refused.first]) == (197, ["row 58", "row 121"])
    assert (rows.records, [each.text for each in rows.refused.first]) == (
        2,
        ["the rows to append, row 2, column flight: 'y' is no int"],
    )
    found = sorted(record.value["flight"] for record in read(flights) if record.key == {"carrier": "UA"})
    assert found == [each for each in numbers if each != "x"]


def test_append_of_which_no_row_fits_commits_nothing(log, flights):
    result = append(log, APPLICATION, replace(flights, on_error="skip"), [flight("UA", "x")])

    assert (result.records, result.commit, result.refused.count) == (0, 0, 1)
    assert log.commits(APPLICATION).latest() == 0


def test_records_go_where_their_key_belongs(log, airlines, read):
    carriers = [f"c{number}" for number in range(50)]
    append(log, APPLICATION, airlines, pa.table({"carrier": carriers, "name": carriers}))
    expected = partition_of(encode_keys([pa.array(carriers)]), 3)
    found = {record.key["carrier"]: record.partition for record in read(airlines)}
    assert found == dict(zip(carriers, expected.tolist(), strict=True))
    assert len(set(found.values())) == 3


def test_records_with_a_null_key_go_round_robin_by_row(log, airlines, read):
    append(log, APPLICATION, airlines, pa.table({"carrier": pa.nulls(7, pa.string()), "name": list("abcdefg")}))
    found = read(airlines)
    assert all(record.key is None for record in found)
    assert [(record.partition, record.value["name"]) for record in found] == [
        (0, "a"), (0, "d"), (0, "g"), (1, "b"), (1, "e"), (2, "c"), (2, "f"),
    ]  # fmt: skip


def test_topic_without_key_columns_goes_round_robin(log, read):
    topic = Topic("t", partitions=2, key="", value="n int")
    append(log, APPLICATION, topic, [{"n": 1}, {"n": 2}, {"n": 3}])
    assert [(record.partition, record.key, record.value) for record in read(topic)] == [
        (0, None, {"n": 1}),
        (0, None, {"n": 3}),
        (1, None, {"n": 2}),
    ]


def test_windowed_key_goes_where_the_key_without_window_belongs(log, airlines, read):
    windowed = replace(airlines, windowed=True)
    rows = [
        {"timestamp": 1, "key": {"carrier": "UA", "window_start": n, "window_end": n + 10}, "value": {"name": "x"}}
        for n in range(20)
    ]
    append(log, APPLICATION, windowed, rows)
    found = read(windowed)
    assert {record.partition for record in found} == set(partition_of(encode_keys([pa.array(["UA"])]), 3).tolist())
    assert [record.key for record in found] == [row["key"] for row in rows]


def test_nulls_of_pandas_are_nulls(log, flights, read):
    frame = pd.DataFrame(
        {
            "carrier": ["UA", np.nan],
            "flight": [1.0, np.nan],
            "delay": [np.nan, 2.0],
            "at": pd.to_datetime(["2013-01-01 12:00", "2013-01-01 12:00"]),
            "unused": [1, 2],
        },
        index=[5, 9],
    )
    append(log, APPLICATION, flights, frame)
    found = sorted(read(flights), key=lambda record: record.key is None)
    assert [(record.key, record.value["flight"], record.value["delay"]) for record in found] == [
        ({"carrier": "UA"}, 1, None),
        (None, None, 2.0),
    ]


def test_nan_of_arrow_stays_in_a_column_of_floats_and_is_null_in_others(log, flights, read):
    table = pa.table({"carrier": ["UA"], "flight": [math.nan], "delay": [math.nan], "at": [NOON]})
    append(log, APPLICATION, flights, table)
    (record,) = read(flights)
    assert (record.value["flight"], record.value["delay"]) == (None, "NaN")


def test_column_called_by_its_role_is_preferred(log, read):
    topic = Topic("t", partitions=1, key="id int", value="id int, n int")
    append(log, APPLICATION, topic, [{"key.id": 1, "id": 2, "n": 3}])
    append(log, APPLICATION, topic, [{"id": 4, "n": 5}])
    assert [(record.key, record.value) for record in read(topic)] == [
        ({"id": 1}, {"id": 2, "n": 3}),
        ({"id": 4}, {"id": 4, "n": 5}),
    ]


def test_timestamps_are_the_callers_then_the_columns_then_the_clocks(log, flights, airlines, read):
    append(log, APPLICATION, flights, [flight(at=None)], timestamps=[7])
    append(log, APPLICATION, flights, [flight(at="2013-01-01")])
    append(log, APPLICATION, airlines, [{"carrier": "UA", "name": "United"}])
    assert [record.timestamp for record in read(flights)] == [7, NOON_MS - 12 * 3_600_000]
    (record,) = read(airlines)
    assert abs(record.timestamp - dt.datetime.now(dt.UTC).timestamp() * 1000) < 60_000


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("bigint", 5, 5),
        ("date", dt.date(1970, 1, 2), 86_400_000),
        ("timestamp_ntz", dt.datetime(1970, 1, 1, 0, 0, 1), 1000),
    ],
)
def test_column_of_other_types_gives_the_time(log, read, name, value, expected):
    topic = Topic("t", partitions=1, key="", value=f"at {name}", timestamp="at")
    append(log, APPLICATION, topic, [{"at": value}])
    assert [record.timestamp for record in read(topic)] == [expected]


@pytest.mark.parametrize(
    ("change", "column", "cause"),
    [
        ({"flight": "x"}, "flight", "'x' is no int"),
        ({"flight": 1.5}, "flight", "1.5 is no int"),
        ({"flight": 2**40}, "flight", f"{2**40} is no int"),
        ({"at": None}, "at", "the timestamp is null"),
        ({"at": "1969-12-31T23:59:59.999Z"}, "at", "the timestamp lies before 1970"),
        ({"at": 5}, "at", "5 is no timestamp"),
    ],
)
def test_value_that_the_topic_cannot_hold_is_told_and_nothing_appended(log, flights, read, change, column, cause):
    with pytest.raises(SeedError) as caught:
        append(log, APPLICATION, flights, [flight(), flight() | change, flight()])
    error = caught.value
    assert (error.source, error.location, error.column, error.cause) == ("the rows to append", "row 2", column, cause)
    assert (read(flights), log.commits(APPLICATION).latest()) == ([], 0)


def test_missing_column_is_told_with_those_there_are(log, airlines):
    with pytest.raises(SeedError, match="no column name; there is carrier, nam"):
        append(log, APPLICATION, airlines, pa.table({"carrier": ["UA"], "nam": ["United"]}))
    with pytest.raises(SeedError, match="no column name; there is carrier, nam"):
        append(log, APPLICATION, airlines, [{"carrier": "UA", "nam": "United"}])


def test_what_is_no_table_is_refused(log, airlines):
    with pytest.raises(SeedError, match="neither a table nor a record, but int"):
        append(log, APPLICATION, airlines, [1])
    with pytest.raises(SeedError, match="neither a table nor an iterable"):
        append(log, APPLICATION, airlines, 1)


def test_no_rows_commit_nothing(log, airlines):
    result = append(log, APPLICATION, airlines, [])
    assert (result.records, result.commit, result.offsets) == (0, 0, {})
    assert log.commits(APPLICATION).latest() == 0


def test_objects_in_record_form_keep_partition_time_headers_and_deletions(log, airlines, read):
    rows = [
        {"partition": 2, "offset": 77, "timestamp": 5, "key": {"carrier": "UA"}, "value": None, "headers": {"a": "b"}},
        {"partition": 2, "timestamp": 4, "key": None, "value": {"name": None}},
    ]
    append(log, APPLICATION, airlines, rows)
    found = [(record.partition, record.offset, record.timestamp, record.key, record.value) for record in read(airlines)]
    assert found == [(2, 0, 5, {"carrier": "UA"}, None), (2, 1, 4, None, {"name": None})]
    assert [record.headers for record in read(airlines)] == [{"a": "b"}, {}]


def test_topic_declared_otherwise_is_refused_with_the_difference(log, airlines):
    append(log, APPLICATION, airlines, [{"carrier": "UA", "name": "United"}])
    with pytest.raises(TopicChangedError, match="partitions was 3 and is 4") as caught:
        append(log, APPLICATION, replace(airlines, partitions=4), [{"carrier": "UA", "name": "United"}])
    assert (caught.value.was, caught.value.is_) == ({"partitions": 3}, {"partitions": 4})


def test_many_appenders_at_once_all_succeed(log, airlines, read):
    def once(number):
        return append(log, APPLICATION, airlines, [{"carrier": "UA", "name": f"{number}"}])

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(once, range(12)))
    assert sorted(result.commit for result in results) == list(range(1, 13))
    found = read(airlines)
    assert [record.offset for record in found] == list(range(12))
    assert {record.value["name"] for record in found} == {f"{number}" for number in range(12)}


def test_long_append_is_written_in_pieces_and_round_robin_goes_on(log, airlines, read, monkeypatch):
    monkeypatch.setattr(append_module, "WRITE_ROWS", 4)
    tables = (pa.table({"carrier": pa.nulls(2, pa.string()), "name": [f"{n}", f"{n}'"]}) for n in range(5))
    append(log, APPLICATION, airlines, tables)
    assert len(list(log.files(APPLICATION))) == 3
    assert [record.value["name"] for record in read(airlines)] == [
        *("0", "1'", "3", "4'"), *("0'", "2", "3'"), *("1", "2'", "4"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("timestamps", "cause"),
    [([1], "row 2: there are only 1 timestamps"), ([1, 2, 3], "there are 3 timestamps for 2 rows")],
)
def test_another_number_of_timestamps_than_of_rows_is_told_and_nothing_appended(log, airlines, read, timestamps, cause):
    rows = [{"carrier": "UA", "name": "United"}, {"carrier": "AA", "name": "American"}]
    with pytest.raises(SeedError, match=cause):
        append(log, "demo-seed", airlines, rows, timestamps=timestamps)
    assert read(airlines) == []


def test_table_without_rows_may_have_any_types(log, airlines):
    table = pa.table({"carrier": pa.array([], pa.null()), "name": pa.array([], pa.list_(pa.int32()))})
    assert append(log, "demo-seed", airlines, table).records == 0


def test_equal_keys_of_appended_records_look_the_same(log, read):
    topic = Topic("t", partitions=1, key="x double, l array<double>", value="n int")
    append(log, APPLICATION, topic, [{"x": -0.0, "l": [-0.0], "n": 1}, {"x": 0.0, "l": [0.0], "n": 2}])
    append(log, APPLICATION, topic, pa.table({"x": [-0.0], "l": [[-0.0]], "n": [3]}))
    assert {repr(record.key) for record in read(topic)} == {"{'x': 0.0, 'l': [0.0]}"}


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        ("int", [2, True]),
        ("int", [None, True]),
        ("double", [True]),
        ("string", [True]),
        ("boolean", [1.0, True]),
        ("boolean", [None, 2]),
        ("bigint", pa.array([True])),
        ("boolean", pa.array([0, 1])),
    ],
)
def test_booleans_for_numbers_and_texts_and_these_for_booleans_are_refused(log, flights, declared, values):
    topic = replace(flights, key="id int", value=f"x {declared}", timestamp=None)
    rows = pa.table({"id": [1] * len(values), "x": values}) if isinstance(values, pa.Array) else None
    with pytest.raises(SeedError, match=rf"column x: .* is no {declared} \(correct them"):
        append(log, APPLICATION, topic, [{"id": 1, "x": value} for value in values] if rows is None else rows)
    fine = [True, None] if declared == "boolean" else [None, None]
    assert append(log, APPLICATION, topic, [{"id": 1, "x": value} for value in fine]).records == 2


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        ({}, "row 2: no column carrier, flight, delay, at; there is none"),
        ({"carier": "UA"}, "row 2: no column carrier, flight, delay, at; there is carier"),
        ({"carrier": "UA", "att": NOON}, "row 2, column at: the timestamp comes from this column, which is missing; "
         "there is carrier, att"),
        ({"carrier": "UA", "at": None}, "row 2, column at: the timestamp is null"),
    ],
)  # fmt: skip
def test_row_without_a_column_that_it_needs_is_told_what_it_has(log, flights, row, cause):
    with pytest.raises(SeedError) as caught:
        append(log, APPLICATION, flights, [flight(), row])
    assert caught.value.message == f"the rows to append, {cause}"
    assert log.commits(APPLICATION).latest() == 0


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        ({"value": {"flight": 1, "at": NOON}, "foo": 1}, "row 2: a record has no foo"),
        ({"vlaue": {"flight": 1, "at": NOON}}, "row 2: a record has no vlaue"),
        ({}, "row 2: there is no value (null deletes)"),
        ({"value": {"flight": 1}}, "row 2, column at: the timestamp comes from this column, which is missing; "
         "there is flight"),
        ({"key": {"carrier": "UA"}, "value": None}, "row 2: a tombstone has no value with its timestamp: "
         "give `timestamp`"),
    ],
)  # fmt: skip
def test_record_with_something_else_than_a_record_has_is_told_that(log, flights, record, cause):
    with pytest.raises(SeedError) as caught:
        append(log, APPLICATION, flights, [{"value": {"flight": 1, "at": NOON}}, record])
    assert caught.value.message == f"the rows to append, {cause}"


def test_record_that_is_wrong_from_the_first_on_is_told_that(log, airlines):
    with pytest.raises(SeedError, match=r"row 1: a record has no foo \(correct them"):
        append(log, APPLICATION, airlines, [{"value": {"name": "x"}, "foo": 1}])
    with pytest.raises(SeedError, match=r"row 1: no column carrier, name; there is none \(correct them"):
        append(log, APPLICATION, airlines, [{}])


def test_row_of_a_topic_with_a_column_called_value_is_no_record(log, read):
    topic = Topic("t", partitions=1, key="k string", value="value int, timestamp int")
    append(log, APPLICATION, topic, [{"k": "a", "value": None, "timestamp": 1}, {"k": "b", "value": 2}])
    assert [record.value for record in read(topic)] == [
        {"value": None, "timestamp": 1},
        {"value": 2, "timestamp": None},
    ]


SCALARS = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.decimal128(38, 10): st.decimals(-(10**27), 10**27, places=10),
    pa.decimal128(5, 0): st.integers(-99999, 99999).map(Decimal),
    pa.string(): st.text(max_size=3),
    pa.binary(): st.binary(max_size=3),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(dt.UTC)),
    pa.timestamp("us"): st.datetimes(),
}
TYPES = st.recursive(
    st.sampled_from(list(SCALARS)),
    lambda inner: (
        inner.map(pa.list_)
        | st.tuples(inner, inner).map(lambda pair: pa.map_(*pair))
        | st.tuples(inner, inner).map(lambda pair: pa.struct([("key", pair[0]), ("b", pair[1])]))
    ),
    max_leaves=5,
)


def values_of(data_type):
    if pa.types.is_list(data_type):
        found = st.lists(values_of(data_type.value_type), max_size=3)
    elif pa.types.is_map(data_type):
        keys = values_of(data_type.key_type).filter(lambda key: key is not None)
        entries = st.lists(st.tuples(keys, values_of(data_type.item_type)), max_size=3)
        found = entries.filter(lambda pairs: _differ(pairs, data_type.key_type))
    elif pa.types.is_struct(data_type):
        found = st.fixed_dictionaries({field.name: values_of(field.type) for field in data_type})
    else:
        found = SCALARS[data_type]
    return st.none() | found


def _differ(pairs, key_type):
    keys = to_json(pa.array([key for key, _ in pairs], key_type))
    return len(set(map(repr, keys))) == len(keys)


@given(st.data(), TYPES)
def test_what_read_prints_and_gives_is_appended_for_every_type(data, data_type):
    column = pa.array(data.draw(st.lists(values_of(data_type), min_size=1, max_size=3)), data_type)
    topic = Topic("t", partitions=1, key="key int", value=columns_ddl({"value": data_type, "partition": pa.int32()}))
    rows = len(column)
    shown = pa.table(
        [range(rows), column, [None] * rows, [1] * rows, [3] * rows, [3] * rows], schema=topic_schema(topic)
    )
    (batch,) = shown.to_batches()
    printed = [record.to_json() for record in records_of(topic, 0, np.arange(rows), batch)]
    given_back = [asdict(record) for record in records_of(topic, 0, np.arange(rows), batch)]

    for objects, values in (([parse_json(line) for line in printed], from_json), (given_back, from_python)):
        (again,) = yielded_rows("rows", objects, topic, 0, Sieve(topic), values)
        (batch,) = again.table.select(shown.column_names).to_batches()
        assert [record.to_json() for record in records_of(topic, 0, np.arange(rows), batch)] == printed
        assert repr(again.table["value.value"].to_pylist()) == repr(column.to_pylist())


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("map<string,string>", ["ab"]),
        ("map<string,string>", ["abc"]),
        ("map<string,string>", [["a"]]),
        ("map<string,string>", [{"a": 1}]),
        ("map<string,string>", [{"key": "a", "value": "b"}]),
        ("map<string,string>", "ab"),
        ("map<string,int>", [("a", 1), ("a", 2)]),
        ("map<int,int>", [(1, 1), (1, 2)]),
        ("map<int,int>", 5),
    ],
)
def test_what_is_no_map_is_refused_by_both_readers(log, kind, value):
    topic = Topic("t", partitions=1, key="", value=f"a {kind}")
    for values in (from_json, from_python):
        with pytest.raises(SeedError, match=r"row 1, column a: "):
            append(log, APPLICATION, topic, [{"a": value}], values=values)
    assert append(log, APPLICATION, replace(topic, on_error="skip"), [{"a": value}]).refused.count == 1


def test_whole_numbers_of_python_are_not_limited_by_64_bits(log, read):
    topic = Topic("t", partitions=1, key="", value="d decimal(38,0), x double")
    append(log, APPLICATION, topic, [{"d": 10**37 + 1, "x": 2**70}, {"d": Decimal(5), "x": 1}])
    assert [record.value for record in read(topic)] == [
        {"d": str(10**37 + 1), "x": 2.0**70},
        {"d": "5", "x": 1.0},
    ]


def test_decimal_of_a_table_with_too_many_digits_for_its_column_is_refused_and_not_another(log, read):
    topic = Topic("t", partitions=1, key="", value="d decimal(38,20)")

    def table(number):
        return pa.table({"d": pa.array([Decimal(number)], pa.decimal128(38, 2))})

    append(log, APPLICATION, topic, table("206674018580083023.50"))
    # Times 10**18 these digits overflow 128 bits, and what is left of them would fit.
    with pytest.raises(SeedError, match=r"20667401858008302365\.00 is no decimal"):
        append(log, APPLICATION, topic, table("20667401858008302365.00"))

    assert [record.value for record in read(topic)] == [{"d": "206674018580083023.50000000000000000000"}]


def test_tombstone_and_null_of_a_column_called_value_are_told_apart(log, read):
    topic = Topic("t", partitions=1, key="key int", value="value int")
    append(log, APPLICATION, topic, [{"key": 1, "value": None}])
    append(log, APPLICATION, topic, [{"key": {"key": 1}, "value": None}])
    append(log, APPLICATION, topic, [{"offset": 7, "key": None, "value": None, "timestamp": 1}])
    assert [(record.key, record.value) for record in read(topic)] == [
        ({"key": 1}, {"value": None}),
        ({"key": 1}, None),
        (None, None),
    ]


def test_column_of_the_value_called_as_a_bound_of_a_window_is_shown_as_its_type(log, read):
    topic = Topic("t", partitions=1, key="window_end bigint", value="window_start timestamp, n int")
    append(log, APPLICATION, topic, [{"window_end": 5, "window_start": "2013-01-02T00:00:00Z", "n": 1}])
    (record,) = read(topic)
    assert (record.key, record.value["window_start"]) == ({"window_end": 5}, "2013-01-02T00:00:00Z")
    append(log, APPLICATION, topic, [asdict(record)])
    first, again = read(topic)
    assert (first.key, first.value) == (again.key, again.value)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("int", "12"),
        ("double", "1.5"),
        ("string", 5),
        ("boolean", "true"),
        ("decimal(5,2)", 0.1),
        ("int", math.nan),
        ("string", math.nan),
        ("boolean", math.nan),
        ("timestamp", math.nan),
        ("binary", math.nan),
        ("date", dt.datetime(2013, 1, 1, 1)),
        ("timestamp", np.int64(5)),
        ("timestamp", dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))),
        ("timestamp", dt.timedelta(1)),
        ("string", b"a"),
        ("array<double>", [1.0, "2"]),
        ("map<string,string>", {"a": math.nan}),
        ("int", [1]),
        ("double", {1}),
    ],
)
def test_python_values_of_another_type_are_refused_and_never_null(log, read, declared, value):
    topic = Topic("t", partitions=1, key="", value=f"a {declared}")
    with pytest.raises(SeedError, match=r"row 2, column a: .* is no "):
        append(log, APPLICATION, topic, [{"a": None}, {"a": value}])
    assert read(topic) == []


def test_nan_where_a_value_is_missing_is_told_what_to_write(log, flights):
    with pytest.raises(SeedError, match="column flight: nan is no int; where a value is missing, give None"):
        append(log, APPLICATION, flights, [flight(), flight(flight=math.nan)])


def test_nan_of_python_stays_nan(log, read):
    topic = Topic("t", partitions=1, key="", value="d double, f float, l array<double>")
    rows = [{"d": math.nan, "f": np.float32("nan"), "l": [math.nan, None, -math.inf]}, {"d": None, "f": 0.1, "l": None}]
    append(log, APPLICATION, topic, rows)
    assert [record.value for record in read(topic)] == [
        {"d": "NaN", "f": "NaN", "l": ["NaN", None, "-Infinity"]},
        {"d": None, "f": 0.1, "l": None},
    ]


def test_times_of_all_zones_and_libraries_are_one_time(log, read):
    topic = Topic("t", partitions=1, key="", value="a timestamp, b date, c timestamp_ntz")
    east = NOON.astimezone(dt.timezone(dt.timedelta(hours=5)))
    times = [NOON, NOON.replace(tzinfo=None), east, np.datetime64("2013-01-01T12", "ns"), pd.Timestamp(east),
             "2013-01-01T12:00:00"]  # fmt: skip
    append(log, APPLICATION, topic, [{"a": time, "b": dt.date(2013, 1, 2), "c": time} for time in times])
    same = {"a": "2013-01-01T12:00:00Z", "b": "2013-01-02", "c": "2013-01-01T12:00:00"}
    assert [record.value for record in read(topic)] == [same] * len(times)


def test_missing_values_of_pandas_and_scalars_of_libraries_in_objects(log, read):
    topic = Topic("t", partitions=1, key="", value="i int, s string, t timestamp, b boolean, d date, y binary")
    missing = {"i": pd.NA, "s": pd.NA, "t": pd.NaT, "b": None, "d": np.datetime64("NaT"), "y": None}
    given = {"i": np.int8(3), "s": np.str_("a"), "t": None, "b": np.bool_(True), "d": np.datetime64("2013-01-02"),
             "y": bytearray(b"\0\xff")}  # fmt: skip
    append(log, APPLICATION, topic, [missing, given])
    assert [record.value for record in read(topic)] == [
        dict.fromkeys(missing),
        {"i": 3, "s": "a", "t": None, "b": True, "d": "2013-01-02", "y": "AP8="},
    ]


def test_fields_of_a_record_take_scalars_of_libraries_as_its_columns_do(log, airlines, read):
    windowed = replace(airlines, windowed=True)
    key = {"carrier": np.str_("UA"), "window_start": np.int64(5), "window_end": pa.scalar(15)}
    row = {"timestamp": np.int64(7), "partition": np.int32(1), "key": key, "value": {"name": "x"}}
    append(log, APPLICATION, windowed, [row])
    (record,) = read(windowed)
    assert (record.partition, record.timestamp) == (1, 7)
    assert record.key == {"carrier": "UA", "window_start": 5, "window_end": 15}
    with pytest.raises(SeedError, match=r"column timestamp: .*where a value is missing, give None"):
        append(log, APPLICATION, windowed, [{**row, "timestamp": float("nan")}])


@given(st.data(), TYPES)
def test_python_objects_of_every_type_are_appended_as_they_are(data, data_type):
    values = data.draw(st.lists(values_of(data_type), min_size=1, max_size=3))
    column = pa.array(values, data_type)
    for objects in (values, column.to_pylist(), list(column)):
        assert repr(from_python(objects, data_type).to_pylist()) == repr(column.to_pylist())
