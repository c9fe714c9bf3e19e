"""Values from texts."""

from __future__ import annotations

import base64
import json
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal, InvalidOperation
from itertools import accumulate, chain, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .arrays import BadValueError, located, no, valid_text
from .record_json import to_json

# Parses single values written as text, a column at a time: numbers, times, booleans.
#
# Arrow's parsers accept more forms than people mean, and convert some numbers wrongly. So the form is checked first.

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


# Values of columns from JSON and from text: the inverse of `json_values`, a column at a time.
#
# It is strict: a value that is not one of the column's type is a `BadValueError` that tells which row, never a null and
# never rounded.

Convert = Callable[[Sequence[Any], pa.DataType], pa.Array]
"""A function that makes a column from values, such as `from_json`."""


def parse_json(text: str) -> Any:
    """A JSON text as Python values. Numbers with a fraction or an exponent are `Decimal`, with all of their digits.

    Raises ValueError, also for an object that has a name twice, and RecursionError.
    """
    return json.loads(text, parse_float=exact_number, object_pairs_hook=_named_once)


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"an object has the name {twice!r} more than once")
    return found


def exact_number(text: str) -> Decimal:
    """A number as JSON and YAML write it, with all of its digits. Raises ValueError."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"the exponent of {text} is too large") from None


def from_json(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """The inverse of `json_values.to_json`: values of `parse_json`, or of YAML, as a column. Raises BadValueError.

    Maps may also be objects whose keys are texts of the key type. A Decimal may be NaN or infinite, as in YAML.
    """
    if pa.types.is_nested(data_type):
        return nested(values, data_type, from_json)
    if pa.types.is_boolean(data_type):
        return pa.array(_checked(values, data_type, bool), data_type)
    if pa.types.is_integer(data_type):
        return _integers_from_json(values, data_type)
    if pa.types.is_floating(data_type):
        return _floats_from_json(values, data_type)
    if pa.types.is_decimal(data_type):
        # A float is refused: its digits may not be those that were written.
        values = [str(value) if type(value) in (int, Decimal) else value for value in values]
    return parse_text(texts(_checked(values, data_type, str)), data_type)


def nested(values: Sequence[Any], data_type: pa.DataType, convert: Convert) -> pa.Array:
    """A column of lists, structs or maps. `convert` makes the columns inside. Raises BadValueError."""
    if pa.types.is_list(data_type):
        return _lists_from_json(values, data_type, convert)
    if pa.types.is_struct(data_type):
        return _structs_from_json(values, data_type, convert)
    return _maps_from_json(values, data_type, convert)


def texts(values: Sequence[str | None]) -> pa.Array:
    """Strings as a column. Raises BadValueError for lone surrogates, which JSON can contain and UTF-8 cannot."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        row = next(row for row, value in enumerate(values) if value is not None and not _is_unicode(value))
        raise BadValueError(row, no(values[row], pa.string())) from None


