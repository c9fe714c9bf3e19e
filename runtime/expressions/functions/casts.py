"""Casts of strings with the semantics of Spark SQL. A string that is no value of the type gives null."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .texts import by_text

_BLANK = "".join(map(chr, (*range(0x21), 0x7F)))
"""Characters that Spark strips from both ends of an integer or boolean: spaces and control characters."""

_JAVA_BLANK = _BLANK[:-1]
"""Characters that Java strips from both ends of a double."""

_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")

_LONG_DIGITS = 19
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_WORDS = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), float("inf")),
    **dict.fromkeys(("-inf", "-infinity"), float("-inf")),
    "nan": float("nan"),
}


def whole_numbers(data: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Strings as integers of a type: digits with an optional sign.

    As int8, [" +7 ", "128", "x", null] gives [7, null, null, null].
    """
    written = pc.utf8_trim(data, characters=_BLANK)
    found = _read(written, r"\A[+-]?0*[0-9]{1,18}\z", pa.int64())
    if found.null_count > data.null_count:
        long = pc.match_substring_regex(written, pattern=r"\A[+-]?[0-9]{19,}\z")
        found = pc.coalesce(found, by_text(_where(long, written), _long, pa.int64()))
    if data_type == pa.int64():
        return found
    edge = np.iinfo(data_type.to_pandas_dtype())
    fits = pc.and_(pc.greater_equal(found, int(edge.min)), pc.less_equal(found, int(edge.max)))
    return pc.cast(_where(fits, found), data_type)


def _long(text: str) -> int | None:
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _LONG_DIGITS:
        return None
    number = -int(digits) if text.startswith("-") else int(digits)
    return number if -(2**63) <= number < 2**63 else None


def booleans(data: pa.Array) -> pa.Array:
    """Strings as booleans: `true`, `yes`, `false`, `no`, their first letters, 1 and 0, in any case."""
    word = pc.ascii_lower(pc.utf8_trim(data, characters=_BLANK))
    true, false = (pc.is_in(word, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
    return _where(pc.or_(true, false), true)


def doubles(data: pa.Array) -> pa.Array:
    """Strings as doubles: everything that Java's `parseDouble` accepts, and infinity and NaN in any case.

    ["1.5d", " 0x1p3 ", "nan", "x"] gives [1.5, 8.0, NaN, null].
    """
    found = _read(data, r"\A[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?\z", pa.float64())
    if found.null_count == data.null_count:
        return found
    return pc.coalesce(found, by_text(_where(pc.is_null(found), data), _double, pa.float64()))


def _double(text: str) -> float | None:
    written = text.strip(_JAVA_BLANK)
    number = written[:-1] if written[-1:] in ("d", "D", "f", "F") else written
    if _DECIMAL.fullmatch(number):
        return float(number)
    if _HEXADECIMAL.fullmatch(number):
        try:
            return float.fromhex(number)
        except OverflowError:
            return float("-inf") if number.startswith("-") else float("inf")
    return float("nan") if written in ("+NaN", "-NaN") else _WORDS.get(written.lower())


def _read(data: pa.Array, pattern: str, data_type: pa.DataType) -> pa.Array:
    """Numbers from the strings that match a pattern; null for the others. Arrow rejects a leading plus."""
    matching = _where(pc.match_substring_regex(data, pattern=pattern), data)
    return pc.cast(pc.utf8_ltrim(matching, characters="+"), data_type)


def _where(condition: pa.Array, data: pa.Array) -> pa.Array:
    return pc.if_else(condition, data, pa.scalar(None, data.type))


def long_numbers(data: pa.Array | pa.Scalar) -> Any:
    """Doubles as int64, truncated. As in Spark, 2.0**63 gives the largest int64, although it does not fit."""
    above = pc.equal(data, pa.scalar(float(2**63)))
    cut = pc.cast(pc.trunc(pc.if_else(above, pa.scalar(0.0), data)), pa.int64())
    return pc.if_else(above, pa.scalar(2**63 - 1), cut)
