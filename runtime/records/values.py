"""Converts column values to text and JSON and back, a column at a time. `docs/log.md` has the table of types.

Reading is strict: a value that the column's type does not have is a `BadValueError` with its row. It is never replaced
by null and never rounded.
"""

from __future__ import annotations

import base64
import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .scalar_text import cast_text, narrow
from .types import ddl

_SHOWN = 200
"""The most characters of a value that an error shows."""


class BadValueError(Exception):
    """A value that a column cannot have.

    `row`: its index in the column. Callers that know the file raise a SeedError.
    """

    def __init__(self, row: int, cause: str, column: str | None = None) -> None:
        super().__init__(f"row {row}: {cause}")
        self.row = row
        self.cause = cause
        self.column = column


def to_json(column: pa.Array) -> list[Any]:
    """The column's values as `json` writes them; see the table of types."""
    data_type = column.type
    if pa.types.is_floating(data_type):
        return [_float_to_json(value) for value in _shortest(column)]
    if pa.types.is_decimal(data_type):
        return [None if value is None else format(value, "f") for value in column.to_pylist()]
    if pa.types.is_binary(data_type):
        return [None if value is None else base64.b64encode(value).decode("ascii") for value in column.to_pylist()]
    if pa.types.is_date(data_type):
        return list(column.cast(pa.string()).to_pylist())
    if pa.types.is_timestamp(data_type):
        text = pc.replace_substring(column.cast(pa.string()), " ", "T")
        return list(pc.replace_substring_regex(text, r"\.?0*(Z?)$", r"\1").to_pylist())
    if pa.types.is_list(data_type):
        return _lists(to_json(column.flatten()), pc.list_value_length(column).to_pylist())
    if pa.types.is_struct(data_type):
        return _structs_to_json(column)
    if pa.types.is_map(data_type):
        return _maps_to_json(column)
    if pa.types.is_string(data_type):
        return _texts_to_json(column)
    return list(column.to_pylist())


Convert = Callable[[Sequence[Any], pa.DataType], pa.Array]
"""A function that makes a column from values, such as `from_json`."""


