"""Commit records, and renames in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from ...ir.topology import DEAD_LETTER_VALUE
from ...records.schema import changelog_topic
from ...task_id import TaskKey
from ..log import Listed
from ..places import Places
from .descriptions import ExternalTopic, TopologyDescription, UsedTopic
from .external_records import AppendRecord, Ranges, SeedSource

# Renames of an application, and of its topics, stores and steps, from one commit on.
#
# Commits before that one have the old names. The commit renames the whole state (`state_parts/renamed.py`), so users of
# states know the new names only.

_INTERNAL = ("-changelog", "-repartition")
"""Suffixes of internal topics, with names that start with their application's."""

DEAD_LETTERS = "_dead_letter"
"""Suffix of dead letter topics; their names start with that of their topology."""


@dataclass(frozen=True)
class Renames:
    """Old name -> new name. `application`: of the application itself, or empty.

    `topics`: also changelogs and repartition topics. `tables`: global tables. `steps`: flows and steps, as in counters
    of dropped records.
    """

    application: Mapping[str, str] = field(default_factory=dict)
    subtopologies: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_application(cls, old: str, new: str, topics: Mapping[str, UsedTopic | None]) -> Self:
        """The renaming of an application, and of those `topics` that have its name in theirs.

        `topics`: those that it reads or writes; with None, those that it has written before.
        """
        internal, letters = f"{old}-", f"{old.partition('-')[2]}_"
        renamed = {}
        for topic, used in topics.items():
            if topic.startswith(internal) and topic.endswith(_INTERNAL):
                renamed[topic] = f"{new}{topic.removeprefix(old)}"
            elif topic.startswith(letters) and topic.endswith(DEAD_LETTERS) and _has_dead_letters(used, old):
                renamed[topic] = f"{new.partition('-')[2]}_{topic.removeprefix(letters)}"
        return cls({old: new}, topics=renamed)

    def __bool__(self) -> bool:
        return any((self.application, self.subtopologies, self.stores, self.topics, self.tables, self.steps))

    @property
    def inverse(self) -> Renames:
        """New name -> old name."""
        return Renames(*({new: old for old, new in names.items()} for names in self._all()))

    def then(self, after: Renames) -> Renames:
        """These renames, followed by others."""
        return Renames(*(_chained(first, second) for first, second in zip(self._all(), after._all(), strict=True)))

    def with_changelogs(self, application: str) -> Renames:
        """These renames, with the changelogs of renamed stores. `application`: its name at that time."""
        both = (
            (changelog_topic(application, old), changelog_topic(application, new)) for old, new in self.stores.items()
        )
        return replace(self, topics={**self.topics, **dict(both)})

    def _all(self) -> tuple[Mapping[str, str], ...]:
        return self.application, self.subtopologies, self.stores, self.topics, self.tables, self.steps


def _has_dead_letters(used: UsedTopic | None, application: str) -> bool:
    return used is None or (used.writer == application and not used.key and used.value == DEAD_LETTER_VALUE)


