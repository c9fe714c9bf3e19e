"""Segments of partitions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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

# The committed segments of all partitions of an application, and the ends of each partition and lane.


@dataclass
class Partition:
    """One partition of a topic: its segments by first offset, the same by lane, and the end of each lane.

    `lane_bytes`: for each segment of a lane, the bytes of the lane up to its end, of segments that are gone too.
    `widest`: the most offsets that a segment takes up.
    """

    segments: list[Segment] = field(default_factory=list)
    lanes: dict[int, list[Segment]] = field(default_factory=dict)
    end: int = 0
    lane_ends: dict[int, int] = field(default_factory=dict)
    lane_bytes: dict[int, list[int]] = field(default_factory=dict)
    widest: int = 0

    def add(self, segment: Segment) -> None:
        """Add a placed segment."""
        self.segments.append(segment)
        self.lanes.setdefault(segment.lane, []).append(segment)
        before = self.lane_bytes.setdefault(segment.lane, [])
        before.append((before[-1] if before else 0) + segment.size)
        self.end = max(self.end, segment.end_offset)  # of a snapshot's segments, an earlier one may reach further
        self.lane_ends[segment.lane] = segment.end_position
        self.widest = max(self.widest, segment.end_offset - segment.base_offset)

    def ranges(self, start: int) -> Iterator[LogRange]:
        """The ranges of all lanes that reach beyond offset `start`, in order of their first offsets."""
        segments = self.segments
        first = bisect_right(segments, start - self.widest, key=lambda segment: segment.base_offset)
        return (each.range() for each in islice(segments, first, len(segments)) if each.end_offset > start)

    def lane_ranges(self, lane: int, start: int, records: int | None) -> Iterator[LogRange]:
        """The ranges of a lane that reach beyond position `start`, in order: all, or enough for `records` records."""
        segments = self.lanes.get(lane, [])
        first = max(bisect_right(segments, start, key=lambda segment: segment.base_position) - 1, 0)
        found = 0
        for segment in islice(segments, first, len(segments)):
            if segment.end_position <= start:
                continue
            yield segment.range()
            found += max(segment.rows - max(start - segment.base_position, 0), 0)
            if records is not None and found >= records:
                return

    def bytes_from(self, lane: int, position: int) -> int:
        """About how many bytes of a lane lie from a position on. As quick for many segments as for few."""
        segments, sizes = self.lanes.get(lane, []), self.lane_bytes.get(lane, [])
        first = bisect_right(segments, position, key=lambda segment: segment.end_position)
        if first >= len(segments):
            return 0
        there = segments[first]
        read = max(0, position - there.base_position) / max(1, there.end_position - there.base_position)
        return sizes[-1] - sizes[first] + there.size - int(there.size * read)

    def forget(self, lane: int, position: int) -> list[Segment]:
        """Remove a lane's segments that end at or before `position`.

        The last one stays, because it has the lane's end.
        """
        listed = self.lanes.get(lane, [])
        gone = [segment for segment in listed[:-1] if segment.end_position <= position]
        if gone:  # new lists, because another thread may be reading the old ones
            last = gone[-1].end_position
            self.lanes[lane] = listed[len(gone) :]
            self.lane_bytes[lane] = self.lane_bytes[lane][len(gone) :]
            self.segments = [each for each in self.segments if each.lane != lane or each.end_position > last]
        return gone

    def replaced_by(self, segment: Segment) -> slice:
        """Which segments of its lane a rewritten one replaces. Raises SegmentsChangedError if they are not there, or
        do not span exactly what it spans.
        """
        listed = self.lanes.get(segment.lane, [])
        first = bisect_left(listed, segment.base_position, key=lambda each: each.base_position)
        last = bisect_left(listed, segment.end_position, key=lambda each: each.end_position)
        found = listed[first : last + 1]
        if not found or _places(found[0], found[-1]) != _places(segment, segment):
            raise SegmentsChangedError(segment.topic, segment.partition, segment.base_offset, segment.end_offset)
        return slice(first, last + 1)

    def rewrite(self, segments: Iterable[Segment]) -> list[Segment]:
        """Put rewritten segments, which must not overlap, in the place of others. Returns these."""
        by_lane: dict[int, list[Segment]] = {}
        for segment in sorted(segments, key=lambda each: each.base_position):
            by_lane.setdefault(segment.lane, []).append(segment)
        gone: list[Segment] = []
        for lane, new in by_lane.items():
            listed, kept, at = self.lanes[lane], list[Segment](), 0
            for segment in new:
                part = self.replaced_by(segment)
                gone += listed[part]
                kept += [*listed[at : part.start], segment]
                at = part.stop
            # New lists, because another thread may be reading the old ones.
            self.lanes[lane] = kept = kept + listed[at:]
            self.lane_bytes[lane] = list(accumulate(each.size for each in kept))
        every = (each for lane in self.lanes.values() for each in lane)
        self.segments = sorted(every, key=lambda each: each.base_offset)
        self.widest = max((each.end_offset - each.base_offset for each in self.segments), default=0)
        return gone

    def horizon(self, lane: int) -> int:
        """See `Deletions.horizon`."""
        listed = self.lanes.get(lane)
        return listed[0].deletions.horizon if listed else 0

    def first_end(self, lane: int) -> float:
        """Where the first segment of a lane ends that `forget` could remove; infinity if there is none."""
        listed = self.lanes.get(lane, [])
        return listed[0].end_position if len(listed) > 1 else inf


def _places(first: Segment, last: Segment) -> tuple[int, int, int, int]:
    return first.base_position, first.base_offset, last.end_position, last.end_offset


class Partitions:
    """Partitions by topic and number.

    Segments are added at their ends, replaced by `rewrite`, and removed by `forget` and `without`.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], Partition] = {}
        self._files: Counter[str] = Counter()

    def topics(self) -> set[str]:
        """The topics that hold segments."""
        return {topic for topic, _ in self._found}

    def of(self, topic: str, partition: int) -> Partition:
        """One partition; an empty one if nothing was committed to it."""
        return self._found.get((topic, partition)) or Partition()

    def segments(self) -> Iterator[Segment]:
        """All segments, partition by partition."""
        for partition in self._found.values():
            yield from partition.segments

    def place(self, segments: Iterable[Segment]) -> tuple[Segment, ...]:
        """The segments with the positions and offsets that come next, one after the other."""
        ends, placed = _Ends(self), []
        for segment in segments:
            offset, position = ends.of(segment)
            placed.append(replace(segment, base_offset=offset, base_position=position))
            ends.move(placed[-1])
        return tuple(placed)

    def check(self, segments: Sequence[Segment], commit: int) -> None:
        """Check that the segments of commit number `commit` come next. Raises CommitOrderError."""
        ends = _Ends(self)
        for segment in segments:
            offset, position = ends.of(segment)
            if (segment.base_offset, segment.base_position) != (offset, position):
                raise CommitOrderError(commit, segment.topic, segment.partition, offset, segment.base_offset)
            ends.move(segment)

    def add(self, segments: Iterable[Segment]) -> None:
        """Add placed segments."""
        for segment in segments:
            self._found.setdefault((segment.topic, segment.partition), Partition()).add(segment)
            self._files[segment.path] += 1

    def forget(self, topic: str, partition: int, lane: int, position: int) -> list[str]:
        """See `Partition.forget`. Returns the files of which no segment is left."""
        return self._removed(self.of(topic, partition).forget(lane, position))

    def replaced_by(self, segments: Sequence[Segment]) -> list[Segment]:
        """The segments whose place rewritten ones take. Raises SegmentsChangedError if each does not span exactly
        segments of its lane, other ones than the rest.
        """
        found: list[Segment] = []
        until = dict[tuple[str, int, int], int]()
        for segment in sorted(segments, key=lambda each: each.base_position):
            lane = segment.topic, segment.partition, segment.lane
            partition = self.of(segment.topic, segment.partition)
            part = partition.replaced_by(segment)
            if part.start < until.get(lane, 0):
                raise SegmentsChangedError(segment.topic, segment.partition, segment.base_offset, segment.end_offset)
            until[lane] = part.stop
            found += partition.lanes[segment.lane][part]
        return found

    def rewrite(self, segments: Sequence[Segment]) -> list[str]:
        """Put rewritten segments in the place of others. Returns the files of which no segment is left.

        Raises SegmentsChangedError, and changes nothing.
        """
        self.replaced_by(segments)
        by_partition: dict[tuple[str, int], list[Segment]] = {}
        for segment in segments:
            by_partition.setdefault((segment.topic, segment.partition), []).append(segment)
        gone: list[Segment] = []
        for key, each in by_partition.items():
            self._files.update(segment.path for segment in each)
            gone += self._found[key].rewrite(each)
        return self._removed(gone)

    def _removed(self, segments: Sequence[Segment]) -> list[str]:
        """Count removed segments; the files, in order, of which none is left."""
        self._files.subtract(segment.path for segment in segments)
        gone = dict.fromkeys(segment.path for segment in segments if not self._files[segment.path])
        for path in gone:
            del self._files[path]
        return [path for path in gone if path]

    def paths(self) -> set[str]:
        """The files of all segments."""
        return {path for path in self._files if path}

    def without(self, topic: str) -> Partitions:
        """The partitions of all topics but one."""
        rest = Partitions()
        rest._found = {key: partition for key, partition in self._found.items() if key[0] != topic}
        rest._files = Counter(segment.path for segment in rest.segments())
        return rest


