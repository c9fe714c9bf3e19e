"""Results of functions as values of columns: conversion, and errors for values that do not fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from numbers import Integral, Real
from typing import Any, NoReturn, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...suggestions import guess
from ..records.arrays import BadValueError, cast_with_row, type_mismatch, valid_text
from ..records.types import ddl
from ..records.values import in_years
from .errors import unfit_value

# Python values of columns, for a project's functions.
#
# | type | value |
# |---|---|
# | boolean, whole numbers, float and double, string, binary | `bool`, `int`, `float`, `str`, `bytes` |
# | decimal | `Decimal`, with as many decimal places as the type |
# | date | `date` |
# | timestamp; timestamp_ntz | `datetime` in UTC; without a zone |
# | array; struct | `list`; `dict` by field |
# | map | `dict`; a list of pairs if keys are nested |


class UnfitValueError(Exception):
    """A value that a column cannot hold, or a column's value that Python does not have."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


def to_python(column: pa.Array) -> list[Any]:
    """The Python values of a column.

    Raises UnfitValueError for a time after the year 9999, which Python does not have.
    """
    data_type = column.type
    if pa.types.is_timestamp(data_type) or pa.types.is_date(data_type):
        return _times(column)
    if pa.types.is_list(data_type):
        return _lists(to_python(column.flatten()), pc.list_value_length(column))
    if pa.types.is_struct(data_type):
        names = [field.name for field in data_type]
        fields = [to_python(field) for field in column.flatten()]
        rows: Iterable[tuple[Any, ...]] = zip(*fields, strict=True) if fields else (() for _ in column)
        valid = column.is_valid().to_pylist()
        return [dict(zip(names, row, strict=True)) if is_ else None for row, is_ in zip(rows, valid, strict=True)]
    if pa.types.is_map(data_type):
        return _maps(column)
    return list(column.to_pylist())


def _times(column: pa.Array) -> list[Any]:
    try:
        if not pa.types.is_timestamp(column.type) or column.type.tz is None:
            return list(column.to_pylist())
        # Arrow would return a zone of pytz or of zoneinfo, whichever is installed.
        plain = column.cast(pa.timestamp("us")).to_pylist()
        return [None if value is None else value.replace(tzinfo=UTC) for value in plain]
    except (ValueError, OverflowError) as error:
        raise UnfitValueError("a time outside of the years 1 to 9999, which Python does not have") from error


def _lists(items: list[Any], lengths: pa.Array) -> list[Any]:
    counts = lengths.to_pylist()
    bounds = pairwise(accumulate((count or 0 for count in counts), initial=0))
    return [None if count is None else items[start:end] for count, (start, end) in zip(counts, bounds, strict=True)]


def _maps(column: pa.Array) -> list[Any]:
    # A copy has only the pairs of its own rows; a slice shares them with others.
    whole = column.take(pa.array(range(len(column)), pa.int64()))
    pairs = list(zip(to_python(whole.keys), to_python(whole.items), strict=True))
    lengths = pc.list_value_length(whole.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field]))))
    lists = _lists(pairs, lengths)
    if pa.types.is_nested(column.type.key_type):
        return lists
    return [None if pairs_ is None else dict(pairs_) for pairs_ in lists]


