"""Cases: arithmetic, comparisons, nulls, decimals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .case import BOOL, F64, I8, I32, I64, MONEY, TEXT, Case, Columns, Form, one

INF, NAN = float("inf"), float("nan")
INT, LONG = 2**31, 2**63

_UP = "half_towards_infinity"


def _same(d: Any, e: Any) -> Any:
    """Spark's equality of doubles: NaN equals NaN."""
    return pc.or_kleene(pc.equal(d, e), pc.and_kleene(pc.is_nan(d), pc.is_nan(e)))


def _more(d: Any, e: Any) -> Any:
    """Spark's order of doubles: NaN is above all others."""
    return pc.or_kleene(pc.greater(d, e), pc.and_kleene(pc.is_nan(d), pc.invert(pc.is_nan(e))))


def _greatest(d: Any, e: Any) -> Any:
    has_nan = pc.or_(*(pc.fill_null(pc.is_nan(each), False) for each in (d, e)))
    return pc.if_else(has_nan, NAN, pc.max_element_wise(d, e))


def _computed_where(condition: Any, computed: Form, otherwise: Any, *columns: Any) -> Any:
    """`computed` of the rows where a condition holds, and of no others: those might fail."""
    some = computed(*(pc.filter(each, condition) for each in columns))
    return pc.replace_with_mask(otherwise, pc.fill_null(condition, False), some)


def _in(a: Any, *values: int) -> Any:
    return pc.is_in(a, pa.array(values, I32))


def _whole_divided(a: Any, b: Any) -> Any:
    return pc.divide_checked(a.cast(I64), b.cast(I64))


def _decimals_divided(m: Any, n: Any) -> Any:
    """To 14 places, cut off, and rounded to the 13 that Spark gives."""
    exact = pc.divide_checked(pc.cast(m, pa.decimal128(20, 5)), n)
    return pc.cast(pc.round(exact, 13, round_mode=_UP), pa.decimal128(23, 13))


def _decimal_of_double(d: Any) -> Any:
    """By way of its text, as Spark does: the double of 1.005 is below it. What is not finite becomes null."""
    written = pc.cast(pc.cast(pc.if_else(pc.is_finite(d), d, None), TEXT), pa.decimal128(38, 18))
    return pc.cast(pc.round(written, 2, round_mode=_UP), pa.decimal128(5, 2))


ARITHMETIC = (
    Case(
        "a + 1",
        {"a": (I32, [1, INT - 1])},
        lambda a: pc.add_checked(a, one(I32)),
        texts={"datafusion": "a + cast(1 as int)"},
    ),
    Case("a + b", {"a": (I8, [1, 127]), "b": (I8, [2, 1])}, pc.add_checked),
    Case("a * b", {"a": (I64, [3, LONG - 1]), "b": (I64, [4, 2])}, pc.multiply_checked),
    Case("a + b", {"a": (I32, [1]), "b": (I64, [INT])}, pc.add_checked),
    Case("-a", {"a": (I32, [5, -INT])}, pc.negate_checked),
    Case("abs(a)", {"a": (I32, [-5, -INT])}, pc.abs_checked),
    Case(
        "a / b",
        {"a": (I32, [7, 1]), "b": (I32, [2, 0])},
        pc.divide_checked,
        lambda a, b: pc.divide_checked(a.cast(F64), b.cast(F64)),
        {"datafusion": "cast(a as double) / b"},
    ),
    Case(
        "a div b",
        {"a": (I32, [7, -7, 1]), "b": (I32, [2, 2, 0])},
        pc.divide_checked,
        _whole_divided,
        {"datafusion": "a / b", "polars": "a // b"},
    ),
    Case(
        "a % b",
        {"a": (I32, [7, -7, 7, 1]), "b": (I32, [3, 3, -3, 0])},
        pc.modulo_checked,
        pc.remainder_checked,
    ),
    Case("d / e", {"d": (F64, [1.0, 1.0]), "e": (F64, [4.0, 0.0])}, pc.divide_checked),
    Case("d / 60.0", {"d": (F64, [23.0, 46.0])}, lambda d: pc.divide_checked(d, 60.0)),
    Case("d * e", {"d": (F64, [1e308]), "e": (F64, [10.0])}, pc.multiply_checked),
    Case(
        "round(d)",
        {"d": (F64, [2.5, -2.5, 1.4, -0.0, NAN])},
        pc.round,
        lambda d: pc.add(pc.round(d, round_mode=_UP), 0.0),  # -0.0 becomes 0.0
    ),
    Case("round(d, 2)", {"d": (F64, [1.005, 2.675, -0.0])}, lambda d: pc.round(d, 2, round_mode=_UP)),
    Case(
        "floor(d)",
        {"d": (F64, [1.5, -1.5, 1e19, NAN])},
        pc.floor,
        lambda d: pc.cast(pc.floor(pc.if_else(pc.is_nan(d), 0.0, d)), I64),
        {"duckdb": "cast(floor(d) as bigint)", "polars": "cast(floor(d) as bigint)"},
    ),
    Case("sqrt(d)", {"d": (F64, [4.0, -1.0])}, pc.sqrt),
)