def _chained(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    both = {old: second.get(new, new) for old, new in first.items()}
    rest = {old: new for old, new in second.items() if old not in first.values() and old not in first}
    return {old: new for old, new in {**both, **rest}.items() if old != new}


# Commit records: plain data, which `encoding` encodes.
#
# Data exists only if a commit record lists it: segments, positions and clocks without a commit record do not count. All
# numbers are integers; times are milliseconds.

DELAY_MS = 600_000
"""The default time for which replaced files are kept."""


@dataclass(frozen=True)
class CommitMark:
    """One commit of an application (by its name in the log). `checksum`: crc32, to distinguish commits of one number.

    So a store notices that a log is a copy with other commits since.
    """

    application: str
    number: int
    checksum: int


@dataclass(frozen=True)
class Scheduled:
    """A punctuation of a processor. `kind`: `stream_time` or `wall_clock`. `due`: its next time, ms; -1 if cancelled.

    `callback`: the method to call; empty for one that the processor's `init` schedules. `number`: among those of `init`
    with this kind and interval, else among all others of the processor.
    """

    processor: str
    kind: str
    interval_ms: int
    number: int
    due: int
    callback: str = ""

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class TaskCommit:
    """The epoch of one task: its positions, clocks and output.

    `positions`: topic -> lane -> the position at which reading resumes in that lane of the task's partition.
    `stream_time`: of the task, -1 before the first record. `clocks`: window store -> its observed stream time; for
    sliding windows also `<store>.latest` -> the greatest start of a window. `segments`: appended records, changelogs
    included. `dropped`: `<step>:<reason>` -> records of this epoch. `applied`: store -> changelog position of the local
    store (not durable). Plans start there. For a store without changelog, changes before it are removed. `globals_`:
    global table -> partition -> position in this epoch. `records`: consumed in this epoch. `scheduled`: punctuations of
    its processors.
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
    scheduled: tuple[Scheduled, ...] = ()

    seldom: ClassVar = ("scheduled",)

    def key(self, application: str) -> TaskKey:
        """The key of the task, in the log of `application`."""
        return TaskKey(application, self.subtopology, self.partition)


@dataclass(frozen=True)
class Beginning:
    """Where the tasks of a subtopology start in a topic that is new for them: partition -> lane -> position."""

    subtopology: str
    topic: str
    positions: Mapping[int, Mapping[int, int]]


Ends = Mapping[str, tuple[int, ...]]
"""Topic of Kafka -> the end of each of its partitions, as the driver saw them before it planned the epoch.

Other applications do not ask Kafka. By these ends they know whether a task that copies from Kafka has consumed all that
was there at that time. Without them, results would depend on which task of the copy commits first.
"""


@dataclass(frozen=True)
class GenerationRecord:
    """A driver claims the application: commits of lower generations are fenced from here on.

    `topology`: describes the application. Readers find the writers of topics in it. `assignment`: which client has
    which tasks, and why; empty in older logs. `renamed`: renames from here on, for all earlier commits too. `begins`:
    starts in new sources, other than their first records. `ends`: see `Ends`; None without raw topics, and of a claim
    that only fences: the ends stay.
    """

    generation: int
    at: int
    topology: TopologyDescription = field(default_factory=TopologyDescription)
    assignment: Mapping[str, Any] = field(default_factory=dict)
    renamed: Renames | None = None
    begins: tuple[Beginning, ...] = ()
    ends: Ends | None = None

    seldom: ClassVar = ("renamed", "begins", "ends")

    @property
    def incarnation(self) -> str:
        """The incarnation of the application. Empty if `topology` has none."""
        return self.topology.incarnation


@dataclass(frozen=True)
class EpochRecord:
    """An epoch of some tasks, committed together.

    `incarnation`: of the application, see `TopologyDescription`; empty in older logs. Generations start at 1 again with
    a full refresh, so the generation alone does not identify a driver. `sources`: applications that it reads from ->
    number and checksum (crc32) of their last known commits. None if unchanged since the previous epoch, and in older
    logs. `ends`: of raw topics, see `Ends`, only those that are further than the known ones; None without any.
    """

    generation: int
    epoch: int
    at: int
    tasks: tuple[TaskCommit, ...]
    incarnation: str = ""
    sources: Mapping[str, tuple[int, int]] | None = None
    ends: Ends | None = None

    seldom: ClassVar = ("sources", "ends")


@dataclass(frozen=True)
class AssignmentRecord:
    """A rebalance by the present driver. `assignment`: as in GenerationRecord.

    `incarnation`: see EpochRecord.
    """

    generation: int
    at: int
    assignment: Mapping[str, Any] = field(default_factory=dict)
    incarnation: str = ""


@dataclass(frozen=True)
class StoreSnapshot:
    """A snapshot of one partition of a store in a file of the log, with all changes up to `position` of its changelog.

    `path`: relative to the log. `size`: bytes. `checksum`: crc32. `form`: format of the file, see
    `CopyingBackend.copy_form`. `at`: time of the copy.
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
    """New snapshots of stores. `removed`: paths of snapshots that are not listed any more.

    `incarnation`: see EpochRecord.
    """

    generation: int
    at: int
    added: tuple[StoreSnapshot, ...] = ()
    removed: tuple[str, ...] = ()
    incarnation: str = ""


@dataclass(frozen=True)
class Purged:
    """Consumed records of a partition: those before `positions`, by lane."""

    topic: str
    partition: int
    positions: Mapping[int, int]


@dataclass(frozen=True)
class PurgeRecord:
    """The present driver drops records that all readers have consumed. A log may keep some of them.

    `incarnation`: see EpochRecord.
    """

    generation: int
    at: int
    purged: tuple[Purged, ...]
    incarnation: str = ""


@dataclass(frozen=True)
class RewriteRecord:
    """Replacements of segments: merged, compacted, expired or repaired. Each has the positions and offsets of all
    segments of its lane that it replaces.

    `generation`: of the present driver, 0 if an application has none. `incarnation`: see EpochRecord. `delay_ms`: how
    long after `at` replaced files are kept for their readers.
    """

    generation: int
    at: int
    segments: tuple[Listed, ...]
    incarnation: str = ""
    delay_ms: int = DELAY_MS


@dataclass(frozen=True)
class RewindRecord:
    """New positions of a subtopology's tasks in a topic: partition -> lane -> position.

    The application is not running: `generation` is the next one, so any driver that still exists is fenced.
    `incarnation`: see EpochRecord. `kafka_id`: for a raw topic, the id of the topic in Kafka to which the positions
    belong, which may be another one than before.
    """

    generation: int
    at: int
    subtopology: str
    topic: str
    positions: Mapping[int, Mapping[int, int]]
    incarnation: str = ""
    kafka_id: str | None = None

    seldom: ClassVar = ("kafka_id",)


@dataclass(frozen=True)
class TopicRemovalRecord:
    """The removal of all records of a topic, with its declaration and seed.

    `generation`: of the present driver, 0 if an application has none. `incarnation`: see EpochRecord.
    """

    generation: int
    at: int
    topic: str
    incarnation: str = ""


@dataclass(frozen=True)
class StoreResetRecord:
    """The stores to rebuild: `stores` has all of them, and an empty list cancels the request.

    A rebuilt result has another name in the log, without requests. So no commit says that the rebuilding is done.
    `generation`, `incarnation`: see TopicRemovalRecord.
    """

    generation: int
    at: int
    stores: tuple[str, ...]
    incarnation: str = ""


@dataclass(frozen=True)
class RepartitionedTopic:
    """A repartitioned external topic. `topic`: its new declaration.

    `source`: of its seed, with the new offsets of the seed's records. `marks`: see `Mark`. `put_back`: the new
    offsets of the records of redriven dead letters.
    """

    topic: ExternalTopic
    source: SeedSource | None = None
    marks: tuple[tuple[int, ...], ...] = ()
    put_back: Mapping[int, Ranges] = field(default_factory=dict)

    seldom: ClassVar = ("put_back",)


@dataclass(frozen=True)
class RepartitionRecord:
    """The repartition of external topics, with all of their records in `segments`.

    `delay_ms`: for the previous files, see RewriteRecord.
    """

    at: int
    topics: tuple[RepartitionedTopic, ...]
    segments: tuple[Listed, ...]
    delay_ms: int = DELAY_MS


@dataclass(frozen=True)
class PlacesRecord:
    """The names of all applications in the log.

    Among the commits of external topics, it only marks that there are such names: earlier versions reject the log.
    """

    at: int
    places: Places = field(default_factory=Places)


CommitRecord = (
    GenerationRecord
    | AssignmentRecord
    | EpochRecord
    | SnapshotRecord
    | PurgeRecord
    | RewriteRecord
    | AppendRecord
    | RepartitionRecord
    | RewindRecord
    | TopicRemovalRecord
    | StoreResetRecord
    | PlacesRecord
)
"""One commit of an application."""

DriversRecord = (
    AssignmentRecord
    | EpochRecord
    | SnapshotRecord
    | PurgeRecord
    | RewriteRecord
    | TopicRemovalRecord
    | StoreResetRecord
)
"""Records of the present driver: other generations cannot commit them."""