def parse_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Values written as text, as in a CSV file. A nested value is JSON. Raises BadValueError."""
    if pa.types.is_string(data_type):
        return valid_text(text)
    if pa.types.is_binary(data_type):
        return _bytes_from_text(text, data_type)
    if pa.types.is_nested(data_type):
        return _nested_from_text(text, data_type)
    return located(text, data_type, cast_text)


_EXACT_IN_DOUBLES = 1 << 53
"""Up to here each whole number is a double. A larger double may be another number than the one that was written."""

_BIGINT_DIGITS = 19

_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NOT_FINITE_IN_JSON = 'where it is meant, it is a text: "Infinity", "NaN"'


def _checked(values: Sequence[Any], data_type: pa.DataType, *classes: type) -> Sequence[Any]:
    """The values, if each is None or exactly of one of the classes: True is no number, and 1 is no text."""
    # By exact class: `bool` is a subclass of `int`.
    allowed = {*classes, type(None)}
    if set(map(type, values)) <= allowed:
        return values
    row = next(row for row, value in enumerate(values) if type(value) not in allowed)
    raise BadValueError(row, no(values[row], data_type))


def _integers_from_json(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    whole = [_whole(value) if type(value) in (float, Decimal) else value for value in values]
    try:
        return pa.array(_checked(whole, data_type, int), data_type)
    except (pa.ArrowInvalid, OverflowError):
        limit = 1 << (data_type.bit_width - 1)
        fits = (value is None or -limit <= value < limit for value in whole)
        row = next(row for row, good in enumerate(fits) if not good)
        raise BadValueError(row, no(values[row], data_type)) from None


def _whole(value: float | Decimal) -> Any:
    """A whole number that some programs write as a double, 517.0 for 517; another value stays as it is."""
    if isinstance(value, Decimal):
        small = value.is_finite() and value.adjusted() < _BIGINT_DIGITS
        return int(value) if small and value == value.to_integral_value() else value
    return int(value) if value.is_integer() and abs(value) <= _EXACT_IN_DOUBLES else value


def _floats_from_json(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    for row, value in enumerate(values):
        if type(value) is float and not math.isfinite(value):
            # JSON has no such number; Python reads it where it stands without quotes.
            raise BadValueError(row, f"{no(value, data_type)}; {_NOT_FINITE_IN_JSON}")
    values = [_FLOATS.get(value, value) if type(value) is str else value for value in values]
    numbers: list[float | None] = []
    for row, value in enumerate(_checked(values, data_type, int, float, Decimal)):
        try:
            number = None if value is None else float(value)
        except OverflowError as error:
            raise BadValueError(row, no(value, data_type)) from error
        if number is not None and math.isinf(number) and type(value) is Decimal and value.is_finite():
            raise BadValueError(row, f"{no(value, data_type)}; {_NOT_FINITE_IN_JSON}")
        numbers.append(number)
    doubles = pa.array(numbers, pa.float64())
    return located(doubles, data_type, lambda some, _: narrow(some)) if pa.types.is_float32(data_type) else doubles


def _lists_from_json(values: Sequence[Any], data_type: pa.DataType, convert: Convert) -> pa.Array:
    rows = _checked(values, data_type, list)
    offsets = _offsets(rows)
    with _rows_of(offsets):
        items = convert(list(chain.from_iterable(row or () for row in rows)), data_type.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type=data_type, mask=_nulls(rows))


def _structs_from_json(values: Sequence[Any], data_type: pa.DataType, convert: Convert) -> pa.Array:
    rows = _checked(values, data_type, dict)
    names = {field.name for field in data_type}
    for row, value in enumerate(rows):
        if value is not None and not value.keys() <= names:
            raise BadValueError(row, no(value, data_type))
    fields = [
        convert([None if row is None else row.get(field.name) for row in rows], field.type) for field in data_type
    ]
    return pa.StructArray.from_arrays(fields, fields=list(data_type), mask=_nulls(rows))


def _maps_from_json(values: Sequence[Any], data_type: pa.DataType, convert: Convert) -> pa.Array:
    text = pa.types.is_string(data_type.key_type)
    rows = _checked(values, data_type, dict, *([] if text else [list]))
    if not text:
        rows = _entries(rows, data_type.key_type)
    offsets = _offsets(rows)
    found = list(chain.from_iterable((row.items() if text else row) if row else () for row in rows))
    with _rows_of(offsets):
        if not text:
            entry = pa.struct([("key", data_type.key_type), ("value", data_type.item_type)])
            keys, items = nested(found, entry, convert).flatten()
            if keys.null_count:
                raise BadValueError(keys.is_null().index(True).as_py(), "the key of a map is null")
        else:
            keys = texts([key for key, _ in found])
            items = convert([item for _, item in found], data_type.item_type)
    if not text:
        _check_unique(keys, offsets)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=data_type, mask=_nulls(rows))


def _entries(rows: Sequence[Any], key_type: pa.DataType) -> list[Any]:
    """Maps as lists of entries, `{"key": ..., "value": ...}`, also those that are objects, whose keys are texts."""
    objects = [row if isinstance(row, dict) else {} for row in rows]
    if not any(objects):
        return [[] if row == {} else row for row in rows]
    with _rows_of(_offsets(objects)):
        keys = iter(to_json(parse_text(texts(list(chain.from_iterable(objects))), key_type)))
    return [
        [{"key": next(keys), "value": item} for item in row.values()] if isinstance(row, dict) else row for row in rows
    ]


def _check_unique(keys: pa.Array, offsets: Sequence[int]) -> None:
    """Raise BadValueError for a map in which a key is there twice."""
    if all(end - start < 2 for start, end in pairwise(offsets)):
        return
    written = to_json(keys)
    for row, (start, end) in enumerate(pairwise(offsets)):
        seen: set[str] = set()
        for key in written[start:end]:
            if repr(key) in seen:
                raise BadValueError(row, f"the key {key!r} is in a map twice")
            seen.add(repr(key))


def _offsets(rows: Sequence[Any]) -> list[int]:
    return list(accumulate((len(row) if row else 0 for row in rows), initial=0))


def _nulls(rows: Sequence[Any]) -> pa.Array:
    return pa.array([row is None for row in rows], pa.bool_())


@contextmanager
def _rows_of(offsets: list[int]) -> Iterator[None]:
    """Turn a bad value among the items of lists into a bad value of the list that contains it."""
    try:
        yield
    except BadValueError as error:
        # The error counts items of all lists; the last list that starts at or before the item contains it.
        raise BadValueError(bisect_right(offsets, error.row) - 1, error.cause) from error


def _bytes_from_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    found = []
    for row, value in enumerate(text.to_pylist()):
        try:
            # Without `validate`, Python skips characters that are not of the alphabet.
            found.append(None if value is None else base64.b64decode(value, validate=True))
        except ValueError as error:
            raise BadValueError(row, no(value, data_type)) from error
    return pa.array(found, data_type)


def _nested_from_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    found = []
    for row, value in enumerate(text.to_pylist()):
        try:
            found.append(None if value is None else parse_json(value))
        except (ValueError, RecursionError) as error:
            raise BadValueError(row, no(value, data_type)) from error
    return from_json(found, data_type)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
