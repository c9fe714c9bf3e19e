"""The state of an application, folded from its commits, and snapshots of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import RLock

from ....errors import HeadwaterError
from ...records.schema import changelog_topic
from ...task_id import StoreId
from ..commit.descriptions import ExternalTopic, FormerLayout, TopologyDescription
from ..commit.external_records import AppendRecord, SeededPart, ranges_of_both
from ..commit.records import (
    AssignmentRecord,
    CommitRecord,
    Ends,
    EpochRecord,
    GenerationRecord,
    PlacesRecord,
    PurgeRecord,
    Renames,
    RepartitionRecord,
    RewindRecord,
    RewriteRecord,
    SnapshotRecord,
    StoreResetRecord,
    TaskCommit,
    TopicRemovalRecord,
)
from ..errors import SegmentsChangedError
from ..log import CommitStore
from ..ranges import LogRange
from ..segments.partitions import Partitions
from ..segments.segment import Segment
from .parts import (
    ReplacedFiles,
    Snapshot,
    StoreSnapshots,
    TaskProgress,
    later_ends,
    marks_with,
    partitions_after,
    with_offsets,
)
from .renamed import renamed_snapshot

# Records get their offsets and positions here, at commit, in the order in which a commit record lists its segments.
# This module does not know the content of segments, nor how commits are stored.


_NOTHING = Snapshot(0, 0, TopologyDescription(), {}, {}, (), ())
"""The state before the first commit."""


class FoldedCommits:
    """The state of one application after commit `number` (0: no commit). `place`: its name in the log.

    `names`: further names of the application, by renaming. `placed`: for external topics, whether names in the log
    differ from names of applications. `generation`: of the present driver, 0 before the first. `topology`,
    `assignment`: see `GenerationRecord`. `tasks`: the progress of each task. `sources`: see `EpochRecord`. `ends`: of
    topics in Kafka, see `Ends`. `seeds`: topic -> source of its seed. `topics`: external topic -> its declaration at
    the last append. `retried`: dead letter topic -> the redriven letters; `put_back`: external topic -> the records of
    these letters. `marks`: topic -> the order of its records, see `Mark`. `unlisted`: files that the last commit made
    superfluous: their changes have reached a store without changelog, their readers have consumed them, or a newer
    snapshot of a store exists. `replaced`: files that the last commit has replaced; readers may use their ranges for a
    while. `retained`: such files of all commits. `store_snapshots`: snapshots of stores. `resets`: stores to rebuild.

    One thread changes it; others may read it meanwhile. The result of one method is consistent. A reader that needs
    several results of the same moment (a writer's clock and its segments) holds `lock`.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self.lock = RLock()
        self._clear()

    def _clear(self) -> None:
        self.restore(_NOTHING)

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the state by the one of a snapshot."""
        self.names = snapshot.names
        self.application = snapshot.names[-1] if snapshot.names else self.place
        self.number = snapshot.number
        self.generation = snapshot.generation
        self.topology = snapshot.topology
        self.assignment = snapshot.assignment
        self.seeds = dict(snapshot.seeds)
        self.retried = dict(snapshot.retried)
        self.put_back = dict(snapshot.put_back)
        self.topics = dict(snapshot.topics)
        self.unlisted = snapshot.unlisted
        self.replaced: tuple[str, ...] = ()
        self.tasks = TaskProgress(self.application, snapshot.tasks, snapshot.paces)
        self.store_snapshots = StoreSnapshots.from_listed(snapshot.stores)
        self.retained = ReplacedFiles.from_snapshot(snapshot.replaced)
        self.resets = snapshot.resets
        self.sources = snapshot.sources or {}
        self.ends: Ends = snapshot.ends or {}
        self.placed = snapshot.placed
        self.marks = dict(snapshot.marks)
        self._partitions = Partitions()
        self._partitions.add(snapshot.segments)

    @property
    def incarnation(self) -> str:
        """The application's incarnation, see `TopologyDescription`. Empty in older logs."""
        return self.topology.incarnation

    def apply(self, record: CommitRecord) -> None:
        """Apply the commit after `number`.

        If it does not continue this state, raises CommitOrderError and changes nothing.
        """
        with self.lock:
            before = self._partitions
            self._partitions = partitions_after(record, before, self.number + 1)
            self.number += 1
            self.unlisted = self.replaced = ()
            self.retained.expire(record.at)
            match record:
                case GenerationRecord():
                    if record.renamed is not None:
                        self._rename(record.renamed)
                    self.generation = record.generation
                    self.topology = record.topology
                    self.assignment = record.assignment
                    if record.ends is not None:  # also if they went back: an earlier driver saw records that Kafka lost
                        self.ends = record.ends
                    for begin in record.begins:
                        self.tasks.move(begin.subtopology, begin.topic, begin.positions)
                case AssignmentRecord():
                    self.assignment = record.assignment
                case EpochRecord():
                    self.tasks.add(record)
                    if record.sources is not None:
                        self.sources = record.sources
                    if record.ends is not None:
                        self.ends = {**self.ends, **later_ends(self.ends, record.ends)}
                    self.unlisted = tuple(path for task in record.tasks for path in self._applied(task))
                case SnapshotRecord():
                    self.store_snapshots = self.store_snapshots.after(record)
                    self.unlisted = record.removed
                case PurgeRecord():
                    self.unlisted = tuple(self._purged(record))
                case RewriteRecord():
                    self.replaced = tuple(self._partitions.rewrite(record.segments))
                    self.retained.add(self.replaced, record.at + record.delay_ms)
                case AppendRecord():
                    self._appended(record)
                case RepartitionRecord():
                    self._repartitioned(record)
                    self.replaced = tuple(sorted(before.paths() - self._partitions.paths()))
                    self.retained.add(self.replaced, record.at + record.delay_ms)
                case RewindRecord():
                    self.generation = record.generation
                    self.tasks.move(record.subtopology, record.topic, record.positions)
                    if record.kafka_id is not None:
                        self.topology = self.topology.with_kafka_id(record.topic, record.kafka_id)
                case TopicRemovalRecord():
                    self.topics.pop(record.topic, None)
                    self.seeds.pop(record.topic, None)
                    self.put_back.pop(record.topic, None)
                    self.marks.pop(record.topic, None)
                case StoreResetRecord():
                    self.resets = record.stores
                case PlacesRecord():
                    self.placed = True

    def follow(self, record: CommitRecord) -> None:
        """Apply the commit after `number`, or skip a void one. Raises CommitOrderError."""
        if not self.is_void(record):
            self.apply(record)
            return
        with self.lock:
            self.number += 1
            self.unlisted = self.replaced = ()

    def _placed(self, record: CommitRecord) -> CommitRecord:
        """The record with the offsets and positions that its segments get as the next commit."""
        return with_offsets(record, self._partitions)

    def written(self) -> set[str]:
        """The topics with records, changelogs included."""
        with self.lock:
            return self._partitions.topics()

    def segments(self) -> tuple[Segment, ...]:
        """All segments that commits list, partition by partition: for maintenance of the log."""
        with self.lock:
            return tuple(self._partitions.segments())

    def fits(self, segments: Sequence[Segment], replaced: Sequence[Segment]) -> bool:
        """Whether a commit of rewritten segments would replace exactly the segments `replaced` now.

        An external topic may have been seeded again, with other records at the same offsets.
        """
        with self.lock:
            try:
                current = self._partitions.replaced_by(segments)
            except SegmentsChangedError:
                return False
            return sorted(current, key=_start) == sorted(replaced, key=_start)

    def paths(self) -> set[str]:
        """The files that commits list."""
        with self.lock:
            return self._partitions.paths() | self.store_snapshots.paths()

    def ranges(self, topic: str, partition: int, start: int = 0) -> tuple[LogRange, ...]:
        """The committed ranges of all lanes of a partition that end after offset `start`, by first offset."""
        with self.lock:
            return tuple(self._partitions.partition(topic, partition).ranges(start))

    def ranges_since(self, topic: str, partition: int, time: int) -> tuple[LogRange, ...]:
        """The committed ranges of a partition with a timestamp of `time` (ms) or later, by first offset."""
        with self.lock:
            segments = self._partitions.partition(topic, partition).segments
            return tuple(
                segment.range() for segment in segments if any(b.max_timestamp >= time for b in segment.batches)
            )

    def lane_ranges(
        self, topic: str, partition: int, lane: int, start: int = 0, records: int | None = None
    ) -> tuple[LogRange, ...]:
        """The committed ranges of a lane that end after position `start`, in order.

        `records`: only as many ranges as it takes for this number of records.
        """
        with self.lock:
            return tuple(self._partitions.partition(topic, partition).lane_ranges(lane, start, records))

    def horizon(self, topic: str, partition: int, lane: int) -> int:
        """The delete horizon of a changelog: deletions before this position may be dropped; 0 if none are.

        A store at a lower position, other than 0, may miss deletions and cannot be restored from there.
        """
        with self.lock:
            return self._partitions.partition(topic, partition).horizon(lane)

    def can_forget(self, topic: str, partition: int, lane: int, position: int) -> bool:
        """Whether a lane has a segment before `position` that is not its last one."""
        with self.lock:
            return self._partitions.partition(topic, partition).first_end(lane) <= position

    def size(self, topic: str, partition: int) -> int:
        """The size of a partition's records in files, in bytes."""
        with self.lock:
            return sum(segment.size for segment in self._partitions.partition(topic, partition).segments)

    def bytes_from(self, topic: str, partition: int, lane: int, position: int) -> int:
        """The approximate size of a lane's records from a position on, in bytes."""
        with self.lock:
            return self._partitions.partition(topic, partition).bytes_from(lane, position)

    def end(self, topic: str, partition: int) -> int:
        """The offset of the next record of a partition, or a lower bound of it."""
        return self._partitions.partition(topic, partition).end

    def lane_ends(self, topic: str, partition: int) -> Mapping[int, int]:
        """Lane -> the position of its next record, or a lower bound of it."""
        return dict(self._partitions.partition(topic, partition).lane_ends)

    def store_end(self, store: StoreId) -> int:
        """The committed position of a store: the end of its changelog."""
        return self.lane_ends(changelog_topic(self.application, store.store), store.partition).get(store.partition, 0)

    def store_horizon(self, store: StoreId) -> int:
        """The delete horizon of a store's changelog, see `horizon`."""
        return self.horizon(changelog_topic(self.application, store.store), store.partition, store.partition)

    def to_snapshot(self, checksum: int) -> Snapshot:
        """The state as plain data. `checksum`: of the last commit."""
        with self.lock:
            return Snapshot(
                number=self.number,
                commit=checksum,
                generation=self.generation,
                topology=self.topology,
                assignment=self.assignment,
                seeds=dict(self.seeds),
                retried=dict(self.retried),
                put_back=dict(self.put_back),
                marks={topic: marks for topic, marks in self.marks.items() if marks},
                topics=dict(self.topics),
                tasks=self.tasks.all(),
                segments=tuple(self._partitions.segments()),
                paces=self.tasks.paces(),
                unlisted=self.unlisted,
                stores=self.store_snapshots.listed,
                replaced=self.retained.all(),
                resets=self.resets,
                sources=dict(self.sources) or None,
                ends=dict(self.ends) or None,
                placed=self.placed,
                names=self.names,
            )

    @property
    def former(self) -> frozenset[str]:
        """Earlier names of the application."""
        return frozenset((self.place, *self.names)) - {self.application}

    def _rename(self, renames: Renames) -> None:
        """Rename everything in the state."""
        with self.lock:
            snapshot, unlisted, replaced = renamed_snapshot(self.to_snapshot(0), renames), self.unlisted, self.replaced
            self.restore(snapshot)
            self.unlisted, self.replaced = unlisted, replaced

    def is_void(self, record: CommitRecord) -> bool:
        """Whether the commit is void: a driver of an earlier incarnation made it before it noticed the full refresh."""
        if isinstance(record, AppendRecord | RepartitionRecord | PlacesRecord):
            return False
        return bool(record.incarnation and self.incarnation) and record.incarnation != self.incarnation

    def _applied(self, task: TaskCommit) -> Iterator[str]:
        """Remove the changes that have reached a store without changelog. Yields their files."""
        for store, position in task.applied.items():
            description = self.topology.stores.get(store)
            if description is not None and not description.changelog:
                topic = changelog_topic(self.application, store)
                yield from self._partitions.forget(topic, task.partition, task.partition, position)

    def _purged(self, record: PurgeRecord) -> Iterator[str]:
        """Remove segments before the purged positions. Yields files without segments."""
        for purged in record.purged:
            for lane, position in purged.positions.items():
                yield from self._partitions.forget(purged.topic, purged.partition, lane, position)

    def _appended(self, record: AppendRecord) -> None:
        if record.topic:
            before = self.topics.get(record.topic.name)
            if before is None or record.replace:
                self.topics[record.topic.name] = replace(record.topic, since=self.number)
                self.marks.pop(record.topic.name, None)
            else:
                self.topics[record.topic.name] = replace(record.topic, since=before.since, moved=before.moved)
            if record.replace:
                self.put_back.pop(record.topic.name, None)
            marks = self.marks.get(record.topic.name, ())
            self.marks[record.topic.name] = marks_with(marks, self._ends(record.topic))
        if record.source:
            parts = record.source.parts
            if parts is None:
                parts = tuple(
                    SeededPart(partition, *offsets) for partition, offsets in sorted(record.seed_offsets.items())
                )
            self.seeds[record.source.topic] = replace(record.source, parts=parts)
        if record.retried is not None:
            earlier = self.retried.get(record.retried.topic)
            letters = replace(record.retried, records={})
            self.retried[record.retried.topic] = letters if earlier is None else earlier.merged_with(letters)
            if record.topic is not None:
                name = record.topic.name
                self.put_back[name] = ranges_of_both(self.put_back.get(name, {}), record.retried.records)

    def _repartitioned(self, record: RepartitionRecord) -> None:
        for repartitioned in record.topics:
            name, before = repartitioned.topic.name, self.topics[repartitioned.topic.name]
            moved = (*before.moved, FormerLayout(before.since or 0, before.partitions, before.key))
            self.topics[name] = replace(repartitioned.topic, since=self.number, moved=moved)
            if repartitioned.source is not None:
                self.seeds[name] = repartitioned.source
            if name in self.put_back:
                self.put_back[name] = repartitioned.put_back
            self.marks[name] = repartitioned.marks

    def _ends(self, topic: ExternalTopic) -> tuple[int, ...]:
        return tuple(self._partitions.partition(topic.name, number).end for number in range(topic.partitions))


def _start(segment: Segment) -> tuple[str, int, int, int]:
    return segment.topic, segment.partition, segment.lane, segment.base_position


# Folding: the state after a commit is saved as a snapshot, and the commits before the previous snapshot are removed. If
# the newest snapshot is damaged, the previous one and the commits after it still have the whole state.

SNAPSHOT_EVERY = 100
"""The least number of commits between two snapshots."""

AT_MOST = 1000
"""The greatest number of commits between two snapshots, whatever their size. A start reads no more commits."""


@dataclass(frozen=True)
class GoodSnapshot:
    """The newest snapshot known to be undamaged: after commit `number` of this `identity`. `size`: bytes."""

    number: int = 0
    identity: str = ""
    size: int = 0

    def due(self, commits: int, size: int) -> bool:
        """Whether another snapshot is due after this number of commits with `size` bytes.

        The larger a snapshot, the rarer: so snapshots need hardly more writes than commits.
        """
        return commits >= SNAPSHOT_EVERY and (size >= self.size or commits >= AT_MOST)


@dataclass(frozen=True)
class Fold:
    """One folding. `snapshot`: the state after the commit with `identity`. `older`: the previous snapshot.

    `done` is called with the new snapshot once it is durable.
    """

    commits: CommitStore
    snapshot: Snapshot
    identity: str
    older: GoodSnapshot
    done: Callable[[GoodSnapshot], None]

    def run(self, between: Callable[[], object] = lambda: None) -> None:
        """Save the snapshot, then remove superfluous commits and snapshots. Raises LogError, MachineError, OSError.

        `between` is called about every millisecond during the encoding.
        """
        pieces = list[bytes]()
        for piece in self.snapshot.pieces():
            pieces.append(piece)
            between()
        data = b"".join(pieces)
        if self.commits.save_snapshot(self.snapshot.number, data, self.identity):
            self.done(GoodSnapshot(self.snapshot.number, self.identity, len(data)))
            if self.older.number:
                self.commits.fold(self.older.number, self.older.identity)


Folding = Callable[[Fold], None]
"""Runs a folding, now or in the background."""


def fold_now(fold: Fold) -> None:
    """Run a folding before the commit returns.

    After an error the commit is still valid, so the error is suppressed. The next folding tries again.
    """
    with suppress(OSError, HeadwaterError):
        fold.run()
