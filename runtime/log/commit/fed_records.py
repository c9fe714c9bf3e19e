"""What a commit says of records from outside: seeds and appends, and dead letters whose records were put back.

Plain data, as all that a commit says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ..log import Listed
from .descriptions import FedTopic

EXTERNAL_LANE = 0
"""The one lane of a topic that is fed from outside (seeds, appends)."""


@dataclass(frozen=True)
class SeededPart:
    """Offsets of the records that a seed gave to a partition: from `start` up to, not including, `end`."""

    partition: int
    start: int
    end: int

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class SeedSource:
    """The source of a topic's seed. `hash`: of the content and of all that decides how it is read. `path`: of the file,
    or the name of the function.

    `parts`: where its records are. In a commit only if that commit does not have them; None in a snapshot that an
    earlier version has made.
    """

    topic: str
    hash: str
    path: str
    parts: tuple[SeededPart, ...] | None = None

    seldom: ClassVar = ("parts",)


Place = tuple[int, int]
"""The partition and offset of a record."""


Ranges = tuple[tuple[int, int], ...]
"""Offsets: of each range the first one, and the one behind its last one."""


@dataclass(frozen=True)
class Retried:
    """Dead letters whose records were put back: offsets in the topic of dead letters, as ranges, by partition.

    `incarnation`: of the application that writes that topic. Letters of another one are others. `records`: the same of
    the records, where they were before they were put back; these stay the same whoever writes their letters, and under
    what name. Empty in older logs.
    """

    topic: str
    incarnation: str = ""
    offsets: Mapping[int, Ranges] = field(default_factory=dict)
    records: Mapping[int, Ranges] = field(default_factory=dict)

    seldom: ClassVar = ("records",)

    @classmethod
    def of(cls, topic: str, incarnation: str, letters: Iterable[Place], records: Iterable[Place]) -> Retried:
        """Of single letters and their records."""
        return cls(topic, incarnation, _ranges(letters), _ranges(records))

    def has(self, incarnation: str, partition: int, offset: int) -> bool:
        """Whether a letter's record was put back."""
        ranges = self.offsets.get(partition, ())
        return incarnation == self.incarnation and any(start <= offset < end for start, end in ranges)

    def and_(self, later: Retried) -> Retried:
        """These and those of a later commit; only the later ones, if the topic has begun again meanwhile."""
        if later.incarnation != self.incarnation:
            return later
        return Retried(self.topic, self.incarnation, ranges_of_both(self.offsets, later.offsets))


def ranges_of_both(some: Mapping[int, Ranges], others: Mapping[int, Ranges]) -> dict[int, Ranges]:
    """Ranges by partition, joined."""
    return {
        partition: _joined((*some.get(partition, ()), *others.get(partition, ())))
        for partition in sorted({*some, *others})
    }


def _ranges(places: Iterable[Place]) -> dict[int, Ranges]:
    found: dict[int, list[tuple[int, int]]] = {}
    for partition, offset in places:
        found.setdefault(partition, []).append((offset, offset + 1))
    return {partition: _joined(each) for partition, each in found.items()}


def _joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    for start, end in sorted((start, end) for start, end in ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


@dataclass(frozen=True)
class AppendRecord:
    """Records from outside, for one topic: a seed or an append.

    `source`: of a seed. `topic`: the topic as it was declared, None in logs that were begun before it was kept.
    `replace`: the topic starts again with these records. `appended`: how many of its segments, the last ones, have
    records that were appended before and are kept. `retried`: the dead letters that the records are of.
    """

    at: int
    segments: tuple[Listed, ...]
    source: SeedSource | None = None
    topic: FedTopic | None = None
    replace: bool = False
    appended: int = 0
    retried: Retried | None = None

    seldom: ClassVar = ("appended", "retried")

    @property
    def records(self) -> int:
        """How many records."""
        return sum(segment.rows for segment in self.segments)

    @property
    def offsets(self) -> dict[int, tuple[int, int]]:
        """Partition -> offsets of its first record and after the last, once it is committed."""
        return _offsets(self.segments)

    @property
    def seed_offsets(self) -> dict[int, tuple[int, int]]:
        """The same for the records of the seed alone."""
        return _offsets(self.segments[: len(self.segments) - self.appended])


def _offsets(segments: Iterable[Listed]) -> dict[int, tuple[int, int]]:
    offsets: dict[int, tuple[int, int]] = {}
    for segment in segments:
        first, _ = offsets.get(segment.partition, (segment.base_offset, 0))
        offsets[segment.partition] = (first, segment.end_offset)
    return offsets