class _Ends:
    """Where segments come next that are placed one after the other behind those that are there."""

    def __init__(self, there: Partitions) -> None:
        self._there = there
        self._offsets: dict[tuple[str, int], int] = {}
        self._positions: dict[tuple[str, int, int], int] = {}

    def of(self, segment: Segment) -> tuple[int, int]:
        """The offset and the position at which a segment begins."""
        key = segment.topic, segment.partition
        known = self._there.of(*key)
        offset = self._offsets.get(key, known.end)
        return offset, self._positions.get((*key, segment.lane), known.lane_ends.get(segment.lane, 0))

    def move(self, placed: Segment) -> None:
        """The next one comes behind this."""
        key = placed.topic, placed.partition
        self._offsets[key] = placed.end_offset
        self._positions[(*key, placed.lane)] = placed.end_position


# The inside of a file that takes the place of others: what is left of the records of several lanes.


def encode_rewritten(path: str, topic: str, parts: Sequence[Rewritten]) -> tuple[pa.Buffer | None, tuple[Segment, ...]]:
    """The bytes of a file, None if there are no records, and the placed segment of each part.

    The records of all parts have the same columns, but for those of headers, which some may lack.
    """
    placed = [_empty(topic, part) for part in parts]
    full = [number for number, part in enumerate(parts) if len(part.positions)]
    if not full:
        return None, tuple(placed)
    whole = [parts[number] for number in full]
    table, counts = _table(whole), [len(part.positions) for part in whole]
    of_row = np.repeat(np.arange(len(whole)), counts)
    data, segments = encode_segments(path, topic, table, of_row, 0)
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
    """The records of all parts, with columns for positions and offsets if they do not follow one another."""
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


# Writing segments, wherever a log keeps its files.

Keep = Callable[[str, pa.Buffer], object]
"""Keeps bytes durably under a path of the log. Raises FileExistsError if the path is taken."""


def write_segments(
    keep: Keep,
    application: str,
    topic: str,
    name: str,
    table: pa.Table | pa.RecordBatch,
    partitions: int | npt.NDArray[np.integer],
    lane: int,
) -> tuple[Segment, ...]:
    """See `Log.write`."""
    if not table.num_rows:
        return ()
    path = segment_path(application, topic, name)
    data, segments = encode_segments(path, topic, table, partitions, lane)
    keep(path, data)
    return segments


def write_rewritten(
    keep: Keep, application: str, topic: str, name: str, parts: Sequence[Rewritten]
) -> tuple[Segment, ...]:
    """See `Log.write_rewritten`."""
    path = segment_path(application, topic, name)
    data, segments = encode_rewritten(path, topic, parts)
    if data is not None:
        keep(path, data)
    return segments
