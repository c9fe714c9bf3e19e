"""Values of columns as what JSON knows, a column at a time. `docs/log.md` has the table of types."""

from __future__ import annotations

import base64
import math
from itertools import accumulate, chain, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


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
