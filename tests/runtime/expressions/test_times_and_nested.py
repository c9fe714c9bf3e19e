"""Dates, timestamps, arrays, structs and maps are computed in the task as in Spark: of all numbers that they may have.

A date is any int of days and a timestamp any bigint of microseconds, far beyond the years that Python knows. Each form
is asked of Spark on its own and in others; the random examples of a run are of the same forms.
"""

import math
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from headwater.runtime.records.types import arrow_type
from headwater.tests.runtime.expressions.beside_spark import Asked, compare, examples

pytestmark = pytest.mark.spark

COLUMNS = {
    "day": "date",
    "day2": "date",
    "at": "timestamp",
    "at2": "timestamp",
    "i": "int",
    "i2": "int",
    "t": "tinyint",
    "l": "bigint",
    "s": "string",
    "flag": "boolean",
    "days": "array<date>",
    "r": "array<int>",
    "rl": "array<bigint>",
    "rd": "array<double>",
    "rs": "array<string>",
    "rr": "array<array<int>>",
    "st": "struct<x:int,In:struct<y:string,at:timestamp>>",
    "rst": "array<struct<x:int,y:string>>",
    "m": "map<string,int>",
    "mi": "map<int,string>",
}
DAY = 86_400_000_000
LAST_DAY, LAST = 2**31 - 1, 2**63 - 1

days = (
    st.sampled_from([0, -1, 1, 59, 60, 11016, 19782, 19783, 20088, -719162, -719163, -719528, 2932896, 2932897])
    | st.sampled_from([-141428, -141427, -25567, 106751990, 106751991, 106751992, -106751991, -106751992, -106751993])
    | st.sampled_from([-LAST_DAY - 1, -LAST_DAY, LAST_DAY, LAST_DAY - 31, LAST_DAY - 400, -LAST_DAY + 400])
    | st.integers(-800_000, 3_000_000)
    | st.integers(-LAST_DAY - 1, LAST_DAY)
)
times = (
    st.sampled_from([0, -1, 1, 999_999, -1_000_001, DAY - 1, -DAY, LAST, LAST - 1, -LAST - 1, -LAST, -LAST + DAY])
    | st.sampled_from([LAST - DAY, -LAST + 31 * DAY, -LAST + 366 * DAY, -LAST + 59_999_999, -LAST + 3_599_999_999])
    | st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
    | st.integers(-4_000_000_000_000_000, 4_000_000_000_000_000)
    | st.integers(-LAST - 1, LAST)
)
ints = st.sampled_from([0, 1, -1, 2, 3, 12, 29, 31, 2000, -(2**31), 2**31 - 1]) | st.integers(-15, 40)
longs = (
    st.sampled_from([0, 1, -1, LAST, -LAST - 1, LAST // 1000, LAST // 1000 + 1, -(2**63) // 1000, -(2**63) // 1000 + 1])
    | st.sampled_from([LAST // 1_000_000, LAST // 1_000_000 + 1, -(2**63) // 1_000_000, -(2**63) // 1_000_000 + 1])
    | st.integers(-LAST - 1, LAST)
    | st.integers(-(2**45), 2**45)
)
texts = st.sampled_from(["", "a", "b", "a,b", ",", ",,a", "é,😀", "x--y", "aXbX"]) | st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), max_size=5
)


def array(of):
    return st.lists(st.none() | of, max_size=4)


def map_of(keys, of):
    return st.dictionaries(keys, st.none() | of, max_size=3).map(lambda each: list(each.items()))


VALUES = {
    "date": days,
    "timestamp": times,
    "int": ints,
    "tinyint": st.integers(-128, 127),
    "bigint": longs,
    "string": texts,
    "boolean": st.booleans(),
    "array<date>": array(days),
    "array<int>": array(st.integers(-3, 3)),
    "array<bigint>": array(st.integers(-3, 3)),
    "array<double>": array(st.sampled_from([0.0, -0.0, math.nan, 1.5, math.inf])),
    "array<string>": array(st.sampled_from(["a", "b", "", "é"])),
    "array<array<int>>": array(array(st.integers(-3, 3))),
    "struct<x:int,In:struct<y:string,at:timestamp>>": st.fixed_dictionaries(
        {
            "x": st.none() | ints,
            "In": st.none() | st.fixed_dictionaries({"y": st.none() | texts, "at": st.none() | times}),
        }
    ),
    "array<struct<x:int,y:string>>": array(st.fixed_dictionaries({"x": st.none() | ints, "y": st.none() | texts})),
    "map<string,int>": map_of(st.sampled_from(["a", "b", "é"]), ints),
    "map<int,string>": map_of(st.integers(-2, 2), texts),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | VALUES[each] for name, each in COLUMNS.items()}), min_size=16, max_size=16
)

