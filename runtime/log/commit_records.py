"""The log's own records: what a commit says of an application's progress. Plain data; `commit_json` makes bytes of it.

Data exists only if a commit record lists it: a segment, a position or a clock that no commit record lists was never
written. Every number here is an integer; times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..task_id import TaskKey
from .descriptions import FedTopic, TopologyDescription
from .segments.segment import Segment

EXTERNAL_LANE = 0
"""The one lane of a topic that is fed from outside (seeds, appends)."""

Listed = Segment
"""Records that were written, as a commit lists them. Only the log knows what is in it; others pass it on."""


@dataclass(frozen=True)
class CommitMark:
    """One commit of an application. The `checksum` (crc32) of its bytes distinguishes it from others of its number.

    So a store notices a log that is a copy and got other commits since it was copied.
    """

    application: str
    number: int
    checksum: int


@dataclass(frozen=True)
class TaskCommit:
    """One task's epoch: how far it read, its clocks, what it wrote.

    `positions`: topic -> lane -> the position at which reading continues in that lane of the task's partition.
    `stream_time`: the task's, -1 before the first record. `clocks`: window store -> the stream time that it observed.
    `segments`: records appended, changelogs among them. `dropped`: `<step>:<reason>` -> records, of this epoch.
    `applied`: store -> changelog position that the local store holds (not durable). Plans begin there. Of a store
    without changelog, changes before it are removed.
    `globals_`: global table -> partition -> position this epoch saw. `records`: records consumed in this epoch.
    """

    subtopology: str
    partition: int
    positions: Mapping[str, Mapping[int, int]]
    stream_time: int
    clocks: Mapping[str, int] = field(default_factory=dict)
    segments: tuple[Listed, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    applied: Mapping[str, int] = field(default_factory=dict)
    globals_: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    records: int = 0

    def key(self, application: str) -> TaskKey:
        """Which task, in the log of `application`."""
        return TaskKey(application, self.subtopology, self.partition)


@dataclass(frozen=True)
class GenerationRecord:
    """A driver takes over: every commit of a lower generation is refused from here on.

    `topology` describes the application. Readers learn from it who reads and writes what.
    `assignment`: which client has which tasks, and why. Empty in logs of versions that did not record it.
    """

    generation: int
    at: int
    topology: TopologyDescription = field(default_factory=TopologyDescription)
    assignment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def incarnation(self) -> str:
        """The incarnation of the application that begins or goes on with it. Empty where `topology` has none."""
        return self.topology.incarnation


@dataclass(frozen=True)
class EpochRecord:
    """Tasks of one job that succeeded, together.

    `incarnation`: of the application that the driver works on, see `TopologyDescription`. Empty in logs of versions
    that did not record it. Generations begin at 1 again when an application is fully refreshed, so
    the generation alone does not distinguish the present driver from one of the time before.
    """

    generation: int
    epoch: int
    at: int
    tasks: tuple[TaskCommit, ...]
    incarnation: str = ""


@dataclass(frozen=True)
class SeedSource:
    """The source of a topic's seed. `hash`: of the content and of all that decides how it is read. `path`: of the file,
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
    segments: tuple[Listed, ...]
    source: SeedSource | None = None
    topic: FedTopic | None = None
    replace: bool = False

    @property
    def records(self) -> int:
        """How many records."""
        return sum(segment.rows for segment in self.segments)

    @property
    def offsets(self) -> dict[int, tuple[int, int]]:
        """Partition -> offsets of its first record and after the last, once it is committed."""
        offsets: dict[int, tuple[int, int]] = {}
        for segment in self.segments:
            first, _ = offsets.get(segment.partition, (segment.base_offset, 0))
            offsets[segment.partition] = (first, segment.end_offset)
        return offsets


@dataclass(frozen=True)
class AssignmentRecord:
    """The driver in charge has placed tasks again while they ran: `assignment` as in GenerationRecord.

    `incarnation`: see EpochRecord.
    """

    generation: int
    at: int
    assignment: Mapping[str, Any] = field(default_factory=dict)
    incarnation: str = ""


@dataclass(frozen=True)
class StoreSnapshot:
    """A copy of one partition of a store in a file of the log, with all changes up to `position` of its changelog.

    `path`: of the file, relative to the log. `size`: its bytes, `checksum`: their crc32. `form`: the form of the file,
    see `CopyingBackend.copy_form`. `at`: when it was made.
    """

    store: str
    partition: int
    position: int
    path: str
    size: int
    checksum: int
    form: str
    at: int


@dataclass(frozen=True)
class SnapshotRecord:
    """The driver in charge has had stores copied. `removed`: paths of snapshots that are not listed any more.

    `incarnation`: see EpochRecord.
    """

    generation: int
    at: int
    added: tuple[StoreSnapshot, ...] = ()
    removed: tuple[str, ...] = ()
    incarnation: str = ""


@dataclass(frozen=True)
class Purged:
    """Records of a partition that nobody will read any more: those before `positions`, by lane."""

    topic: str
    partition: int
    positions: Mapping[int, int]


@dataclass(frozen=True)
class PurgeRecord:
    """The driver in charge gives up records that their readers have consumed. A log may keep some of them.

    `incarnation`: see EpochRecord.
    """

    generation: int
    at: int
    purged: tuple[Purged, ...]
    incarnation: str = ""


CommitRecord = GenerationRecord | AssignmentRecord | EpochRecord | SnapshotRecord | PurgeRecord | AppendRecord
"""One commit of an application."""

DriversRecord = AssignmentRecord | EpochRecord | SnapshotRecord | PurgeRecord
"""What the driver in charge commits: it is refused under any other generation."""
