"""Arrow and numpy arrays of columns: their types, and operations on columns of any type."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
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


def row_bytes(column: pa.Array) -> Int64s:
    """About how many bytes each value takes in memory; a null may count as a value."""
    kind = column.type
    if pa.types.is_struct(kind):
        return sum(map(row_bytes, column.flatten()), np.zeros(len(column), np.int64))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        elements = [column.keys, column.items] if pa.types.is_map(kind) else [column.values]
        ends: Int64s = np.concatenate([[0], np.cumsum(sum(map(row_bytes, elements)))])
        at: Int64s = to_numpy(column.offsets).astype(np.int64)
        return ends[at[1:]] - ends[at[:-1]]
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        lengths: Int64s = to_numpy(pc.fill_null(pc.binary_length(column), 0)).astype(np.int64)
        return lengths
    return np.full(len(column), max(1, kind.bit_width // 8), np.int64)


def pieces_in_order(records: pa.Table, order: Int64s, most_bytes: int) -> Iterator[tuple[pa.Table, Int64s]]:
    """The rows `order` of a table in this order, in pieces of about `most_bytes` or of one larger row; with the rows of
    each piece.
    """
    batches = records.to_batches()
    # Not `take` of the table: it makes one array of all chunks first, and no array of texts holds more than 2 GB.
    starts = np.cumsum([0, *map(len, batches)])
    sizes = np.concatenate([np.zeros(0, np.int64), *(sum(map(row_bytes, batch.columns)) for batch in batches)])
    ends = np.cumsum(sizes[order])
    first, before = 0, 0
    while first < len(order):
        end = max(first + 1, int(np.searchsorted(ends, before + most_bytes, "right")))
        rows = order[first:end]
        of = np.searchsorted(starts, rows, "right") - 1
        taken = [batches[each].take(pa.array(rows[of == each] - starts[each])) for each in np.unique(of)]
        back = np.argsort(np.argsort(of, kind="stable"), kind="stable")
        yield pa.Table.from_batches(taken).take(pa.array(back)), rows
        first, before = end, int(ends[end - 1])


MOST_BYTES = 2**31 - 2
"""Bytes of all texts or binary values of an array."""

_OVERFLOWS = ("offset overflow", "overflowed binary array", "input array too large", "pyarrow.lib.ChunkedArray")
"""What errors of Arrow say of more values than an array holds, where they are no ArrowCapacityError. What makes chunks
of such values instead fails where an array is needed.
"""


def too_large(error: BaseException) -> bool:
    """Whether values together were more bytes than an array holds. With fewer rows there may be no error."""
    if isinstance(error, pa.ArrowCapacityError):
        return True
    return isinstance(error, pa.ArrowInvalid | TypeError | AttributeError) and any(
        each in str(error) for each in _OVERFLOWS
    )


def repeated(value: pa.Scalar, rows: int) -> pa.Array:
    """The value in each of so many rows. Raises ArrowCapacityError, where `pa.repeat` makes an array that is broken."""
    if rows > 1 and int(row_bytes(pa.repeat(value, 1))[0]) * rows > MOST_BYTES:
        raise pa.ArrowCapacityError(f"{rows:,} times a value are more bytes than an array holds")
    return pa.repeat(value, rows)


def unbroken(column: pa.Array) -> pa.Array:
    """A column of texts or binary values that Arrow has computed. Raises ArrowCapacityError if they are more than an
    array holds, of which functions such as `replace_substring` do not say a word.
    """
    offsets = np.frombuffer(column.buffers()[1] or b"", np.int32)[column.offset : column.offset + len(column) + 1]
    if (offsets[1:] < offsets[:-1]).any():
        raise pa.ArrowCapacityError("texts are more bytes than an array holds")
    return column


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
