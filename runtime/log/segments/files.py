"""Encoding and decoding of segment files."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...records.arrays import Int64s, piece_starts
from ...records.schema import HEADERS, as_schema, may_be_missing, unreadable
from ...records.types import ddl
from ..errors import ColumnTypeError, CorruptSegmentError, MissingColumnsError
from ..ranges import Columns, Fetched, LogRange
from .segment import Batch, FileRange, Segment, records_named

# A segment file has records as Arrow record batches, which can be read one by one.
#
# It is an Arrow IPC stream, compressed with lz4, so any Arrow tool can open it: the schema, then batches of at most
# `BATCH_ROWS` rows and `BATCH_BYTES` bytes of one partition each, one partition after the other. A commit lists the
# byte ranges of the batches. A reader concatenates the bytes of the schema and of the batches that it needs, which is
# an Arrow stream again.

BATCH_ROWS = 16_384
"""The greatest number of rows of a batch. A reader decodes at least one batch."""

BATCH_BYTES = 8 << 20
"""The greatest size of a batch in memory: 512 bytes for each of `BATCH_ROWS` rows. A larger row has a batch of its own.
So a reader that wants few bytes decodes few."""

POSITION, OFFSET = "_position", "_offset"
"""Columns of a rewritten file with gaps in its positions, or offsets."""

_MESSAGE_PREFIX = 8
# One thread: passing columns to others takes longer than lz4. 250 rows are written in a quarter of the time, without
# 15 switches of threads; 16,384 rows in about the same time.
_WRITE = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)

Ints = npt.NDArray[np.int64]


def encode_segments(
    path: str, topic: str, table: pa.Table | pa.RecordBatch, partitions: int | npt.NDArray[np.integer], lane: int
) -> tuple[pa.Buffer, tuple[Segment, ...]]:
    """The bytes of a file with the records of `table`, at least one, and its segments, one for each partition.

    `partitions`: one for all rows, or one for each row. Rows of a partition keep their order. The table has a column
    `_timestamp`, optionally `_order` (default: the timestamps), and no dictionary columns.

        partitions of 5 rows         [1, 0, 1, 0, 1], BATCH_ROWS of 2
        records, by partition        rows [1, 3, 0, 2, 4]
        firsts, numbers              [0, 2], [0, 1]
        starts, lengths of batches   [0, 2, 4], [2, 2, 1]
        own, batches of a segment    (0, 1) of partition 0, (1, 3) of partition 1
    """
    records, firsts, numbers = _by_partition(table, partitions)
    starts = np.concatenate(
        [
            first + np.array(piece_starts(records.slice(first, end - first), BATCH_ROWS, BATCH_BYTES))
            for first, end in pairwise([*firsts.tolist(), records.num_rows])
        ]
    )
    lengths = np.diff(starts, append=records.num_rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema, options=_WRITE) as writer:
        ends = []
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            writer.write_batch(records.slice(start, length))
            ends.append(sink.tell())
    data = sink.getvalue()
    # Arrow writes the schema together with the first batch. Its length follows the 4 bytes at the start of a message.
    head = _MESSAGE_PREFIX + int.from_bytes(data[4:_MESSAGE_PREFIX], "little")
    batches = _batches(records, memoryview(data), starts, lengths, [head, *ends])
    own = pairwise([*np.searchsorted(starts, firsts), len(batches)])
    checksum = zlib.crc32(data[:head])
    headers = HEADERS in records.schema.names
    return data, tuple(
        Segment(
            topic=topic,
            partition=int(number),
            lane=lane,
            path=path,
            batches=tuple(batches[first:last]),
            headers=headers,
            head=head,
            head_checksum=checksum,
        )
        for (first, last), number in zip(own, numbers, strict=True)
    )


def byte_ranges(file: FileRange, batch: int) -> list[tuple[int, int]]:
    """The (start, length) of the schema and of the batch, for `decode_batch`. Adjacent ranges are joined.

    A schema of 512 bytes: [(0, 1412)] for the first batch with 900 bytes, [(0, 512), (1412, 640)] for the second one.
    """
    wanted = file.batches[batch]
    # The first batch follows the schema, so one read gets both.
    if wanted.start == file.head:
        return [(0, file.head + wanted.length)]
    return [(0, file.head), (wanted.start, wanted.length)]


def decode_batch(data: memoryview, file: FileRange, batch: int, columns: Columns) -> pa.RecordBatch:
    """A batch from the bytes of `byte_ranges`: the columns `columns`, in that order, then positions and offsets, if the
    file has these.

    For missing columns and other types see `RangeReader.read`. Raises CorruptSegmentError, MissingColumnsError,
    ColumnTypeError.
    """
    # Checksums before Arrow reads the bytes, so that damage is always reported as damage.
    if file.head_checksum not in (None, zlib.crc32(data[: file.head])):
        raise CorruptSegmentError(file.path, None)
    if zlib.crc32(data[file.head :]) != file.batches[batch].checksum:
        raise CorruptSegmentError(file.path, batch)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data[: file.head]))
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptSegmentError(file.path, None) from error
    options = pa.ipc.IpcReadOptions(included_fields=_indices(schema, file, columns), use_threads=False)
    with pa.ipc.open_stream(pa.py_buffer(data), options=options) as reader:
        batch_records = reader.read_next_batch()
    return batch_records if columns is None else _select(batch_records, columns)


def _by_partition(
    table: pa.Table | pa.RecordBatch, partitions: int | npt.NDArray[np.integer]
) -> tuple[pa.RecordBatch, Ints, npt.NDArray[np.integer]]:
    """The rows as one batch sorted by partition, the first row of each partition, and the partitions' numbers.

    The partitions [1, 0, 1, 0] give the rows [1, 3, 0, 2], the first rows [0, 2] and the numbers [0, 1].
    """
    batch = _one_batch(table)
    if isinstance(partitions, int):
        return batch, np.zeros(1, np.int64), np.array([partitions])
    if (partitions[1:] < partitions[:-1]).any():
        # NumPy sorts 16-bit integers by radix, five times as fast as wider ones.
        narrow = partitions.astype(np.uint16) if partitions.max() < 2**16 else partitions
        # Stable: rows of a partition keep their order, which becomes the order of their offsets.
        order = np.argsort(narrow, kind="stable")
        partitions = partitions[order]
        batch = batch.take(pa.array(order))
    firsts = np.flatnonzero(np.diff(partitions, prepend=-1))
    return batch, firsts, partitions[firsts]


def _one_batch(table: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
    if isinstance(table, pa.RecordBatch):
        return table
    columns = table.combine_chunks().columns
    if any(column.num_chunks > 1 for column in columns):
        raise pa.ArrowCapacityError(f"{table.num_rows:,} records are more bytes than an array holds")
    arrays = [column.chunk(0) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema.remove_metadata())


def _batches(records: pa.RecordBatch, data: memoryview, starts: Ints, lengths: Ints, bounds: list[int]) -> list[Batch]:
    """The batches of a file. `starts`, `lengths`: in rows; `bounds`: where each begins in `data`, and the end.

    With starts of [0, 2, 4], `reduceat` takes the minimum and maximum of rows 0 to 1, 2 to 3, and 4 to the end.
    """
    timestamps = records.column("_timestamp").to_numpy()
    orders = records.column("_order").to_numpy() if "_order" in records.schema.names else timestamps
    smallest = [np.minimum.reduceat(values, starts).tolist() for values in (timestamps, orders)]
    greatest = [np.maximum.reduceat(values, starts).tolist() for values in (timestamps, orders)]
    return [
        Batch(
            start=start,
            length=end - start,
            rows=int(lengths[number]),
            min_timestamp=smallest[0][number],
            max_timestamp=greatest[0][number],
            min_order=smallest[1][number],
            max_order=greatest[1][number],
            checksum=zlib.crc32(data[start:end]),
        )
        for number, (start, end) in enumerate(pairwise(bounds))
    ]


def _indices(schema: pa.Schema, file: FileRange, columns: Columns) -> list[int]:
    """The indices of the fields to decode. Arrow decodes all for an empty list, so at least one is returned."""
    if columns is None:
        return []
    if isinstance(columns, pa.Schema):
        missing = [name for name in columns.names if name not in schema.names and not may_be_missing(name)]
        for name, stored, wanted in unreadable(schema, columns):
            raise ColumnTypeError(file.path, name, ddl(stored), ddl(wanted))
        columns = columns.names
    else:
        missing = [name for name in columns if name not in schema.names and name != HEADERS]
    if missing:
        raise MissingColumnsError(file.path, missing)
    wanted_names = {*columns, POSITION, OFFSET}
    return [index for index, name in enumerate(schema.names) if name in wanted_names] or [0]


def _select(batch: pa.RecordBatch, columns: Sequence[str] | pa.Schema) -> pa.RecordBatch:
    if isinstance(columns, pa.Schema):
        gaps = [batch.schema.field(name) for name in (POSITION, OFFSET) if name in batch.schema.names]
        return as_schema(batch, pa.schema([*columns, *gaps]))
    if batch.schema.names == list(columns):
        return batch
    if HEADERS in columns and HEADERS not in batch.schema.names:
        batch = batch.append_column(HEADERS, pa.nulls(batch.num_rows, pa.string()))
    # `included_fields` keeps the order of the file.
    gap_names = [name for name in (POSITION, OFFSET) if name in batch.schema.names]
    return batch.select([*columns, *gap_names])


# Reading the records of a range, from any storage.

Load = Callable[[FileRange, int], memoryview]
"""Returns the concatenated bytes of `byte_ranges` of a batch."""


def fetch(within: LogRange, start: int | None, columns: Columns, load: Load) -> Iterator[Fetched]:
    """See `RangeReader.read`: one batch of the file after another. `load` is called for each batch, lazily.

    Raises CorruptSegmentError, MissingColumnsError, ColumnTypeError, and errors of `load`. Errors name the records.
    """
    file = FileRange.from_token(within.token)
    start = within.start if start is None else start
    for number, (first, end) in enumerate(pairwise([*file.firsts(within.start), within.end])):
        if end <= start:
            continue
        with records_named(within, first, end, file.batches[number].length):
            records = decode_batch(load(file, number), file, number, columns)
        fetched = _fetched(records, within, first, end)
        rest = fetched[int(np.searchsorted(fetched.positions, start)) :]
        if len(rest):
            yield rest


def _fetched(records: pa.RecordBatch, within: LogRange, first: int, end: int) -> Fetched:
    """The records of a batch with their positions and offsets: from its columns, else consecutive ones.

    A range with start 10 and start offset 100, a batch of 3 records with first position 14: positions [14, 15, 16],
    offsets [104, 105, 106].
    """
    names = records.schema.names
    positions = _column(records, POSITION) if POSITION in names else np.arange(first, first + len(records))
    offsets = _column(records, OFFSET) if OFFSET in names else positions + (within.start_offset - within.start)
    gap_names = [name for name in (POSITION, OFFSET) if name in names]
    return Fetched(records.drop_columns(gap_names) if gap_names else records, positions, offsets, end)


def _column(records: pa.RecordBatch, name: str) -> Int64s:
    values: Int64s = records.column(name).to_numpy()
    return values
