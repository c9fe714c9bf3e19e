"""Parses single values written as text, a column at a time: numbers, times, booleans.

Arrow's parsers accept more forms than people mean, and convert some numbers wrongly. So the form is checked first.
"""

from __future__ import annotations

from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

_WHOLE = r"^\+?(-?[0-9]+)(\.0*)?$"
"""Integers as text. A column of integers that had nulls is often written as 517.0."""

_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NOT_FINITE = r"^(NaN|nan|-?Infinity|-?inf)$"
"""As Headwater writes them, and as Python, pandas and Arrow do."""

_DIGITS = 38
_PLAIN_DECIMAL = r"^[+-]?[0-9]{0,38}(\.[0-9]{0,38})?$"
"""Decimals that Arrow's own parser reads correctly. It reads longer ones as 0."""

_EARLIEST, _LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""In microseconds: the years 1 to 9999, because the text forms of times have four digits for the year."""

_ZONE = r"(Z|[+-]\d\d:?\d\d)$"

_BEYOND_MICROSECONDS = r"([.][0-9]{6})[0-9]+(Z|[+-][0-9:]+)?$"

_EXACT = Context(prec=1000)


def cast_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The values of a type that is not nested. Raises pa.ArrowInvalid, pa.ArrowNotImplementedError."""
    if pa.types.is_timestamp(data_type):
        text = pc.replace_substring_regex(text, _BEYOND_MICROSECONDS, r"\1\2")
        text = pc.if_else(pc.equal(pc.utf8_length(text), len("2013-01-01")), _join(text, "T00:00:00"), text)
    if pa.types.is_timestamp(data_type) and data_type.tz is not None:
        text = pc.if_else(pc.match_substring_regex(text, _ZONE), text, _join(text, "Z"))
    if pa.types.is_integer(data_type):
        _must_match(text, _WHOLE)
        text = pc.replace_substring_regex(text, _WHOLE, r"\1")
    if pa.types.is_floating(data_type):
        return _floats_from_text(text, data_type)
    if pa.types.is_decimal(data_type):
        return _decimals_from_text(text, data_type)
    return in_years(pc.cast(text, data_type))


def in_years(column: pa.Array) -> pa.Array:
    """The column. Raises pa.ArrowInvalid if it has times outside of the years 1 to 9999."""
    if pa.types.is_temporal(column.type):
        times = column.cast(pa.timestamp("us")).cast(pa.int64())
        if pc.any(pc.or_(pc.less(times, _EARLIEST), pc.greater(times, _LATEST))).as_py():
            raise pa.ArrowInvalid("outside of the years 1 to 9999")
    return column


def _must_match(text: pa.Array, form: str) -> None:
    """Raise pa.ArrowInvalid for texts of another form. Arrow's parser would read 0x10 as 16."""
    if pc.any(pc.invert(pc.match_substring_regex(text, form))).as_py():
        raise pa.ArrowInvalid("not the form of a number")


def _floats_from_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Floats. Raises pa.ArrowInvalid, also for a number too large to be finite."""
    not_finite = pc.match_substring_regex(text, _NOT_FINITE)
    if pc.any(pc.invert(pc.or_(not_finite, pc.match_substring_regex(text, _NUMBER)))).as_py():
        raise pa.ArrowInvalid("not the form of a number")
    doubles = pc.cast(text, pa.float64())
    if pc.any(pc.and_(pc.is_inf(doubles), pc.invert(not_finite))).as_py():
        raise pa.ArrowInvalid("beyond the range of a double")
    return narrow(doubles) if pa.types.is_float32(data_type) else doubles


def _decimals_from_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Decimals. Raises pa.ArrowInvalid."""
    _must_match(text, _NUMBER)
    if not pc.any(pc.invert(pc.match_substring_regex(text, _PLAIN_DECIMAL))).as_py():
        return pc.cast(text, data_type)
    numbers = [None if value is None else Decimal(value) for value in text.to_pylist()]
    if any(number is not None and abs(number.adjusted()) > _DIGITS and number != 0 for number in numbers):
        raise pa.ArrowInvalid("too many digits")
    return pa.array([number and number.normalize(_EXACT) for number in numbers], data_type)


def narrow(column: pa.Array) -> pa.Array:
    """Numbers as the nearest 32-bit floats. Raises pa.ArrowInvalid for one that would become infinite."""
    floats = pc.cast(column, pa.float32(), safe=False)
    if pc.any(pc.and_(pc.is_inf(floats), pc.invert(pc.is_inf(pc.cast(column, pa.float64(), safe=False))))).as_py():
        raise pa.ArrowInvalid("beyond the range of a float")
    return floats


def _join(text: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(text, end, "")