COMPARISONS = (
    Case("d = e", {"d": (F64, [NAN, 1.0]), "e": (F64, [NAN, NAN])}, pc.equal, _same),
    Case("d = e", {"d": (F64, [-0.0]), "e": (F64, [0.0])}, pc.equal),
    Case("d > e", {"d": (F64, [NAN, 1.0, NAN]), "e": (F64, [INF, NAN, NAN])}, pc.greater, _more),
    Case(
        "greatest(d, e)",
        {"d": (F64, [NAN, None, 1.0]), "e": (F64, [INF, 2.0, 3.0])},
        pc.max_element_wise,
        _greatest,
    ),
    Case(
        "a = d",
        {"a": (I64, [2**53 + 1]), "d": (F64, [2.0**53])},
        pc.equal,
        lambda a, d: pc.equal(pc.cast(a, F64, safe=False), d),
    ),
    Case("s = 'abc'", {"s": (TEXT, ["abc", "abc ", "ABC"])}, lambda s: pc.equal(s, "abc")),
    Case("s < 'a'", {"s": (TEXT, ["B", "\U0001f600", "\uffff"])}, lambda s: pc.less(s, "a")),
    Case(
        "a <=> b",
        {"a": (I32, [None, 1, 1]), "b": (I32, [None, None, 1])},
        pc.equal,
        lambda a, b: pc.if_else(pc.is_null(a), pc.is_null(b), pc.fill_null(pc.equal(a, b), False)),
    ),
    Case("A + a", {"a": (I32, [1])}, lambda a: pc.add_checked(a, a), texts={"polars": "a + a"}),
    Case(
        "a between 1 and b",
        {"a": (I32, [1, 0, 2]), "b": (I32, [1, None, None])},
        lambda a, b: pc.and_kleene(pc.greater_equal(a, 1), pc.less_equal(a, b)),
    ),
)

_BOTH = {"p": (BOOL, [True, False, None, None]), "q": (BOOL, [None, None, None, True])}
_GUARDED: Columns = {"a": (I32, [7, 7, 7]), "b": (I32, [2, 0, None])}

