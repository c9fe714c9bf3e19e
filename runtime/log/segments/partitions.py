"""The committed segments of partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from math import inf

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...records.schema import HEADERS
from ..errors import CommitOrderError, SegmentsChangedError
from ..ranges import LogRange, Rewritten
from .files import OFFSET, POSITION, encode_segments
from .segment import Segment, segment_path


@dataclass
class Partition:
    """One partition of a topic. `segments`: by first offset; `lanes`: the same by lane. `lane_ends`: positions.

    `lane_bytes`: for each segment of a lane, the bytes of the lane up to its end, removed segments included. `widest`:
    the greatest number of offsets of a segment.
    """

    segments: list[Segment] = field(default_factory=list)
    lanes: dict[int, list[Segment]] = field(default_factory=dict)
    end: int = 0
    lane_ends: dict[int, int] = field(default_factory=dict)
    lane_bytes: dict[int, list[int]] = field(default_factory=dict)
    widest: int = 0

    def add(self, segment: Segment) -> None:
        """Add a segment with offsets."""
        self.segments.append(segment)
        self.lanes.setdefault(segment.lane, []).append(segment)
        sums = self.lane_bytes.setdefault(segment.lane, [])
        sums.append((sums[-1] if sums else 0) + segment.size)
        self.end = max(self.end, segment.end_offset)  # in a snapshot, an earlier segment may end later
        self.lane_ends[segment.lane] = segment.end_position
        self.widest = max(self.widest, segment.end_offset - segment.base_offset)

    def ranges(self, start: int) -> Iterator[LogRange]:
        """The ranges of all lanes that end after offset `start`, by first offset."""
        segments = self.segments
        first = bisect_right(segments, start - self.widest, key=lambda segment: segment.base_offset)
        return (segment.range() for segment in islice(segments, first, len(segments)) if segment.end_offset > start)

    def lane_ranges(self, lane: int, start: int, records: int | None) -> Iterator[LogRange]:
        """The ranges of a lane that end after position `start`, in order: all, or enough for `records` records."""
        segments = self.lanes.get(lane, [])
        first = max(bisect_right(segments, start, key=lambda segment: segment.base_position) - 1, 0)
        count = 0
        for segment in islice(segments, first, len(segments)):
            if segment.end_position <= start:
                continue
            yield segment.range()
            count += max(segment.rows - max(start - segment.base_position, 0), 0)
            if records is not None and count >= records:
                return

    def bytes_from(self, lane: int, position: int) -> int:
        """The approximate size of a lane from a position on, in bytes. Takes logarithmic time.

        Segments of positions 0 to 10 and 10 to 20 with 100 and 60 bytes have the sums [100, 160]. From position 5:
        160 - 100 bytes after the first segment, and half of its 100, which is 110.
        """
        segments, sizes = self.lanes.get(lane, []), self.lane_bytes.get(lane, [])
        first = bisect_right(segments, position, key=lambda segment: segment.end_position)
        if first >= len(segments):
            return 0
        segment = segments[first]
        read = max(0, position - segment.base_position) / max(1, segment.end_position - segment.base_position)
        return sizes[-1] - sizes[first] + segment.size - int(segment.size * read)

    def forget(self, lane: int, position: int) -> list[Segment]:
        """Remove a lane's segments that end at or before `position`, except the last one, which has the lane's end.

        Returns the removed segments.
        """
        listed = self.lanes.get(lane, [])
        gone = [segment for segment in listed[:-1] if segment.end_position <= position]
        if gone:  # new lists, because another thread may be reading the old ones
            last = gone[-1].end_position
            self.lanes[lane] = listed[len(gone) :]
            self.lane_bytes[lane] = self.lane_bytes[lane][len(gone) :]
            self.segments = [
                segment for segment in self.segments if segment.lane != lane or segment.end_position > last
            ]
        return gone

    def replaced_by(self, segment: Segment) -> slice:
        """The slice of its lane that a rewritten segment replaces. Raises SegmentsChangedError if these segments do not
        exist, or do not have exactly its positions and offsets.
        """
        listed = self.lanes.get(segment.lane, [])
        first = bisect_left(listed, segment.base_position, key=lambda other: other.base_position)
        last = bisect_left(listed, segment.end_position, key=lambda other: other.end_position)
        replaced = listed[first : last + 1]
        if not replaced or _bounds(replaced[0], replaced[-1]) != _bounds(segment, segment):
            raise SegmentsChangedError(segment.topic, segment.partition, segment.base_offset, segment.end_offset)
        return slice(first, last + 1)

    def rewrite(self, segments: Iterable[Segment]) -> list[Segment]:
        """Replace segments by rewritten ones, which must not overlap. Returns the replaced segments."""
        by_lane: dict[int, list[Segment]] = {}
        for segment in sorted(segments, key=lambda other: other.base_position):
            by_lane.setdefault(segment.lane, []).append(segment)
        gone: list[Segment] = []
        for lane, new in by_lane.items():
            listed, kept, start = self.lanes[lane], list[Segment](), 0
            for segment in new:
                part = self.replaced_by(segment)
                gone += listed[part]
                kept += [*listed[start : part.start], segment]
                start = part.stop
            # New lists, because another thread may be reading the old ones.
            self.lanes[lane] = kept = kept + listed[start:]
            self.lane_bytes[lane] = list(accumulate(segment.size for segment in kept))
        every = (segment for lane_segments in self.lanes.values() for segment in lane_segments)
        self.segments = sorted(every, key=lambda segment: segment.base_offset)
        self.widest = max((segment.end_offset - segment.base_offset for segment in self.segments), default=0)
        return gone

    def horizon(self, lane: int) -> int:
        """See `Deletions.horizon`."""
        listed = self.lanes.get(lane)
        return listed[0].deletions.horizon if listed else 0

    def first_end(self, lane: int) -> float:
        """The end of the first segment of a lane that `forget` could remove; infinity without one."""
        listed = self.lanes.get(lane, [])
        return listed[0].end_position if len(listed) > 1 else inf


def _bounds(first: Segment, last: Segment) -> tuple[int, int, int, int]:
    return first.base_position, first.base_offset, last.end_position, last.end_offset


class Partitions:
    """The committed segments of all partitions of an application, by topic and partition number.

    Segments are added at the ends, replaced by `rewrite`, and removed by `forget` and `without`.
    """

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, int], Partition] = {}
        self._files: Counter[str] = Counter()

    def topics(self) -> set[str]:
        """The topics with segments."""
        return {topic for topic, _ in self._by_key}

    def partition(self, topic: str, partition: int) -> Partition:
        """One partition; empty if nothing was committed to it."""
        return self._by_key.get((topic, partition)) or Partition()

    def segments(self) -> Iterator[Segment]:
        """All segments, partition by partition."""
        for partition in self._by_key.values():
            yield from partition.segments

    def place(self, segments: Iterable[Segment]) -> tuple[Segment, ...]:
        """The segments with the next positions and offsets, one after another."""
        ends, placed = _Ends(self), []
        for segment in segments:
            offset, position = ends.next(segment)
            placed.append(replace(segment, base_offset=offset, base_position=position))
            ends.advance(placed[-1])
        return tuple(placed)

    def check(self, segments: Sequence[Segment], commit: int) -> None:
        """Check that the segments of commit number `commit` have the next offsets. Raises CommitOrderError."""
        ends = _Ends(self)
        for segment in segments:
            offset, position = ends.next(segment)
            if (segment.base_offset, segment.base_position) != (offset, position):
                raise CommitOrderError(commit, segment.topic, segment.partition, offset, segment.base_offset)
            ends.advance(segment)

    def add(self, segments: Iterable[Segment]) -> None:
        """Add segments with offsets."""
        for segment in segments:
            self._by_key.setdefault((segment.topic, segment.partition), Partition()).add(segment)
            self._files[segment.path] += 1

    def forget(self, topic: str, partition: int, lane: int, position: int) -> list[str]:
        """See `Partition.forget`. Returns the files without remaining segments."""
        return self._removed(self.partition(topic, partition).forget(lane, position))

    def replaced_by(self, segments: Sequence[Segment]) -> list[Segment]:
        """The segments that rewritten ones replace.

        Raises SegmentsChangedError if one does not have exactly the positions of segments of its lane, or if two
        replace the same segment.
        """
        replaced: list[Segment] = []
        until = dict[tuple[str, int, int], int]()
        for segment in sorted(segments, key=lambda other: other.base_position):
            lane = segment.topic, segment.partition, segment.lane
            partition = self.partition(segment.topic, segment.partition)
            part = partition.replaced_by(segment)
            if part.start < until.get(lane, 0):
                raise SegmentsChangedError(segment.topic, segment.partition, segment.base_offset, segment.end_offset)
            until[lane] = part.stop
            replaced += partition.lanes[segment.lane][part]
        return replaced

    def rewrite(self, segments: Sequence[Segment]) -> list[str]:
        """Replace segments by rewritten ones. Returns the files without remaining segments.

        Raises SegmentsChangedError, and changes nothing then.
        """
        self.replaced_by(segments)
        by_partition: dict[tuple[str, int], list[Segment]] = {}
        for segment in segments:
            by_partition.setdefault((segment.topic, segment.partition), []).append(segment)
        gone: list[Segment] = []
        for key, rewritten in by_partition.items():
            self._files.update(segment.path for segment in rewritten)
            gone += self._by_key[key].rewrite(rewritten)
        return self._removed(gone)

    def _removed(self, segments: Sequence[Segment]) -> list[str]:
        """Subtract removed segments from the counts. Returns the files without remaining segments, in order."""
        self._files.subtract(segment.path for segment in segments)
        gone = dict.fromkeys(segment.path for segment in segments if not self._files[segment.path])
        for path in gone:
            del self._files[path]
        return [path for path in gone if path]

    def paths(self) -> set[str]:
        """The files of all segments."""
        return {path for path in self._files if path}

    def without(self, topic: str) -> Partitions:
        """The partitions of all other topics."""
        rest = Partitions()
        rest._by_key = {key: partition for key, partition in self._by_key.items() if key[0] != topic}
        rest._files = Counter(segment.path for segment in rest.segments())
        return rest


class _Ends:
    """The next offsets and positions, for segments that are added to the ends of partitions one after another."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._offsets: dict[tuple[str, int], int] = {}
        self._positions: dict[tuple[str, int, int], int] = {}

    def next(self, segment: Segment) -> tuple[int, int]:
        """The offset and the position at which a segment starts."""
        key = segment.topic, segment.partition
        partition = self._partitions.partition(*key)
        offset = self._offsets.get(key, partition.end)
        position = self._positions.get((*key, segment.lane), partition.lane_ends.get(segment.lane, 0))
        return offset, position

    def advance(self, placed: Segment) -> None:
        """Move the ends after a segment with offsets."""
        key = placed.topic, placed.partition
        self._offsets[key] = placed.end_offset
        self._positions[(*key, placed.lane)] = placed.end_position


