"""Columns from texts and from JSON: the inverse of `record_json.to_json`."""

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

from .arrays import BadValueError, cast_with_row, type_mismatch, valid_text
from .record_json import to_json

# Columns of numbers, times and booleans from texts.
#
# Arrow's parsers accept more forms than users mean, and convert some numbers wrongly. So the form is checked first.

_WHOLE = r"^\+?(-?[0-9]+)(\.0*)?$"
"""Integers as text. Programs often write a column of integers with nulls as 517.0."""

_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NOT_FINITE = r"^(NaN|nan|-?Infinity|-?inf)$"
"""The forms that Headwater, Python, pandas and Arrow write."""

_DIGITS = 38

_EARLIEST, _LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999 in microseconds: the text forms of times have four digits for the year."""

_ZONE = r"(Z|[+-]\d\d:?\d\d)$"

_BEYOND_MICROSECONDS = r"([.][0-9]{6})[0-9]+(Z|[+-][0-9:]+)?$"

_EXACT = Context(prec=1000)


def cast_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Texts as a column of a type that is not nested. Raises pa.ArrowInvalid, pa.ArrowNotImplementedError."""
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
    """The column. Raises pa.ArrowInvalid for times outside of the years 1 to 9999."""
    if pa.types.is_temporal(column.type):
        times = column.cast(pa.timestamp("us")).cast(pa.int64())
        if pc.any(pc.or_(pc.less(times, _EARLIEST), pc.greater(times, _LATEST))).as_py():
            raise pa.ArrowInvalid("outside of the years 1 to 9999")
    return column


def _must_match(text: pa.Array, form: str) -> None:
    """Raise pa.ArrowInvalid for a text that does not match the form. Arrow's parser would read 0x10 as 16."""
    if pc.any(pc.invert(pc.match_substring_regex(text, form))).as_py():
        raise pa.ArrowInvalid("not the form of a number")


def _floats_from_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Texts as floats. Raises pa.ArrowInvalid, also for a number too large to be finite."""
    not_finite = pc.match_substring_regex(text, _NOT_FINITE)
    if pc.any(pc.invert(pc.or_(not_finite, pc.match_substring_regex(text, _NUMBER)))).as_py():
        raise pa.ArrowInvalid("not the form of a number")
    doubles = pc.cast(text, pa.float64())
    if pc.any(pc.and_(pc.is_inf(doubles), pc.invert(not_finite))).as_py():
        raise pa.ArrowInvalid("beyond the range of a double")
    return narrow(doubles) if pa.types.is_float32(data_type) else doubles


def _decimals_from_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Texts as decimals. Raises pa.ArrowInvalid."""
    _must_match(text, _NUMBER)
    # Arrow's own parser reads longer numbers as 0. Of those with too many digits before the point it makes others: it
    # multiplies them to the scale, and does not notice that they overflow.
    whole = data_type.precision - data_type.scale
    plain = rf"^[+-]?[0-9]{{0,{whole}}}(\.[0-9]{{0,{_DIGITS - whole}}})?$"
    if not pc.any(pc.invert(pc.match_substring_regex(text, plain))).as_py():
        return pc.cast(text, data_type)
    numbers = [None if value is None else _to_scale(Decimal(value), data_type) for value in text.to_pylist()]
    return pa.array(numbers, data_type)


def _to_scale(number: Decimal, data_type: pa.DataType) -> Decimal:
    """The number with all digits of the type's scale. Raises pa.ArrowInvalid: Arrow makes 0 of some with too many."""
    if not number or abs(number.adjusted()) <= _DIGITS:
        scaled = number.quantize(Decimal(1).scaleb(-data_type.scale), context=_EXACT)
        if scaled == number and len(scaled.as_tuple().digits) <= data_type.precision:
            return scaled
    raise pa.ArrowInvalid("too many digits")


def narrow(column: pa.Array) -> pa.Array:
    """Numbers as the nearest 32-bit floats. Raises pa.ArrowInvalid for one that would become infinite."""
    floats = pc.cast(column, pa.float32(), safe=False)
    if pc.any(pc.and_(pc.is_inf(floats), pc.invert(pc.is_inf(pc.cast(column, pa.float64(), safe=False))))).as_py():
        raise pa.ArrowInvalid("beyond the range of a float")
    return floats


