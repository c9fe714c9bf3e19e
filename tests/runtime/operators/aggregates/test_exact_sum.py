"""Sums of doubles against Python's fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.aggregates.exact_sum import STATE, fold_sums, stored_sums
from headwater.runtime.engine.execution.keyed.groups import Groups

KINDS = {
    "integers": lambda rng: float(rng.randrange(-1000, 1000)),
    "prices": lambda rng: round(rng.uniform(-100, 100), 2),
    "all magnitudes": lambda rng: rng.uniform(-1, 1) * 10.0 ** rng.randrange(-300, 300),
    "subnormals": lambda rng: rng.choice([5e-324, -5e-324, 2.2e-308, 1e-310, -1e-320]),
    "largest": lambda rng: rng.choice([1e308, -1e308, 1.7976931348623157e308]),
    "cancelling": lambda rng: rng.choice([0.0, -0.0, 1.0, 2**-60, 1e20, -1e20]),
    "one word and a bit": lambda rng: rng.choice([2.0**63, -(2.0**63), 2.0**127, -(2.0**127), 1.0, -1.0]),
}


def nothing(groups):
    return {name: pa.nulls(groups, kind) for name, kind in STATE.items()}


def folded(state, code, values, groups, each=False, sign=None):
    everywhere = np.ones(len(values), np.bool_)
    exists = np.ones(groups, np.bool_)
    return fold_sums(Groups(code, groups, each, exists, sign), state, values, everywhere)


def nearest(values):
    exact = sum(map(Fraction, values), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def sample(seed, kinds):
    rng = random.Random(seed)
    values = np.array([KINDS[rng.choice(kinds)](rng) for _ in range(rng.randrange(1, 60))])
    return rng, values, np.array([rng.randrange(3) for _ in values])


@pytest.mark.parametrize("kinds", [[kind] for kind in KINDS] + [list(KINDS)])
def test_each_running_sum_is_the_nearest_double(kinds):
    for seed in range(40):
        _, values, code = sample(seed, kinds)
        sums = folded(nothing(3), code, values, 3, each=True).rounded()
        for row in range(len(values)):
            assert sums[row] == nearest(values[: row + 1][code[: row + 1] == code[row]])


@pytest.mark.parametrize("kinds", [[kind] for kind in KINDS] + [list(KINDS)])
def test_any_cut_and_order_gives_the_same_bytes(kinds):
    for seed in range(40):
        rng, values, code = sample(seed, kinds)
        whole = folded(nothing(3), code, values, 3).pack()
        order = np.array(rng.sample(range(len(values)), len(values)))
        state = nothing(3)
        for piece in np.array_split(order, rng.randrange(1, 5)):
            state = folded(state, code[piece], values[piece], 3).pack()
        assert state == whole
        assert stored_sums(state).tolist() == [nearest(values[code == group]) for group in range(3)]


def test_subtracting_all_that_was_added_leaves_nothing():
    _, values, code = sample(1, list(KINDS))
    values = np.append(values, [math.nan, math.inf, -math.inf])
    code = np.append(code, [0, 1, 1])
    state = folded(nothing(3), code, values, 3).pack()
    minus = np.full(len(values), -1, np.int8)
    assert folded(state, code, values, 3, sign=minus).pack() == {
        "low": pa.array([0, 0, 0]),
        "high": pa.array([0, 0, 0]),
        "exponent": pa.array([0, 0, 0], pa.int16()),
        "rest": pa.nulls(3, pa.binary()),
    }


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([1.0, math.nan, math.inf], math.nan),
        ([1.0, math.inf, 1e308, 1e308], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([-math.inf, 5.0], -math.inf),
        ([0.1, 0.2, 0.3], 0.6),
        ([-0.0, -0.0], 0.0),
    ],
)
def test_special_values_add_up_as_ieee_754_says(values, total):
    state = folded(nothing(1), np.zeros(len(values), np.int64), np.array(values), 1).pack()
    assert stored_sums(state).tolist() == pytest.approx([total], nan_ok=True, abs=0)


def test_infinity_taken_back_leaves_the_finite_sum():
    state = folded(nothing(1), np.zeros(2, np.int64), np.array([2.5, math.inf]), 1).pack()
    back = folded(state, np.zeros(1, np.int64), np.array([math.inf]), 1, sign=np.array([-1], np.int8))
    assert back.rounded().tolist() == [2.5]


def test_mantissa_of_more_than_two_words_is_kept():
    state = folded(nothing(1), np.zeros(2, np.int64), np.array([1e200, 1e-200]), 1).pack()
    assert state["rest"].null_count == 0
    assert folded(state, np.zeros(1, np.int64), np.array([-1e200]), 1).rounded().tolist() == [1e-200]
