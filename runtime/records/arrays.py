"""Arrow and numpy arrays of columns: their types, and operations on columns of any type."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64s = npt.NDArray[np.int64]
Int8s = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]


def to_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """An Arrow array without nulls as numpy, without a copy if the layouts agree."""
    plain: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return plain


def piece_starts(records: pa.RecordBatch | pa.Table, most_rows: int, most_bytes: int) -> list[int]:
    """Where to cut records into pieces of at most so many rows and bytes: the first row of each piece.

    A record that is larger is a piece of its own.
    """
    if records.get_total_buffer_size() <= most_bytes:  # fast, and never less than the bytes of a slice
        return list(range(0, len(records), most_rows))
    starts, start = list[int](), 0
    while start < len(records):
        starts.append(start)
        piece = records.slice(start, most_rows)
        rows = len(piece)
        if piece.nbytes > most_bytes:
            rows = bisect_right(range(1, rows + 1), most_bytes, key=lambda count: piece.slice(0, count).nbytes)
        start += max(1, rows)
    return starts


def typed(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The column, cast to `data_type` if it has another type."""
    return column if column.type == data_type else column.cast(data_type)


def concat_some(parts: Sequence[tuple[pa.Array | None, int]], data_type: pa.DataType) -> pa.Array | None:
    """Headers or state of several runs of rows, each with its number of rows; None if no run has any."""
    if all(column is None for column, _ in parts):
        return None
    return pa.concat_arrays([pa.nulls(rows, data_type) if column is None else column for column, rows in parts])


def choose(condition: Bools, yes: pa.Array, no: pa.Array) -> pa.Array:
    """`yes` where the condition is true, else `no`. Works for all types."""
    index = np.arange(len(condition)) + np.where(condition, 0, len(yes))
    if yes.type.num_fields == 0:
        return pc.if_else(pa.array(condition), yes, no)
    return pa.concat_arrays([yes, no]).take(pa.array(index))