def _join(text: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(text, end, "")


# Columns from JSON values and from text.
#
# Conversion is strict: a value that is not of the column's type raises `BadValueError` with its row. It never becomes
# null and is never rounded.

Convert = Callable[[Sequence[Any], pa.DataType], pa.Array]
"""A function that makes a column from values, such as `from_json`."""


def parse_json(text: str) -> Any:
    """A JSON text as Python values. Numbers with a fraction or an exponent become `Decimal`, with all of their digits.

    Raises ValueError, also for an object with a repeated name, and RecursionError.
    """
    return json.loads(text, parse_float=exact_number, object_pairs_hook=_named_once)


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"an object has the name {twice!r} more than once")
    return unique


def exact_number(text: str) -> Decimal:
    """A number of JSON or YAML as a decimal with all of its digits. Raises ValueError."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"the exponent of {text} is too large") from None


def from_json(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Values of `parse_json`, or of YAML, as a column. Raises BadValueError.

    A map may also be an object with texts of the key type as keys. A Decimal may be NaN or infinite, as in YAML.
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
        # A float is an error: its digits may differ from those that were written.
        values = [str(value) if type(value) in (int, Decimal) else value for value in values]
    return parse_text(texts(_checked(values, data_type, str)), data_type)


def nested(values: Sequence[Any], data_type: pa.DataType, convert: Convert) -> pa.Array:
    """A column of lists, structs or maps. `convert` makes their inner columns. Raises BadValueError."""
    if pa.types.is_list(data_type):
        return _lists_from_json(values, data_type, convert)
    if pa.types.is_struct(data_type):
        return _structs_from_json(values, data_type, convert)
    return _maps_from_json(values, data_type, convert)


def texts(values: Sequence[str | None]) -> pa.Array:
    """Strings as a column. Raises BadValueError for lone surrogates, which JSON allows and UTF-8 does not."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        row = next(row for row, value in enumerate(values) if value is not None and not _is_unicode(value))
        raise BadValueError(row, type_mismatch(values[row], pa.string())) from None