NULLS = (
    Case("p and q", _BOTH, pc.and_, pc.and_kleene),
    Case("p or q", _BOTH, pc.or_, pc.or_kleene),
    Case(
        "a in (1, null, 3)",
        {"a": (I32, [1, 2, None])},
        lambda a: pc.is_in(a, pa.array([1, None, 3], I32)),
        lambda a: pc.if_else(_in(a, 1, 3), True, one(BOOL, None)),
    ),
    Case(
        "a not in (1, 3)",
        {"a": (I32, [1, 2, None])},
        lambda a: pc.invert(_in(a, 1, 3)),
        lambda a: pc.if_else(pc.is_null(a), one(BOOL, None), pc.invert(_in(a, 1, 3))),
    ),
    Case(
        "nullif(a, 1)",
        {"a": (I32, [1, 2, None])},
        lambda a: pc.if_else(pc.equal(a, 1), None, a),
        lambda a: pc.if_else(pc.fill_null(pc.equal(a, 1), False), None, a),
    ),
    Case(
        "if(p, 1, 2)",
        {"p": (BOOL, [True, False, None])},
        lambda p: pc.if_else(p, 1, 2),
        lambda p: pc.case_when(pc.make_struct(p), 1, 2),
    ),
    Case(
        "case when b <> 0 then a div b else 0 end",
        _GUARDED,
        lambda a, b: pc.case_when(pc.make_struct(pc.not_equal(b, 0)), pc.divide_checked(a, b), 0),
        lambda a, b: _computed_where(pc.not_equal(b, 0), _whole_divided, pa.array([0] * len(a), I64), a, b),
        {
            "datafusion": "case when b <> 0 then a / b else 0 end",
            "polars": "case when b <> 0 then a // b else 0 end",
        },
    ),
    Case(
        "b <> 0 and a % b = 1",
        _GUARDED,
        lambda a, b: pc.and_kleene(pc.not_equal(b, 0), pc.equal(pc.remainder_checked(a, b), 1)),
        lambda a, b: _computed_where(
            pc.not_equal(b, 0),
            lambda x, y: pc.equal(pc.remainder_checked(x, y), 1),
            pc.not_equal(b, 0),
            a,
            b,
        ),
    ),
    Case(
        "coalesce(a, 7 div b)",
        {"a": (I64, [1, None, None]), "b": (I64, [0, 2, 0])},
        lambda a, b: pc.coalesce(a, pc.divide_checked(7, b)),
        lambda a, b: _computed_where(pc.is_null(a), lambda y: pc.divide_checked(7, y), a, b),
        {"datafusion": "coalesce(a, 7 / b)", "polars": "coalesce(a, 7 // b)"},
    ),
)

_SUM = {
    "m": (MONEY, [Decimal("1.25"), Decimal("99999999.99")]),
    "n": (MONEY, [Decimal("0.07"), Decimal("99999999.99")]),
}
_HALVES = {"m": (MONEY, [Decimal("1.25"), Decimal("-1.25")])}

DECIMALS = (
    Case("m + n", _SUM, pc.add_checked),
    Case("m * n", _SUM, pc.multiply_checked),
    Case(
        "m / n",
        {"m": (MONEY, [Decimal(1), Decimal(2), Decimal(1)]), "n": (MONEY, [Decimal(3), Decimal(3), Decimal(0)])},
        pc.divide_checked,
        _decimals_divided,
    ),
    Case(
        "cast(m as decimal(5, 1))",
        {"m": (MONEY, [Decimal("1.25"), Decimal("-1.25"), Decimal("99999.00")])},
        lambda m: pc.cast(m, pa.decimal128(5, 1)),
        lambda m: pc.cast(pc.round(m, 1, round_mode=_UP), pa.decimal128(5, 1)),
    ),
    Case("round(m, 1)", _HALVES, lambda m: pc.round(m, 1), lambda m: pc.round(m, 1, round_mode=_UP)),
    Case(
        "cast(d as decimal(5, 2))",
        {"d": (F64, [1.005, 2.675, 1234.5, INF])},
        lambda d: pc.cast(d, pa.decimal128(5, 2)),
        _decimal_of_double,
    ),
    Case(
        "m > 1.245",
        {"m": (MONEY, [Decimal("1.25"), Decimal("1.24")])},
        lambda m: pc.greater(m, pa.scalar(Decimal("1.245"))),
    ),
)
