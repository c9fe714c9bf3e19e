"""Reads the records of a range from a segment file, wherever its bytes come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ...records.arrays import Int64s
from ..ranges import Columns, Fetched, LogRange
from .files import OFFSET, POSITION, decode_batch
from .segment import FileRange
from .unreadable import records_named

Load = Callable[[FileRange, int], memoryview]
"""Gives the bytes of `files.byte_ranges` of a batch, one after the other."""


def fetch(within: LogRange, start: int | None, columns: Columns, load: Load) -> Iterator[Fetched]:
    """See `RangeReader.read`: batch by batch, as the file has them. `load` is called for each when it is its turn.

    Raises CorruptSegmentError, MissingColumnsError, ColumnTypeError, and what `load` raises. Errors name the records.
    """
    file = FileRange.of(within.token)
    start = within.start if start is None else start
    for number, (first, end) in enumerate(pairwise([*file.firsts(within.start), within.end])):
        if end <= start:
            continue
        with records_named(within, first, end, file.batches[number].length):
            records = decode_batch(load(file, number), file, number, columns)
        found = _placed(records, within, first, end)
        rest = found[int(np.searchsorted(found.positions, start)) :]
        if len(rest):
            yield rest


def _placed(records: pa.RecordBatch, within: LogRange, first: int, end: int) -> Fetched:
    """The records of a batch with their positions and offsets: from its columns, else one after the other."""
    names = records.schema.names
    positions = _column(records, POSITION) if POSITION in names else np.arange(first, first + len(records))
    offsets = _column(records, OFFSET) if OFFSET in names else positions + (within.start_offset - within.start)
    places = [name for name in (POSITION, OFFSET) if name in names]
    return Fetched(records.drop_columns(places) if places else records, positions, offsets, end)


def _column(records: pa.RecordBatch, name: str) -> Int64s:
    values: Int64s = records.column(name).to_numpy()
    return values
