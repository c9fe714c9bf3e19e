"""Aggregate functions against straightforward Python, for running values and for one per group, in any cuts."""

from __future__ import annotations

import datetime
import math
import random
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.aggregates.registry import UnknownAggregateError, aggregate
from headwater.runtime.engine.execution.aggregates.sums import SumOverflowError
from headwater.runtime.engine.execution.keyed.groups import Groups, group_by
from headwater.runtime.ir.topology import Agg
from headwater.runtime.records.types import arrow_type

D = Decimal


def no_nulls(values):
    return [value for value in values if value is not None]


def nearest_sum(values):
    kept = no_nulls(values)
    if not kept:
        return None
    if any(math.isnan(value) for value in kept) or {math.inf, -math.inf} <= set(kept):
        return math.nan
    infinite = [value for value in kept if math.isinf(value)]
    return infinite[0] if infinite else float(sum(map(Fraction, kept)))


def mean(values):
    total = nearest_sum(values)
    return None if total is None else total / len(no_nulls(values))


def decimal_mean(values):
    kept = no_nulls(values)
    return (sum(kept) / len(kept)).quantize(D("0.000001"), rounding=ROUND_HALF_UP) if kept else None


def nan_last(value):
    return (math.isnan(value), value) if isinstance(value, float) else value


def least(values):
    return min(no_nulls(values), key=nan_last, default=None)


def greatest(values):
    return max(no_nulls(values), key=nan_last, default=None)


