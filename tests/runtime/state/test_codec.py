from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.runtime.state.codec import NO_TIMESTAMP, RowCodec

INT = st.integers
FIXED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): INT(-(2**7), 2**7 - 1),
    pa.int16(): INT(-(2**15), 2**15 - 1),
    pa.int32(): INT(-(2**31), 2**31 - 1),
    pa.int64(): INT(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(dt.UTC)),
    pa.timestamp("us"): st.datetimes(),
    pa.duration("us"): INT(-(10**15), 10**15).map(lambda us: dt.timedelta(microseconds=us)),
    pa.decimal128(38, 10): INT(-(10**38) + 1, 10**38 - 1).map(
        lambda unscaled: decimal.Decimal(unscaled).scaleb(-10, decimal.Context(prec=38))
    ),
}
LEAVES = FIXED | {pa.string(): st.text(max_size=5), pa.binary(): st.binary(max_size=5)}


def nested(depth: int) -> st.SearchStrategy[pa.DataType]:
    leaf = st.sampled_from(list(LEAVES))
    if depth == 0:
        return leaf
    inner = nested(depth - 1)
    return (
        leaf
        | inner.map(pa.list_)
        | st.builds(pa.map_, st.sampled_from([pa.string(), pa.int32()]), inner)
        | st.lists(inner, max_size=3).map(lambda kinds: pa.struct([(f"f{n}", kind) for n, kind in enumerate(kinds)]))
    )


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_map(kind):
        pairs = st.tuples(values(kind.key_type).filter(lambda key: key is not None), values(kind.item_type))
        return st.none() | st.lists(pairs, max_size=3)
    if pa.types.is_list(kind):
        return st.none() | st.lists(values(kind.value_type), max_size=3)
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    return st.none() | LEAVES[kind]


@st.composite
def rows(draw: st.DrawFn, kinds: st.SearchStrategy[pa.DataType]) -> tuple[list[pa.Array], np.ndarray]:
    columns = draw(st.lists(kinds, max_size=10))
    count, cut = draw(INT(0, 5)), draw(INT(0, 2))
    arrays = [pa.array([draw(values(kind)) for _ in range(count + cut)], kind)[cut:] for kind in columns]
    return arrays, np.array([draw(INT(-(2**63), 2**63 - 1)) for _ in range(count)], np.int64)


def codec_of(columns: list[pa.Array]) -> RowCodec:
    return RowCodec({f"c{number}": column.type for number, column in enumerate(columns)})


def assert_round_trip(columns: list[pa.Array], timestamps: np.ndarray) -> None:
    codec = codec_of(columns)
    encoded = codec.encode(columns, timestamps)
    decoded, times = codec.decode(encoded)
    for column in decoded:
        column.validate(full=True)
    assert decoded == columns
    assert times.tolist() == timestamps.tolist()
    assert codec.encode(decoded, times) == encoded


@settings(deadline=None)
@given(rows(st.sampled_from(list(FIXED))))
def test_fixed_rows_come_back_as_they_were(given_rows: tuple[list[pa.Array], np.ndarray]) -> None:
    assert_round_trip(*given_rows)


@settings(deadline=None)
@given(rows(nested(2)))
def test_any_rows_come_back_as_they_were(given_rows: tuple[list[pa.Array], np.ndarray]) -> None:
    assert_round_trip(*given_rows)


def test_fixed_layout_is_timestamp_null_bits_and_little_endian_values() -> None:
    columns = [pa.array([1, None], pa.int32()), pa.array([True, False]), pa.array([None, 2.5])]

    encoded = codec_of(columns).encode(columns, np.array([5, -1]))

    assert encoded == [struct.pack("<qBi?d", 5, 4, 1, True, 0), struct.pack("<qBi?d", -1, 1, 0, False, 2.5)]


def test_null_bits_of_the_ninth_column_are_in_a_second_byte() -> None:
    columns = [pa.array([None if number == 8 else 0], pa.int8()) for number in range(9)]

    assert codec_of(columns).encode(columns, np.array([0])) == [bytes(8) + b"\0\1" + bytes(9)]


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_missing_value_gives_nulls_and_no_timestamp(kind: pa.DataType) -> None:
    codec = RowCodec({"a": kind, "b": pa.bool_()})
    (value,) = codec.encode([pa.array([None], kind), pa.array([True])], np.array([7]))

    columns, timestamps = codec.decode([None, value, None])

    assert [column.to_pylist() for column in columns] == [[None] * 3, [None, True, None]]
    assert timestamps.tolist() == [NO_TIMESTAMP, 7, NO_TIMESTAMP]


@pytest.mark.parametrize("also", [pa.int64(), pa.string()])
def test_bits_of_a_double_are_kept(also: pa.DataType) -> None:
    odd = [math.nan, -0.0, math.inf, 5e-324]
    codec = RowCodec({"a": pa.float64(), "b": also})

    (column, _), _ = codec.decode(codec.encode([pa.array(odd), pa.nulls(4, also)], np.zeros(4, np.int64)))

    assert [struct.pack("d", value) for value in column.to_pylist()] == [struct.pack("d", value) for value in odd]


@pytest.mark.parametrize("kind", [pa.float16(), pa.time64("us"), pa.list_(pa.float16())])
def test_type_that_spark_has_not_is_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match=r"halffloat|time64"):
        RowCodec({"a": kind})
