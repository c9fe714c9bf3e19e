"""The serde `json`: both ways of reading agree, values have the JSON form of records, and errors say what is wrong."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.records.record_json import to_json
from headwater.runtime.records.types import parse_columns
from headwater.runtime.serdes.json import JsonDeserializer, JsonSerde
from headwater.runtime.serdes.json_texts import json_texts
from headwater.runtime.serdes.serde import Direction, PayloadSpec, Role
from headwater.tests.runtime.serdes.columns import SIMPLE, TYPES, shown, structs, values


def spec_of(columns, role=Role.VALUE):
    return PayloadSpec("topic", role, parse_columns(columns))


def read(columns, *payloads, role=Role.VALUE):
    return JsonSerde().deserializer(spec_of(columns, role)).read(pa.array(payloads, pa.binary()))


def write(columns, rows, role=Role.VALUE):
    spec = spec_of(columns, role)
    batch = pa.RecordBatch.from_pylist(rows, spec.schema)
    return JsonSerde().serializer(spec).write(batch, np.zeros(len(rows), np.bool_))


# The two ways of reading.

# fmt: off
NUMBERS = [
    "1", "0", "-1", "1.0", "-0", "-0.0", "-0e5", "1e5", "1E+2", "1e-7", "1e400", "1e-400", "1e99999", "1e-99999",
    "NaN", "Infinity", "-Infinity", "Inf", "-Inf", "nan", "01", "+1", "0x1", "1.", ".5", "1_0", f"1e-{'9' * 23}",
    "127", "128", "32768", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "3.4028236e38", "3.5e38", "16777217", "0.1", "1.000000059604644775391", "9" * 400, "9" * 5000,
    "1e37", "1.5e37", f"{'9' * 38}.5", f"0.{'0' * 50}5", f"1.5{'0' * 40}", "1000", "9000009001",
    "9110100109901090199019090009100911110", "9.900990900e+19", "1100919010019009e19",
]
TEXTS = [
    '""', '"x"', '"é😀"', '"\\u0000"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00"', '"\\/"', '"\\n"', '"\\x"',
    '"\x7f"', '"\x01"', '"\u2028"', '"NaN"', '"Infinity"', '"-Infinity"', '"nan"', '"x, NaN"', '"-0,"', '"Inf"',
    '"\\u12"', '"1"', '"1.5"', '"1e2"', '" 1"', '"5."', '"0x10"', '"AP8="', '"AP8"', f'"{"9" * 50}"', "tru", "'x'",
    "/**/1", '"2013-01-02"', '"2013-01-02T03:04:05.123456789Z"',
    '"2013-01-02 03:04:05+10:00"', '"0001-01-01T00:00:00+10:00"',
]
# fmt: on
SPACE = st.sampled_from(["", "", "", " ", "\n", "\t \r", "\x00", "\xa0", "\ufeff"])
NAMES = st.sampled_from(['"a"', '"b"', '"c0"', '"c1"', '"other"', '"\\u0061"', '""', "a", '"c0'])


def objects(value):
    field = st.tuples(SPACE, NAMES, SPACE, value).map(lambda parts: "{}{}{}:{}".format(*parts))
    end = st.sampled_from(["}", "}", "}", ",}", "", "}}", "} ", "}{}", "},{}"])
    return st.tuples(st.lists(field, max_size=3).map(",".join), end).map("{{{0[0]}{0[1]}".format)


def arrays(value):
    return st.lists(value, max_size=3).map(lambda items: f"[{','.join(items)}]")


ANY_JSON = st.recursive(
    st.sampled_from([*NUMBERS, *TEXTS, "true", "false", "null"]),
    lambda inner: objects(inner) | arrays(inner),
    max_leaves=4,
)
ODD = [b"", b" ", b"null", b"[]", b"{}", b"{", b"}", b"{}{}", b"{}\n{}", b"\xff", b'{"c0":"\xff"}', b"1", b'"{}"']
DEEP = [b'{"other":' + b"[" * depth + b"]" * depth + b"}" for depth in (400, 100_000)]


@st.composite
def columns_and_payloads(draw):
    """Columns, and payloads of them: well written ones, with values of other types, and what is no JSON."""
    kinds = draw(st.lists(TYPES | structs(TYPES), min_size=1, max_size=2))
    names = [f"c{number}" for number in range(len(kinds))]
    written = st.tuples(
        *(values(kind).map(lambda value, to=kind: json_texts(pa.array([value], to))[0].as_py()) for kind in kinds)
    )
    any_values = st.lists(ANY_JSON, min_size=len(kinds), max_size=len(kinds))
    fields = (written | any_values).map(
        lambda texts: ",".join(f'"{name}":{text}' for name, text in zip(names, texts, strict=True))
    )
    payload = fields.map(lambda text: f"{{{text}}}".encode(errors="surrogatepass")) | objects(ANY_JSON).map(str.encode)
    payloads = draw(st.lists(payload | st.sampled_from(ODD + DEEP) | st.none(), max_size=6))
    return dict(zip(names, kinds, strict=True)), payloads


def one_by_one(deserializer: JsonDeserializer, payload: bytes):
    try:
        texts = pa.array([payload.decode()])
    except UnicodeDecodeError:
        return None
    columns, errors = deserializer.read_one_by_one(texts)
    return errors.get(0) or repr([column.to_pylist() for column in columns])


def row_of(decoded, row):
    return decoded.errors.get(row) or repr([column[row : row + 1].to_pylist() for column in decoded.columns.columns])


@given(columns_and_payloads())
def test_arrow_reads_what_python_reads(case):
    columns, payloads = case
    deserializer = JsonDeserializer(PayloadSpec("topic", Role.VALUE, columns))

    together = deserializer.read(pa.array(payloads, pa.binary()))

    for row, payload in enumerate(payloads):
        if payload is not None and (expected := one_by_one(deserializer, payload)) is not None:
            assert row_of(together, row) == expected


@pytest.mark.parametrize("data_type", SIMPLE, ids=str)
def test_arrow_reads_each_spelling_as_python_does(data_type):
    columns = {"c0": data_type, "c1": pa.list_(data_type), "c2": pa.struct([("a", data_type)])}
    deserializer = JsonDeserializer(PayloadSpec("topic", Role.VALUE, columns))
    for value in [*NUMBERS, *TEXTS, "true", "null", "{}", "[]"]:
        fields = [f'"c0":{value}', f'"c1":[{value}]', f'"c2":{{"a":{value}}}', f'"other":{value}']
        payloads = [f"{{{field}}}".encode() for field in fields]

        together = deserializer.read(pa.array(payloads, pa.binary()))

        found = [row_of(together, row) for row in range(len(payloads))]
        assert found == [one_by_one(deserializer, payload) for payload in payloads]


DIGITS = r"-?[0-9]{1,45}(\.[0-9]{0,45})?([eE][+-]?[0-9]{1,3})?"


@given(st.sampled_from([(3, 0), (10, 2), (38, 0), (38, 20), (38, 38)]), st.from_regex(DIGITS, fullmatch=True))
def test_arrow_reads_no_decimal_with_other_digits(size, digits):
    """Its reader alone would: it overflows silently, and does not look at the precision."""
    columns = {"c0": pa.decimal128(*size)}
    deserializer = JsonDeserializer(PayloadSpec("topic", Role.VALUE, columns))
    for payload in (f'{{"c0":{digits}}}', f'{{"c0":"{digits}"}}'):
        found = deserializer.read(pa.array([payload.encode()], pa.binary()))
        assert row_of(found, 0) == one_by_one(deserializer, payload.encode())


@pytest.mark.parametrize(
    "payloads",
    [
        [b'{"a":1}{"a":2}', b""],
        [b'{"a":1}{"a":2}', b" "],
        [b'{"a":', b"1}"],
        [b'{"b":', b'{"a":1}}', b'{"a":2}{"a":3}'],
        [b"\xef\xbb\xbf" + b'{"a":1}', b'{"a":2}'],
        [b'{"a":1}', b"\n\n", b'{"a":2}\n{"a":3}'],
    ],
)
def test_payloads_that_are_no_object_alone_are_none_together(payloads):
    deserializer = JsonDeserializer(spec_of("a int"))

    together = deserializer.read(pa.array(payloads * 20, pa.binary()))

    assert [row_of(together, row) for row in range(len(payloads))] == [
        one_by_one(deserializer, one) for one in payloads
    ]


# Values.


@given(st.data(), TYPES)
def test_texts_are_the_values_of_the_record_form(data, data_type):
    column = pa.array(data.draw(st.lists(values(data_type), max_size=5)), data_type)[1:]

    texts = json_texts(column)

    # `float` as doubles with the shortest digits, and text for what JSON has no number for.
    assert [repr(json.loads(text)) for text in texts.to_pylist()] == [repr(value) for value in to_json(column)]


@pytest.mark.parametrize(
    ("columns", "row", "written"),
    [
        ("a int, b string", {"a": 1, "b": None}, '{"a":1,"b":null}'),
        ("a double, b float", {"a": 1.0, "b": 0.5}, '{"a":1.0,"b":0.5}'),
        ("a double, b double", {"a": math.nan, "b": -math.inf}, '{"a":"NaN","b":"-Infinity"}'),
        ("a double, b double", {"a": -0.0, "b": 1e20}, '{"a":-0.0,"b":1e+20}'),
        ('`a"b` string', {'a"b': 'x"\n\\\x01é'}, '{"a\\"b":"x\\"\\n\\\\\\u0001é"}'),
        ("a decimal(38,10)", {"a": 0}, '{"a":"0.0000000000"}'),
        ("a struct<>, b map<int,boolean>", {"a": {}, "b": [(1, True)]}, '{"a":{},"b":[{"key":1,"value":true}]}'),
    ],
)
def test_payload_is_one_object_without_blanks(columns, row, written):
    assert write(columns, [row]).payloads.to_pylist() == [written.encode()]
    assert read(columns, written.encode()).errors == {}


def test_float_has_the_shortest_digits():
    assert write("a float", [{"a": 0.1}]).payloads.to_pylist() == [b'{"a":0.1}']


def test_key_of_one_column_is_an_object_and_equal_keys_are_equal_bytes():
    assert write("a double", [{"a": 0.0}, {"a": -0.0}], Role.KEY).payloads.to_pylist() == [b'{"a":0.0}'] * 2
    assert write("a double", [{"a": -0.0}]).payloads.to_pylist() == [b'{"a":-0.0}']


def test_fields_that_are_not_declared_are_ignored_and_missing_ones_are_null():
    found = read("a int, b struct<c:int>", b'{"x":{"a":"y"},"a":1,"b":{"d":1,"d":2}}', b'{"x":NaN}', b"{}")

    assert found.errors == {}
    assert found.columns.to_pylist() == [{"a": 1, "b": {"c": None}}, *[{"a": None, "b": None}] * 2]


@pytest.mark.parametrize(
    ("columns", "payload", "error"),
    [
        ("a int", b"", "no JSON: Expecting value: line 1 column 1 (char 0)"),
        ("a int", b'{"a":1', "no JSON: Expecting ',' delimiter: line 1 column 7 (char 6)"),
        ("a int", b'{"a":"1"}', "column a: '1' is no int"),
        ("a int", b'{"a":2147483648}', "column a: 2147483648 is no int"),
        ("a int, b int", b'{"a":"x","b":"y"}', "column a: 'x' is no int"),
        ("a string", b'{"a":1}', "column a: 1 is no string"),
        ("a string", b'{"a":"\\ud800"}', "column a: '\\ud800' is no string"),
        ("a double", b'{"a":NaN}', 'column a: nan is no double; to write it, use a text: "Infinity", "NaN"'),
        ("a int", b'{"a":1,"a":2}', "an object has the name 'a' more than once"),
        ("a int", b"[1]", "[1] is no object"),
        ("a int", b"null", "null is no object; a tombstone has no payload"),
        ("a int", b'{"a":{"b":[{}]}}', "column a: {'b': [{}]} is no int"),
        ("a string", b'{"a":"\xff"}', "the byte 0xff at position 7 is not UTF-8"),
        ("a timestamp", b'{"a":1357041600000}', "column a: 1357041600000 is no timestamp"),
    ],
)
def test_bad_payload_is_explained(columns, payload, error):
    found = read(columns, b"{}", payload, None)

    assert found.errors == {1: error}
    assert {tuple(row.values()) for row in found.columns.to_pylist()} == {(None,) * found.columns.num_columns}


def test_many_bad_payloads_among_good_ones_are_the_only_errors():
    payloads = [b'{"a":"x"}' if row % 3 == 1 else b'{"a":%d}' % row for row in range(2000)]

    found = read("a int", *payloads)

    assert found.errors == dict.fromkeys(range(1, 2000, 3), "column a: 'x' is no int")
    assert found.columns.column(0).to_pylist() == [None if row % 3 == 1 else row for row in range(2000)]


def test_json_that_is_nested_too_deeply_is_an_error_wherever_it_stands():
    deep = b'{"other":' + b"[" * 100_000 + b"]" * 100_000 + b"}"

    found = read("a int", b'{"a":1}', deep)

    assert list(found.errors) == [1]
    assert found.columns.to_pylist() == [{"a": 1}, {"a": None}]


def test_window_bounds_that_are_no_times_are_errors():
    columns = "a int, window_start timestamp, window_end timestamp"

    found = read(
        columns,
        b'{"a":1,"window_start":0,"window_end":5}',
        b'{"a":1,"window_start":9000000000000000000}',
        b'{"a":1,"window_start":"2013-01-02"}',
        role=Role.KEY,
    )

    assert found.errors == {
        1: "column window_start: 9000000000000000000 is no time in milliseconds",
        2: "column window_start: '2013-01-02' is no bigint",
    }


def test_value_that_json_cannot_hold_is_an_error_of_its_row():
    spec = spec_of("a int, b struct<c:timestamp,d:string>")
    years = pa.array([0, 2**61, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    texts = pa.array([b"x", b"x", b"\xff"], pa.binary()).view(pa.string())
    inner = pa.StructArray.from_arrays([years, texts], fields=list(spec.columns["b"]))
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3], pa.int32()), inner], schema=spec.schema)

    written = JsonSerde().serializer(spec).write(batch, np.zeros(3, np.bool_))
    gone = JsonSerde().serializer(spec).write(batch, np.ones(3, np.bool_))

    assert written.errors == {
        1: "column b: a time outside of the years 1 to 9999 is no timestamp",
        2: "column b: b'\\xff' is no string",
    }
    assert written.payloads.to_pylist() == [b'{"a":1,"b":{"c":"1970-01-01T00:00:00Z","d":"x"}}', None, None]
    assert (gone.errors, gone.payloads.null_count) == ({}, 3)


def test_topic_without_columns_has_empty_objects():
    spec = PayloadSpec("topic", Role.VALUE, {})
    batch = pa.RecordBatch.from_arrays([pa.nulls(2)], ["x"]).select([])

    written = JsonSerde().serializer(spec).write(batch, np.array([False, True]))
    found = JsonSerde().deserializer(spec).read(pa.array([b'{"a":1}', None, b"x"], pa.binary()))

    assert written.payloads.to_pylist() == [b"{}", None]
    assert (found.columns.num_rows, list(found.errors)) == (3, [2])


def test_column_without_values_is_a_problem():
    (problem,) = JsonSerde().check(spec_of("a int, b void"), Direction.READ)

    assert (problem.column, problem.message) == ("b", "the format json has no value of type void; declare another type")


def test_shown_rows_tell_zeros_apart():
    assert shown(pa.record_batch({"a": [0.0]})) != shown(pa.record_batch({"a": [-0.0]}))
