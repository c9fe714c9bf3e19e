"""Commits folded to a state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

from ....errors import HeadwaterError
from ...records.schema import changelog_topic
from ..commit.descriptions import FedTopic, FormerLayout, TopologyDescription
from ..commit.fed_records import AppendRecord, Ranges, Retried, SeededPart, SeedSource, ranges_of_both
from ..commit.records import (
    AssignmentRecord,
    CommitRecord,
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
from .parts import FedMarks, ReplacedFiles, Snapshot, StoreSnapshots, TaskProgress, grown_by, placed_in
from .renamed import renamed_snapshot

# What an application's commits come to, folded into one state: the tasks' progress, and where records are.
#
# Here records get their offsets and positions: at commit, in the order in which a commit record lists its segments.
# This module does not know what is inside segments, nor how commits are kept.


class FoldedCommits:
    """The state of one application after commit `number` (0: none yet). `place`: where the log keeps it, see `placed`.

    `generation`: of the present driver, 0 before the first. `topology`: the description in its generation record;
    `assignment`: which client has which tasks, in the same record. `seeds`: topic -> source of its seed. `retried`:
    topic of dead letters -> those whose records were put back; `put_back`: topic that is fed from outside -> the same
    records as they were there. `topics`: topic -> its declaration when it was last fed.
    `unlisted`: files that the last commit made superfluous: their changes have reached a store without changelog, a
    newer snapshot of a store is there, or their readers have consumed them. `replaced`: files that the last commit has
    put others in the place of; who holds ranges of them reads on for a while. `spared`: those of all commits, for so
    long. `marks`: of topics that are fed from outside, which records came before which. `tasks`: the progress of
    each task. `store_snapshots`: copies of stores that commits list. `resets`: stores whose rows are to be computed
    again. `sources`: of each application that it reads from, the last commit that it knew, see `EpochRecord`.
    `placed`: of what is fed from outside, whether the log has places, see `placed`. `names`: those that the
    application got in renamings; the first that it had is that of its place.

    One thread changes it; others may read it meanwhile. The result of one method is consistent. A reader that needs
    several results of the same moment (a writer's clock and its segments) holds `lock`.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self.lock = RLock()
        self._clear()

    def _clear(self) -> None:
        self.application = self.place
        self.names: tuple[str, ...] = ()
        self.number = 0
        self.generation = 0
        self.topology = TopologyDescription()
        self.assignment: Mapping[str, Any] = {}
        self.seeds: dict[str, SeedSource] = {}
        self.retried: dict[str, Retried] = {}
        self.put_back: dict[str, Mapping[int, Ranges]] = {}
        self.topics: dict[str, FedTopic] = {}
        self.unlisted: tuple[str, ...] = ()
        self.replaced: tuple[str, ...] = ()
        self.spared = ReplacedFiles()
        self.tasks = TaskProgress(self.application)
        self.store_snapshots = StoreSnapshots()
        self.resets: tuple[str, ...] = ()
        self.sources: Mapping[str, tuple[int, int]] = {}
        self.placed = False
        self.marks = FedMarks()
        self._partitions = Partitions()

    @property
    def incarnation(self) -> str:
        """The application's incarnation, see `TopologyDescription`. Empty in logs of versions without it."""
        return self.topology.incarnation

    def apply(self, record: CommitRecord) -> None:
        """Apply the commit after `number`.

        If it does not continue this state, raises CommitOrderError and changes nothing.
        """
        with self.lock:
            before = self._partitions
            self._partitions = grown_by(record, before, self.number + 1)
            self.number += 1
            self.unlisted = self.replaced = ()
            self.spared.after(record.at)
            match record:
                case GenerationRecord():
                    if record.renamed is not None:
                        self._rename(record.renamed)
                    self.generation = record.generation
                    self.topology = record.topology
                    self.assignment = record.assignment
                    for begin in record.begins:
                        self.tasks.move(begin.subtopology, begin.topic, begin.positions)
                case AssignmentRecord():
                    self.assignment = record.assignment
                case EpochRecord():
                    self.tasks.add(record)
                    if record.sources is not None:
                        self.sources = record.sources
                    self.unlisted = tuple(path for task in record.tasks for path in self._applied(task))
                case SnapshotRecord():
                    self.store_snapshots = self.store_snapshots.after(record)
                    self.unlisted = record.removed
                case PurgeRecord():
                    self.unlisted = tuple(self._purged(record))
                case RewriteRecord():
                    self.replaced = tuple(self._partitions.rewrite(record.segments))
                    self.spared.add(self.replaced, record.at + record.delay_ms)
                case AppendRecord():
                    self._fed(record)
                case RepartitionRecord():
                    self._repartitioned(record)
                    self.replaced = tuple(sorted(before.paths() - self._partitions.paths()))
                    self.spared.add(self.replaced, record.at + record.delay_ms)
                case RewindRecord():
                    self.generation = record.generation
                    self.tasks.move(record.subtopology, record.topic, record.positions)
                case TopicRemovalRecord():
                    self.topics.pop(record.topic, None)
                    self.seeds.pop(record.topic, None)
                    self.put_back.pop(record.topic, None)
                    self.marks.forget(record.topic)
                case StoreResetRecord():
                    self.resets = record.stores
                case PlacesRecord():
                    self.placed = True

    def follow(self, record: CommitRecord) -> None:
        """Apply the commit after `number`, or pass over it, as all readers do. Raises CommitOrderError."""
        if not self.is_void(record):
            self.apply(record)
            return
        with self.lock:
            self.number += 1
            self.unlisted = self.replaced = ()

    def _placed(self, record: CommitRecord) -> CommitRecord:
        """The record with the offsets and positions that its segments get if it is committed next."""
        return placed_in(record, self._partitions)

    def written(self) -> set[str]:
        """The topics, changelogs among them, that hold records."""
        with self.lock:
            return self._partitions.topics()

    def segments(self) -> tuple[Segment, ...]:
        """All segments that commits list, partition by partition: for those who look after the log itself."""
        with self.lock:
            return tuple(self._partitions.segments())

    def fits(self, segments: Sequence[Segment], replaced: Sequence[Segment]) -> bool:
        """Whether rewritten segments would take the place of exactly these, if they were committed now.

        A topic that is fed from outside may have begun again, with other records at the same places.
        """
        with self.lock:
            try:
                found = self._partitions.replaced_by(segments)
            except SegmentsChangedError:
                return False
            return sorted(found, key=_place) == sorted(replaced, key=_place)

    def paths(self) -> set[str]:
        """The files that commits list."""
        with self.lock:
            return self._partitions.paths() | self.store_snapshots.paths()

    def ranges(self, topic: str, partition: int, start: int = 0) -> tuple[LogRange, ...]:
        """The committed ranges of a partition, of all lanes, that reach beyond offset `start`, by first offset."""
        with self.lock:
            return tuple(self._partitions.of(topic, partition).ranges(start))

    def ranges_since(self, topic: str, partition: int, time: int) -> tuple[LogRange, ...]:
        """The committed ranges of a partition, by first offset, that have a record with a timestamp of `time` (ms) or
        later.
        """
        with self.lock:
            segments = self._partitions.of(topic, partition).segments
            return tuple(each.range() for each in segments if any(b.max_timestamp >= time for b in each.batches))

    def lane_ranges(
        self, topic: str, partition: int, lane: int, start: int = 0, records: int | None = None
    ) -> tuple[LogRange, ...]:
        """The committed ranges of a lane that reach beyond position `start`, in order.

        `records`: only the first ones, which have that many records or more from there on.
        """
        with self.lock:
            return tuple(self._partitions.of(topic, partition).lane_ranges(lane, start, records))

    def horizon(self, topic: str, partition: int, lane: int) -> int:
        """The position before which deletions of a changelog may be dropped; 0 if none are.

        A store that stands before it, and not at 0, may miss some: what it holds cannot be brought forward.
        """
        with self.lock:
            return self._partitions.of(topic, partition).horizon(lane)

    def can_forget(self, topic: str, partition: int, lane: int, position: int) -> bool:
        """Whether a lane has a segment that lies before `position`, and is not its last."""
        with self.lock:
            return self._partitions.of(topic, partition).first_end(lane) <= position

    def size(self, topic: str, partition: int) -> int:
        """Bytes that a partition's records take in files."""
        with self.lock:
            return sum(segment.size for segment in self._partitions.of(topic, partition).segments)

    def bytes_from(self, topic: str, partition: int, lane: int, position: int) -> int:
        """About how many bytes of a lane's records lie from a position on."""
        with self.lock:
            return self._partitions.of(topic, partition).bytes_from(lane, position)

    def end(self, topic: str, partition: int) -> int:
        """The offset that the next record of a partition gets, or a later one."""
        return self._partitions.of(topic, partition).end

    def lane_ends(self, topic: str, partition: int) -> Mapping[int, int]:
        """Lane -> the position that its next record gets, or a later one."""
        return dict(self._partitions.of(topic, partition).lane_ends)

    def folded(self, checksum: int) -> Snapshot:
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
                marks=self.marks.all(),
                topics=dict(self.topics),
                tasks=self.tasks.all(),
                segments=tuple(self._partitions.segments()),
                paces=self.tasks.paces(),
                unlisted=self.unlisted,
                stores=self.store_snapshots.listed,
                replaced=self.spared.all(),
                resets=self.resets,
                sources=dict(self.sources) or None,
                placed=self.placed,
                names=self.names,
            )

    @property
    def former(self) -> frozenset[str]:
        """The names that the application had before."""
        return frozenset((self.place, *self.names)) - {self.application}

    def _rename(self, renames: Renames) -> None:
        """Have all that is known here speak of the new names."""
        with self.lock:
            found, unlisted, replaced = renamed_snapshot(self.folded(0), renames), self.unlisted, self.replaced
            self._partitions = Partitions()
            self.unfold(found)
            self.unlisted, self.replaced = unlisted, replaced

    def unfold(self, found: Snapshot) -> None:
        """Take over the state of a snapshot; this one has no segments."""
        self.names = found.names
        self.application = found.names[-1] if found.names else self.place
        self.number = found.number
        self.generation = found.generation
        self.topology = found.topology
        self.assignment = found.assignment
        self.seeds = dict(found.seeds)
        self.retried = dict(found.retried)
        self.put_back = dict(found.put_back)
        self.topics = dict(found.topics)
        self.unlisted = found.unlisted
        self.tasks = TaskProgress(self.application, found.tasks, found.paces)
        self.store_snapshots = StoreSnapshots.of_all(found.stores)
        self.spared = ReplacedFiles.of_all(found.replaced)
        self.resets = found.resets
        self.sources = found.sources or {}
        self.placed = found.placed
        self.marks = FedMarks.of_all(found.marks)
        self._partitions.add(found.segments)

    def is_void(self, record: CommitRecord) -> bool:
        """Whether a driver of an earlier incarnation made the commit, before it noticed that the application began
        again.
        """
        if isinstance(record, AppendRecord | RepartitionRecord | PlacesRecord):
            return False
        return bool(record.incarnation and self.incarnation) and record.incarnation != self.incarnation

    def _applied(self, task: TaskCommit) -> Iterator[str]:
        """Remove the changes that have reached a store without changelog. Returns their files."""
        for store, position in task.applied.items():
            described = self.topology.stores.get(store)
            if described is not None and not described.changelog:
                topic = changelog_topic(self.application, store)
                yield from self._partitions.forget(topic, task.partition, task.partition, position)

    def _purged(self, record: PurgeRecord) -> Iterator[str]:
        """Remove segments that lie before the purged positions. Returns the files of which none is left."""
        for each in record.purged:
            for lane, position in each.positions.items():
                yield from self._partitions.forget(each.topic, each.partition, lane, position)

    def _fed(self, record: AppendRecord) -> None:
        if record.topic:
            known = self.topics.get(record.topic.name)
            if known is None or record.replace:
                self.topics[record.topic.name] = replace(record.topic, since=self.number)
                self.marks.forget(record.topic.name)
            else:
                self.topics[record.topic.name] = replace(record.topic, since=known.since, moved=known.moved)
            if record.replace:
                self.put_back.pop(record.topic.name, None)
            self.marks.add(record.topic.name, self._ends(record.topic))
        if record.source:
            parts = record.source.parts
            if parts is None:
                parts = tuple(SeededPart(partition, *found) for partition, found in sorted(record.seed_offsets.items()))
            self.seeds[record.source.topic] = replace(record.source, parts=parts)
        if record.retried is not None:
            before = self.retried.get(record.retried.topic)
            letters = replace(record.retried, records={})
            self.retried[record.retried.topic] = letters if before is None else before.and_(letters)
            if record.topic is not None:
                name = record.topic.name
                self.put_back[name] = ranges_of_both(self.put_back.get(name, {}), record.retried.records)

    def _repartitioned(self, record: RepartitionRecord) -> None:
        for each in record.topics:
            name, known = each.topic.name, self.topics[each.topic.name]
            moved = (*known.moved, FormerLayout(known.since or 0, known.partitions, known.key))
            self.topics[name] = replace(each.topic, since=self.number, moved=moved)
            if each.source is not None:
                self.seeds[name] = each.source
            if name in self.put_back:
                self.put_back[name] = each.put_back
            self.marks.replace(name, each.marks)

    def _ends(self, topic: FedTopic) -> tuple[int, ...]:
        return tuple(self._partitions.of(topic.name, each).end for each in range(topic.partitions))


