"""Which neighbouring segments of a lane are merged, so that it has few.

Source: the size-tiered ("universal") compaction of log-structured stores such as RocksDB. From a segment back, each
older one is taken that is not larger than all taken so far. So a record's segment at least doubles each time it is
written again, and a lane of n bytes has about log n segments, the larger ones first, until they have their full size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..segments.segment import Segment

Group = tuple[Segment, ...]
"""Neighbouring segments of a lane, which become one."""


@dataclass(frozen=True)
class Limits:
    """`fan_out`: the least number of segments that are worth a merge. `size`, `rows`: most bytes and records of a
    merged segment: while it is made, all of it is in memory, unpacked.
    """

    fan_out: int = 8
    size: int = 16 << 20
    rows: int = 1_000_000

    def exceeded(self, size: int, rows: int) -> bool:
        """Whether this is too much for one segment."""
        return size > self.size or rows > self.rows


LIMITS = Limits()


def merges(segments: Sequence[Segment], limits: Limits = LIMITS) -> Iterator[Group]:
    """Groups of neighbours to merge, the newest first; none, where there are few segments of each size."""
    end = len(segments)
    while end > 0:
        first, full = _first(segments, end, limits)
        count = end - first
        if count >= limits.fan_out or (full and count > 1):
            yield tuple(segments[first:end])
            end = first
        else:
            end -= 1


def packed(segments: Sequence[Segment], limits: Limits = LIMITS) -> Iterator[Group]:
    """All segments, in groups of neighbours that can become one each."""
    first, size, rows = 0, 0, 0
    for at, segment in enumerate(segments):
        size, rows = size + segment.size, rows + segment.rows
        if at > first and limits.exceeded(size, rows):
            yield tuple(segments[first:at])
            first, size, rows = at, segment.size, segment.rows
    if segments:
        yield tuple(segments[first:])


def _first(segments: Sequence[Segment], end: int, limits: Limits) -> tuple[int, bool]:
    """Where the group begins that ends before `end`, and whether it has its full size there."""
    first = end - 1
    size, rows = segments[first].size, segments[first].rows
    while first > 0:
        older = segments[first - 1]
        if older.size > size:
            return first, False
        size, rows = size + older.size, rows + older.rows
        if limits.exceeded(size, rows):
            return first, True
        first -= 1
    return first, False
