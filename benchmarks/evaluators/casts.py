"""Cases: casts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .case import BOOL, DAY, F64, I8, I32, I64, MONEY, TEXT, TIME, Case, Form, at

_LONG = 2**63
_MOMENTS = [
    "2024-02-03 04:05:06.789",
    "2024-02-03T04:05:06Z",
    "2024-02-03",
    "2024-02-03 04:05:06+01:00",
    "2024-2-3 4:5:6",
    "x",
]


def _to(each: pa.DataType) -> Form:
    return lambda column: pc.cast(column, each)


def _int_of_text(s: Any) -> Any:
    return pc.cast(pc.replace_substring_regex(pc.utf8_trim_whitespace(s), r"^\+(\d)", r"\1"), I32)


def _double_of_text(s: Any) -> Any:
    """Java takes a number with the letter of its type."""
    return pc.cast(pc.replace_substring_regex(pc.utf8_trim_whitespace(s), r"^([^x]*[\d.])[dDfF]$", r"\1"), F64)


def _long_of_double(d: Any) -> Any:
    """The double above all longs is, for Spark, the last of them."""
    above = pc.equal(d, float(_LONG))
    return pc.if_else(above, _LONG - 1, pc.cast(pc.trunc(pc.if_else(above, 0.0, d)), I64))


def _boolean_of_text(s: Any) -> Any:
    word = pc.utf8_lower(pc.utf8_trim_whitespace(s))
    true, false = (pc.is_in(word, pa.array(words.split())) for words in ("t true y yes 1", "f false n no 0"))
    return pc.cast(
        pc.case_when(pc.make_struct(true, false), "true", "false", pc.binary_join_element_wise(word, "?", "")), BOOL
    )


def _text_of_time(t: Any) -> Any:
    whole = pc.strftime(t, "%Y-%m-%d %H:%M:%S")
    return pc.replace_substring_regex(pc.replace_substring_regex(whole, r"(\.\d*?)0+$", r"\1"), r"\.$", "")


def _int_if_any(s: Any) -> Any:
    """Of nine digits at most, so that it does not overflow."""
    text = pc.utf8_trim_whitespace(s)
    return pc.cast(pc.if_else(pc.match_substring_regex(text, r"^[-]?\d{1,9}$"), text, None), I32)


CASTS = (
    Case(
        "cast(s as int)",
        {"s": (TEXT, ["12", " 12\t", "+5", "-0", "", "1.5", "x", "3000000000", "1_0", "\u0661"])},
        _to(I32),
        _int_of_text,
        {"polars": "cast(trim(s) as int)"},
    ),
    Case(
        "cast(s as double)",
        {"s": (TEXT, ["1.5", " 1e3 ", "NaN", "Infinity", "-inf", "nan", "1.5d", "0x10", "1e400", "", "x"])},
        _to(F64),
        _double_of_text,
        {"polars": "cast(trim(s) as double)"},
    ),
    Case(
        "cast(d as int)",
        {"d": (F64, [3.99, -3.99, 3e9, float("nan"), 2147483647.5])},
        _to(I32),
        lambda d: pc.cast(pc.trunc(d), I32),
        {"duckdb": "cast(trunc(d) as int)"},
    ),
    Case(
        "cast(d as bigint)",
        {"d": (F64, [3.99, float(_LONG), 1e19, float("inf")])},
        _to(I64),
        _long_of_double,
        {"duckdb": "cast(trunc(d) as bigint)"},
    ),
    Case("cast(a as tinyint)", {"a": (I32, [127, 128])}, _to(I8)),
    Case("cast(a as int)", {"a": (I64, [5, 2**31])}, _to(I32)),
    Case("cast(a as double)", {"a": (I64, [5, 2**53 + 1])}, _to(F64), lambda a: pc.cast(a, F64, safe=False)),
    Case("cast(a as string)", {"a": (I32, [12, -(2**31)])}, _to(TEXT)),
    Case(
        "cast(d as string)",
        {"d": (F64, [0.1, 100.0, 1e10, 1e-5, 1e7, -0.0, float("nan"), float("inf"), 2e-3, 123456789.125])},
        _to(TEXT),
    ),
    Case("cast(m as string)", {"m": (MONEY, [Decimal("1.50"), Decimal("0.00")])}, _to(TEXT)),
    Case(
        "cast(s as boolean)",
        {"s": (TEXT, ["true", "T", "yes", "1", "0", " n ", "on", "maybe"])},
        _to(BOOL),
        _boolean_of_text,
    ),
    Case("cast(p as string)", {"p": (BOOL, [True, False, None])}, _to(TEXT)),
    Case(
        "cast(s as date)",
        {"s": (TEXT, ["2024-02-03", "2024-2-3", " 2024-02-03", "2024-02-03T04:05", "2024", "2024-02-30", "x"])},
        _to(DAY),
    ),
    Case("cast(s as timestamp)", {"s": (TEXT, _MOMENTS)}, _to(TIME)),
    Case(
        "cast(t as string)",
        {"t": (TIME, [at("2024-01-01"), at("2024-01-01T01:02:03.500"), at("2024-01-01T01:02:03.000001")])},
        lambda t: pc.strftime(t, "%Y-%m-%d %H:%M:%S"),
        _text_of_time,
    ),
    Case(
        "try_cast(s as int)",
        {"s": (TEXT, ["12", " 12 ", "x"])},
        None,
        _int_if_any,
        {"polars": "try_cast(trim(s) as int)"},
    ),
)
