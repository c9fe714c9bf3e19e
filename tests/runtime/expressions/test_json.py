"""`from_json` in tasks gives what Spark SQL gives: of JSON, of what is almost JSON, and of what is none."""

import json
import re

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.runtime.expressions.json.conversions import from_json, one_by_one
from headwater.runtime.expressions.kernels import Batch
from headwater.runtime.expressions.reading import node_of
from headwater.runtime.records.types import parse_columns
from headwater.tests.runtime.expressions.beside_spark import Asked, bits, compare, examples, listed

COLUMNS = [
    "v bigint, s string, d double, b boolean",
    "s string, xy int, `é` string",
    "o struct<a: int, s: string>, v tinyint",
    "a array<int>, h smallint, s string",
    "a array<struct<s: int, v: string>>, v int",
    "m decimal(10,2), n decimal(5,5), k decimal(20,0)",
    "o struct<v: string, a: array<string>>, a array<array<double>>",
]
SQL = [
    *(f"from_json(t, '{columns}')" for columns in COLUMNS),
    *("from_json(t, 'v bigint, s string').v", "from_json(t, 'v bigint, s string').s"),
    *("from_json(t, 'o struct<v: int>, s string').o.v", "coalesce(from_json(t, 'd double, v int').d, 0D) / 2"),
]
WORDS = [
    *("0", "-0", "1", "200", "255", "256", "-129", "32768", "2147483648", "9223372036854775807", "9223372036854775808"),
    *("1e5", "1E-3", "0.001", "-0.0", "0e0", "1.50", "-0.5", "12345678.5", "2.5e-7", "0.00001", "0.0012345"),
    *("1e309", "1e-400", "99999999.994", "99999999.995", "0.123456", "NaN", "Infinity", "-INF", "+INF", "+1", "01"),
    *("true", "false", "null", "[]", "{}", '""', '"x"', '"é"', '"😀"', '"a\\"b"', '"\\u00e9"', '"\\/"', '"\\n"'),
    *('"\\ud800"', '"\\udc00x"', '"\\ud83d\\ude00"', '"\\q"', '"\\u00G0"', '"\\u0000"', '"\u2028"', "'a'", "'a\"b'"),
    *('"NaN"', '"-INF"', '"1,000.5"', '".5"', '"+7"', '"{}"', "'\\''", "[1, 2.50]", '{"v":1.10}'),
]
STRAY = [*"{}[]:,\"'\\ \n019.eE+-tfnNIx/#_", "null", "NaN", "\\u", "😀", "\0", "\1", "tru", '"v":', '"s":', "}}", "]]"]
NAMES = ["v", "s", "d", "b", "o", "a", "h", "m", "n", "k", "xy", "é", "vs", ""]
EDGES = [
    *("", " \n", "null", "[]", '[{"v":1}]', "5", '"x"', "{", '{"v":1', '{"v":1}x', '{"v":1} {"v":2}', "\ufeff{}"),
    *("{v:1}", '{"V":1}', '{"\\u0076":7}', '{"v":1,}', '{,"v":1}', '{"v":1 2,"s":"y"}', '{"v":tru}', '{"v":nullx}'),
    *('{"s":"\\q,"v":5}', '{"v":5,"s":"\\q","d":1}', '{"v":5,"s":{"a":tru},"d":1}', '{"s":[1,tru],"v":5}'),
    *('{"a":[1,"x",{"v":9}],"v":5}', '{"o":{"a":"x","s":"y"},"v":7}', '{"v":5,"s":{"a":5.}}', '{"v":1,"v":"x"}'),
    *('{"s":{"a":01},"v":1}', '{"s":{"a":-x},"v":1}', '{"s":["a\1b"],"v":1}', '{"s":{"a":1]},"v":1}'),
    '{"s":' + "[" * 998 + "]" * 998 + "}",
    '{"s":' + "[" * 1000 + "]" * 1000 + ',"v":1}',
    '{"o":' + '{"o":' * 20_000 + "1" + "}" * 20_000 + "}",
    '{"v":' + "1" * 1001 + "}",
    '{"s":"' + "x" * 100_000 + '","v":2}',
]
EACH = [f'{{"{name}":{word}}}' for name in NAMES for word in WORDS]
IN_ARRAYS = [f'{{"a":[{word},{{"s":{word}}}],"o":{{"a":{word},"s":{word}}}}}' for word in WORDS]
BY_HAND = [*EDGES, *EACH, *IN_ARRAYS]

