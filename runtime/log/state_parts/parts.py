"""Parts of a folded state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from ...dataclass_json import from_plain, to_plain
from ...task_id import TaskKey
from ..commit.descriptions import FedTopic, TopologyDescription
from ..commit.encoding import DROPPED_DELETIONS, REPARTITIONED, RETRIED, STORES_RESET, dump_in_pieces, format_with, load
from ..commit.fed_records import AppendRecord, Ranges, Retried, SeedSource
from ..commit.records import (
    CommitRecord,
    EpochRecord,
    RepartitionRecord,
    RewriteRecord,
    SnapshotRecord,
    StoreSnapshot,
    TaskCommit,
    TopicRemovalRecord,
)
from ..errors import CommitFormatError, RewriteOrderError, SegmentsChangedError
from ..segments.partitions import Partitions
from ..segments.segment import Segment

# Which records of a topic that is fed from outside came before which, over all of its partitions.
#
# Offsets order the records of one partition. When the records are put into other partitions, those of several come to
# lie in one, in the order in which they were fed. Each commit feeds one topic; so a mark is where its partitions ended
# after a commit. Marks are thinned as they become many: then neighbouring commits have no order among partitions.

MOST_NUMBERS = 8_192
"""Numbers that the marks of a topic may have, one for each partition in each mark. Twice as many are thinned."""

Mark = tuple[int, ...]
"""The end of each partition: the offset that its next record gets, or a later one."""


@dataclass
class FedMarks:
    """The marks of the topics of one application, the oldest first."""

    _found: dict[str, list[Mark]] = field(default_factory=dict)

    @classmethod
    def of_all(cls, found: Mapping[str, tuple[Mark, ...]]) -> FedMarks:
        """Those of a snapshot."""
        return cls({topic: list(each) for topic, each in found.items()})

    def of(self, topic: str) -> tuple[Mark, ...]:
        """Those of a topic. None of logs of versions that kept none."""
        return tuple(self._found.get(topic, ()))

    def add(self, topic: str, ends: Mark) -> None:
        """After a commit that has fed the topic."""
        marks = self._found.setdefault(topic, [])
        if not marks or marks[-1] != ends:
            marks.append(ends)
        if len(marks) > 2 and len(marks) * len(ends) > 2 * MOST_NUMBERS:
            del marks[: len(marks) - len(marks) % 2 : 2]  # the later one of each two stays, and so does the last

    def replace(self, topic: str, marks: tuple[Mark, ...]) -> None:
        """For records that lie elsewhere."""
        self._found[topic] = list(marks)

    def forget(self, topic: str) -> None:
        """For a topic that begins again, or that is gone."""
        self._found.pop(topic, None)

    def all(self) -> dict[str, tuple[Mark, ...]]:
        """Those of all topics."""
        return {topic: tuple(each) for topic, each in self._found.items() if each}


# Where the segments of a commit record come to lie: at the ends of their partitions, in the order of the record.
#
# An append that replaces its topic begins at 0 again, and so does a topic that is put into other partitions: what the
# topic had is taken out first. A rewrite's segments have the places of those that they replace.


def placed_in(record: CommitRecord, partitions: Partitions) -> CommitRecord:
    """The record with the offsets and positions that its segments get if it is committed next.

    Raises SegmentsChangedError if those that a rewrite replaces are not there.
    """
    if isinstance(record, RewriteRecord):
        partitions.replaced_by(record.segments)
        return record
    segments = _before(record, partitions).place(_segments(record))
    match record:
        case EpochRecord():
            rest = iter(segments)
            tasks = (replace(task, segments=tuple(next(rest) for _ in task.segments)) for task in record.tasks)
            return replace(record, tasks=tuple(tasks))
        case AppendRecord() | RepartitionRecord():
            return replace(record, segments=segments)
    return record


def grown_by(record: CommitRecord, partitions: Partitions, commit: int) -> Partitions:
    """The partitions after a record that is commit number `commit`: the same, with its segments, or new ones.

    Raises CommitOrderError, and changes nothing, if its segments do not come next, and RewriteOrderError if a rewrite
    replaces some that are not there.
    """
    if isinstance(record, RewriteRecord):
        try:
            partitions.replaced_by(record.segments)
        except SegmentsChangedError as error:
            raise RewriteOrderError(commit, error) from error
        return partitions  # `FoldedCommits.apply` does it, and notes which files are left over
    after = _before(record, partitions)
    segments = _segments(record)
    after.check(segments, commit)
    after.add(segments)
    return after


def _before(record: CommitRecord, partitions: Partitions) -> Partitions:
    """The partitions at whose ends the segments of a record are placed."""
    if isinstance(record, AppendRecord) and record.replace and record.topic:
        return partitions.without(record.topic.name)
    if isinstance(record, TopicRemovalRecord):
        return partitions.without(record.topic)
    if isinstance(record, RepartitionRecord):
        for each in record.topics:
            partitions = partitions.without(each.topic.name)
    return partitions


def _segments(record: CommitRecord) -> tuple[Segment, ...]:
    match record:
        case EpochRecord():
            return tuple(segment for task in record.tasks for segment in task.segments)
        case AppendRecord() | RepartitionRecord():
            return record.segments
    return ()


# Files that others have taken the place of, until they may be removed.
#
# They are kept with the committed state, not by who has replaced them: a file is spared by every process that looks for
# superfluous ones, and after a restart. Times are those of the machines that commit.


@dataclass(frozen=True)
class ReplacedFile:
    """`until`: the time (ms) up to which somebody may still read it by the ranges of before."""

    path: str
    until: int


@dataclass
class ReplacedFiles:
    """Those of one application. They are as many as are replaced within the delay of the removal."""

    _until: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of_all(cls, files: Iterable[ReplacedFile]) -> ReplacedFiles:
        """Those of a snapshot."""
        return cls({each.path: each.until for each in files})

    def after(self, at: int) -> None:
        """Forget those whose time is over with a commit at `at` (ms), in the order in which they were replaced."""
        while self._until and next(iter(self._until.values())) <= at:
            del self._until[next(iter(self._until))]

    def add(self, paths: Iterable[str], until: int) -> None:
        """Files that a commit has put others in the place of."""
        self._until.update(dict.fromkeys(paths, until))

    def spared(self, now: int) -> set[str]:
        """Those that must stay at `now` (ms)."""
        return {path for path, until in self._until.items() if until > now}

    def over(self, now: int) -> set[str]:
        """Those that may be removed at `now` (ms), and that no later commit has forgotten."""
        return {path for path, until in self._until.items() if until <= now}

    def all(self) -> tuple[ReplacedFile, ...]:
        """All of them."""
        return tuple(ReplacedFile(path, until) for path, until in self._until.items())


# The progress of an application's tasks, folded from the committed epochs.


@dataclass(frozen=True)
class Pace:
    """How many records a task took, and in which time, under one generation after its first epoch there. Times in ms.

    `last_records`, `last_ms`: the same of the last earlier generation with several epochs; 0 if there was none.
    """

    subtopology: str
    partition: int
    generation: int
    since: int
    until: int
    records: int = 0
    last_records: int = 0
    last_ms: int = 0

    def key(self, application: str) -> TaskKey:
        """Whose pace it is, in the log of `application`."""
        return TaskKey(application, self.subtopology, self.partition)

    def next(self, record: EpochRecord, records: int) -> Pace:
        """The pace after one more epoch, in which the task took so many records."""
        if record.generation == self.generation:
            return replace(self, until=record.at, records=self.records + records)
        last_records, last_ms = self._telling()
        begun = Pace(self.subtopology, self.partition, record.generation, record.at, record.at)
        return replace(begun, last_records=last_records, last_ms=last_ms)

    def per_second(self) -> float | None:
        """Records a second; None if no generation had several epochs."""
        records, ms = self._telling()
        return 1000 * records / ms if ms else None

    def _telling(self) -> tuple[int, int]:
        if self.until > self.since:
            return self.records, self.until - self.since
        return self.last_records, self.last_ms


class TaskProgress:
    """The progress of each task of an application after its last committed epoch."""

    def __init__(self, application: str, tasks: Iterable[TaskCommit] = (), paces: Iterable[Pace] = ()) -> None:
        """`tasks`: the last commit of each, with its counts added up and without segments."""
        self._application = application
        self._tasks = {task.key(application): task for task in tasks}
        self._paces = {pace.key(application): pace for pace in paces}

    def add(self, record: EpochRecord) -> None:
        """Add an epoch."""
        for task in record.tasks:
            key = task.key(self._application)
            self._tasks[key] = self._after(key, task)
            self._paces[key] = self._pace(key, record, task)

    def move(self, subtopology: str, topic: str, positions: Mapping[int, Mapping[int, int]]) -> None:
        """Have tasks go on reading a topic elsewhere: partition -> lane -> position. All that they have done stays."""
        for partition, lanes in positions.items():
            key = TaskKey(self._application, subtopology, partition)
            task = self.of(key)
            self._tasks[key] = replace(task, positions={**task.positions, topic: dict(lanes)})

    def all(self) -> tuple[TaskCommit, ...]:
        """All tasks, as the argument `tasks` of the class takes them."""
        return tuple(self._tasks.values())

    def paces(self) -> tuple[Pace, ...]:
        """How fast each task took records."""
        return tuple(self._paces.values())

    @property
    def consumed(self) -> bool:
        """Whether any task has consumed records, even one of a subtopology that was removed."""
        return any(task.positions for task in self._tasks.values())

    def of(self, task: TaskKey) -> TaskCommit:
        """A task's last commit; before its first, that of a task that has read nothing.

        `records` and `dropped` are of all its epochs together, and its segments are left out. `applied` has each store
        as of the last epoch that has opened it.
        """
        found = self._tasks.get(task)
        return TaskCommit(task.subtopology, task.partition, {}, -1) if found is None else found

    def records_per_second(self, task: TaskKey) -> float | None:
        """How fast a task took records in the last run with several epochs; None if no run had several."""
        pace = self._paces.get(task)
        return None if pace is None else pace.per_second()

    def _after(self, key: TaskKey, task: TaskCommit) -> TaskCommit:
        before = self._tasks.get(key)
        if before is None:
            return replace(task, segments=())
        dropped = dict(Counter(before.dropped) + Counter(task.dropped))
        applied = {**before.applied, **task.applied}
        return replace(task, dropped=dropped, applied=applied, records=before.records + task.records, segments=())

    def _pace(self, key: TaskKey, record: EpochRecord, task: TaskCommit) -> Pace:
        pace = self._paces.get(key)
        if pace is None:
            return Pace(task.subtopology, task.partition, record.generation, record.at, record.at)
        return pace.next(record, task.records)


# The copies of stores that an application's commits list.


@dataclass(frozen=True)
class StoreSnapshots:
    """Immutable, so that threads may read it while commits are applied. `by_store`: store and partition -> its
    snapshots, in the order of their commits.
    """

    by_store: Mapping[tuple[str, int], tuple[StoreSnapshot, ...]] = field(default_factory=dict)

    @classmethod
    def of_all(cls, listed: Iterable[StoreSnapshot]) -> Self:
        """All that there are, in the order of their commits."""
        by_store: dict[tuple[str, int], tuple[StoreSnapshot, ...]] = {}
        for each in listed:
            key = each.store, each.partition
            by_store[key] = (*by_store.get(key, ()), each)
        return cls(by_store)

    @property
    def listed(self) -> tuple[StoreSnapshot, ...]:
        """All that there are."""
        return tuple(each for some in self.by_store.values() for each in some)

    def of(self, store: str, partition: int) -> tuple[StoreSnapshot, ...]:
        """Those of one partition of a store, the furthest first."""
        found = self.by_store.get((store, partition), ())
        return tuple(sorted(found, key=lambda each: each.position, reverse=True))

    def paths(self) -> set[str]:
        """Their files."""
        return {each.path for each in self.listed}

    def after(self, record: SnapshotRecord) -> StoreSnapshots:
        """The same after a commit."""
        removed = set(record.removed)
        return StoreSnapshots.of_all(each for each in (*self.listed, *record.added) if each.path not in removed)


# All commits of an application up to one of them, folded. A reader loads it instead of reading them one by one.

_FORMAT = 3
"""Versions before take a snapshot for nothing but quicker. Since this format, what is before it may be in it alone."""

_WITH_PLACES = 4
"""That of a snapshot which only versions that know places may read."""


@dataclass(frozen=True)
class Snapshot:
    """The state after commit `number`, of which `commit` is the crc32: see `LogState`.

    `commit` is None, and `assignment`, `paces`, `unlisted` and `stores` are empty, in snapshots of versions without
    them, as is `replaced`. `stores`: copies of stores that commits list. `replaced`: files that must stay for a while.
    `placed`, `names`, `retried`, `put_back`, `marks`, `resets`, `sources`: see `FoldedCommits`.
    """

    number: int
    generation: int
    topology: TopologyDescription
    seeds: Mapping[str, SeedSource]
    topics: Mapping[str, FedTopic]
    tasks: tuple[TaskCommit, ...]
    segments: tuple[Segment, ...]
    commit: int | None = None
    assignment: Mapping[str, Any] = field(default_factory=dict)
    paces: tuple[Pace, ...] = ()
    unlisted: tuple[str, ...] = ()
    stores: tuple[StoreSnapshot, ...] = ()
    replaced: tuple[ReplacedFile, ...] = ()
    placed: bool = False
    names: tuple[str, ...] = ()
    retried: Mapping[str, Retried] = field(default_factory=dict)
    put_back: Mapping[str, Mapping[int, Ranges]] = field(default_factory=dict)
    marks: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    resets: tuple[str, ...] = ()
    sources: Mapping[str, tuple[int, int]] | None = None

    seldom: ClassVar = ("placed", "names", "retried", "put_back", "marks", "resets", "sources")

    def encode(self) -> bytes:
        """For `CommitStore.save_snapshot`."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The same in pieces. Other threads may run between any two, however much there is."""
        long = {"tasks": self.tasks, "segments": self.segments, "paces": self.paces, "replaced": self.replaced}
        body = to_plain(replace(self, tasks=(), segments=(), paces=(), replaced=()))
        rest = {name: value for name, value in body.items() if name not in long}
        lists = {name: map(to_plain, each) for name, each in long.items()}
        return dump_in_pieces(rest, lists, self._format)

    @property
    def _format(self) -> int:
        if self.resets:
            return STORES_RESET
        if any(topic.moved for topic in self.topics.values()):
            return REPARTITIONED
        if self.retried:
            return RETRIED
        if any(segment.deletions.horizon for segment in self.segments):
            return DROPPED_DELETIONS
        told = format_with((*self.topics.values(), *self.topology.topics.values()))
        return max(_WITH_PLACES if self.placed or self.names else _FORMAT, told)

    @classmethod
    def decode(cls, data: bytes) -> Snapshot | None:
        """The inverse of `encode`; None for one that is damaged. Raises CommitFormatError for another format."""
        try:
            return from_plain(cls, load(data))
        except CommitFormatError as error:
            if error.found is not None:
                raise
            return None
