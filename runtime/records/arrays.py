"""Operations on Arrow and NumPy arrays of columns, and errors for values that do not fit a column."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .types import ddl

Int64s = npt.NDArray[np.int64]
Int8s = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]


def to_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """An Arrow array without nulls as numpy, without a copy if the layouts agree."""
    plain: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return plain


def list_offsets(column: pa.Array) -> pa.Array:
    """Where the items of each list begin in `column.flatten()`, and the end: [0, 2, 2, 3] for [[1, 2], null, [3]].

    The column's own offsets also count items outside of a slice, and hidden items of nulls.
    """
    lengths = to_numpy(pc.fill_null(pc.list_value_length(column), 0))
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def piece_starts(records: pa.RecordBatch | pa.Table, most_rows: int, most_bytes: int) -> list[int]:
    """The first row of each piece, if records are cut into pieces of at most `most_rows` rows and `most_bytes` bytes.

    A record larger than `most_bytes` is a piece of its own.
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
    """The approximate size of each value in memory, in bytes; a null may count as a value.

    A list is as large as its elements. Running sums of their sizes give that of any list:

        [["ab", "c"], [], ["def"]]
        sizes of the elements    [2, 1, 3]
        ends, running sums       [0, 2, 3, 6]
        offsets of the lists     [0, 2, 2, 3]
        ends[offsets]            [0, 3, 3, 6]
        differences, the result  [3, 0, 3]
    """
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
    """The rows `order` of a table in this order, in pieces of about `most_bytes` or of one larger row.

    Yields each piece with the numbers of its rows in `records`. Each batch of the table gives its rows of a piece,
    then these are put back into order:

        batches of the table            ["a", "b"] and ["c", "dd"]
        starts of the batches           [0, 2, 4]
        order                           [3, 0, 2]
        piece of 3 bytes                rows [3, 0]: "dd" and "a"
        batch_numbers of its rows       [1, 0]
        taken, batch by batch           ["a"], ["dd"]
        back: where each row is there   [1, 0]
        yielded                         (["dd", "a"], [3, 0]), then (["c"], [2])
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
        batch_numbers = np.searchsorted(starts, rows, "right") - 1
        taken = [
            batches[number].take(pa.array(rows[batch_numbers == number] - starts[number]))
            for number in np.unique(batch_numbers)
        ]
        back = np.argsort(np.argsort(batch_numbers, kind="stable"), kind="stable")
        yield pa.Table.from_batches(taken).take(pa.array(back)), rows
        first, before = end, int(ends[end - 1])


MOST_BYTES = 2**31 - 2
"""The greatest number of bytes that an array of texts or binary values can hold."""

_OVERFLOWS = ("offset overflow", "overflowed binary array", "input array too large", "pyarrow.lib.ChunkedArray")
"""Messages of Arrow errors for more values than an array can hold, other than ArrowCapacityError.

Some functions return a ChunkedArray instead; its use as an array then fails.
"""


def too_large(error: BaseException) -> bool:
    """Whether an error says that values are more bytes than an array can hold. Fewer rows may succeed."""
    if isinstance(error, pa.ArrowCapacityError):
        return True
    return isinstance(error, pa.ArrowInvalid | TypeError | AttributeError) and any(
        fragment in str(error) for fragment in _OVERFLOWS
    )


def repeat(value: pa.Scalar, rows: int) -> pa.Array:
    """`rows` times the value. Raises ArrowCapacityError where `pa.repeat` would return a corrupt array."""
    if rows > 1 and int(row_bytes(pa.repeat(value, 1))[0]) * rows > MOST_BYTES:
        raise pa.ArrowCapacityError(f"{rows:,} times a value are more bytes than an array holds")
    return pa.repeat(value, rows)


def check_overflow(column: pa.Array) -> pa.Array:
    """The column, of texts or binary values that Arrow has computed.

    Raises ArrowCapacityError if its offsets have overflowed: functions such as `replace_substring` do not report it.
    """
    offsets = np.frombuffer(column.buffers()[1] or b"", np.int32)[column.offset : column.offset + len(column) + 1]
    if (offsets[1:] < offsets[:-1]).any():
        raise pa.ArrowCapacityError("texts are more bytes than an array holds")
    return column


def cast_to(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The column, cast to `data_type` if it has another type."""
    return column if column.type == data_type else column.cast(data_type)


def concat_some(parts: Sequence[tuple[pa.Array | None, int]], data_type: pa.DataType) -> pa.Array | None:
    """Concatenated columns of several runs of rows, nulls for a run without the column; None if no run has it.

    `parts`: the column and number of rows of each run.
    """
    if all(column is None for column, _ in parts):
        return None
    return pa.concat_arrays([pa.nulls(rows, data_type) if column is None else column for column, rows in parts])


def choose(condition: Bools, yes: pa.Array, no: pa.Array) -> pa.Array:
    """`yes` where the condition is true, else `no`. Works for all types."""
    index = np.arange(len(condition)) + np.where(condition, 0, len(yes))
    if yes.type.num_fields == 0:
        return pc.if_else(pa.array(condition), yes, no)
    return pa.concat_arrays([yes, no]).take(pa.array(index))


# Errors for values that a column cannot hold.

_SHOWN = 200
"""The greatest number of characters of a value in an error message."""


class BadValueError(Exception):
    """A value that a column cannot have.

    `row`: its index in the column. Callers that know the file raise a SeedError instead.
    """

    def __init__(self, row: int, cause: str, column: str | None = None) -> None:
        super().__init__(f"row {row}: {cause}")
        self.row = row
        self.cause = cause
        self.column = column


def valid_text(column: pa.Array) -> pa.Array:
    """The column, if all its texts are UTF-8, also those in nested values; else raises BadValueError."""

    def check(some: pa.Array, _: pa.DataType) -> pa.Array:
        try:
            some.validate(full=True)
        except pa.ArrowInvalid:
            # `validate` also checks children outside of a slice. A copy has only the slice.
            some.take(pa.array(range(len(some)), pa.int64())).validate(full=True)
        return some

    return cast_with_row(column, column.type, check)


def cast_with_row(
    column: pa.Array, data_type: pa.DataType, cast: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.Array:
    """`cast(column, data_type)`. If Arrow raises an error, BadValueError names the first faulty row."""
    try:
        return cast(column, data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not len(column):
            return pa.array([], data_type)
    good, bad = 0, len(column)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            cast(column[good:middle], data_type)
            good = middle
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            bad = middle
    raise BadValueError(good, f"{_shown(column, good)} is no {ddl(data_type)}")


def _shown(column: pa.Array, row: int) -> str:
    """A value of the column for an error message. A text that is not UTF-8 is shown as bytes."""
    try:
        return shown(column[row].as_py())
    except UnicodeDecodeError:
        text = pa.types.is_string(column.type)
        return shown(column[row : row + 1].cast(pa.binary())[0].as_py()) if text else "a text that is not UTF-8"
    except (OverflowError, ValueError):  # Python's datetime ends at the year 9999
        return "a time outside of the years 1 to 9999"


def type_mismatch(value: Any, data_type: pa.DataType) -> str:
    """The message for a value that is not of the type."""
    return f"{shown(value)} is no {ddl(data_type)}"


def shown(value: Any) -> str:
    """A value for an error message, shortened."""
    text = str(value) if isinstance(value, float | Decimal) else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
