"""Columns of any type with any values, for tests of serdes."""

import datetime as dt
from decimal import Context

import pyarrow as pa
from hypothesis import strategies as st

from headwater.runtime.records.types import TIMESTAMP

EARLIEST, LATEST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)

SIMPLE = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.decimal128(38, 20): st.decimals(-(10**17), 10**17, places=20),
    pa.decimal128(10, 2): st.decimals(-(10**7), 10**7, places=2),
    pa.decimal128(3, 0): st.integers(-999, 999).map(Context(prec=3).create_decimal),
    pa.string(): st.text(max_size=4),
    pa.binary(): st.binary(max_size=4),
    pa.date32(): st.dates(),
    TIMESTAMP: st.datetimes(EARLIEST, LATEST, timezones=st.just(dt.UTC)),
    pa.timestamp("us"): st.datetimes(EARLIEST, LATEST),
}


def structs(inner, fewest=0):
    return st.lists(inner, min_size=fewest, max_size=2).map(
        lambda kinds: pa.struct(list(zip("ab", kinds, strict=False)))
    )


KEY_TYPES = st.recursive(
    st.sampled_from(list(SIMPLE)),
    lambda inner: inner.map(lambda item: pa.list_(pa.field("element", item))) | structs(inner, 1),
    max_leaves=3,
)
"""Types without maps and structs without fields, which keys cannot have."""

TYPES = st.recursive(
    st.sampled_from(list(SIMPLE)),
    lambda inner: (
        inner.map(lambda item: pa.list_(pa.field("element", item)))
        | inner.map(lambda item: pa.map_(pa.string(), item))
        | inner.map(lambda item: pa.map_(pa.int16(), item))
        | structs(inner)
    ),
    max_leaves=3,
)


AVRO_TYPES = st.recursive(
    st.sampled_from(list(SIMPLE)),
    lambda inner: (
        inner.map(lambda item: pa.list_(pa.field("element", item)))
        | inner.map(lambda item: pa.map_(pa.string(), item))
        | structs(inner)
    ),
    max_leaves=4,
)
"""Types that Avro has: all but maps with other keys than texts."""


def values(data_type):
    """Values of a type, and None."""
    if pa.types.is_list(data_type):
        some = st.lists(values(data_type.value_type), max_size=3)
    elif pa.types.is_map(data_type):
        keys = SIMPLE[data_type.key_type]
        some = st.dictionaries(keys, values(data_type.item_type), max_size=3).map(lambda row: list(row.items()))
    elif pa.types.is_struct(data_type):
        some = st.fixed_dictionaries({field.name: values(field.type) for field in data_type})
    else:
        some = SIMPLE[data_type]
    return st.none() | some


@st.composite
def batches(draw, types, most_columns=3, most_rows=5):
    """Record batches with columns of such types; they may be slices."""
    kinds = draw(st.lists(types, min_size=1, max_size=most_columns))
    rows = draw(st.integers(0, most_rows))
    arrays = [pa.array(draw(st.lists(values(kind), min_size=rows, max_size=rows)), kind) for kind in kinds]
    batch = pa.RecordBatch.from_arrays(arrays, names=[f"c{number}" for number in range(len(kinds))])
    return batch[draw(st.integers(0, rows)) :]


def shown(batch):
    """The rows, comparable: NaN equals NaN, and -0.0 does not equal 0.0."""
    return repr(batch.to_pylist())


def flags(rows):
    return st.lists(st.booleans(), min_size=rows, max_size=rows)
