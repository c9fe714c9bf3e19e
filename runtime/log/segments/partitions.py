"""The committed segments of all partitions of an application, and the ends of each partition and lane."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf

from ..errors import CommitOrderError
from ..ranges import LogRange
from .segment import Segment


@dataclass
class Partition:
    """One partition of a topic: its segments by offset, the same by lane, and the end of each lane.

    `lane_bytes`: for each segment of a lane, the bytes of all that were ever there up to its end. `widest`: the most
    offsets that a segment takes up.
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
        self.end = segment.end_offset
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

    def first_end(self, lane: int) -> float:
        """Where the first segment of a lane ends that `forget` could remove; infinity if there is none."""
        listed = self.lanes.get(lane, [])
        return listed[0].end_position if len(listed) > 1 else inf


class Partitions:
    """Partitions by topic and number. Segments are added at their ends, and removed only by `forget` and `without`."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], Partition] = {}

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
        ends: dict[tuple[str, int], int] = {}
        lane_ends: dict[tuple[str, int, int], int] = {}
        placed = []
        for segment in segments:
            key = (segment.topic, segment.partition)
            lane = (*key, segment.lane)
            known = self.of(*key)
            offset = ends.get(key, known.end)
            position = lane_ends.get(lane, known.lane_ends.get(segment.lane, 0))
            segment = replace(segment, base_offset=offset, base_position=position)
            placed.append(segment)
            ends[key] = segment.end_offset
            lane_ends[lane] = segment.end_position
        return tuple(placed)

    def check(self, segments: Sequence[Segment], commit: int) -> None:
        """Check that the segments of commit number `commit` come next. Raises CommitOrderError."""
        for found, next_ in zip(segments, self.place(segments), strict=True):
            if found != next_:
                raise CommitOrderError(commit, found.topic, found.partition, next_.base_offset, found.base_offset)

    def add(self, segments: Iterable[Segment]) -> None:
        """Add placed segments."""
        for segment in segments:
            self._found.setdefault((segment.topic, segment.partition), Partition()).add(segment)

    def forget(self, topic: str, partition: int, lane: int, position: int) -> list[Segment]:
        """See `Partition.forget`."""
        return self.of(topic, partition).forget(lane, position)

    def paths(self, topic: str) -> set[str]:
        """The files of a topic's segments."""
        found = (partition for (name, _), partition in self._found.items() if name == topic)
        return {segment.path for partition in found for segment in partition.segments}

    def without(self, topic: str) -> Partitions:
        """The partitions of all topics but one."""
        rest = Partitions()
        rest._found = {key: partition for key, partition in self._found.items() if key[0] != topic}
        return rest
