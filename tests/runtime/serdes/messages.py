"""Columns that Protobuf holds with all their values, for tests: without nulls in lists and maps, and lists in lists."""

import pyarrow as pa
from hypothesis import strategies as st

from headwater.tests.runtime.serdes.columns import SIMPLE

_MESSAGE = st.recursive(
    st.sampled_from(list(SIMPLE)),
    lambda inner: st.lists(inner, max_size=2).map(lambda kinds: pa.struct(list(zip("ab", kinds, strict=False)))),
    max_leaves=3,
)
TYPES = _MESSAGE | st.one_of(
    _MESSAGE.map(lambda item: pa.list_(pa.field("element", item))),
    _MESSAGE.map(lambda item: pa.map_(pa.string(), item)),
    _MESSAGE.map(lambda item: pa.map_(pa.int16(), item)),
)
KEY_TYPES = _MESSAGE.filter(lambda kind: not pa.types.is_struct(kind) or kind.num_fields > 0)


def _held(kind: pa.DataType, nullable: bool = True) -> st.SearchStrategy:
    """Values of a type, without the nulls that messages do not hold: whole lists and maps, and items of them."""
    if pa.types.is_list(kind):
        return st.lists(_held(kind.value_type, nullable=False), max_size=3)
    if pa.types.is_map(kind):
        keys = SIMPLE[kind.key_type]
        entries = st.dictionaries(keys, _held(kind.item_type, nullable=False), max_size=3)
        return entries.map(lambda row: sorted(row.items()))
    some = SIMPLE.get(kind)
    if some is None:
        some = st.fixed_dictionaries({field.name: _held(field.type) for field in kind})
    return st.none() | some if nullable else some


@st.composite
def message_batches(draw, types):
    """Record batches with columns of such types."""
    kinds = draw(st.lists(types, min_size=1, max_size=3))
    rows = draw(st.integers(0, 4))
    arrays = [pa.array(draw(st.lists(_held(kind), min_size=rows, max_size=rows)), kind) for kind in kinds]
    return pa.RecordBatch.from_arrays(arrays, [f"c{number}" for number in range(len(kinds))])
