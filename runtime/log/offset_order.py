"""Reads a partition as one sequence: the records of all its lanes, in the order of their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..records.arrays import Int64s
from .ranges import Columns, Fetched, LogRange, RangeReader


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
