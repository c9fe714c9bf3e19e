"""Values of columns as a project's functions see them.

| type | value |
|---|---|
| boolean, whole numbers, float and double, string, binary | `bool`, `int`, `float`, `str`, `bytes` |
| decimal | `Decimal`, with the digits behind the point that the type has |
| date | `date` |
| timestamp; timestamp_ntz | `datetime` in UTC; without a zone |
| array; struct | `list`; `dict` by field |
| map | `dict`; where keys are nested, a list of pairs |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class UnfitValueError(Exception):
    """A value that a column cannot have, or one of a column that Python cannot."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


def to_python(column: pa.Array) -> list[Any]:
    """The values of a column. Raises UnfitValueError for a time that Python does not have: after the year 9999."""
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
        # Arrow would give a zone of pytz or of zoneinfo, whichever is installed.
        plain = column.cast(pa.timestamp("us")).to_pylist()
        return [None if value is None else value.replace(tzinfo=UTC) for value in plain]
    except (ValueError, OverflowError) as error:
        raise UnfitValueError("a time outside of the years 1 to 9999, which Python does not have") from error


def _lists(items: list[Any], lengths: pa.Array) -> list[Any]:
    counts = lengths.to_pylist()
    bounds = pairwise(accumulate((count or 0 for count in counts), initial=0))
    return [None if count is None else items[start:end] for count, (start, end) in zip(counts, bounds, strict=True)]


def _maps(column: pa.Array) -> list[Any]:
    # A copy has only the pairs of its own rows, which a slice has among others.
    whole = column.take(pa.array(range(len(column)), pa.int64()))
    pairs = list(zip(to_python(whole.keys), to_python(whole.items), strict=True))
    lengths = pc.list_value_length(whole.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field]))))
    found = _lists(pairs, lengths)
    if pa.types.is_nested(column.type.key_type):
        return found
    return [None if each is None else dict(each) for each in found]


def to_column(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Values as `results.normal` makes them, as a column; None is null."""
    if pa.types.is_nested(data_type):
        values = [None if each is None else _in_pairs(each, data_type) for each in values]
    return pa.array(values, data_type)


def _in_pairs(value: Any, data_type: pa.DataType) -> Any:
    """A nested value with lists of pairs for its maps, as Arrow takes them."""
    if value is None:
        return None
    if pa.types.is_list(data_type):
        return [_in_pairs(each, data_type.value_type) for each in value]
    if pa.types.is_struct(data_type):
        return {field.name: _in_pairs(value[field.name], field.type) for field in data_type}
    if pa.types.is_map(data_type):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(_in_pairs(key, data_type.key_type), _in_pairs(item, data_type.item_type)) for key, item in pairs]
    return value
