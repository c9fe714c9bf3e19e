import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.records.arrays import BadValueError, valid_text
from headwater.runtime.records.record_json import to_json
from headwater.runtime.records.types import arrow_type
from headwater.runtime.records.values import from_json, parse_json, parse_text

DOCS = Path(__file__).parents[3] / "docs" / "log.md"
TABLE = [
    ("boolean", True, True),
    ("tinyint", -3, -3),
    ("bigint", 2**53 + 1, 2**53 + 1),
    ("float", 0.10000000149011612, 0.1),
    ("double", 0.1, 0.1),
    ("double", math.inf, "Infinity"),
    ("double", -math.inf, "-Infinity"),
    ("decimal(20,10)", Decimal("0"), "0.0000000000"),
    ("decimal(5,2)", Decimal("-1.5"), "-1.50"),
    ("string", "é\n", "é\n"),
    ("binary", b"\x00\xff", "AP8="),
    ("date", dt.date(2013, 1, 2), "2013-01-02"),
    ("timestamp", dt.datetime(2013, 1, 2, 3, 4, 50, tzinfo=dt.UTC), "2013-01-02T03:04:50Z"),
    ("timestamp", dt.datetime(2013, 1, 2, 3, 4, 5, 120_000, tzinfo=dt.UTC), "2013-01-02T03:04:05.12Z"),
    ("timestamp_ntz", dt.datetime(2013, 1, 2), "2013-01-02T00:00:00"),
    ("array<decimal(3,1)>", [Decimal("1.5"), None], ["1.5", None]),
    ("array<array<int>>", [[1], None, []], [[1], None, []]),
    ("struct<a:date,b:binary>", {"a": dt.date(2013, 1, 2), "b": None}, {"a": "2013-01-02", "b": None}),
    ("map<string,date>", [("x", dt.date(2013, 1, 2))], {"x": "2013-01-02"}),
    ("map<int,double>", [(1, math.inf)], [{"key": 1, "value": "Infinity"}]),
]


@pytest.mark.parametrize(("name", "value", "written"), TABLE)
def test_value_has_its_json_form_and_comes_back(name, value, written):
    data_type = arrow_type(name)
    column = pa.array([None, value, None], data_type)
    assert to_json(column) == [None, written, None]
    assert from_json(to_json(column), data_type) == column
    assert to_json(column[1:]) == [written, None]


@pytest.mark.parametrize(
    "example", [True, -3, 0.1, "-1.50", "AP8=", "2013-01-02", "2013-01-02T03:04:05.12Z", "2013-01-02T00:00:00"]
)
def test_example_of_the_docs_is_a_tested_value(example):
    assert example in [written for _, _, written in TABLE]
    assert f"| `{json.dumps(example)}` |" in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "written"), [(name, written) for name, _, written in TABLE if "<" in name and "array<array" not in name]
)
def test_nested_value_is_an_example_of_the_docs(name, written):
    assert f"| `{json.dumps(written)}` |" in DOCS.read_text(encoding="utf-8")


def test_nan_is_text_in_json():
    assert to_json(pa.array([math.nan])) == ["NaN"]
    assert math.isnan(from_json(["NaN"], pa.float64())[0].as_py())


@pytest.mark.parametrize(("name", "value", "written"), TABLE)
def test_value_written_as_text_is_read(name, value, written):
    data_type = arrow_type(name)
    text = written if isinstance(written, str) else json.dumps(written)
    assert parse_text(pa.array([None, text]), data_type) == pa.array([None, value], data_type)


TYPES = st.recursive(
    st.sampled_from([pa.int16(), pa.string(), pa.binary(), pa.float32(), pa.bool_(), pa.date32()]),
    lambda inner: (
        inner.map(pa.list_)
        | inner.map(lambda item: pa.map_(pa.string(), item))
        | inner.map(lambda item: pa.map_(pa.int16(), item))
        | st.tuples(inner, inner).map(lambda pair: pa.struct([("a", pair[0]), ("b", pair[1])]))
    ),
    max_leaves=4,
)


