"""What one commit says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from ...ir.topology import DEAD_LETTER_VALUE
from ...records.schema import changelog_topic
from ...task_id import TaskKey
from ..log import Listed
from ..places import Places
from .descriptions import FedTopic, TopologyDescription, UsedTopic
from .fed_records import AppendRecord, Ranges, SeedSource

# Names that are others from one commit of an application on: its own, and those of what it reads, writes and keeps.
#
# Records before that commit speak of the old names. A state is renamed as a whole when it comes to the commit
# (`state_parts/renamed.py`), so all that work with states know the new names only.

_INTERNAL = ("-changelog", "-repartition")
"""How the names of topics end that are named after their application."""

DEAD_LETTERS = "_dead_letter"
"""How the names of topics of dead letters end; they begin with the name of their topology."""


@dataclass(frozen=True)
class Renames:
    """Old name -> new name. `application`: both of the application itself, or nothing.

    `topics`: all of them, also changelogs and repartition topics. `subtopologies`, `stores`; `tables`: global ones;
    `steps`: flows and steps, by which records are counted that are dropped.
    """

    application: Mapping[str, str] = field(default_factory=dict)
    subtopologies: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_application(cls, old: str, new: str, topics: Mapping[str, UsedTopic | None]) -> Self:
        """An application gets another name, and so do those of the `topics` that are named after it.

        `topics`: those that it reads or writes, and, with None, that it has written before.
        """
        internal, letters = f"{old}-", f"{old.partition('-')[2]}_"
        renamed = {}
        for each, used in topics.items():
            if each.startswith(internal) and each.endswith(_INTERNAL):
                renamed[each] = f"{new}{each.removeprefix(old)}"
            elif each.startswith(letters) and each.endswith(DEAD_LETTERS) and _holds_letters(used, old):
                renamed[each] = f"{new.partition('-')[2]}_{each.removeprefix(letters)}"
        return cls({old: new}, topics=renamed)

    def __bool__(self) -> bool:
        return any((self.application, self.subtopologies, self.stores, self.topics, self.tables, self.steps))

    @property
    def back(self) -> Renames:
        """The other way round."""
        return Renames(*({new: old for old, new in names.items()} for names in self._all()))

    def then(self, after: Renames) -> Renames:
        """These, and others after them."""
        return Renames(*(_chained(first, second) for first, second in zip(self._all(), after._all(), strict=True)))

    def with_changelogs(self, application: str) -> Renames:
        """With those of the changelogs of renamed stores. `application`: its name by then."""
        both = (
            (changelog_topic(application, old), changelog_topic(application, new)) for old, new in self.stores.items()
        )
        return replace(self, topics={**self.topics, **dict(both)})

    def _all(self) -> tuple[Mapping[str, str], ...]:
        return self.application, self.subtopologies, self.stores, self.topics, self.tables, self.steps


def _holds_letters(used: UsedTopic | None, application: str) -> bool:
    return used is None or (used.writer == application and not used.key and used.value == DEAD_LETTER_VALUE)


def _chained(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    both = {old: second.get(new, new) for old, new in first.items()}
    rest = {old: new for old, new in second.items() if old not in first.values() and old not in first}
    return {old: new for old, new in {**both, **rest}.items() if old != new}


# The log's own records: what a commit says of an application's progress. Plain data; `encoding` makes bytes of it.
#
# Data exists only if a commit record lists it: a segment, a position or a clock that no commit record lists was never
# written. Every number here is an integer; times are milliseconds.

DELAY_MS = 600_000
"""So long files stay that others have taken the place of, where nobody says otherwise."""


@dataclass(frozen=True)
class CommitMark:
    """One commit of an application, by its place. The `checksum` (crc32) of its bytes distinguishes it from others of
    its number.

    So a store notices a log that is a copy and got other commits since it was copied.
    """

    application: str
    number: int
    checksum: int


@dataclass(frozen=True)
class Scheduled:
    """A punctuation of a processor. `kind`: `stream_time` or `wall_clock`. `due`: when it runs next, ms; -1: never, as
    it was cancelled. `callback`: the method that runs; empty for one that the processor's `init` makes. `number`: among
    those of `init` with this kind and interval, or else among all others of the processor.
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
    """One task's epoch: how far it read, its clocks, what it wrote.

    `positions`: topic -> lane -> the position at which reading continues in that lane of the task's partition.
    `stream_time`: the task's, -1 before the first record. `clocks`: window store -> the stream time that it observed;
    of one of sliding windows also `<store>.latest` -> the greatest start of its windows.
    `segments`: records appended, changelogs among them. `dropped`: `<step>:<reason>` -> records, of this epoch.
    `applied`: store -> changelog position that the local store holds (not durable). Plans begin there. Of a store
    without changelog, changes before it are removed.
    `globals_`: global table -> partition -> position this epoch saw. `records`: records consumed in this epoch.
    `scheduled`: the punctuations of its processors.
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
        """Which task, in the log of `application`."""
        return TaskKey(application, self.subtopology, self.partition)


@dataclass(frozen=True)
class Beginning:
    """Where the tasks of a subtopology begin in a topic that they have not read yet: partition -> lane -> position."""

    subtopology: str
    topic: str
    positions: Mapping[int, Mapping[int, int]]


@dataclass(frozen=True)
class GenerationRecord:
    """A driver takes over: every commit of a lower generation is refused from here on.

    `topology` describes the application. Readers learn from it who reads and writes what.
    `assignment`: which client has which tasks, and why. Empty in logs of versions that did not record it.
    `renamed`: what has another name from here on. All that was committed before counts for the new name.
    `begins`: of topics that are read from now on, and not from their first records.
    """

    generation: int
    at: int
    topology: TopologyDescription = field(default_factory=TopologyDescription)
    assignment: Mapping[str, Any] = field(default_factory=dict)
    renamed: Renames | None = None
    begins: tuple[Beginning, ...] = ()

    seldom: ClassVar = ("renamed", "begins")

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
    `sources`: the applications that it reads from, by place -> number and checksum (crc32) of the last commit that it
    knew of each. None where these are those of the epoch before, and in logs of versions that did not record them.
    """

    generation: int
    epoch: int
    at: int
    tasks: tuple[TaskCommit, ...]
    incarnation: str = ""
    sources: Mapping[str, tuple[int, int]] | None = None

    seldom: ClassVar = ("sources",)


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


