"""Reads what can be read of a segment, and says what cannot."""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import CorruptSegmentError, RangeMissingError, RecordsPlace, SegmentError, UnreadableFileError
from ..ranges import Fetched, RangeReader
from ..segments.segment import FileRange, Segment


@dataclass(frozen=True)
class Unreadable:
    """Records of a segment that cannot be read: those at positions from `start` up to, not including, `end`.

    `records`: how many were committed there. `place`: their offsets. `what`: is the matter with the file.
    `lost`: whether they are gone for certain. Else the system refuses the file, and may not when it is asked again.
    """

    segment: Segment
    start: int
    end: int
    records: int
    place: RecordsPlace
    what: str
    lost: bool


def pieces(log: RangeReader, segment: Segment) -> Iterator[Fetched | Unreadable]:
    """The records of a placed segment in order, batch by batch, also those behind what cannot be read."""
    within = segment.range()
    firsts = FileRange.of(within.token).firsts(within.start)
    ends = [*firsts[1:], within.end]
    position = within.start
    while position < within.end:
        try:
            for found in log.read(within, position):
                yield found
                position = found.end
            return
        except (SegmentError, UnreadableFileError) as error:
            failed = bisect_right(ends, position)
            last = len(ends) if _of_the_file(error) else failed + 1
            yield Unreadable(
                segment=segment,
                start=position,
                end=ends[last - 1],
                records=sum(batch.rows for batch in segment.batches[failed:last]),
                place=_place(segment, position, ends[last - 1]),
                what=error.what,
                lost=not isinstance(error, UnreadableFileError) or error.errno == errno.EIO,
            )
            position = ends[last - 1]


def _of_the_file(error: SegmentError | UnreadableFileError) -> bool:
    """Whether the error is of the file, and not of one of its batches."""
    match error:
        case RangeMissingError():
            return True
        case CorruptSegmentError():
            return error.batch is None
        case UnreadableFileError():
            return error.errno != errno.EIO
    return True


def _place(segment: Segment, start: int, end: int) -> RecordsPlace:
    """Offsets grow as positions do, or by more: in a segment with gaps these are bounds, else they are exact."""
    first = segment.base_offset + start - segment.base_position
    return RecordsPlace(segment.topic, segment.partition, first, segment.end_offset - (segment.end_position - end))
