"""Commit records for external topics: seeds, appends and redriven dead letters.

Plain data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ..log import Listed
from .descriptions import ExternalTopic

EXTERNAL_LANE = 0
"""The only lane of an external topic."""


@dataclass(frozen=True)
class SeededPart:
    """Offsets of a seed's records in a partition: from `start` up to, not including, `end`."""

    partition: int
    start: int
    end: int

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class SeedSource:
    """The source of a topic's seed. `hash`: of the content, and of everything its parsing depends on. `path`: of the
    file, or the name of the function.

    `parts`: the offsets of its records. A commit has them only if it does not contain the records; None in snapshots of
    earlier versions.
    """

    topic: str
    hash: str
    path: str
    parts: tuple[SeededPart, ...] | None = None

    seldom: ClassVar = ("parts",)


RecordId = tuple[int, int]
"""The partition and offset of a record."""


Ranges = tuple[tuple[int, int], ...]
"""Ranges of offsets: start (inclusive) and end (exclusive) of each."""


@dataclass(frozen=True)
class Redriven:
    """Redriven dead letters. `offsets`: in the dead letter topic, by partition.

    `incarnation`: of the application that writes that topic; the offsets are valid for this one only. `records`: the
    offsets at which the records of the letters were before, by partition. They do not depend on who writes the letters,
    or under what name. Empty in older logs.
    """

    topic: str
    incarnation: str = ""
    offsets: Mapping[int, Ranges] = field(default_factory=dict)
    records: Mapping[int, Ranges] = field(default_factory=dict)

    seldom: ClassVar = ("records",)

    @classmethod
    def from_letters(
        cls, topic: str, incarnation: str, letters: Iterable[RecordId], records: Iterable[RecordId]
    ) -> Redriven:
        """From single letters and their records."""
        return cls(topic, incarnation, _ranges(letters), _ranges(records))

    def has(self, incarnation: str, partition: int, offset: int) -> bool:
        """Whether a letter was redriven."""
        ranges = self.offsets.get(partition, ())
        return incarnation == self.incarnation and any(start <= offset < end for start, end in ranges)

    def merged_with(self, later: Redriven) -> Redriven:
        """The letters of both; only the later ones if the incarnation has changed."""
        if later.incarnation != self.incarnation:
            return later
        return Redriven(self.topic, self.incarnation, ranges_of_both(self.offsets, later.offsets))


def ranges_of_both(some: Mapping[int, Ranges], others: Mapping[int, Ranges]) -> dict[int, Ranges]:
    """The union of ranges, by partition."""
    return {
        partition: _merged((*some.get(partition, ()), *others.get(partition, ())))
        for partition in sorted({*some, *others})
    }


def _ranges(records: Iterable[RecordId]) -> dict[int, Ranges]:
    by_partition: dict[int, list[tuple[int, int]]] = {}
    for partition, offset in records:
        by_partition.setdefault(partition, []).append((offset, offset + 1))
    return {partition: _merged(ranges) for partition, ranges in by_partition.items()}


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The union of ranges: (0, 2), (2, 3) and (5, 6) give (0, 3) and (5, 6)."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted((start, end) for start, end in ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


@dataclass(frozen=True)
class AppendRecord:
    """Records for one external topic: a seed or an append.

    `source`: of a seed. `topic`: the declaration of the topic, None in older logs. `replace`: whether the records
    replace all others of the topic. `appended`: the number of segments, the last ones, with earlier appends that are
    kept. `retried`: the dead letters of the records.
    """

    at: int
    segments: tuple[Listed, ...]
    source: SeedSource | None = None
    topic: ExternalTopic | None = None
    replace: bool = False
    appended: int = 0
    retried: Redriven | None = None

    seldom: ClassVar = ("appended", "retried")

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(segment.rows for segment in self.segments)

    @property
    def offsets(self) -> dict[int, tuple[int, int]]:
        """Partition -> offsets of the first record and after the last, once committed."""
        return _offsets(self.segments)

    @property
    def seed_offsets(self) -> dict[int, tuple[int, int]]:
        """Partition -> offsets of the seed's first record and after its last, once committed."""
        return _offsets(self.segments[: len(self.segments) - self.appended])


def _offsets(segments: Iterable[Listed]) -> dict[int, tuple[int, int]]:
    offsets: dict[int, tuple[int, int]] = {}
    for segment in segments:
        first, _ = offsets.get(segment.partition, (segment.base_offset, 0))
        offsets[segment.partition] = (first, segment.end_offset)
    return offsets