DOUBLES = [0.1, 0.2, -3.5, 1e300, -1e300, 1e-300, math.nan, math.inf, 0.0, 7.25, None]
LONGS = [1, 2, -3, 2**40, -(2**40), 0, None]
DECIMALS = [D("1.25"), D("-99999999.99"), D("99999999.99"), D("0.01"), None]
TEXTS = ["a", "b", "ä", "", "\x00", "aa", None]
STRUCTS = [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": ""}, None]
DATES = [datetime.date(2024, 1, 1), datetime.date(1960, 5, 5), None]

CASES = [
    (Agg("r", "count"), DOUBLES, len),
    (Agg("r", "count", "x", "double"), DOUBLES, lambda values: len(no_nulls(values))),
    (Agg("r", "sum", "x", "bigint"), LONGS, lambda values: sum(no_nulls(values)) if no_nulls(values) else None),
    (Agg("r", "sum", "x", "int"), [1, 2**31 - 1, None], lambda v: sum(no_nulls(v)) if no_nulls(v) else None),
    (Agg("r", "sum", "x", "double", "double"), DOUBLES, nearest_sum),
    (Agg("r", "avg", "x", "double", "double"), DOUBLES, mean),
    (Agg("r", "avg", "x", "bigint", "double"), LONGS, mean),
    (
        Agg("r", "sum", "x", "decimal(10,2)", "decimal(20,2)"),
        DECIMALS,
        lambda values: sum(no_nulls(values)) if no_nulls(values) else None,
    ),
    (Agg("r", "avg", "x", "decimal(10,2)", "decimal(14,6)"), DECIMALS, decimal_mean),
    (Agg("r", "min", "x", "double", "double"), DOUBLES, least),
    (Agg("r", "max", "x", "double", "double"), DOUBLES, greatest),
    (Agg("r", "min", "x", "bigint"), [*LONGS, 2**63 - 1, -(2**63)], least),
    (Agg("r", "max", "x", "bigint"), [*LONGS, 2**63 - 1, -(2**63)], greatest),
    (Agg("r", "max", "x", "string", "string"), TEXTS, lambda v: max(no_nulls(v), key=str.encode, default=None)),
    (Agg("r", "min", "x", "date", "date"), DATES, least),
    (Agg("r", "max", "x", "decimal(10,2)", "decimal(10,2)"), DECIMALS, greatest),
    (
        Agg("r", "max", "x", "struct<a:int,b:string>", "struct<a:int,b:string>"),
        STRUCTS,
        lambda values: max(no_nulls(values), key=lambda value: tuple(value.values()), default=None),
    ),
    (Agg("r", "first", "x", "string", "string"), TEXTS, lambda values: values[0]),
    (Agg("r", "last", "x", "string", "string"), TEXTS, lambda values: values[-1]),
    (
        Agg("r", "first", "x", "string", "string", (True,)),
        TEXTS,
        lambda values: no_nulls(values)[0] if no_nulls(values) else None,
    ),
    (
        Agg("r", "last", "x", "bigint", "bigint", (True,)),
        LONGS,
        lambda values: no_nulls(values)[-1] if no_nulls(values) else None,
    ),
    (Agg("r", "collect_list", "x", "string", "array<string>"), TEXTS, no_nulls),
    (Agg("r", "collect_list", "x", "struct<a:int,b:string>", "array<struct<a:int,b:string>>"), STRUCTS, no_nulls),
]


def names(case):
    agg = case[0]
    return f"{agg.function}-{agg.of}-{agg.options}"


class Folding:
    """Groups by number with their state, as a store would keep it."""

    def __init__(self, agg):
        self.function = aggregate(agg)
        self.of = None if agg.column is None else arrow_type(agg.of)
        self.rows = {}

    def fold(self, code, values, each):
        """Results by point: (group, result) in order of rows, or of the groups' last rows."""
        groups, first = group_by([pa.array(code, pa.int64())])
        present = [code[row] for row in first]
        exists = np.array([group in self.rows for group in present], np.bool_)
        state = {
            name: pa.array([self.rows[g][name] if g in self.rows else None for g in present], kind)
            for name, kind in self.function.state.items()
        }
        argument = None if self.of is None else pa.array(values, self.of)
        results, after = self.function.fold(Groups(groups, len(first), each, exists), state, argument)
        assert results.type == self.function.type
        assert {name: column.type for name, column in after.items()} == dict(self.function.state)
        assert same(self.function.result(after).to_pylist(), at_ends(results, groups, each))
        for number, group in enumerate(present):
            self.rows[group] = {name: column[number].as_py() for name, column in after.items()}
        return list(zip(code if each else present, results.to_pylist(), strict=True))


def at_ends(results, groups, each):
    if not each:
        return results.to_pylist()
    last = dict(zip(groups.tolist(), results.to_pylist(), strict=True))
    return [last[group] for group in range(len(last))]


def same(found, expected):
    return all(a == b or (a != a and b != b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("case", CASES, ids=names)
@pytest.mark.parametrize("each", [True, False])
def test_every_cut_gives_what_python_gives(case, each):
    agg, values, expected = case
    for seed in range(30):
        rng = random.Random(seed)
        rows = [(rng.randrange(4), rng.choice(values)) for _ in range(rng.randrange(1, 50))]
        folding, seen, done = Folding(agg), {}, 0
        while done < len(rows):
            piece = rows[done : done + rng.randrange(1, 20)]
            done += len(piece)
            found = folding.fold([group for group, _ in piece], [value for _, value in piece], each)
            running = []
            for group, value in piece:
                seen.setdefault(group, []).append(value)
                running.append((group, expected(seen[group])))
            if not each:
                running = [(group, expected(seen[group])) for group in dict.fromkeys(g for g, _ in piece)]
            assert [group for group, _ in found] == [group for group, _ in running]
            assert same([result for _, result in found], [result for _, result in running])


@pytest.mark.parametrize(
    ("function", "values", "kept"),
    [("min", [0.0, -0.0], 0.0), ("min", [-0.0, 0.0], -0.0), ("max", [-0.0, 0.0], -0.0)],
)
@pytest.mark.parametrize("each", [True, False])
def test_of_equal_zeros_the_first_seen_stays(function, values, kept, each):
    folding = Folding(Agg("r", function, "x", "double", "double"))
    for value in values:
        ((_, result),) = folding.fold([0], [value], each)
    assert math.copysign(1, result) == math.copysign(1, kept)


@pytest.mark.parametrize("each", [True, False])
@pytest.mark.parametrize(
    ("of", "values"),
    [("bigint", [2**62, 2**62, -(2**62)]), ("decimal(38,0)", [D(10**38 - 1), D(1), D(-5)])],
)
def test_sum_that_overflows_in_between_is_an_error_in_every_cut(of, values, each):
    for cut in range(1, 4):
        pieces = [values[start : start + cut] for start in range(0, 3, cut)]
        with pytest.raises(SumOverflowError):
            fold_all(Folding(Agg("r", "sum", "x", of, of)), pieces, each)


@pytest.mark.parametrize("each", [True, False])
def test_average_that_overflows_in_between_is_an_error_in_every_cut(each):
    values = [D(10**37), D(10**37), D(-(10**37)), D(-(10**37)), D(1)]
    for cut in range(1, 6):
        pieces = [values[start : start + cut] for start in range(0, 5, cut)]
        with pytest.raises(SumOverflowError):
            fold_all(Folding(Agg("r", "avg", "x", "decimal(38,0)", "decimal(38,4)")), pieces, each)


def fold_all(folding, pieces, each):
    for piece in pieces:
        folding.fold([0] * len(piece), piece, each)


def test_sum_may_reach_the_ends_of_bigint():
    folding = Folding(Agg("r", "sum", "x", "bigint"))
    assert folding.fold([0, 0, 1, 1], [2**62, 2**62 - 1, -(2**62), -(2**62)], False) == [(0, 2**63 - 1), (1, -(2**63))]


def test_unknown_function_is_named():
    with pytest.raises(UnknownAggregateError, match="there is no aggregate 'median'"):
        aggregate(Agg("r", "median", "x", "double"))