# Files with replacements: the remaining records of several lanes.


def encode_rewritten(path: str, topic: str, parts: Sequence[Rewritten]) -> tuple[pa.Buffer | None, tuple[Segment, ...]]:
    """The bytes of a file, None without records, and the segment of each part, with offsets.

    All parts have the same columns, except headers, which are optional.
    """
    placed = [_empty(topic, part) for part in parts]
    full = [number for number, part in enumerate(parts) if len(part.positions)]
    if not full:
        return None, tuple(placed)
    whole = [parts[number] for number in full]
    table, counts = _table(whole), [len(part.positions) for part in whole]
    part_of_row = np.repeat(np.arange(len(whole)), counts)
    data, segments = encode_segments(path, topic, table, part_of_row, 0)
    sparse = POSITION in table.schema.names
    for number, part, segment in zip(full, whole, segments, strict=True):
        rows = [batch.rows for batch in segment.batches]
        placed[number] = replace(
            segment,
            partition=part.partition,
            lane=part.lane,
            base_position=part.start,
            base_offset=part.start_offset,
            span=placed[number].span,
            offset_span=placed[number].offset_span,
            firsts=tuple(part.positions[[0, *accumulate(rows[:-1])]].tolist()) if sparse else (),
        )
    return data, tuple(placed)


