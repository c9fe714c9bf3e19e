"""approx_count_distinct: near the true count, and the same in every order, in every cut and at every point."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.runtime.engine.execution.aggregates.distinct import ApproxCountDistinct
from headwater.runtime.engine.execution.keyed.groups import Groups
from headwater.runtime.ir.topology import Agg
from headwater.runtime.records.types import arrow_type

SMALLEST = (0.17,)
"""A deviation that keeps 64 hashes: a few hundred values fill and trim the sketch."""


def fold(values, of="bigint", *, options=(), each=False, state=None):
    """(results at the points, stored bytes) of one group."""
    function = ApproxCountDistinct.of(Agg("r", "approx_count_distinct", "x", of, options=options))
    code = np.zeros(len(values), np.int64)
    groups = Groups(code, 1, each, np.array([state is not None]))
    results, after = function.fold(groups, {"sketch": pa.array([state], pa.binary())}, pa.array(values, arrow_type(of)))
    return results.to_pylist(), after["sketch"][0].as_py()


def fold_cut(values, cuts, each, **how):
    """`fold` in pieces that end at `cuts`; a piece has a row at least, as groups have."""
    results, state = [], None
    ends = sorted({cut for cut in cuts if 0 < cut < len(values)} | {len(values)})
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        found, state = fold(values[start:end], each=each[number % len(each)], state=state, **how)
        results.append(found[-1])
    return results[-1], state


@given(
    distinct=st.integers(1, 500),
    repeats=st.integers(0, 100),
    seed=st.integers(0, 2**32),
    cuts=st.lists(st.integers(1, 600), max_size=12),
    each=st.lists(st.booleans(), min_size=1, max_size=5),
)
def test_any_order_in_any_cuts_gives_the_same_estimate_and_bytes(distinct, repeats, seed, cuts, each):
    rng = random.Random(seed)
    values = [rng.getrandbits(62) for _ in range(distinct)]
    (whole,), stored = fold(values, options=SMALLEST)
    shuffled = [*values, *rng.choices(values, k=repeats)]
    rng.shuffle(shuffled)
    assert fold_cut(shuffled, cuts, each, options=SMALLEST) == (whole, stored)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 400))
def test_running_estimate_is_that_of_the_rows_so_far(seed, size):
    rng = random.Random(seed)
    values = [rng.choice([None, rng.randrange(size)]) for _ in range(size)]
    running, _ = fold(values, options=SMALLEST, each=True)
    assert running == [fold(values[: end + 1], options=SMALLEST)[0][0] for end in range(size)]


@pytest.mark.parametrize("deviation", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("distinct", [1_000, 30_000])
def test_estimate_lies_within_three_deviations(distinct, deviation):
    for start in range(0, 10 * distinct, distinct):
        ((estimate,), _) = fold(list(range(start, start + distinct)), options=(deviation,))
        assert abs(estimate - distinct) <= 3 * deviation * distinct


@pytest.mark.parametrize("distinct", [0, 1, 10, 512])
def test_few_values_are_counted_exactly(distinct):
    values = [None, *range(distinct), *range(distinct)]
    assert fold(values)[0] == [distinct]
    assert fold(values, each=True)[0] == [0, *range(1, distinct + 1), *[distinct] * distinct]


def test_sketch_stays_small():
    assert len(fold(list(range(100_000)))[1]) < 8 * 512 + 64


@pytest.mark.parametrize("of", ["double", "float"])
@pytest.mark.parametrize("each", [True, False])
def test_nan_is_one_value_and_both_zeros_are_one(of, each):
    assert fold([0.0, -0.0, math.nan, -math.nan], of, each=each)[0][-1] == 2


@pytest.mark.parametrize(
    ("of", "values"),
    [
        ("string", ["", "a", "a\0", "ä", None]),
        ("binary", [b"", b"\0", b"\xff", b"\xc3\xa4", None]),
        ("boolean", [True, False, None]),
        ("struct<a:int,b:string>", [{"a": 1, "b": ""}, {"a": 1, "b": None}, {"a": None, "b": None}, None]),
        ("array<int>", [[], [1], [1, 1], [None], None]),
    ],
)
def test_all_values_but_null_count_whatever_their_type(of, values):
    assert fold(values * 2, of)[0] == [len(values) - 1]


def test_groups_do_not_share_values():
    function = ApproxCountDistinct.of(Agg("r", "approx_count_distinct", "x", "bigint"))
    for each in (True, False):
        groups = Groups(np.array([1, 0, 1, 2, 1]), 3, each, np.zeros(3, np.bool_))
        empty = {"sketch": pa.nulls(3, pa.binary())}
        results, after = function.fold(groups, empty, pa.array([7, 7, 8, None, 7]))
        assert results.to_pylist() == ([1, 1, 2, 0, 2] if each else [1, 2, 0])
        assert function.result(after).to_pylist() == [1, 2, 0]