def to_column(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Values, converted by `converter`, as a column. None is null."""
    if pa.types.is_nested(data_type):
        values = [None if value is None else _in_pairs(value, data_type) for value in values]
    return pa.array(values, data_type)


def _in_pairs(value: Any, data_type: pa.DataType) -> Any:
    """A nested value with lists of pairs for its maps, as Arrow expects them."""
    if value is None:
        return None
    if pa.types.is_list(data_type):
        return [_in_pairs(item, data_type.value_type) for item in value]
    if pa.types.is_struct(data_type):
        return {field.name: _in_pairs(value[field.name], field.type) for field in data_type}
    if pa.types.is_map(data_type):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(_in_pairs(key, data_type.key_type), _in_pairs(item, data_type.item_type)) for key, item in pairs]
    return value


# Results of a project's functions as values of columns.
#
# A result is converted to the value that a store would return later (`1` of a double is `1.0`): what a function sees
# must not depend on where an epoch ends. Nothing is rounded, and no text is parsed as a number. The rules are those of
# `values.py`.

Result = TypeVar("Result")

Converter = Callable[[Any], Any]
"""Converts a result to the value of a column. It is not called for None. Raises UnfitValueError."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NTZ = datetime(1970, 1, 1)
_WIDE = Context(prec=80)
"""Enough digits to round no decimal of a column."""


@lru_cache(maxsize=1024)
def converter(data_type: pa.DataType) -> Converter:
    """The converter of results to this type."""
    if pa.types.is_boolean(data_type):
        return partial(_boolean, data_type)
    if pa.types.is_integer(data_type):
        limit = 1 << (data_type.bit_width - 1)
        return partial(_integer, data_type, -limit, limit)
    if pa.types.is_floating(data_type):
        return partial(_float32 if pa.types.is_float32(data_type) else _float, data_type)
    if pa.types.is_string(data_type):
        return partial(_text, data_type)
    if pa.types.is_binary(data_type):
        return partial(_bytes, data_type)
    if pa.types.is_decimal(data_type):
        return partial(_decimal, data_type, Decimal(1).scaleb(-data_type.scale))
    if pa.types.is_timestamp(data_type):
        return partial(_timestamp if data_type.tz else _timestamp_ntz, data_type)
    if pa.types.is_date(data_type):
        return partial(_date, data_type)
    if pa.types.is_list(data_type):
        return partial(_list, data_type, converter(data_type.value_type))
    if pa.types.is_struct(data_type):
        return partial(_struct, {field.name: converter(field.type) for field in data_type})
    if pa.types.is_map(data_type):
        return partial(_map, data_type, converter(data_type.key_type), converter(data_type.item_type))
    return partial(_reject, data_type)


def _reject(data_type: pa.DataType, value: Any) -> NoReturn:
    raise UnfitValueError(type_mismatch(value, data_type))


def _boolean(data_type: pa.DataType, value: Any) -> bool:
    return bool(value) if isinstance(value, bool | np.bool_) else _reject(data_type, value)


def _integer(data_type: pa.DataType, least: int, end: int, value: Any) -> int:
    whole = value if type(value) is int else _whole(value)
    return whole if whole is not None and least <= whole < end else _reject(data_type, value)


def _whole(value: Any) -> int | None:
    # In Python a bool is an int; in SQL it is no number.
    return None if isinstance(value, bool) or not isinstance(value, Integral) else int(value)


def _float(data_type: pa.DataType, value: Any) -> float:
    if type(value) is float:
        return value
    try:
        return _reject(data_type, value) if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        _reject(data_type, value)


def _float32(data_type: pa.DataType, value: Any) -> float:
    wide = _float(data_type, value)
    with np.errstate(over="ignore"):
        narrow = float(np.float32(wide))
    return _reject(data_type, value) if math.isinf(narrow) and not math.isinf(wide) else narrow


def _text(data_type: pa.DataType, value: Any) -> str:
    if not isinstance(value, str):
        _reject(data_type, value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UnfitValueError(f"{value!r} is no text that UTF-8 can write") from None
    return str(value)


def _bytes(data_type: pa.DataType, value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else _reject(data_type, value)


def _decimal(data_type: pa.DataType, unit: Decimal, value: Any) -> Decimal:
    number = value if isinstance(value, Decimal) else _whole(value)
    if number is None:
        hint = "; convert it to a Decimal first, rounded as needed" if isinstance(value, float) else ""
        raise UnfitValueError(f"{type_mismatch(value, data_type)}{hint}")
    try:
        exact = Decimal(number).quantize(unit, context=_WIDE)
    except InvalidOperation:
        _reject(data_type, value)
    fits = exact == number and len(exact.as_tuple().digits) <= data_type.precision
    return exact if fits else _reject(data_type, value)


def _timestamp(data_type: pa.DataType, value: Any) -> datetime:
    if not isinstance(value, datetime):
        _reject(data_type, value)
    if value.tzinfo is None:
        raise UnfitValueError(f"{value!r} has no time zone; a timestamp needs one, such as `datetime.UTC`")
    if type(value) is datetime and value.tzinfo is UTC:
        return value
    return _EPOCH + timedelta(microseconds=(value - _EPOCH) // timedelta(microseconds=1))


def _timestamp_ntz(data_type: pa.DataType, value: Any) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is not None:
        _reject(data_type, value)
    if type(value) is datetime:
        return value
    return _EPOCH_NTZ + timedelta(microseconds=(value - _EPOCH_NTZ) // timedelta(microseconds=1))


def _date(data_type: pa.DataType, value: Any) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        _reject(data_type, value)
    return value if type(value) is date else date(value.year, value.month, value.day)


def _list(data_type: pa.DataType, item: Converter, value: Any) -> list[Any]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | bytearray | Mapping):
        _reject(data_type, value)
    return [None if element is None else item(element) for element in value]


def _struct(fields: Mapping[str, Converter], value: Any) -> dict[str, Any]:
    pairs = zip(fields.items(), values_by_name(value, fields), strict=True)
    return {name: None if element is None else field(element) for (name, field), element in pairs}


def _map(data_type: pa.DataType, key: Converter, item: Converter, value: Any) -> Any:
    nested = pa.types.is_nested(data_type.key_type)
    if not isinstance(value, Mapping) and not (nested and isinstance(value, list | tuple)):
        _reject(data_type, value)
    pairs = list(value.items() if isinstance(value, Mapping) else value)
    if any(name is None for name, _ in pairs):
        raise UnfitValueError("a map has no key None")
    converted = [(key(name), None if element is None else item(element)) for name, element in pairs]
    return converted if nested else dict(converted)


def cast_column(column: pa.Array | pa.ChunkedArray, data_type: pa.DataType) -> pa.Array:
    """A column of a function, cast to the type. As with single values, the meaning must not change: a text is no
    number, and a number no time. Raises UnfitValueError.
    """
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    given_type = column.type
    if given_type != data_type:
        column = _plain(column)
        if not _alike(column.type, data_type):
            raise UnfitValueError(f"an array of {given_type} is no {ddl(data_type)}")
        try:
            column = column.cast(data_type)
        except pa.ArrowException as error:
            raise UnfitValueError(f"an array of {given_type} is no {ddl(data_type)}: {error}") from None
    return checked_column(column)


def checked_column(column: pa.Array) -> pa.Array:
    """The column, if all its values are valid: texts in UTF-8, decimals within their digits, times that Python has.

    Raises UnfitValueError.
    """
    try:
        return cast_with_row(valid_text(column), column.type, lambda some, _: _in_years(some))
    except BadValueError as error:
        raise UnfitValueError(str(error)) from None


def _in_years(column: pa.Array) -> pa.Array:
    """Apply `in_years` to a column, and to the values in nested ones."""
    if pa.types.is_list(column.type):
        _in_years(column.flatten())
    elif pa.types.is_struct(column.type):
        for field in column.flatten():
            _in_years(field)
    elif pa.types.is_map(column.type):
        # A copy has only the pairs of its own rows; a slice shares them with others.
        whole = column.take(pa.array(range(len(column)), pa.int64()))
        _in_years(whole.keys)
        _in_years(whole.items)
    return in_years(column)


def _plain(column: pa.Array) -> pa.Array:
    """A column without encodings that only save space."""
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return pc.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column


def _alike(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type have the same meaning in another type, if they fit into it."""
    types = pa.types
    if types.is_null(given):
        return True
    if types.is_list(wanted):
        return _is_list(given) and _alike(given.value_type, wanted.value_type)
    if types.is_map(wanted):
        pairs = ((given.key_type, wanted.key_type), (given.item_type, wanted.item_type)) if types.is_map(given) else ()
        return bool(pairs) and all(_alike(*types_) for types_ in pairs)
    if types.is_struct(wanted):
        names = [[field.name for field in struct] if types.is_struct(struct) else None for struct in (given, wanted)]
        return names[0] == names[1] and all(_alike(*map(_type, fields)) for fields in zip(given, wanted, strict=True))
    if types.is_floating(given) and types.is_decimal(wanted):  # Arrow would round
        return False
    if types.is_timestamp(given) and types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None)
    return _meaning(given) is not None and _meaning(given) == _meaning(wanted)


def _type(field: pa.Field) -> pa.DataType:
    return field.type


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _meaning(kind: pa.DataType) -> str | None:
    types = pa.types
    tests: Mapping[str, Sequence[Callable[[pa.DataType], bool]]] = {
        "number": (types.is_integer, types.is_floating, types.is_decimal),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "bytes": (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary),
        "boolean": (types.is_boolean,),
        "date": (types.is_date,),
        "timestamp": (types.is_timestamp,),
    }
    return next((name for name, predicates in tests.items() if any(predicate(kind) for predicate in predicates)), None)


def convert_value(make: Callable[[Any], Result], value: Any) -> Result:
    """`make(value)`. Errors that a project's value raises become UnfitValueError."""
    try:
        return make(value)
    except UnfitValueError:
        raise
    except BaseException as error:
        raise unfit_value(value, error) from error


def values_by_name(value: Any, names: Iterable[str]) -> list[Any]:
    """The values of these names, from a mapping or from attributes of an object. Raises UnfitValueError."""
    wanted = list(names)
    if isinstance(value, Mapping):
        missing = [name for name in wanted if name not in value]
        unknown = [name for name in value if name not in wanted]
        if missing or unknown:
            raise UnfitValueError(_mismatch(missing, unknown))
        return [value[name] for name in wanted]
    try:
        return [getattr(value, name) for name in wanted]
    except AttributeError:
        missing = [name for name in wanted if not hasattr(value, name)]
        lacking = f"{value!r:.100} has no {', '.join(missing)}"
        if missing == wanted:
            lacking += f"; give a mapping by column, {{{wanted[0]!r}: ...}}, or an object with these attributes"
        raise UnfitValueError(lacking) from None


def _mismatch(missing: Sequence[str], unknown: Sequence[Any]) -> str:
    guesses = [guess(str(name), missing, "") for name in unknown]
    parts = [f"it lacks {', '.join(missing)}"] if missing else []
    parts += [
        f"{name!r} is no column{f': {hint}' if hint else ''}" for name, hint in zip(unknown, guesses, strict=True)
    ]
    return ", and ".join(parts)
