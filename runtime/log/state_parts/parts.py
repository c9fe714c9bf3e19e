"""Parts of a folded state: order of external records, offsets, replaced files, progress of tasks, snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, ClassVar, Self

from ...dataclass_json import from_plain, to_plain
from ...task_id import StoreId, TaskKey
from ..commit.descriptions import ExternalTopic, TopologyDescription
from ..commit.encoding import (
    DROPPED_DELETIONS,
    REPARTITIONED,
    RETRIED,
    STORES_RESET,
    WITH_KAFKA,
    dump_in_pieces,
    format_with,
    has_kafka,
    load,
)
from ..commit.external_records import AppendRecord, Ranges, Redriven, SeedSource
from ..commit.records import (
    CommitRecord,
    Ends,
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

# The order of an external topic's records across its partitions.
#
# Offsets order the records of one partition. When a topic is repartitioned, records of several partitions get into one,
# in the order in which they were appended. Each commit appends to one topic, so a mark has the ends of its partitions
# after a commit. When there are many marks, some are dropped; the commits in between have no order then.

MOST_NUMBERS = 8_192
"""The most numbers in the marks of a topic, one for each partition and mark. At twice as many, half are dropped."""

Mark = tuple[int, ...]
"""The end of each partition: the offset of its next record, or a lower bound of it."""


def marks_with(marks: tuple[Mark, ...], ends: Mark) -> tuple[Mark, ...]:
    """The marks of a topic, oldest first, after a commit that has appended to it. `ends`: its mark."""
    if marks[-1:] != (ends,):
        marks = (*marks, ends)
    if len(marks) > 2 and len(marks) * len(ends) > 2 * MOST_NUMBERS:
        marks = (*marks[1::2], *(marks[-1:] if len(marks) % 2 else ()))  # the later one of each two, and the last one
    return marks


# Offsets and positions of a commit's segments: at the ends of their partitions, in the order of the record.
#
# A topic that an append replaces starts at 0 again, and so does a repartitioned topic: its segments are removed first.
# Segments of a rewrite have the offsets and positions of those that they replace.


def with_offsets(record: CommitRecord, partitions: Partitions) -> CommitRecord:
    """The record with the offsets and positions that its segments get as the next commit.

    Raises SegmentsChangedError if segments that a rewrite replaces do not exist.
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


def partitions_after(record: CommitRecord, partitions: Partitions, commit: int) -> Partitions:
    """The partitions after a record with commit number `commit`: the same object with its segments, or a new one.

    Raises CommitOrderError if its segments do not continue the partitions, RewriteOrderError if a rewrite replaces
    segments that do not exist. Changes nothing then.
    """
    if isinstance(record, RewriteRecord):
        try:
            partitions.replaced_by(record.segments)
        except SegmentsChangedError as error:
            raise RewriteOrderError(commit, error) from error
        return partitions  # `FoldedCommits.apply` replaces them, and notes the replaced files
    after = _before(record, partitions)
    segments = _segments(record)
    after.check(segments, commit)
    after.add(segments)
    return after


def _before(record: CommitRecord, partitions: Partitions) -> Partitions:
    """The partitions before the segments of a record are added."""
    if isinstance(record, AppendRecord) and record.replace and record.topic:
        return partitions.without(record.topic.name)
    if isinstance(record, TopicRemovalRecord):
        return partitions.without(record.topic)
    if isinstance(record, RepartitionRecord):
        for repartitioned in record.topics:
            partitions = partitions.without(repartitioned.topic.name)
    return partitions


def _segments(record: CommitRecord) -> tuple[Segment, ...]:
    match record:
        case EpochRecord():
            return tuple(segment for task in record.tasks for segment in task.segments)
        case AppendRecord() | RepartitionRecord():
            return record.segments
    return ()


# Replaced files, until they may be removed.
#
# They are part of the committed state, so every process that collects garbage keeps them, also after a restart. Times
# are those of the machines that commit.


@dataclass(frozen=True)
class ReplacedFile:
    """`until`: the time (ms) up to which readers may still use ranges of this file."""

    path: str
    until: int