def _place(segment: Segment) -> tuple[str, int, int, int]:
    return segment.topic, segment.partition, segment.lane, segment.base_position


# Folding: the state after a commit is kept as a snapshot, and commits that two snapshots make superfluous are removed.
#
# The commits before the older of the two snapshots go. If the newest one is found to be damaged, the older one and the
# commits after it still say everything.

SNAPSHOT_EVERY = 100
"""The least number of commits between two snapshots."""

AT_MOST = 1000
"""After so many commits there is another snapshot, however much it takes. So a start reads no more of them."""


@dataclass(frozen=True)
class GoodSnapshot:
    """The newest snapshot that was read or written whole: after commit `number` of this `identity`. `size`: bytes."""

    number: int = 0
    identity: str = ""
    size: int = 0

    def due(self, commits: int, size: int) -> bool:
        """Whether to make another one after so many commits with so many bytes.

        The more a snapshot takes, the rarer it is: snapshots take hardly more to write than the commits themselves.
        """
        return commits >= SNAPSHOT_EVERY and (size >= self.size or commits >= AT_MOST)


@dataclass(frozen=True)
class Fold:
    """One folding. `snapshot`: the state after the commit of `identity`. `older`: the snapshot before it.

    `done` is told the new snapshot, once it is durable.
    """

    commits: CommitStore
    snapshot: Snapshot
    identity: str
    older: GoodSnapshot
    done: Callable[[GoodSnapshot], None]

    def run(self, between: Callable[[], object] = lambda: None) -> None:
        """Keep the snapshot, then remove what is superfluous. Raises LogError, MachineError, OSError.

        `between` is called about every millisecond, while the snapshot is encoded.
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
"""Runs foldings, now or in the background."""


def fold_now(fold: Fold) -> None:
    """Run it before the commit returns.

    If this fails, the commit is made nevertheless, and must not pass for one that is not. The next one tries again.
    """
    with suppress(OSError, HeadwaterError):
        fold.run()