PARTS = ["year", "quarter", "month", "day", "dayofmonth", "dayofweek", "weekday", "dayofyear", "weekofyear"]
FIELDS = ["year", "qtr", "mon", "week", "day", "dow", "dayofweek_iso", "doy", "hour", "minute", "YEARS", "Mins"]
UNITS = ["year", "yyyy", "YY", "quarter", "month", "MM", "mon", "week", "day", "DD", "hour", "minute", "second"]
INTERVALS = ["3 microseconds", "-2 milliseconds", "'90' seconds", "7 minutes", "1 hour", "30 days", "1 day", "2 weeks"]
PATTERNS = ["yyyy-MM-dd", "yyyy/MM/dd HH:mm:ss", "HH:mm", "yyyyMMdd_HHmmss", "ss.SSS", "ss,SSSSSS", "yyyy", "MMdd"]
INTERVALS += ["1 month", "13 months", "-1 month", "4 years", "999999 hours"]
"""What is written where a `#` is."""


def each_of(template, values):
    return [template.replace("#", each) for each in values]


LEAVES = {
    "date": ["day", "day", "day2", "date '2024-02-29'", "days[0]"],
    "timestamp": ["at", "at", "at2", "timestamp_millis(_ts)", "timestamp '2013-05-31 23:59:59.5'", "st.In.at"],
    "int": ["i", "i2", "t", "1", "12", "st.x", "element_at(r, 1)"],
    "bigint": ["l", "_ts", "rl[0]"],
    "boolean": ["flag"],
    "string": ["s", "'a'", "st.In.y", "rs[1]", "split(s, ',')[0]", "rst[0].y", "mi[1]"],
    "array<int>": ["r", "rr[0]", "array(i, 2)", "map_values(m)"],
    "array<string>": ["rs", "split(s, ',')", "map_keys(m)", "array(s, 'x', null)"],
}
FORMS = {
    "date": [
        *each_of("#({date}, {int})", ["date_add", "dateadd", "date_sub", "add_months"]),
        "add_months({timestamp}, {int})",
        "trunc({timestamp}, 'month')",
        "last_day({date})",
        "last_day({timestamp})",
        "cast({timestamp} as date)",
        "to_date({timestamp})",
        "date_from_unix_date({int})",
        "make_date({int}, {int}, {int})",
        "make_date(i, month({date}), day({date}))",
        *each_of(
            "trunc({date}, '#')",
            [each for each in UNITS if each.lower() not in ("day", "dd", "hour", "minute", "second")],
        ),
        *each_of("{date} + interval #", ["1 day", "-3 weeks", "1 month", "-7 months", "4 years"]),
        *each_of("{date} - interval #", ["1 day", "1 week", "1 month"]),
        "if({date} < {date}, {date}, {date})",
        "coalesce({date}, {date})",
    ],
    "timestamp": [
        *each_of("date_trunc('#', {timestamp})", [*UNITS, "millisecond"]),
        *each_of("date_trunc('#', {date})", UNITS),
        *each_of("{timestamp} + interval #", INTERVALS),
        *each_of("{timestamp} - interval #", INTERVALS),
        "interval 1 hour + {timestamp}",
        "{date} + interval 5 hours",
        *each_of("timestamp_#({bigint})", ["seconds", "millis", "micros"]),
        *each_of("timestamp_#({int})", ["seconds", "millis", "micros"]),
        "cast({bigint} as timestamp)",
        "cast({int} as timestamp)",
        "if({timestamp} < {timestamp}, {timestamp}, null)",
    ],
    "int": [
        *each_of("#({date})", PARTS),
        *each_of("#({timestamp})", [*PARTS, "hour", "minute", "second"]),
        *each_of("extract(# from {timestamp})", FIELDS),
        *each_of("date_part('#', {date})", [each for each in FIELDS if each.lower() not in ("hour", "minute", "mins")]),
        "datepart('dow', {timestamp})",
        "datediff({date}, {date})",
        "date_diff({timestamp}, {date})",
        "unix_date({date})",
        *each_of("#(r)", ["size", "cardinality", "array_size"]),
        *each_of("#(m)", ["size", "cardinality"]),
        "size({array<string>})",
        "{array<int>}[0]",
        "{array<int>}[2]",
        "get({array<int>}, {int})",
        *each_of("element_at({array<int>}, #)", ["1", "2", "-1", "-3"]),
        *each_of("array_#({array<int>})", ["max", "min"]),
        *each_of("try_element_at({array<int>}, #)", ["1", "-2", "4"]),
        "m['a']",
        "m[{string}]",
        "element_at(m, 'b')",
        "try_element_at(m, {string})",
        "rst[0].x",
        "named_struct('q', {int}, 'w', i).q",
    ],
    "bigint": [
        *each_of("unix_#({timestamp})", ["seconds", "millis", "micros"]),
        *each_of("#({timestamp})", ["unix_timestamp", "to_unix_timestamp"]),
        "cast({timestamp} as bigint)",
        "({bigint} div 1000)",
    ],
    "double": ["cast({timestamp} as double)"],
    "boolean": [
        "({date} = {date})",
        "({date} >= date '2013-01-01')",
        "(cast({timestamp} as date) = date '2013-05-31')",
        "({timestamp} < {timestamp})",
        "({timestamp} >= timestamp '2013-05-31T00:00:00Z')",
        "({timestamp} between timestamp '1900-01-01 00:00:00' and timestamp '2013-05-31 00:00:00')",
        "({int} = {int})",
        "(year({date}) = 2013 or {boolean})",
        "({timestamp} > timestamp '1582-10-15')",
        "({bigint} > {int} and {boolean})",
        "({date} is null)",
        "({date} in (date '2013-01-01', date '1970-01-01'))",
        "array_contains({array<int>}, {int})",
        "array_contains(rl, 2)",
        "array_contains(rd, 0e0)",
        "array_contains(rd, rd[0])",
        "array_contains({array<string>}, {string})",
        "map_contains_key(m, {string})",
        "map_contains_key(mi, 1)",
        "(array_max(days) > {date})",
        "(array_min(array({timestamp}, at2)) > {timestamp})",
        "flag",
    ],
    "string": [
        *each_of("date_format({timestamp}, '#')", PATTERNS),
        "date_format({date}, 'dd.MM.yyyy')",
        "from_unixtime({bigint})",
        "from_unixtime({int}, 'yyyy-MM-dd HH')",
        *each_of("array_join({array<string>}, '#')", [",", "", "é "]),
        "cast({date} as string)",
        "cast({timestamp} as string)",
        "{array<string>}[1]",
        "mi[{int}]",
        "concat({string}, {string})",
        "split({string}, '--')[0]",
    ],
    "array<int>": [
        *each_of("slice({array<int>}, #)", ["1, 2", "2, 1", "-2, 2", "3, 0", "-4, 9", "5, 1"]),
        "array({int}, {int})",
        "array(i)",
        "rr[1]",
    ],
    "array<string>": ["split({string}, ',')", "split({string}, 'a')", "array({string}, null)"],
    "array<date>": ["array({date}, day)"],
    "array<bigint>": ["array({bigint}, {int})"],
    "struct<i:int,d:date>": [
        "struct(i, {date} as d)",
        "named_struct('i', {int}, 'd', day)",
        "if(day is null, null, named_struct('i', {int}, 'd', day))",
        "case when flag then struct(i, {date} as d) when i > 0 then struct(i2 as i, day as d) end",
    ],
    "struct<y:string,at:timestamp>": [
        "st.In",
        "if(st.In is null, named_struct('y', s, 'at', {timestamp}), st.In)",
        "if((at) is null, null, named_struct('y', s, 'at', at))",
    ],
}


