"""Ranges of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from ..records.arrays import Int64s

# What readers know of committed records: the ranges that a log gives, and the records that are read from one.
#
# A position counts along a lane, an offset along a partition. Both only grow, and neither counts records: the positions
# of compacted records, and of a log's own marks between records, stay taken. So a reader continues at the position that
# it is told. It is at the end once it has that position, even if there was no record before it.

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


# Reads a partition as one sequence: the records of all its lanes, in the order of their offsets.


@dataclass(frozen=True)
class InOrder:
    """Records with ascending `offsets`, at least one. `ends`: lane -> position at which its reading continues."""

    records: pa.RecordBatch
    offsets: Int64s
    ends: Mapping[int, int]


def by_offset(log: RangeReader, ranges: Iterable[tuple[LogRange, int]], columns: Columns = None) -> Iterator[InOrder]:
    """The records of ranges of one partition, each from a position on (or from its start).

    Ranges of several lanes may overlap; then they are merged. Raises as `RangeReader.read`.
    """
    waiting = sorted(ranges, key=lambda each: each[0].start_offset, reverse=True)
    opened: list[_Opened] = []
    log = log.ahead((within, max(start, within.start)) for within, start in reversed(waiting))
    while waiting or opened:
        last = min((each.last for each in opened), default=None)
        if waiting and (last is None or waiting[-1][0].start_offset <= last):
            within, start = waiting.pop()
            if start < within.end:
                opened.append(_Opened(within.lane, log.read(within, max(start, within.start), columns)))
        elif last is not None:
            yield _merged([(each.lane, part) for each in opened if (part := each.take(last)) is not None])
        opened = [each for each in opened if each.held is not None]


class _Opened:
    """A range that is being read. `held`: records that were read and not taken yet; None after the last record."""

    def __init__(self, lane: int, reading: Iterator[Fetched]) -> None:
        self.lane = lane
        self._reading = reading
        self.held = next(reading, None)

    @property
    def last(self) -> int:
        """The offset of the last record that is held."""
        assert self.held is not None
        return int(self.held.offsets[-1])

    def take(self, last: int) -> Fetched | None:
        """The records up to offset `last`, if there are any."""
        assert self.held is not None
        held, count = self.held, int(np.searchsorted(self.held.offsets, last, side="right"))
        self.held = held[count:] if count < len(held) else next(self._reading, None)
        return held[:count] if count else None


def _merged(parts: list[tuple[int, Fetched]]) -> InOrder:
    ends = {lane: part.end for lane, part in parts}
    if len(parts) == 1:
        ((_, part),) = parts
        return InOrder(part.records, part.offsets, ends)
    offsets = np.concatenate([part.offsets for _, part in parts])
    order = np.argsort(offsets, kind="stable")
    records = pa.concat_batches([part.records for _, part in parts])
    return InOrder(records.take(pa.array(order)), offsets[order], ends)


# Records that take the place of what commits list: merged, compacted, expired, or repaired.


@dataclass(frozen=True)
class Rewritten:
    """What is left of a lane's records with positions from `start` up to `end`, and offsets from `start_offset` up to
    `end_offset`: the places of all ranges whose place it takes, the first to the last.

    `records`: with all their columns, maybe none. `positions`, `offsets`: those that the records have always had.
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
