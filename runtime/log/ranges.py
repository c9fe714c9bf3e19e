"""Ranges of committed records, and their readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from ..records.arrays import Int64s

# A position counts along a lane, an offset along a partition. Both only grow, and neither counts records: compacted
# records, and a log's own marks between records, keep theirs. So a reader resumes at the position that it got with the
# last records. It is at the end if it has the end's position, even if no record precedes that.

Columns: TypeAlias = Sequence[str] | pa.Schema | None
"""The columns to read, in order; a schema also gives their types. None: all columns with their stored types."""


@dataclass(frozen=True)
class LogRange:
    """Committed records of one lane of a partition, with positions from `start` up to, not including, `end`.

    `start_offset`, `end_offset`: the same as offsets; records of other lanes may have some of these. From one record to
    the next, the offset grows by at least as much as the position. `records`, `size`, `epochs`: approximate number of
    records, of their bytes, and of the epochs that wrote them. `min_order`, `max_order`: bounds of `_order`. `token`:
    the key to the records for the log that made the range; opaque to others.

    Plain data for plans and requests.
    """

    topic: str
    partition: int
    lane: int
    start: int
    end: int
    start_offset: int
    end_offset: int
    records: int
    size: int
    min_order: int
    max_order: int
    token: str
    epochs: int = 1

    as_list: ClassVar[bool] = True

    def part_from(self, position: int) -> float:
        """The fraction of positions at or after `position`, from 0 to 1."""
        return (self.end - max(self.start, min(position, self.end))) / max(1, self.end - self.start)

    def position_of(self, offset: int) -> int:
        """A position at or before all records from `offset` on.

        A range with positions 10 to 20 and offsets 100 to 130 gives 15 for offset 125: at most the last five positions
        have offsets of 125 or more, as offsets grow at least as fast. It gives 10 for offset 110.
        """
        return max(self.start, self.end - max(self.end_offset - offset, 0))


@dataclass(frozen=True)
class Fetched:
    """Consecutive records of a range, at least one. `positions`, `offsets`: of each record, ascending.

    `end`: the position at which reading continues, after the last record and any positions without records.
    """

    records: pa.RecordBatch
    positions: Int64s
    offsets: Int64s
    end: int

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, part: slice) -> Fetched:
        """A slice of the records, without a copy.

        Positions [3, 4, 9] with end 12: the slice [:2] has the end 9, the position of the next record, and [1:] has 12.
        """
        start, stop, _ = part.indices(len(self))
        end = self.end if stop == len(self) else int(self.positions[stop])
        return Fetched(self.records[start:stop], self.positions[start:stop], self.offsets[start:stop], end)

    def before(self, position: int) -> pa.RecordBatch:
        """The records before a position."""
        if self.end <= position:
            return self.records
        return self.records[: int(np.searchsorted(self.positions, position))]


class RangeReader(Protocol):
    """Reads records of a log."""

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        """The records of a range from position `start` on (None: all), with these columns.

        Reads lazily, an efficient amount in each step. A column `_headers` is null for records without headers. With a
        schema, missing value columns are null too, and narrower types are widened, see `records.schema`. Raises
        RangeMissingError, CorruptSegmentError, MissingColumnsError, ColumnTypeError.
        """
        ...

    def ahead(self, ranges: Iterable[tuple[LogRange, int]]) -> RangeReader:
        """A reader for these ranges, each from a position on, in approximately this order.

        It may prefetch ranges concurrently. A log with fast reads returns itself, without iterating over the ranges.
        """
        ...


# Reading a partition as one sequence: the records of all lanes, in the order of their offsets.


@dataclass(frozen=True)
class InOrder:
    """Records with ascending `offsets`, at least one. `ends`: lane -> position at which reading continues."""

    records: pa.RecordBatch
    offsets: Int64s
    ends: Mapping[int, int]


def by_offset(log: RangeReader, ranges: Iterable[tuple[LogRange, int]], columns: Columns = None) -> Iterator[InOrder]:
    """The records of ranges of one partition in the order of offsets. `ranges`: each with a position to start from.

    Ranges of different lanes may overlap and are merged then. Raises the errors of `RangeReader.read`.

        lane 0 has offsets [0, 1, 4], lane 1 has [2, 3, 5], each in one piece
        last            4, the least last offset of the opened ranges: all smaller offsets are read
        first merge     [0, 1, 4] and [2, 3], sorted: 0, 1, 2, 3, 4
        second merge    [5]
    """
    waiting = sorted(ranges, key=lambda entry: entry[0].start_offset, reverse=True)
    opened: list[_Opened] = []
    log = log.ahead((within, max(start, within.start)) for within, start in reversed(waiting))
    while waiting or opened:
        last = min((reading.last for reading in opened), default=None)
        if waiting and (last is None or waiting[-1][0].start_offset <= last):
            within, start = waiting.pop()
            if start < within.end:
                opened.append(_Opened(within.lane, log.read(within, max(start, within.start), columns)))
        elif last is not None:
            yield _merged([(reading.lane, part) for reading in opened if (part := reading.take(last)) is not None])
        opened = [reading for reading in opened if reading.pending is not None]


class _Opened:
    """A range that is being read. `pending`: records that were read and not taken yet; None after the last record."""

    def __init__(self, lane: int, reading: Iterator[Fetched]) -> None:
        self.lane = lane
        self._reading = reading
        self.pending = next(reading, None)

    @property
    def last(self) -> int:
        """The offset of the last pending record."""
        assert self.pending is not None
        return int(self.pending.offsets[-1])

    def take(self, last: int) -> Fetched | None:
        """The records up to offset `last`; None without any."""
        assert self.pending is not None
        pending, count = self.pending, int(np.searchsorted(self.pending.offsets, last, side="right"))
        self.pending = pending[count:] if count < len(pending) else next(self._reading, None)
        return pending[:count] if count else None


def _merged(parts: list[tuple[int, Fetched]]) -> InOrder:
    ends = {lane: part.end for lane, part in parts}
    if len(parts) == 1:
        ((_, part),) = parts
        return InOrder(part.records, part.offsets, ends)
    offsets = np.concatenate([part.offsets for _, part in parts])
    order = np.argsort(offsets, kind="stable")
    records = pa.concat_batches([part.records for _, part in parts])
    return InOrder(records.take(pa.array(order)), offsets[order], ends)


# Replacements of committed records: merged, compacted, expired or repaired.


@dataclass(frozen=True)
class Rewritten:
    """The replacement for consecutive ranges of a lane, with positions from `start` up to `end`, and offsets from
    `start_offset` up to `end_offset`, both exclusive.

    `records`: with all columns, possibly empty. `positions`, `offsets`: unchanged, of each record.
    """

    partition: int
    lane: int
    start: int
    end: int
    start_offset: int
    end_offset: int
    records: pa.Table
    positions: Int64s
    offsets: Int64s
