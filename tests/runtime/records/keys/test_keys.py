import datetime as dt
import math
import struct
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.records.keys import (
    KeyFormatError,
    KeyTypeError,
    decode_keys,
    encode_keys,
    normal_key,
    partition_of,
)

DOCS = Path(__file__).parents[4] / "docs" / "internals" / "keys.md"
TIMESTAMP = pa.timestamp("us", "UTC")
NAN = math.nan
OTHER_NAN = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]


def integers(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def instants(zone):
    return st.datetimes(timezones=st.just(zone)) if zone else st.datetimes()


SCALARS = {
    pa.bool_(): st.booleans(),
    pa.int8(): integers(8),
    pa.int16(): integers(16),
    pa.int32(): integers(32),
    pa.int64(): integers(64),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=6) | st.text("\0\1a", max_size=4),
    pa.binary(): st.binary(max_size=6) | st.lists(st.sampled_from([0, 1, 255]), max_size=4).map(bytes),
    pa.date32(): st.dates(),
    TIMESTAMP: instants(dt.UTC),
    pa.timestamp("us"): instants(None),
    pa.decimal128(38, 2): st.decimals(-(10**35), 10**35, places=2),
}


def order(data_type, value):
    """A Python value that sorts as the SQL value does: nulls first, text by its bytes, -0.0 as 0.0."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, list):
        return (1, [order(data_type.value_type, item) for item in value])
    if isinstance(value, dict):
        return (1, [order(field.type, value[field.name]) for field in data_type])
    return (1, value)


@st.composite
def columns(draw, depth=1):
    """(types, rows): one to three key columns and some rows of values."""
    types = draw(st.lists(data_types(depth), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*(values(data_type) for data_type in types)), max_size=8))
    return types, rows


def data_types(depth):
    scalars = st.sampled_from(list(SCALARS))
    if depth == 0:
        return scalars
    inner = data_types(depth - 1)
    return (
        scalars
        | inner.map(pa.list_)
        | st.lists(inner, min_size=1, max_size=2).map(
            lambda found: pa.struct([(f"f{number}", data_type) for number, data_type in enumerate(found)])
        )
    )


def values(data_type):
    if pa.types.is_list(data_type):
        value = st.lists(values(data_type.value_type), max_size=3)
    elif pa.types.is_struct(data_type):
        value = st.fixed_dictionaries({field.name: values(field.type) for field in data_type})
    else:
        value = SCALARS[data_type]
    return st.none() | value


def arrays(types, rows):
    return [pa.array([row[at] for row in rows], data_type) for at, data_type in enumerate(types)]


def encode_one(value, data_type):
    return encode_keys([pa.array([value], data_type)])[0].as_py()


@given(columns())
def test_order_of_encoded_keys_is_order_of_values(case):
    types, rows = case
    ranks = [tuple(order(*pair) for pair in zip(types, row, strict=True)) for row in rows]
    encoded = [key or b"" for key in encode_keys(arrays(types, rows)).to_pylist()]
    for one in range(len(rows)):
        for other in range(len(rows)):
            assert (encoded[one] < encoded[other]) == (ranks[one] < ranks[other])
            assert (encoded[one] == encoded[other]) == (ranks[one] == ranks[other])


@given(columns(depth=2))
def test_encoded_keys_decoded_are_the_values(case):
    types, rows = case
    given_columns = arrays(types, rows)
    decoded = decode_keys(encode_keys(given_columns), types)
    assert [column.type for column in decoded] == types
    for column in decoded:
        column.validate(full=True)
    assert [column.to_pylist() for column in decoded] == [column.to_pylist() for column in given_columns]


@given(columns(), st.integers(0, 8))
def test_slice_of_columns_encodes_and_decodes_like_its_own_rows(case, cut):
    types, rows = case
    whole = encode_keys(arrays(types, rows))
    part = encode_keys([column[cut:] for column in arrays(types, rows)])
    assert part.to_pylist() == whole[cut:].to_pylist()
    assert [column.to_pylist() for column in decode_keys(whole[cut:], types)] == [
        column.to_pylist() for column in decode_keys(part, types)
    ]


def test_key_with_all_columns_null_is_null_and_with_some_is_not():
    keys = encode_keys([pa.array([None, 1, None], pa.int8()), pa.array([None, None, "a"])])
    assert keys.to_pylist() == [None, b"\x01\x81\x00", b"\x00\x01a\x00"]
    assert decode_keys(keys, [pa.int8(), pa.string()])[0].to_pylist() == [None, 1, None]


def test_null_struct_is_a_null_key_and_struct_of_nulls_is_not():
    data_type = pa.struct({"a": pa.int8()})
    keys = encode_keys([pa.array([None, {"a": None}], data_type)])
    assert keys.to_pylist() == [None, b"\x01\x00"]


@pytest.mark.parametrize(("data_type", "form"), [(pa.float32(), ">I"), (pa.float64(), ">Q")])
def test_floats_equal_in_sql_have_equal_bytes(data_type, form):
    assert encode_one(-0.0, data_type) == encode_one(0.0, data_type)
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
    nans = pa.array(np.array([math.nan, other_nan]).astype(data_type.to_pandas_dtype()))
    one, other = encode_keys([nans]).to_pylist()
    assert one == other > encode_one(math.inf, data_type)
    assert math.isnan(decode_keys(pa.array([one]), [data_type])[0][0].as_py())
    assert math.copysign(1, decode_keys(pa.array([encode_one(-0.0, data_type)]), [data_type])[0][0].as_py()) == 1


GOLDEN = [
    ("boolean", pa.bool_(), True, "01 01"),
    ("tinyint", pa.int8(), -1, "01 7f"),
    ("smallint", pa.int16(), 258, "01 8102"),
    ("int", pa.int32(), -2, "01 7ffffffe"),
    ("bigint", pa.int64(), 1, "01 8000000000000001"),
    ("float", pa.float32(), 1.5, "01 bfc00000"),
    ("float", pa.float32(), -1.5, "01 403fffff"),
    ("double", pa.float64(), 0.0, "01 8000000000000000"),
    ("double", pa.float64(), -2.0, "01 3fffffffffffffff"),
    ("double", pa.float64(), math.nan, "01 fff8000000000000"),
    ("string", pa.string(), "AA", "01 4141 00"),
    ("string", pa.string(), "", "01 00"),
    ("string", pa.string(), "a\0b", "01 6100ff62 00"),
    ("binary", pa.binary(), b"\xff", "01 ff 00"),
    ("date", pa.date32(), dt.date(1970, 1, 2), "01 80000001"),
    ("timestamp", TIMESTAMP, dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), "01 80000000000f4240"),
    ("decimal(5,2)", pa.decimal128(5, 2), Decimal("-0.01"), "01 7fffffffffffffffffffffffffffffff"),
    ("array<tinyint>", pa.list_(pa.int8()), [1, None], "01 01 0181 01 00 00"),
    ("array<tinyint>", pa.list_(pa.int8()), [], "01 00"),
    ("struct<a:tinyint,b:string>", pa.struct({"a": pa.int8(), "b": pa.string()}), {"a": 1, "b": "x"}, "01 0181 017800"),
]


@pytest.mark.parametrize(("data_type", "value", "written"), [case[1:] for case in GOLDEN])
def test_golden_value_has_the_documented_bytes(data_type, value, written):
    assert encode_one(value, data_type).hex() == written.replace(" ", "")


@pytest.mark.parametrize(("name", "written"), [(case[0], case[3]) for case in GOLDEN])
def test_golden_value_is_in_the_table_of_the_docs(name, written):
    rows = [line.strip("| ").split(" | ") for line in DOCS.read_text(encoding="utf-8").splitlines()]
    assert [f"`{name}`", f"`{written}`"] in [[row[0], row[-1]] for row in rows]


@pytest.mark.parametrize("data_type", [pa.map_(pa.string(), pa.int32()), pa.list_(pa.map_(pa.string(), pa.int32()))])
def test_map_in_a_key_is_refused(data_type):
    with pytest.raises(KeyTypeError):
        encode_keys([pa.array([None], data_type)])


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x01\x80", b"\x01\x80\x00\x00\x01\x00", b"\x01\x80\x00\x00\x01x"])
def test_bytes_that_are_no_key_of_the_types_are_refused(data):
    with pytest.raises(KeyFormatError):
        decode_keys(pa.array([data]), [pa.int32()])
    with pytest.raises(KeyFormatError):
        decode_keys(pa.array([data]), [pa.string(), pa.int16()])


def test_partition_is_positive_hash_modulo_partitions_and_null_key_has_none():
    # murmur2 of these bytes as Kafka computes it: 479470107 and -790332482.
    keys = pa.array([b"abc", None, b"foobar"])
    assert partition_of(keys, 7).tolist() == [479470107 % 7, -1, (-790332482 & 0x7FFFFFFF) % 7]
    assert partition_of(keys[2:], 7).tolist() == [(-790332482 & 0x7FFFFFFF) % 7]


def test_no_keys_have_no_partitions():
    assert partition_of(pa.array([], pa.binary()), 3).tolist() == []
    assert [column.to_pylist() for column in decode_keys(pa.array([], pa.binary()), [pa.string(), pa.int8()])] == [
        [],
        [],
    ]


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([0.0, -0.0, NAN, OTHER_NAN, -1.5, None], pa.float64()),
        ([0.0, -0.0, NAN, OTHER_NAN, -1.5, None], pa.float32()),
        ([[0.0, -0.0, None], None, [], [OTHER_NAN]], pa.list_(pa.float64())),
        (
            [{"a": -0.0, "b": [-0.0]}, None, {"a": None, "b": None}],
            pa.struct({"a": pa.float32(), "b": pa.list_(pa.float64())}),
        ),
    ],
)
@pytest.mark.parametrize("skipped", [0, 1])
def test_normal_key_is_what_its_bytes_decode_to(values, data_type, skipped):
    column = pa.array(values, data_type)[skipped:]
    (decoded,) = decode_keys(encode_keys([column]), [data_type])
    found = normal_key(column)
    assert found.type == data_type
    assert repr(found.to_pylist()) == repr(decoded.to_pylist())
    assert flat_bytes(found) == flat_bytes(decoded)


def flat_bytes(column):
    """The values that are not null, bit by bit."""
    if pa.types.is_nested(column.type):
        children = column.flatten() if pa.types.is_struct(column.type) else [column.flatten()]
        return [flat_bytes(child) for child in children]
    return column.drop_null().to_numpy().tobytes()