def values(data_type):
    if pa.types.is_list(data_type):
        found = st.lists(values(data_type.value_type), max_size=3)
    elif pa.types.is_map(data_type):
        keys = st.integers(0, 99) if data_type.key_type == pa.int16() else st.text(max_size=2)
        found = st.dictionaries(keys, values(data_type.item_type), max_size=3).map(lambda row: list(row.items()))
    elif pa.types.is_struct(data_type):
        found = st.fixed_dictionaries({field.name: values(field.type) for field in data_type})
    else:
        found = {
            pa.int16(): st.integers(-(2**15), 2**15 - 1),
            pa.string(): st.text(max_size=3),
            pa.binary(): st.binary(max_size=3),
            pa.float32(): st.floats(width=32, allow_nan=False),
            pa.bool_(): st.booleans(),
            pa.date32(): st.dates(),
        }[data_type]
    return st.none() | found


@given(st.data(), TYPES, st.integers(0, 3))
def test_any_column_survives_the_way_through_json_text(data, data_type, cut):
    column = pa.array(data.draw(st.lists(values(data_type), max_size=5)), data_type)[cut:]
    read = from_json(json.loads(json.dumps(to_json(column), allow_nan=False)), data_type)
    read.validate(full=True)
    assert read.to_pylist() == column.to_pylist()


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("int", "1", "'1' is no int"),
        ("int", True, "True is no int"),
        ("int", 1.5, "1.5 is no int"),
        ("tinyint", 128, "128 is no tinyint"),
        ("bigint", 2**70, f"{2**70} is no bigint"),
        ("boolean", 0, "0 is no boolean"),
        ("double", "1.5", "'1.5' is no double"),
        ("double", True, "True is no double"),
        ("string", 1, "1 is no string"),
        ("binary", "a", "'a' is no binary"),
        ("date", "2013-02-30", "'2013-02-30' is no date"),
        ("timestamp", 0, "0 is no timestamp"),
        ("timestamp", "yesterday", "'yesterday' is no timestamp"),
        ("decimal(3,1)", "1.25", "'1.25' is no decimal(3,1)"),
        ("decimal(3,1)", 1.5, "1.5 is no decimal(3,1)"),
        ("decimal(38,0)", 10**38, f"'{10**38}' is no decimal(38,0)"),
        ("decimal(3,1)", 10**400, f"{repr(str(10**400))[:200]}… is no decimal(3,1)"),
        ("decimal(3,1)", "1e-999", "'1e-999' is no decimal(3,1)"),
        ("decimal(38,20)", 20667401858008302365, "'20667401858008302365' is no decimal(38,20)"),
        (
            "decimal(38,20)",
            "9.101009910000010900100000100999019909010901000910900019110010",
            "'9.101009910000010900100000100999019909010901000910900019110010' is no decimal(38,20)",
        ),
        ("decimal(38,20)", "9.9e19", "'9.9e19' is no decimal(38,20)"),
        ("decimal(3,1)", "1e999999999999", "'1e999999999999' is no decimal(3,1)"),
        ("double", parse_json("1e999"), '1E+999 is no double; to write it, use a text: "Infinity", "NaN"'),
        ("float", json.loads("NaN"), 'nan is no float; to write it, use a text: "Infinity", "NaN"'),
        ("double", "inf", "'inf' is no double"),
        ("date", "0000-01-01", "'0000-01-01' is no date"),
        ("timestamp", "0001-01-01T00:00:00+10:00", "'0001-01-01T00:00:00+10:00' is no timestamp"),
        ("array<int>", {"a": 1}, "{'a': 1} is no array<int>"),
        ("array<int>", [1, "x"], "'x' is no int"),
        ("array<array<int>>", [[], [1, "x"]], "'x' is no int"),
        ("struct<a:int>", {"b": 1}, "{'b': 1} is no struct<a:int>"),
        ("struct<a:int>", {"a": "x"}, "'x' is no int"),
        ("map<int,int>", [{"value": 1}], "the key of a map is null"),
        ("map<string,int>", {"a": 1, "b": "x"}, "'x' is no int"),
        ("map<int,int>", [{"key": 1, "value": 1}, {"key": 1, "value": 2}], "the key 1 is in a map twice"),
        ("map<int,int>", {"1": 1, "1.0": 2}, "the key 1 is in a map twice"),
        ("map<int,int>", {"x": 1}, "'x' is no int"),
        ("map<int,int>", ["ab"], "'ab' is no struct<key:int,value:int>"),
        ("map<int,int>", [[1, 2]], "[1, 2] is no struct<key:int,value:int>"),
        ("map<string,string>", [{"key": "a", "value": "b"}], "[{'key': 'a', 'value': 'b'}] is no map<string,string>"),
        ("map<string,string>", ["ab"], "['ab'] is no map<string,string>"),
        ("bigint", Decimal("9007199254740993.5"), "9007199254740993.5 is no bigint"),
        ("bigint", Decimal("1e30"), "1E+30 is no bigint"),
        ("bigint", Decimal("1e999999999999"), "1E+999999999999 is no bigint"),
        ("bigint", 2.0**60, f"{2.0**60} is no bigint"),
        ("int", Decimal("NaN"), "NaN is no int"),
        ("string", Decimal("1.5"), "1.5 is no string"),
        ("decimal(3,1)", Decimal("1.25"), "'1.25' is no decimal(3,1)"),
        ("decimal(3,1)", Decimal("NaN"), "'NaN' is no decimal(3,1)"),
        ("float", Decimal("1e39"), "1e+39 is no float"),
    ],
)
def test_wrong_json_value_is_found_with_its_row_and_cause(name, value, cause):
    good = from_json([None], arrow_type(name))
    assert good.to_pylist() == [None]
    with pytest.raises(BadValueError) as caught:
        from_json([None, None, value, None, value], arrow_type(name))
    assert (caught.value.row, caught.value.cause) == (2, cause)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("decimal(20,2)", "123456789012345678.91", Decimal("123456789012345678.91")),
        ("array<decimal(20,2)>", "[12345678901234567.89]", [Decimal("12345678901234567.89")]),
        ("decimal(38,0)", "1e37", Decimal(10**37)),
        ("decimal(38,37)", f"1.{'0' * 50}", Decimal(f"1.{'0' * 37}")),
        ("decimal(3,1)", "0e99", Decimal("0.0")),
        ("bigint", "9007199254740993.0", 2**53 + 1),
        ("bigint", "9.223372036854775807e18", 2**63 - 1),
        ("double", "0.1", 0.1),
        ("double", "1e-400", 0.0),
        ("float", "16777217", 2.0**24),
        ("map<date,int>", '{"2026-01-02": 3}', [(dt.date(2026, 1, 2), 3)]),
        ("map<double,int>", '{"NaN": null}', [("NaN", None)]),
        ("map<struct<row:int>,int>", '[{"key": {"row": 4}, "value": 5}]', [({"row": 4}, 5)]),
        ("map<int,int>", "{}", []),
        ("map<int,int>", "[]", []),
        ("array<map<int,int>>", '[{"1": 2}, [{"key": 3}], null]', [[(1, 2)], [(3, None)], None]),
        ("struct<a:float,b:int>", "{}", {"a": None, "b": None}),
    ],
)
def test_json_is_read_to_the_last_digit_in_every_form_of_its_type(name, text, value):
    (found,) = from_json([parse_json(text)], arrow_type(name)).to_pylist()
    assert repr(found).replace("nan", "'NaN'") == repr(value)


