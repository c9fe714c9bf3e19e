"""Reads JSON texts all at once with Arrow, those that match a pattern of `patterns.py`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ...records.arrays import Bools, Int64s, to_numpy
from .tokens import MOST_LEVELS

_PART_BYTES = 1 << 26
"""How many bytes are read at once: what Arrow needs for it is freed in between."""

_FEW = 16
"""Of so many texts or fewer that Arrow refuses together, each is read by itself."""


@dataclass(frozen=True)
class Plain:
    """What Arrow has read. `places`: of texts that it could not read. The values at these places say nothing."""

    values: pa.Array
    places: Int64s


def read_plain(texts: pa.Array, pattern: str, data_type: pa.StructType) -> Plain:
    """Structs of texts. A text that is null is none that could not be read."""
    fits = to_numpy(pc.fill_null(pc.match_substring_regex(texts, pattern=pattern), True))
    fits = fits & ~_deep(texts)
    if not fits.all():
        texts = pc.if_else(pa.array(fits), texts, pa.scalar(None, texts.type))
    found: list[pa.Array] = []
    refused: list[Int64s] = [np.flatnonzero(~fits)]
    start = 0
    for rows in _parts(texts):
        _read(texts.slice(start, rows), start, data_type, found, refused)
        start += rows
    return Plain(pa.concat_arrays(found), np.unique(np.concatenate(refused)))


def _deep(texts: pa.Array) -> Bools:
    """Which texts may have more levels than the reader in Spark takes."""
    long = to_numpy(pc.fill_null(pc.greater_equal(pc.binary_length(texts), MOST_LEVELS), False))
    if not long.any():
        return long
    places = np.flatnonzero(long)
    opened = pc.count_substring_regex(texts.take(pa.array(places)), pattern=r"[\[{]")
    long[places] = to_numpy(pc.greater_equal(opened, MOST_LEVELS // 2))
    return long


def _parts(texts: pa.Array) -> list[int]:
    """How many texts are read together, each time."""
    if not len(texts):
        return [0]
    ends = np.cumsum(to_numpy(pc.fill_null(pc.binary_length(texts), 0)).astype(np.int64)) // _PART_BYTES
    return [int(rows) for rows in np.unique(ends, return_counts=True)[1]]


def _read(texts: pa.Array, start: int, data_type: pa.StructType, found: list[pa.Array], refused: list[Int64s]) -> None:
    """Read texts, or halves of them where Arrow refuses all for the sake of one."""
    try:
        found.append(_together(texts, data_type))
    except pa.ArrowInvalid:
        if len(texts) <= _FEW:
            found.append(pa.nulls(len(texts), data_type))
            refused.append(np.arange(start, start + len(texts)))
            return
        half = len(texts) // 2
        _read(texts.slice(0, half), start, data_type, found, refused)
        _read(texts.slice(half), start + half, data_type, found, refused)


def _together(texts: pa.Array, data_type: pa.StructType) -> pa.Array:
    """Structs of texts, each of them one object. Raises ArrowInvalid."""
    if not len(texts):
        return pa.array([], data_type)
    # What follows the last end of a line would be read by itself.
    lines = pa.concat_arrays([pc.fill_null(texts, "{}"), pa.array([""])])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")
    buffer = joined[0].as_buffer()
    table = pj.read_json(
        pa.BufferReader(buffer),
        read_options=pj.ReadOptions(use_threads=False, block_size=buffer.size + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(list(data_type)), newlines_in_values=False, unexpected_field_behavior="ignore"
        ),
    )
    if len(table) != len(texts):
        raise pa.ArrowInvalid("texts are not one object each")
    columns = [each.combine_chunks().cast(field.type) for each, field in zip(table.columns, data_type, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(data_type))