def from_json(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """The inverse of `to_json`. Raises BadValueError."""
    if pa.types.is_nested(data_type):
        return nested(values, data_type, from_json)
    if pa.types.is_boolean(data_type):
        return pa.array(_checked(values, data_type, bool), data_type)
    if pa.types.is_integer(data_type):
        return _integers_from_json(values, data_type)
    if pa.types.is_floating(data_type):
        return _floats_from_json(values, data_type)
    if pa.types.is_decimal(data_type):
        values = [str(value) if type(value) is int else value for value in values]
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


def valid_text(column: pa.Array) -> pa.Array:
    """A column whose texts are UTF-8, also those in nested values. Raises BadValueError."""

    def check(some: pa.Array, _: pa.DataType) -> pa.Array:
        try:
            some.validate(full=True)
        except pa.ArrowInvalid:
            # `validate` also checks children outside of a slice. A copy has only the slice.
            some.take(pa.array(range(len(some)), pa.int64())).validate(full=True)
        return some

    return located(column, column.type, check)


def located(column: pa.Array, data_type: pa.DataType, cast: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.Array:
    """`cast(column, data_type)`. If Arrow refuses it, raises BadValueError with the first faulty row."""
    try:
        return cast(column, data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not len(column):
            return pa.array([], data_type)
    good, bad = 0, len(column)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            cast(column[good:middle], data_type)
            good = middle
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            bad = middle
    raise BadValueError(good, no(_value(column, good), data_type))


def _value(column: pa.Array, row: int) -> Any:
    """A value of the column. For a text that is not UTF-8: its bytes."""
    try:
        return column[row].as_py()
    except UnicodeDecodeError:
        text = pa.types.is_string(column.type)
        return column[row : row + 1].cast(pa.binary())[0].as_py() if text else "a text that is not UTF-8"


def no(value: Any, data_type: pa.DataType) -> str:
    """The message for a value that the type does not have."""
    shown = str(value) if isinstance(value, float) else repr(value)
    return f"{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'} is no {ddl(data_type)}"


_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _float_to_json(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _shortest(column: pa.Array) -> list[float | None]:
    """Doubles as they are. For floats, the double with the shortest text: 0.1 and not 0.10000000149011612."""
    if pa.types.is_float64(column.type):
        return list(column.to_pylist())
    return [None if text is None else float(text) for text in column.cast(pa.string()).to_pylist()]


def _texts_to_json(column: pa.Array) -> list[str | None]:
    """Texts. Bytes that are not UTF-8, which logs of earlier versions may have, become U+FFFD."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        found = column.cast(pa.binary()).to_pylist()
        return [None if value is None else value.decode(errors="replace") for value in found]


def _lists(items: list[Any], lengths: list[int | None]) -> list[Any]:
    bounds = pairwise(accumulate((length or 0 for length in lengths), initial=0))
    return [None if length is None else items[start:end] for length, (start, end) in zip(lengths, bounds, strict=True)]


def _structs_to_json(column: pa.Array) -> list[Any]:
    names = [field.name for field in column.type]
    fields = [to_json(field) for field in column.flatten()]
    rows: Any = zip(*fields, strict=True) if fields else ([] for _ in column)
    return [
        dict(zip(names, row, strict=True)) if valid else None
        for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)
    ]


def _maps_to_json(column: pa.Array) -> list[Any]:
    rows = column.to_pylist()
    pairs = list(chain.from_iterable(row or () for row in rows))
    keys = to_json(pa.array([key for key, _ in pairs], column.type.key_type))
    items = to_json(pa.array([item for _, item in pairs], column.type.item_type))
    lengths = [None if row is None else len(row) for row in rows]
    found = _lists(list(zip(keys, items, strict=True)), lengths)
    if pa.types.is_string(column.type.key_type):
        return [None if row is None else dict(row) for row in found]
    return [None if row is None else [{"key": key, "value": item} for key, item in row] for row in found]


def _checked(values: Sequence[Any], data_type: pa.DataType, *classes: type) -> Sequence[Any]:
    """The values, if each is None or exactly of one of the classes: True is no number, and 1 is no text."""
    allowed = {*classes, type(None)}
    if set(map(type, values)) <= allowed:
        return values
    row = next(row for row, value in enumerate(values) if type(value) not in allowed)
    raise BadValueError(row, no(values[row], data_type))


def _integers_from_json(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    whole = [int(value) if type(value) is float and value.is_integer() else value for value in values]
    try:
        return pa.array(_checked(whole, data_type, int), data_type)
    except (pa.ArrowInvalid, OverflowError):
        limit = 1 << (data_type.bit_width - 1)
        fits = (value is None or -limit <= value < limit for value in whole)
        row = next(row for row, good in enumerate(fits) if not good)
        raise BadValueError(row, no(values[row], data_type)) from None


def _floats_from_json(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    for row, value in enumerate(values):
        if type(value) is float and not math.isfinite(value):
            # JSON has no such number: it was NaN, or 1e999, which Python reads as one.
            raise BadValueError(row, f'{no(value, data_type)}; where it is meant, it is a text: "Infinity", "NaN"')
    values = [_FLOATS.get(value, value) if type(value) is str else value for value in values]
    numbers: list[float | None] = []
    for row, value in enumerate(_checked(values, data_type, int, float)):
        try:
            numbers.append(None if value is None else float(value))
        except OverflowError as error:
            raise BadValueError(row, no(value, data_type)) from error
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
    fields = [convert([row and row.get(field.name) for row in rows], field.type) for field in data_type]
    return pa.StructArray.from_arrays(fields, fields=list(data_type), mask=_nulls(rows))


def _maps_from_json(values: Sequence[Any], data_type: pa.DataType, convert: Convert) -> pa.Array:
    text = pa.types.is_string(data_type.key_type)
    rows = _checked(values, data_type, dict if text else list)
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
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=data_type, mask=_nulls(rows))


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
        raise BadValueError(bisect_right(offsets, error.row) - 1, error.cause) from error


def _bytes_from_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    found = []
    for row, value in enumerate(text.to_pylist()):
        try:
            found.append(None if value is None else base64.b64decode(value, validate=True))
        except ValueError as error:
            raise BadValueError(row, no(value, data_type)) from error
    return pa.array(found, data_type)


def _nested_from_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    found = []
    for row, value in enumerate(text.to_pylist()):
        try:
            found.append(None if value is None else json.loads(value))
        except (ValueError, RecursionError) as error:
            raise BadValueError(row, no(value, data_type)) from error
    return from_json(found, data_type)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
