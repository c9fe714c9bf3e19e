"""Columns as JSON texts: the values of `record_json.to_json`, written with Arrow's functions and not row by row."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import cast_with_row, check_overflow, list_offsets, valid_text
from ..records.values import in_years

_NULL = pa.scalar("null", pa.string())
_NOTHING = pa.scalar("", pa.string())
_ESCAPED = r'["\\\x00-\x1f]'
"""The characters that JSON has in escaped form only."""


def json_texts(column: pa.Array) -> pa.StringArray:
    """The JSON text of each value; `null` for a null.

    Raises BadValueError for a text that is not UTF-8 and for a time outside of the years 1 to 9999, and
    ArrowCapacityError for more text than an array holds: fewer rows may succeed.
    """
    return pc.fill_null(_texts(column), _NULL)


def object_texts(names: list[str], columns: list[pa.StringArray]) -> pa.StringArray:
    """JSON objects with these fields, in order, from the JSON texts of their values; null where one of these is null.

    `names`: at least one.
    """
    parts: list[pa.Array | pa.Scalar] = []
    for name, column in zip(names, columns, strict=True):
        parts += [pa.scalar(f"{',' if parts else '{'}{json.dumps(name, ensure_ascii=False)}:"), column]
    return _joined(*parts, pa.scalar("}"))


def _texts(column: pa.Array) -> pa.StringArray:
    """The JSON text of each value; null, or any text, for a null."""
    data_type = column.type
    if pa.types.is_string(data_type):
        return _quoted(valid_text(column))
    if pa.types.is_boolean(data_type) or pa.types.is_integer(data_type):
        return column.cast(pa.string())
    if pa.types.is_floating(data_type):
        return _floats(column)
    if pa.types.is_decimal(data_type):
        return _in_quotes(_decimals(column))
    if pa.types.is_binary(data_type):
        values = [None if value is None else base64.b64encode(value).decode("ascii") for value in column.to_pylist()]
        return _in_quotes(pa.array(values, pa.string()))
    if pa.types.is_temporal(data_type):
        return _in_quotes(_times(cast_with_row(column, data_type, lambda some, _: in_years(some))))
    if pa.types.is_struct(data_type):
        return _structs(column)
    if pa.types.is_list(data_type):
        return _arrays(column, json_texts(column.flatten()))
    if pa.types.is_map(data_type):
        return _maps(column)
    return pa.nulls(len(column), pa.string())


def _joined(*parts: pa.Array | pa.Scalar) -> pa.StringArray:
    return check_overflow(pc.binary_join_element_wise(*parts, _NOTHING))


def _in_quotes(texts: pa.StringArray) -> pa.StringArray:
    return _joined(pa.scalar('"'), texts, pa.scalar('"'))


def _quoted(texts: pa.StringArray) -> pa.StringArray:
    """Texts in quotes. The few with characters to escape are written by Python."""
    escaped = pc.match_substring_regex(texts, _ESCAPED)
    quoted = _in_quotes(texts)
    if not pc.any(escaped).as_py():
        return quoted
    written = [json.dumps(text, ensure_ascii=False) for text in texts.filter(escaped).to_pylist()]
    return check_overflow(pc.replace_with_mask(quoted, pc.fill_null(escaped, False), pa.array(written, pa.string())))


def _floats(column: pa.Array) -> pa.StringArray:
    """The shortest digits, with a fraction or an exponent as Java and Python write them: 1.0 and not 1.

    What JSON has no number for is a text: "NaN", "Infinity".
    """
    text = pc.replace_substring_regex(column.cast(pa.string()), r"^(-?[0-9]+)$", r"\1.0")
    if pc.all(pc.is_finite(column), min_count=0).as_py():
        return text
    text = pc.if_else(pc.is_nan(column), '"NaN"', text)
    return pc.if_else(pc.is_inf(column), pc.if_else(pc.less(column, 0), '"-Infinity"', '"Infinity"'), text)


def _decimals(column: pa.Array) -> pa.StringArray:
    """All digits of the scale. Arrow writes small numbers with an exponent."""
    text = column.cast(pa.string())
    if not pc.any(pc.match_substring(text, "E")).as_py():
        return text
    return pa.array([None if value is None else format(value, "f") for value in column.to_pylist()], pa.string())


def _times(column: pa.Array) -> pa.StringArray:
    """Times in the form of ISO 8601, without zeros at the end of the fraction."""
    text = column.cast(pa.string())
    if pa.types.is_date(column.type):
        return text
    return pc.replace_substring_regex(pc.replace_substring(text, " ", "T"), r"\.?0*(Z?)$", r"\1")


def _structs(column: pa.Array) -> pa.StringArray:
    if not column.type.num_fields:
        return pc.if_else(column.is_valid(), "{}", pa.scalar(None, pa.string()))
    objects = object_texts([field.name for field in column.type], [json_texts(field) for field in column.flatten()])
    return pc.if_else(column.is_valid(), objects, pa.scalar(None, pa.string()))


def _arrays(column: pa.Array, items: pa.StringArray, brackets: str = "[]") -> pa.StringArray:
    """JSON arrays as long as the lists of the column, from the JSON texts of all their items."""
    joined = check_overflow(pc.binary_join(pa.ListArray.from_arrays(list_offsets(column), items), ","))
    arrays = _joined(pa.scalar(brackets[0]), joined, pa.scalar(brackets[1]))
    return pc.if_else(column.is_valid(), arrays, pa.scalar(None, pa.string()))


def _maps(column: pa.MapArray) -> pa.StringArray:
    """An object if keys are texts, else an array of objects with `key` and `value`."""
    entry = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
    entries = column.cast(pa.list_(entry))
    keys, items = entries.flatten().flatten()
    if not pa.types.is_string(column.type.key_type):
        return _arrays(entries, object_texts(["key", "value"], [json_texts(keys), json_texts(items)]))
    return _arrays(entries, _joined(json_texts(keys), pa.scalar(":"), json_texts(items)), "{}")
