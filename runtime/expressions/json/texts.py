"""`from_json` of texts: what is plain all at once, everything else one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...records.arrays import unbroken
from .conversions import Struct, struct
from .lost import LostError, PartlyError
from .patterns import pattern_of, unquoted_of
from .plain import Plain, read_plain
from .tokens import Tokens


def from_json(texts: pa.Array, data_type: pa.StructType) -> pa.Array:
    """Structs of texts, null where a text is null or blank. What cannot be read of a text is null in its struct."""
    values = _completed(read_plain(texts, pattern_of(data_type), data_type), texts, data_type)
    if texts.null_count:
        values = pc.if_else(texts.is_valid(), values, pa.scalar(None, data_type))
    return values


def _completed(read: Plain, texts: pa.Array, data_type: pa.StructType) -> pa.Array:
    """The values that were read all at once, and the others."""
    if not len(read.places):
        return read.values
    others = texts.take(pa.array(read.places))
    unquoted = unquoted_of(data_type)
    if unquoted is None:
        found = one_by_one(others, data_type)
    else:
        quoted = unbroken(pc.replace_substring_regex(others, pattern=unquoted, replacement=r'\1"\2"\3'))
        again = read_plain(quoted, pattern_of(data_type), data_type)
        left = one_by_one(others.take(pa.array(again.places)), data_type)
        found = _put(again.values, again.places, left)
    return _put(read.values, read.places, found)


def one_by_one(texts: pa.Array, data_type: pa.StructType) -> pa.Array:
    """Structs of texts, none of which is null."""
    convert = struct(data_type)
    if convert is None:
        raise TypeError(f"no values of {data_type} are made of JSON")
    return pa.array([_one(text, convert) for text in texts.to_pylist()], data_type)


def _one(text: str, convert: Struct) -> dict[str, Any] | None:
    tokens = Tokens(text)
    try:
        return None if tokens.next() is None else convert(tokens)
    except PartlyError as error:
        value: dict[str, Any] = error.value
        return value
    except LostError:
        return dict.fromkeys(convert.fields)


def _put(values: pa.Array, places: Any, others: pa.Array) -> pa.Array:
    """Values with others at some places."""
    if not len(places):
        return values
    order = np.arange(len(values))
    order[places] = len(values) + np.arange(len(places))
    return pa.concat_arrays([values, others]).take(pa.array(order))
