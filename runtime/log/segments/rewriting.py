"""The inside of a file that takes the place of others: what is left of the records of several lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pyarrow as pa

from ...records.schema import HEADERS
from ..rewritten import Rewritten
from .files import OFFSET, POSITION, encode_segments
from .segment import Segment


def encode_rewritten(path: str, topic: str, parts: Sequence[Rewritten]) -> tuple[pa.Buffer | None, tuple[Segment, ...]]:
    """The bytes of a file, None if there are no records, and the placed segment of each part.

    The records of all parts have the same columns, but for those of headers, which some may lack.
    """
    placed = [_empty(topic, part) for part in parts]
    full = [number for number, part in enumerate(parts) if len(part.positions)]
    if not full:
        return None, tuple(placed)
    whole = [parts[number] for number in full]
    table, counts = _table(whole), [len(part.positions) for part in whole]
    of_row = np.repeat(np.arange(len(whole)), counts)
    data, segments = encode_segments(path, topic, table, of_row, 0)
    sparse = POSITION in table.schema.names
    for number, part, segment in zip(full, whole, segments, strict=True):
        rows = [batch.rows for batch in segment.batches]
        placed[number] = replace(
            segment,
            partition=part.partition,
            lane=part.lane,
            base_position=part.start,
            base_offset=part.start_offset,
            span=placed[number].span,
            offset_span=placed[number].offset_span,
            firsts=tuple(part.positions[[0, *accumulate(rows[:-1])]].tolist()) if sparse else (),
        )
    return data, tuple(placed)


def _empty(topic: str, part: Rewritten) -> Segment:
    span, offsets = part.end - part.start, part.end_offset - part.start_offset
    return Segment(
        topic=topic,
        partition=part.partition,
        lane=part.lane,
        path="",
        batches=(),
        base_offset=part.start_offset,
        base_position=part.start,
        span=span,
        offset_span=None if offsets == span else offsets,
    )


def _table(parts: Sequence[Rewritten]) -> pa.Table:
    """The records of all parts, with columns for positions and offsets if they do not follow one another."""
    headers = any(HEADERS in part.records.schema.names for part in parts)
    table = pa.concat_tables([_with_headers(part.records) if headers else part.records for part in parts])
    if any((part.positions != np.arange(part.start, part.start + len(part.positions))).any() for part in parts):
        table = table.append_column(POSITION, pa.array(np.concatenate([part.positions for part in parts])))
    if any((part.offsets - part.start_offset != part.positions - part.start).any() for part in parts):
        table = table.append_column(OFFSET, pa.array(np.concatenate([part.offsets for part in parts])))
    return table


def _with_headers(records: pa.Table) -> pa.Table:
    if HEADERS in records.schema.names:
        return records
    return records.append_column(HEADERS, pa.nulls(records.num_rows, pa.string()))
