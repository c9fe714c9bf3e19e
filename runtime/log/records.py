"""The log's own records: what a commit says of an application's progress. Plain data; `commit_json` has its bytes.

A commit record is the only thing that makes data exist: a segment, a position, a clock that no commit record lists
was never written. Every number here is an integer; times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar

from .descriptions import FedTopic, TopologyDescription

SOURCE_LANE = 0
"""The one lane of a topic that is fed from outside (seeds, appends)."""


@dataclass(frozen=True)
class CommitMark:
    """One commit of an application, told from any other of its number by the `checksum` (crc32) of its bytes.

    So that one log can be told from a copy of it that others have gone on with.
    """

    application: str
    number: int
    checksum: int


@dataclass(frozen=True)
class Batch:
    """A byte range of a segment file: one Arrow record batch of at most 16,384 rows of one partition.

    `start`, `length`: bytes. `min_timestamp`, `max_timestamp`: bounds of the records' timestamps, `min_order`,
    `max_order`: of the writer's stream time. `checksum`: crc32 of the bytes.
    """

    start: int
    length: int
    rows: int
    min_timestamp: int
    max_timestamp: int
    min_order: int
    max_order: int
    checksum: int = 0

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class Segment:
    """What one writer appended to one partition of one topic in one epoch.

    `lane`: the partition number of the writing task (SOURCE_LANE for appends). `base_offset`: offset of its first
    record in the partition; `base_position`: of its first record in the lane (both given at commit; -1 before).
    `headers`: whether any record of the file has headers. `head`: bytes of the schema at the start of the file,
    `head_checksum`: their crc32 (None in logs that were begun before there was one).
    """

    topic: str
    partition: int
    lane: int
    path: str
    batches: tuple[Batch, ...]
    headers: bool = False
    base_offset: int = -1
    base_position: int = -1
    head: int = 0
    head_checksum: int | None = None

    @cached_property
    def rows(self) -> int:
        """Number of records."""
        return sum(batch.rows for batch in self.batches)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """For each batch, the number of records before it."""
        return tuple(accumulate((batch.rows for batch in self.batches), initial=0))[:-1]

    @property
    def end_offset(self) -> int:
        """The offset behind its last record: where the partition's next segment begins."""
        return self.base_offset + self.rows

    @property
    def end_position(self) -> int:
        """The position behind its last record: where the lane's next segment begins."""
        return self.base_position + self.rows


@dataclass(frozen=True)
class TaskCommit:
    """One task's epoch: how far it read, its clocks, what it wrote.

    `positions`: topic -> lane -> records consumed so far of that lane of the task's partition (not a delta).
    `stream_time`: the task's clock, -1 before the first record. `clocks`: step name -> step clock.
    `segments`: records appended, changelogs among them. `dropped`: `<step>:<reason>` -> records, of this epoch.
    `applied`: store -> changelog position that the local store holds (not durable). Plans begin there, and of a store
    without changelog what lies before is forgotten.
    `globals_`: global table -> partition -> position this epoch saw. `records`: records consumed in this epoch.
    """

    subtopology: str
    partition: int
    positions: Mapping[str, Mapping[int, int]]
    stream_time: int
    clocks: Mapping[str, int] = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    applied: Mapping[str, int] = field(default_factory=dict)
    globals_: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    records: int = 0


@dataclass(frozen=True)
class GenerationRecord:
    """A driver takes over: every commit of a lower generation is refused from here on.

    `topology` describes the application. Readers learn from it who reads and writes what.
    `assignment`: who has which tasks, and why; empty in logs that were written before it was kept.
    """

    generation: int
    at: int
    topology: TopologyDescription = field(default_factory=TopologyDescription)
    assignment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EpochRecord:
    """Tasks of one job that succeeded, together.

    `incarnation`: of the application that the driver works on, see `TopologyDescription`; empty in logs that were
    written before it was kept. Generations begin at 1 again when an application is started again from the beginning, so
    they alone do not tell a driver of today from one that was left over.
    """

    generation: int
    epoch: int
    at: int
    tasks: tuple[TaskCommit, ...]
    incarnation: str = ""


@dataclass(frozen=True)
class SeedSource:
    """What a topic was seeded with. `hash`: of the content and of all that decides how it is read. `path`: of the file,
    or the name of the function.
    """

    topic: str
    hash: str
    path: str


@dataclass(frozen=True)
class AppendRecord:
    """Records from outside, for one topic: a seed or an append.

    `source`: of a seed. `topic`: the topic as it was declared, None in logs that were begun before it was kept.
    `replace`: the topic starts again with these records.
    """

    at: int
    segments: tuple[Segment, ...]
    source: SeedSource | None = None
    topic: FedTopic | None = None
    replace: bool = False


CommitRecord = GenerationRecord | EpochRecord | AppendRecord