def _empty(topic: str, part: Rewritten) -> Segment:
    span, offsets = part.end - part.start, part.end_offset - part.start_offset
    return Segment(
        topic=topic,
        partition=part.partition,
        lane=part.lane,
        path="",
        batches=(),
        base_offset=part.start_offset,
        base_position=part.start,
        span=span,
        offset_span=None if offsets == span else offsets,
    )


def _table(parts: Sequence[Rewritten]) -> pa.Table:
    """The records of all parts, with columns for positions and offsets if these have gaps.

    A part from position 10 and offset 100 with the positions [10, 11, 12] has no gaps, and [10, 12] needs POSITION. Its
    offsets [100, 102] need no OFFSET, as they have the same gaps; [100, 105] do.
    """
    headers = any(HEADERS in part.records.schema.names for part in parts)
    table = pa.concat_tables([_with_headers(part.records) if headers else part.records for part in parts])
    if any((part.positions != np.arange(part.start, part.start + len(part.positions))).any() for part in parts):
        table = table.append_column(POSITION, pa.array(np.concatenate([part.positions for part in parts])))
    if any((part.offsets - part.start_offset != part.positions - part.start).any() for part in parts):
        table = table.append_column(OFFSET, pa.array(np.concatenate([part.offsets for part in parts])))
    return table


def _with_headers(records: pa.Table) -> pa.Table:
    if HEADERS in records.schema.names:
        return records
    return records.append_column(HEADERS, pa.nulls(records.num_rows, pa.string()))


class SegmentWriter(ABC):
    """Writes records to files of segments, in any storage: see `Log.write` and `Log.write_rewritten`."""

    @abstractmethod
    def _write_file(self, path: str, data: pa.Buffer) -> None:
        """Write a file of the log durably. Raises FileExistsError if the path is taken."""

    def write(
        self,
        application: str,
        topic: str,
        name: str,
        table: pa.Table | pa.RecordBatch,
        partitions: int | npt.NDArray[np.integer],
        lane: int,
    ) -> tuple[Segment, ...]:
        if not table.num_rows:
            return ()
        path = segment_path(application, topic, name)
        data, segments = encode_segments(path, topic, table, partitions, lane)
        self._write_file(path, data)
        return segments

    def write_rewritten(
        self, application: str, topic: str, name: str, parts: Sequence[Rewritten]
    ) -> tuple[Segment, ...]:
        path = segment_path(application, topic, name)
        data, segments = encode_rewritten(path, topic, parts)
        if data is not None:
            self._write_file(path, data)
        return segments