def test_exponent_that_no_decimal_has_is_refused():
    with pytest.raises(ValueError, match="the exponent of 1e99999999999999999999 is too large"):
        parse_json("[1e99999999999999999999]")


@pytest.mark.parametrize(
    ("name", "zone"), [("timestamp_ntz", ""), ("timestamp", ""), ("timestamp", "Z"), ("timestamp", "+00:00")]
)
@pytest.mark.parametrize("fraction", ["123456", "1234567", "123456999", "123456789012"])
def test_parts_of_a_microsecond_are_cut(name, zone, fraction):
    (found,) = from_json([f"2013-01-02T03:04:05.{fraction}{zone}"], arrow_type(name)).to_pylist()
    assert found.replace(tzinfo=None) == dt.datetime(2013, 1, 2, 3, 4, 5, 123_456)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("int", "517.0", 517),
        ("int", "+007", 7),
        ("double", "+.5", 0.5),
        ("double", "-inf", -math.inf),
        ("double", "Infinity", math.inf),
        ("decimal(4,1)", "1.5e2", Decimal("150.0")),
        ("decimal(4,1)", "000000000000000000000000000000000000000000001.5", Decimal("1.5")),
        ("boolean", "TRUE", True),
        ("double", "1e3", 1000.0),
        ("timestamp", "2013-01-02", dt.datetime(2013, 1, 2, tzinfo=dt.UTC)),
        ("timestamp", "2013-01-02 03:04:05", dt.datetime(2013, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
        ("timestamp", "2013-01-02T03:04:05+02:00", dt.datetime(2013, 1, 2, 1, 4, 5, tzinfo=dt.UTC)),
        ("timestamp_ntz", "2013-01-02", dt.datetime(2013, 1, 2)),
    ],
)
def test_other_ways_to_write_a_value_are_read(name, text, value):
    assert parse_text(pa.array([text]), arrow_type(name)).to_pylist() == [value]