@dataclass
class ReplacedFiles:
    """The replaced files of one application, within the delay of their removal."""

    _until: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_snapshot(cls, files: Iterable[ReplacedFile]) -> ReplacedFiles:
        """The replaced files of a snapshot."""
        return cls({file.path: file.until for file in files})

    def expire(self, at: int) -> None:
        """Drop files with a delay that ended before a commit at `at` (ms), in the order of their replacement."""
        while self._until and next(iter(self._until.values())) <= at:
            del self._until[next(iter(self._until))]

    def add(self, paths: Iterable[str], until: int) -> None:
        """Add files that a commit has replaced."""
        self._until.update(dict.fromkeys(paths, until))

    def at(self, now: int) -> set[str]:
        """The files that must not be removed yet at `now` (ms)."""
        return {path for path, until in self._until.items() if until > now}

    def expired(self, now: int) -> set[str]:
        """The files that may be removed at `now` (ms), and that `expire` has not dropped."""
        return {path for path, until in self._until.items() if until <= now}

    def all(self) -> tuple[ReplacedFile, ...]:
        """All replaced files, for a snapshot."""
        return tuple(ReplacedFile(path, until) for path, until in self._until.items())


# The progress of an application's tasks, folded from the committed epochs.


@dataclass(frozen=True)
class Pace:
    """The records that a task consumed in one generation after its first epoch there, from `since` to `until` (ms).

    `last_records`, `last_ms`: records and duration of the last earlier generation with several epochs; 0 without one.
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
        """The key of the task, in the log of `application`."""
        return TaskKey(application, self.subtopology, self.partition)

    def next(self, record: EpochRecord, records: int) -> Pace:
        """The pace after one more epoch, in which the task consumed `records` records."""
        if record.generation == self.generation:
            return replace(self, until=record.at, records=self.records + records)
        last_records, last_ms = self._last_measured()
        first = Pace(self.subtopology, self.partition, record.generation, record.at, record.at)
        return replace(first, last_records=last_records, last_ms=last_ms)

    def per_second(self) -> float | None:
        """Records per second; None if no generation had several epochs."""
        records, ms = self._last_measured()
        return 1000 * records / ms if ms else None

    def _last_measured(self) -> tuple[int, int]:
        if self.until > self.since:
            return self.records, self.until - self.since
        return self.last_records, self.last_ms


class TaskProgress:
    """The progress of each task of an application after its last committed epoch."""

    def __init__(self, application: str, tasks: Iterable[TaskCommit] = (), paces: Iterable[Pace] = ()) -> None:
        """`tasks`: the last commit of each, with the sums of its counts and without segments."""
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
        """Set the positions of tasks in a topic: partition -> lane -> position. Their state stays."""
        for partition, lanes in positions.items():
            key = TaskKey(self._application, subtopology, partition)
            task = self.last_commit(key)
            self._tasks[key] = replace(task, positions={**task.positions, topic: dict(lanes)})

    def all(self) -> tuple[TaskCommit, ...]:
        """All tasks, as for the argument `tasks` of the class."""
        return tuple(self._tasks.values())

    def paces(self) -> tuple[Pace, ...]:
        """The pace of each task."""
        return tuple(self._paces.values())

    @property
    def consumed(self) -> bool:
        """Whether any task has consumed records, even one of a subtopology that was removed."""
        return any(task.positions for task in self._tasks.values())

    def last_commit(self, task: TaskKey) -> TaskCommit:
        """A task's last commit; before its first one, an empty commit with the stream time -1.

        `records` and `dropped` are totals of all its epochs, and segments are omitted. `applied` has each store as of
        the last epoch that opened it.
        """
        commit = self._tasks.get(task)
        return TaskCommit(task.subtopology, task.partition, {}, -1) if commit is None else commit

    def records_per_second(self, task: TaskKey) -> float | None:
        """A task's records per second in the last run with several epochs; None without one."""
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


# The ends of topics in Kafka.


def later_ends(known: Ends, seen: Ends) -> dict[str, tuple[int, ...]]:
    """The topics of `seen` with partitions that are further than `known`: topic -> the further end of each partition.

    Units commit in any order, and each has the ends of the time when its epoch was planned. So ends never go back, and
    a reader waits for all that any of these epochs knew of.
    """
    both = {topic: _later(known.get(topic, ()), ends) for topic, ends in seen.items()}
    return {topic: ends for topic, ends in both.items() if ends != known.get(topic)}


def _later(known: tuple[int, ...], seen: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(pair) for pair in zip_longest(known, seen, fillvalue=0))