@dataclass(frozen=True)
class RewriteRecord:
    """Segments that take the place of others: merged, compacted, expired or repaired. Each has the positions and
    offsets of all those of its lane that it replaces, the first to the last.

    `generation`: of the driver in charge, 0 where an application has none. `incarnation`: see EpochRecord. `delay_ms`:
    how long from `at` on nobody removes files that are listed no more, for those who still read them.
    """

    generation: int
    at: int
    segments: tuple[Listed, ...]
    incarnation: str = ""
    delay_ms: int = DELAY_MS


@dataclass(frozen=True)
class RewindRecord:
    """Tasks of a subtopology go on reading a topic elsewhere: `positions`, partition -> lane -> position.

    Nobody runs the application meanwhile: `generation` is the next one, so every driver that may still be there is
    refused from here on. `incarnation`: see EpochRecord.
    """

    generation: int
    at: int
    subtopology: str
    topic: str
    positions: Mapping[int, Mapping[int, int]]
    incarnation: str = ""


@dataclass(frozen=True)
class TopicRemovalRecord:
    """All records of a topic are given up, with its declaration and its seed.

    `generation`: of the driver in charge, 0 where an application has none. `incarnation`: see EpochRecord.
    """

    generation: int
    at: int
    topic: str
    incarnation: str = ""


@dataclass(frozen=True)
class StoreResetRecord:
    """The stores whose rows are to be computed again: `stores` has all of them, so none withdraws what was asked for.

    A result that is computed again begins in another place of the log, where nobody has asked for anything. So nothing
    has to say that it is done. `generation`, `incarnation`: see TopicRemovalRecord.
    """

    generation: int
    at: int
    stores: tuple[str, ...]
    incarnation: str = ""


@dataclass(frozen=True)
class RepartitionedTopic:
    """A topic that is fed from outside, with its records in other partitions. `topic`: as it is declared from here on.

    `source`: of its seed, with where that seed's records are now. `marks`: see `FedMarks`. `put_back`: where the
    records are now whose dead letters were put back.
    """

    topic: FedTopic
    source: SeedSource | None = None
    marks: tuple[tuple[int, ...], ...] = ()
    put_back: Mapping[int, Ranges] = field(default_factory=dict)

    seldom: ClassVar = ("put_back",)


@dataclass(frozen=True)
class RepartitionRecord:
    """All records of topics that are fed from outside are in other partitions from here on: in `segments`.

    `delay_ms`: see RewriteRecord, of the files of before.
    """

    at: int
    topics: tuple[RepartitionedTopic, ...]
    segments: tuple[Listed, ...]
    delay_ms: int = DELAY_MS


@dataclass(frozen=True)
class PlacesRecord:
    """Which application lives in which place from here on, see `placed`: all of them.

    Among what is fed from outside it says nothing but that there are places: versions that know none refuse the log.
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
"""What the driver in charge commits: it is refused under any other generation."""
