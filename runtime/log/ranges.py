"""What readers know of committed records: the ranges that a log gives, and the records that are read from one.

A position counts along a lane, an offset along a partition. Both only grow, and neither counts records: the positions
of compacted records, and of a log's own marks between records, stay taken. So a reader continues at the position that
it is told. It is at the end once it has that position, even if there was no record before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from ..records.arrays import Int64s

Columns: TypeAlias = Sequence[str] | pa.Schema | None
"""Which columns of records to read, in which order: with a schema as ones of its types; None: all, as they are."""


@dataclass(frozen=True)
class LogRange:
    """Committed records of one lane of a partition: those with positions from `start` up to, not including, `end`.

    `start_offset`, `end_offset`: the same for offsets; records of other lanes may lie between them. From one record to
    the next the offset grows by as much as the position, or by more. `records`: about how many there are. `size`: about
    how many bytes they take. `epochs`: in about how many epochs they were written. `min_order`, `max_order`: no record
    has an `_order` outside of these. `token`: the log that made the range finds the records by it; it means nothing to
    others.

    Plain data that travels in plans and requests.
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
        """Which part of it lies from a position on, by positions: from 0 to 1."""
        return (self.end - max(self.start, min(position, self.end))) / max(1, self.end - self.start)

    def position_of(self, offset: int) -> int:
        """A position such that no record from `offset` on is before it."""
        return max(self.start, self.end - max(self.end_offset - offset, 0))


@dataclass(frozen=True)
class Fetched:
    """Records of a range that follow one another, at least one. `positions`, `offsets`: of each record, ascending.

    `end`: the position at which reading continues: after the last record and after any positions without records that
    follow it.
    """

    records: pa.RecordBatch
    positions: Int64s
    offsets: Int64s
    end: int

    @classmethod
    def adjacent(cls, records: pa.RecordBatch, position: int, offset: int) -> Fetched:
        """Records without gaps, from the position and the offset of the first one."""
        count = len(records)
        return cls(records, np.arange(position, position + count), np.arange(offset, offset + count), position + count)

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, part: slice) -> Fetched:
        """Some of the records, without a copy."""
        start, stop, _ = part.indices(len(self))
        end = self.end if stop == len(self) else int(self.positions[stop])
        return Fetched(self.records[start:stop], self.positions[start:stop], self.offsets[start:stop], end)

    def before(self, position: int) -> pa.RecordBatch:
        """The records before a position."""
        if self.end <= position:
            return self.records
        return self.records[: int(np.searchsorted(self.positions, position))]


class RangeReader(Protocol):
    """The part of a log that reads records."""

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        """The records of a range from position `start` on (None: all), with these columns.

        Each step of the iterator reads as much as is efficient to read at once, and only when it is called. A
        column `_headers` is null where no record has headers. With a schema, so are columns of the value that the
        records do not have, and narrower types are widened, see `records.widening`. Raises RangeMissingError,
        CorruptSegmentError, MissingColumnsError, ColumnTypeError.
        """
        ...

    def ahead(self, ranges: Iterable[tuple[LogRange, int]]) -> RangeReader:
        """A reader for these ranges, each from a position on, that are going to be read in about this order.

        It may read some of them at the same time, and before they are asked for. A log whose reads take no time gives
        itself, without looking at the ranges.
        """
        ...