space = st.sampled_from(["", "", "", "", " ", "\n", "\t"])
numbers = st.integers(-300, 300).map(str) | st.floats(-1e15, 1e15).map(repr)
names = st.sampled_from(NAMES).flatmap(
    lambda name: st.sampled_from([json.dumps(name, ensure_ascii=False)] * 5 + [f"'{name}'", json.dumps(name)])
)


def _grown(values):
    entries = st.builds("{}{}:{}{}".format, names, space, space, values)
    return st.builds("[{}{}]".format, space, st.lists(values, max_size=3).map(", ".join)) | st.builds(
        "{{{}{}{}}}".format, space, st.lists(entries, max_size=4).map(",".join), space
    )


values = st.recursive(st.sampled_from(WORDS) | numbers, _grown, max_leaves=6)
objects = st.lists(st.builds("{}:{}{}".format, names, space, values), max_size=4).map(",".join).map("{{{}}}".format)


@st.composite
def spoiled(draw):
    """An object into which something was put that does not belong there, or of which something was taken."""
    text = draw(objects)
    at = draw(st.integers(0, len(text)))
    match draw(st.sampled_from("ptc")):
        case "p":
            return text[:at] + draw(st.sampled_from(STRAY)) + text[at:]
        case "t":
            return text[:at] + text[at + draw(st.integers(1, 3)) :]
    return text[:at]


def _java_differs(text):
    """Whether a text has a fraction whose digits Java 17 writes otherwise than later ones do.

    So it is with large ones, and with small ones of many digits: 2**-24 is 5.9604644775390625E-8 there, one digit more
    than it needs.
    """
    for number in re.findall(r"[0-9]+(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)", text):
        digits = len(repr(float(number)).partition("e")[0].replace(".", "").strip("0"))
        if 1e15 < float(number) < float("inf") or (0 < float(number) < 1e-3 and digits > 14):
            return True
    return False


texts = (objects | objects | spoiled() | values).filter(lambda text: not _java_differs(text))


def struct_of(columns):
    return pa.struct([pa.field(name, each) for name, each in parse_columns(columns).items()])


@pytest.mark.spark
def test_json_gives_what_spark_gives(spark_session):
    rows = [None, *BY_HAND, *examples(texts, settings.default.max_examples * 10)]
    table = pa.table({"t": pa.array(rows, pa.string()), "_ts": pa.array(range(1, len(rows) + 1), pa.int64())})

    proven = compare(Asked(spark_session), table, SQL)

    assert proven == SQL


@example(BY_HAND)
@given(st.lists(texts, max_size=40))
def test_texts_that_are_read_together_give_the_same_as_one_by_one(some):
    for columns in COLUMNS:
        array, data_type = pa.array(some, pa.string()), struct_of(columns)

        together = from_json(array, data_type)

        assert list(map(bits, listed(together))) == list(map(bits, listed(one_by_one(array, data_type))))


def test_texts_that_arrow_refuses_do_not_change_those_around_them():
    good = [f'{{"v":{number},"city":"x","a":[1]}}' for number in range(1000)]
    bad = {100: '{"v":1,"v":2}', 500: '{"v":5,"a":[1,"x"]}', 501: '{"v":7,"u":{"a":[}}', 900: '{"v":1},{"v":2}'}
    some = [bad.get(number, text) for number, text in enumerate(good)]

    found = from_json(pa.array(some), struct_of("v int, a array<int>")).to_pylist()

    assert [found[number] for number in bad] == [
        {"v": 2, "a": None},
        {"v": 5, "a": None},
        {"v": None, "a": None},
        {"v": 1, "a": None},
    ]
    assert [each for number, each in enumerate(found) if number not in bad] == [
        {"v": number, "a": [1]} for number in range(1000) if number not in bad
    ]


def test_an_object_over_two_texts_is_no_object():
    some = ['{"v":1,"u":{"w":[1}', '{"v":2}]}', '{"v":3}', '{"v":4} {"v":5}']

    found = from_json(pa.array(some), struct_of("v int")).field("v").to_pylist()

    assert found == [None, 2, 3, 4]


def test_a_text_that_is_no_json_gives_a_struct_and_a_blank_one_none():
    table = {"t": pa.array(["{", "null", " ", None])}
    node = node_of("from_json(t, 'v int')", {"t": pa.string()}, struct_of("v int"))

    assert node.of(Batch(table, 4)).data.to_pylist() == [{"v": None}, {"v": None}, None, None]