@pytest.mark.parametrize("row", [0, 1, 63, 64, 99])
def test_first_wrong_text_of_a_column_is_found(row):
    text = [str(number) for number in range(100)]
    text[row] = "x"
    with pytest.raises(BadValueError) as caught:
        parse_text(pa.array([*text, "y"]), pa.int32())
    assert (caught.value.row, caught.value.cause) == (row, "'x' is no int")


@pytest.mark.parametrize(
    ("name", "text"), [("int", "1.5"), ("int", ""), ("array<int>", "[1"), ("binary", "%"), ("timestamp_ntz", "1Z")]
)
def test_wrong_text_is_refused(name, text):
    with pytest.raises(BadValueError, match=f"is no {name}"):
        parse_text(pa.array([text]), arrow_type(name))


@pytest.mark.parametrize("name", ["tinyint", "bigint", "float", "double", "decimal(10,2)"])
@pytest.mark.parametrize(
    "text",
    [
        "0x10",
        "0X1F",
        "1_000",
        "\uff11\uff12",
        " 1",
        "1 ",
        "1,5",
        "1d",
        "1f",
        "0x1p3",
        "1e999",
        "-1e999",
        "--1",
        "true",
        ".",
    ],
)
def test_what_only_some_readers_take_for_a_number_is_refused(name, text):
    with pytest.raises(BadValueError) as caught:
        parse_text(pa.array(["1", None, text, "x"]), arrow_type(name))
    assert (caught.value.row, caught.value.cause) == (2, f"{text!r} is no {name}")


def test_text_that_is_not_utf_8_is_refused_with_its_bytes():
    broken = pa.array([b"good", None, b"\xffA"]).cast(pa.string(), safe=False)
    with pytest.raises(BadValueError) as caught:
        valid_text(broken)
    assert (caught.value.row, caught.value.cause) == (2, "b'\\xffA' is no string")
    with pytest.raises(BadValueError, match="a text that is not UTF-8"):
        valid_text(pa.StructArray.from_arrays([broken], ["a"]))


def test_text_that_is_not_utf_8_in_an_older_log_is_shown_with_marks():
    broken = pa.array([b"good", None, b"\xffA"]).cast(pa.string(), safe=False)
    assert to_json(broken) == ["good", None, "\ufffdA"]
    assert to_json(pa.StructArray.from_arrays([broken], ["a"]))[2] == {"a": "\ufffdA"}
    assert to_json(pa.array([{"k": 1}] * 3, pa.map_(pa.string(), pa.int32()))) == [{"k": 1}] * 3
