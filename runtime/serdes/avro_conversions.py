"""From the values that Avro writes to those of columns: dates, times, decimals, UUIDs, texts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import BadValueError, Bools, Int64s, cast_with_row, to_numpy
from ..records.keys import binary_array, binary_parts
from ..records.schema import readable, widened
from ..records.types import ddl
from ..records.values import in_years, parse_text
from .avro_read import Conversion
from .avro_schema import ZONED, AvroType, natural_type, plain_type
from .serde import as_texts, by_rows

_DIGITS = 38
_DECIMAL = 16
"""The bytes of Arrow's decimals."""


def conversion(avro: AvroType, wanted: pa.DataType) -> Conversion | None:
    """The conversion from what an Avro type without fields and items holds. Raises TypeError if there is none."""
    natural = natural_type(avro)
    if natural is not None and readable(natural, wanted):
        return partial(_converted, avro=avro, natural=natural, wanted=wanted)
    plain = plain_type(avro)
    if plain == pa.int32() and wanted in (pa.int8(), pa.int16()):
        return partial(_narrowed, wanted=wanted)  # Avro has no type for them
    if avro.logical == ZONED and pa.types.is_timestamp(wanted):
        return partial(_parsed, wanted=wanted)
    if avro.logical == "decimal" and avro.precision > _DIGITS and pa.types.is_decimal(wanted):
        return partial(_fitting, natural=natural, wanted=wanted)
    if avro.logical and plain is not None and readable(plain, wanted):
        return partial(_converted, avro=AvroType(avro.name), natural=plain, wanted=wanted)
    raise TypeError(ddl(wanted))


def _converted(
    values: pa.Array, avro: AvroType, natural: pa.DataType, wanted: pa.DataType
) -> tuple[pa.Array, Mapping[int, str]]:
    column, errors = _natural(values, avro, natural)
    return widened(column, wanted), errors


def _natural(values: pa.Array, avro: AvroType, natural: pa.DataType) -> tuple[pa.Array, Mapping[int, str]]:
    if avro.logical == "decimal":
        return _decimals(values, natural)
    if avro.logical == "uuid" and avro.name == "fixed":
        return _uuids(values), {}
    if pa.types.is_string(natural) and pa.types.is_binary(values.type):
        return as_texts(values)
    errors: Mapping[int, str] = {}
    if pa.types.is_timestamp(natural):
        column, errors = _times(to_numpy(values), avro.logical.rpartition("-")[2], natural)
    else:
        column = values if values.type == natural else values.cast(natural)
    if pa.types.is_temporal(natural):
        column, more = by_rows(column, _in_years, natural)
        errors = {**more, **errors}
    return column, errors


def _in_years(column: pa.Array) -> pa.Array:
    return cast_with_row(column, column.type, lambda some, _: in_years(some))


def _parsed(values: pa.BinaryArray, wanted: pa.DataType) -> tuple[pa.Array, Mapping[int, str]]:
    texts, errors = as_texts(values)
    # Values of failed rows are empty.
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    column, more = by_rows(texts, partial(parse_text, data_type=wanted), wanted)
    return column, more | errors


def _fitting(values: pa.BinaryArray, natural: pa.DataType, wanted: pa.DataType) -> tuple[pa.Array, Mapping[int, str]]:
    """Decimals of a precision that is not known, as those of a column."""
    column, errors = _decimals(values, natural)
    # As texts: a cast to a greater scale may overflow without an error.
    column, more = by_rows(column.cast(pa.string()), partial(parse_text, data_type=wanted), wanted)
    return column, {**more, **errors}


def _narrowed(values: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Mapping[int, str]]:
    numbers = to_numpy(values)
    narrow = numbers.astype(wanted.to_pandas_dtype())
    bad = narrow != numbers
    return _without(pa.array(narrow), bad), {
        int(row): f"{numbers[row]} is no {ddl(wanted)}" for row in np.flatnonzero(bad)
    }


def _times(numbers: Int64s, unit: str, natural: pa.DataType) -> tuple[pa.Array, Mapping[int, str]]:
    bad: Bools = np.zeros(len(numbers), np.bool_)
    if unit == "millis":
        bad = np.abs(numbers // 1000) > (2**63 - 1) // 1_000_000
        numbers = np.where(bad, 0, numbers) * 1000
    elif unit == "nanos":
        numbers = numbers // 1000
    errors = {int(row): f"{numbers[row]} ms is no timestamp" for row in np.flatnonzero(bad)}
    return _without(pa.array(numbers).cast(natural), bad), errors


def _without(column: pa.Array, bad: Bools) -> pa.Array:
    return column.take(pa.array(np.arange(len(column)), mask=bad)) if bad.any() else column


def _uuids(values: pa.BinaryArray) -> pa.StringArray:
    """UUIDs of 16 bytes as texts. Values of failed rows are empty, and so are their texts."""
    data, starts, lengths = binary_parts(values)
    whole = lengths == _DECIMAL
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    octets = data[starts[whole][:, None] + np.arange(_DECIMAL)]
    texts = np.full((len(octets), 36), ord("-"), np.uint8)
    places = np.array([at for at in range(36) if at not in (8, 13, 18, 23)])
    texts[:, places[0::2]], texts[:, places[1::2]] = digits[octets >> 4], digits[octets & 15]
    return binary_array(texts.reshape(-1), np.where(whole, 36, 0)).cast(pa.string())


def _decimals(values: pa.BinaryArray, natural: pa.DataType) -> tuple[pa.Array, Mapping[int, str]]:
    """Decimals from their digits as a number in two's complement, big endian, of any length."""
    data, starts, lengths = binary_parts(values)
    first = np.zeros(len(lengths), np.uint8)
    first[lengths > 0] = data[starts[lengths > 0]]
    sign = np.where(first >= 0x80, np.uint8(0xFF), np.uint8(0))
    words = np.repeat(sign[:, None], _DECIMAL, axis=1)  # little endian
    for byte in range(_DECIMAL):
        there = lengths > byte
        words[there, byte] = data[starts[there] + lengths[there] - 1 - byte]
    errors = dict.fromkeys(np.flatnonzero(lengths == 0).tolist(), "no bytes are no decimal")
    for row in np.flatnonzero(lengths > _DECIMAL).tolist():  # longer than needed, or too large
        head = data[starts[row] : starts[row] + lengths[row] - _DECIMAL]
        if (head != sign[row]).any() or (words[row, -1] >= 0x80) != (sign[row] == 0xFF):
            errors[row] = f"{lengths[row]} bytes are more than {ddl(natural)} holds"
            words[row] = 0
    column = pa.Decimal128Array.from_buffers(natural, len(lengths), [None, pa.py_buffer(words.reshape(-1))])
    column, more = by_rows(column, partial(_in_precision, natural=natural), natural)
    return column, more | errors


def _in_precision(column: pa.Array, natural: pa.DataType) -> pa.Array:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raise BadValueError(0, f"it has more digits than {ddl(natural)}") from None
    return column