@cache
def expressions(data_type, depth):
    """SQL of a type: forms, and in their places others."""
    leaves = st.sampled_from(LEAVES.get(data_type, ["null"]))
    if depth == 0 and data_type in LEAVES:
        return leaves
    forms = st.sampled_from(FORMS[data_type]).flatmap(lambda form: filled(form, depth - 1))
    return forms | leaves if data_type in LEAVES else forms


def filled(form, depth):
    """A form with something in each place `{type}`."""
    before, brace, rest = form.partition("{")
    if not brace:
        return st.just(form)
    name, _, after = rest.partition("}")
    return st.builds(
        lambda inner, behind: f"{before}{inner}{behind}", expressions(name, max(depth, 0)), filled(after, depth)
    )


def table_of(records):
    schema = pa.schema([*((name, arrow_type(each)) for name, each in COLUMNS.items()), ("_ts", pa.int64())])
    times_of = [1_600_000_000_123 + n for n in range(len(records))]
    return pa.Table.from_arrays(
        [
            *(pa.array([each[name] for each in records], schema.field(name).type) for name in COLUMNS),
            pa.array(times_of, pa.int64()),
        ],
        schema=schema,
    )


def together(lists):
    return [each for some in lists for each in some]


def test_each_form_gives_what_spark_gives(spark_session):
    leaves = {name: each[0] for name, each in LEAVES.items()}
    forms = [form.format(**leaves) for forms in FORMS.values() for form in forms]
    records = together(examples(ROWS, settings.default.max_examples // 6))

    assert compare(Asked(spark_session), table_of(records), forms) == forms


def test_forms_in_forms_give_what_spark_gives(spark_session):
    forms = st.sampled_from(list(FORMS)).flatmap(lambda each: expressions(each, 3))
    count = settings.default.max_examples // 4
    texts = together(examples(st.lists(forms, min_size=40, max_size=40), count))

    compare(Asked(spark_session), table_of(together(examples(ROWS, count))), texts)