def parse_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Texts, such as those of a CSV file, as a column. A nested value is JSON. Raises BadValueError."""
    if pa.types.is_string(data_type):
        return valid_text(text)
    if pa.types.is_binary(data_type):
        return _bytes_from_text(text, data_type)
    if pa.types.is_nested(data_type):
        return _nested_from_text(text, data_type)
    return cast_with_row(text, data_type, cast_text)


_EXACT_IN_DOUBLES = 1 << 53
"""Doubles are exact for all integers up to here. A larger double may differ from the number that was written."""

_BIGINT_DIGITS = 19

_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NOT_FINITE_IN_JSON = 'to write it, use a text: "Infinity", "NaN"'


def _checked(values: Sequence[Any], data_type: pa.DataType, *classes: type) -> Sequence[Any]:
    """The values, if all are None or exactly of one of the classes: True is no number, and 1 is no text."""
    # By exact class: `bool` is a subclass of `int`.
    allowed = {*classes, type(None)}
    if set(map(type, values)) <= allowed:
        return values
    row = next(row for row, value in enumerate(values) if type(value) not in allowed)
    raise BadValueError(row, type_mismatch(values[row], data_type))


def _integers_from_json(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    whole = [_whole(value) if type(value) in (float, Decimal) else value for value in values]
    try:
        return pa.array(_checked(whole, data_type, int), data_type)
    except (pa.ArrowInvalid, OverflowError):
        limit = 1 << (data_type.bit_width - 1)
        fits = (value is None or -limit <= value < limit for value in whole)
        row = next(row for row, value_fits in enumerate(fits) if not value_fits)
        raise BadValueError(row, type_mismatch(values[row], data_type)) from None


def _whole(value: float | Decimal) -> Any:
    """517 for 517.0, as some programs write integers; other values are returned unchanged."""
    if isinstance(value, Decimal):
        small = value.is_finite() and value.adjusted() < _BIGINT_DIGITS
        return int(value) if small and value == value.to_integral_value() else value
    return int(value) if value.is_integer() and abs(value) <= _EXACT_IN_DOUBLES else value


def _floats_from_json(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    for row, value in enumerate(values):
        if type(value) is float and not math.isfinite(value):
            # Python's parser accepts NaN and Infinity without quotes, which JSON does not have.
            raise BadValueError(row, f"{type_mismatch(value, data_type)}; {_NOT_FINITE_IN_JSON}")
    values = [_FLOATS.get(value, value) if type(value) is str else value for value in values]
    numbers: list[float | None] = []
    for row, value in enumerate(_checked(values, data_type, int, float, Decimal)):
        try:
            number = None if value is None else float(value)
        except OverflowError as error:
            raise BadValueError(row, type_mismatch(value, data_type)) from error
        if number is not None and math.isinf(number) and type(value) is Decimal and value.is_finite():
            raise BadValueError(row, f"{type_mismatch(value, data_type)}; {_NOT_FINITE_IN_JSON}")
        numbers.append(number)
    doubles = pa.array(numbers, pa.float64())
    return (
        cast_with_row(doubles, data_type, lambda part, _: narrow(part)) if pa.types.is_float32(data_type) else doubles
    )


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
            raise BadValueError(row, type_mismatch(value, data_type))
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
    entries = list(chain.from_iterable((row.items() if text else row) if row else () for row in rows))
    with _rows_of(offsets):
        if not text:
            entry = pa.struct([("key", data_type.key_type), ("value", data_type.item_type)])
            keys, items = nested(entries, entry, convert).flatten()
            if keys.null_count:
                raise BadValueError(keys.is_null().index(True).as_py(), "the key of a map is null")
        else:
            keys = texts([key for key, _ in entries])
            items = convert([item for _, item in entries], data_type.item_type)
    if not text:
        _check_unique(keys, offsets)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=data_type, mask=_nulls(rows))


def _entries(rows: Sequence[Any], key_type: pa.DataType) -> list[Any]:
    """Maps as lists of entries, `{"key": ..., "value": ...}`. In objects, keys are texts and are parsed."""
    objects = [row if isinstance(row, dict) else {} for row in rows]
    if not any(objects):
        return [[] if row == {} else row for row in rows]
    with _rows_of(_offsets(objects)):
        keys = iter(to_json(parse_text(texts(list(chain.from_iterable(objects))), key_type)))
    return [
        [{"key": next(keys), "value": item} for item in row.values()] if isinstance(row, dict) else row for row in rows
    ]


def _check_unique(keys: pa.Array, offsets: Sequence[int]) -> None:
    """Raise BadValueError for a map with a repeated key. `offsets`: where each map begins in `keys`, and the end."""
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
    """Where the items of each row begin among those of all rows, and the end: [0, 2, 2, 3] for [[7, 8], None, [9]]."""
    return list(accumulate((len(row) if row else 0 for row in rows), initial=0))


def _nulls(rows: Sequence[Any]) -> pa.Array:
    return pa.array([row is None for row in rows], pa.bool_())


@contextmanager
def _rows_of(offsets: list[int]) -> Iterator[None]:
    """Raise a BadValueError for an item of lists again, with the row of the list.

    With the offsets [0, 2, 2, 3] of [[7, 8], None, [9]], the items 0 and 1 are in row 0, the item 2 in row 2.
    """
    try:
        yield
    except BadValueError as error:
        # The error counts items of all lists. The last list that starts at or before the item contains it.
        raise BadValueError(bisect_right(offsets, error.row) - 1, error.cause) from error


def _bytes_from_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    values: list[bytes | None] = []
    for row, value in enumerate(text.to_pylist()):
        try:
            # Without `validate`, Python skips characters outside of the alphabet.
            values.append(None if value is None else base64.b64decode(value, validate=True))
        except ValueError as error:
            raise BadValueError(row, type_mismatch(value, data_type)) from error
    return pa.array(values, data_type)


def _nested_from_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    values: list[Any] = []
    for row, value in enumerate(text.to_pylist()):
        try:
            values.append(None if value is None else parse_json(value))
        except (ValueError, RecursionError) as error:
            raise BadValueError(row, type_mismatch(value, data_type)) from error
    return from_json(values, data_type)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