# Snapshots of stores.


@dataclass(frozen=True)
class StoreSnapshots:
    """The snapshots of stores that an application's commits list. Immutable, so threads may read it during commits.

    `by_store`: store -> its snapshots, in the order of their commits.
    """

    by_store: Mapping[StoreId, tuple[StoreSnapshot, ...]] = field(default_factory=dict)

    @classmethod
    def from_listed(cls, listed: Iterable[StoreSnapshot]) -> Self:
        """From all snapshots, in the order of their commits."""
        by_store: dict[StoreId, tuple[StoreSnapshot, ...]] = {}
        for snapshot in listed:
            key = StoreId(snapshot.store, snapshot.partition)
            by_store[key] = (*by_store.get(key, ()), snapshot)
        return cls(by_store)

    @property
    def listed(self) -> tuple[StoreSnapshot, ...]:
        """All snapshots."""
        return tuple(snapshot for snapshots in self.by_store.values() for snapshot in snapshots)

    def of(self, store: StoreId) -> tuple[StoreSnapshot, ...]:
        """The snapshots of one partition of a store, the highest position first."""
        return tuple(sorted(self.by_store.get(store, ()), key=lambda snapshot: snapshot.position, reverse=True))

    def paths(self) -> set[str]:
        """The files of all snapshots."""
        return {snapshot.path for snapshot in self.listed}

    def after(self, record: SnapshotRecord) -> StoreSnapshots:
        """The snapshots after a commit."""
        removed = set(record.removed)
        remaining = (snapshot for snapshot in (*self.listed, *record.added) if snapshot.path not in removed)
        return StoreSnapshots.from_listed(remaining)


# Snapshots of folded commits: a reader loads one instead of single commits.

_FORMAT = 3
"""Since this format, commits before a snapshot may be removed. Earlier versions use snapshots only as a shortcut."""

_WITH_PLACES = 4
"""The format for logs with names of applications that differ from their names in the log."""


@dataclass(frozen=True)
class Snapshot:
    """The state after commit `number` with the crc32 `commit`: see `LogState`.

    In snapshots of earlier versions, `commit` is None, and `assignment`, `paces`, `unlisted`, `stores` and `replaced`
    are empty. `stores`: snapshots of stores that commits list. `replaced`: files to keep for a while. Other fields: see
    `FoldedCommits`.
    """

    number: int
    generation: int
    topology: TopologyDescription
    seeds: Mapping[str, SeedSource]
    topics: Mapping[str, ExternalTopic]
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
    retried: Mapping[str, Redriven] = field(default_factory=dict)
    put_back: Mapping[str, Mapping[int, Ranges]] = field(default_factory=dict)
    marks: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    resets: tuple[str, ...] = ()
    sources: Mapping[str, tuple[int, int]] | None = None
    ends: Ends | None = None

    seldom: ClassVar = ("placed", "names", "retried", "put_back", "marks", "resets", "sources", "ends")

    def encode(self) -> bytes:
        """The bytes, for `CommitStore.save_snapshot`."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The bytes in small pieces, so that other threads can run between them."""
        long = {"tasks": self.tasks, "segments": self.segments, "paces": self.paces, "replaced": self.replaced}
        body = to_plain(replace(self, tasks=(), segments=(), paces=(), replaced=()))
        rest = {name: value for name, value in body.items() if name not in long}
        lists = {name: map(to_plain, values) for name, values in long.items()}
        return dump_in_pieces(rest, lists, self._format)

    @property
    def _format(self) -> int:
        if self.ends is not None or has_kafka(self.topology.topics):
            return WITH_KAFKA
        if self.resets:
            return STORES_RESET
        if any(topic.moved for topic in self.topics.values()):
            return REPARTITIONED
        if self.retried:
            return RETRIED
        if any(segment.deletions.horizon for segment in self.segments):
            return DROPPED_DELETIONS
        format_ = format_with((*self.topics.values(), *self.topology.topics.values()))
        return max(_WITH_PLACES if self.placed or self.names else _FORMAT, format_)

    @classmethod
    def decode(cls, data: bytes) -> Snapshot | None:
        """The inverse of `encode`; None for a damaged snapshot. Raises CommitFormatError for an unknown format."""
        try:
            return from_plain(cls, load(data))
        except CommitFormatError as error:
            if error.found is not None:
                raise
            return None
