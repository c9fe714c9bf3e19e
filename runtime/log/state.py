"""The committed state of an application: all its commit records folded into one, and the way to commit the next.

Here records get their offsets and positions: at commit, in the order in which a commit record lists its segments. This
module does not know what is inside segments.

One thread changes a state (`refresh`, `commit`); others may read it meanwhile. The result of one method is consistent.
A reader that needs several results of the same moment (a writer's clock and its segments) holds `lock`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from threading import RLock
from typing import Any
from zlib import crc32

from ..records.schema import changelog_topic
from .commit_json import decode_commit, encode_commit
from .commit_records import (
    AppendRecord,
    AssignmentRecord,
    CommitMark,
    CommitRecord,
    DriversRecord,
    EpochRecord,
    GenerationRecord,
    PurgeRecord,
    SeedSource,
    SnapshotRecord,
    TaskCommit,
)
from .commits import CommitStore
from .descriptions import FedTopic, TopologyDescription
from .errors import CommitDamagedError, CommitFormatError, CommitGapError, FullyRefreshedError, GenerationError
from .ranges import LogRange
from .segments.partitions import Partitions
from .state_parts.record_segments import grown_by, placed_in
from .state_parts.snapshot import Snapshot
from .state_parts.store_snapshots import StoreSnapshots
from .state_parts.task_progress import TaskProgress

SNAPSHOT_EVERY = 100
"""The number of commits between two snapshots. A start reads at most so many commit records."""


class LogState:
    """The committed state of one application, after commit `number` (0: none yet).

    `generation`: of the present driver, 0 before the first. `topology`: the description in its generation record;
    `assignment`: which client has which tasks, in the same record. `seeds`: topic -> source of its seed. `topics`:
    topic -> its declaration when it was last fed. `unlisted`: files that the last commit made superfluous: their
    changes have reached a store without changelog, a newer snapshot of a store is there, or their readers have consumed
    them. `tasks`: the progress of each task. `store_snapshots`: copies of stores that commits list.
    """

    def __init__(self, commits: CommitStore) -> None:
        self.commits = commits
        self.lock = RLock()
        self._clear()

    def _clear(self) -> None:
        self.number = 0
        self.generation = 0
        self.topology = TopologyDescription()
        self.assignment: Mapping[str, Any] = {}
        self.seeds: dict[str, SeedSource] = {}
        self.topics: dict[str, FedTopic] = {}
        self.unlisted: tuple[str, ...] = ()
        self._identity: str | None = None
        self._checksum = 0
        self.tasks = TaskProgress(self.application)
        self.store_snapshots = StoreSnapshots()
        self._partitions = Partitions()

    @classmethod
    def load(cls, commits: CommitStore) -> LogState:
        """The state after the last commit. Raises CommitFormatError, CommitDamagedError, CommitOrderError."""
        state = cls(commits)
        state.reload()
        return state

    @property
    def application(self) -> str:
        """The application whose state this is."""
        return self.commits.application

    @property
    def incarnation(self) -> str:
        """The application's incarnation, see `TopologyDescription`. Empty in logs of versions without it."""
        return self.topology.incarnation

    @property
    def mark(self) -> CommitMark | None:
        """The mark of the last commit; None if there is none."""
        with self.lock:
            return CommitMark(self.application, self.number, self._checksum) if self.number else None

    def reload(self) -> None:
        """Load the newest snapshot again: after RangeMissingError, or when the application was fully refreshed."""
        with self.lock:
            self._clear()
            snapshot = self.commits.load_snapshot()
            if snapshot is not None:
                self._restore(*snapshot)
            self.refresh()
            # Only here, because `latest` lists all commits. A new one may have come between the two calls.
            while self.commits.latest() > self.number:
                if not self.refresh():
                    raise CommitDamagedError(self.application, self.number + 1, "missing, though later ones are there")

    def refresh(self) -> int:
        """Apply the commits that others have made since. Returns how many there were.

        Raises FullyRefreshedError if they continue other commits than those that this state was made of.
        """
        with self.lock:
            before = self.number
            # The identity first: if the commit is replaced between the two calls, `check_same` notices it.
            while (identity := self.commits.identity(self.number + 1)) is not None:
                data = self.commits.read(self.number + 1)
                if data is None:
                    break
                record = self._decoded(data)
                if self._is_void(record):
                    self.check_same()
                    self.number += 1
                    self.unlisted = ()
                else:
                    self.apply(record)
                self._identity = identity
                self._checksum = crc32(data)
            return self.number - before

    def check_same(self) -> None:
        """Check that the commits are still those that this state was made of. Raises FullyRefreshedError."""
        with self.lock:
            if self.number and self.commits.identity(self.number) != self._identity:
                raise FullyRefreshedError(self.application)

    def commit(self, record: CommitRecord) -> CommitRecord:
        """Place the segments of `record` and commit it as the next one. Returns the record as it was committed.

        Raises CommitExistsError if another driver was first (`refresh` reads its commit), GenerationError for an epoch
        of another generation than the current one, FullyRefreshedError. After an error this state is unchanged.
        """
        with self.lock:
            if isinstance(record, DriversRecord) and record.generation != self.generation:
                raise GenerationError(self.application, self.generation, record.generation)
            if isinstance(record, GenerationRecord) and record.generation <= self.generation:
                raise GenerationError(self.application, self.generation, record.generation)
            placed = placed_in(record, self._partitions)
            self.check_same()
            data = encode_commit(placed)
            try:
                identity = self.commits.create(self.number + 1, data)
            except CommitGapError:
                self.check_same()
                raise
            # Again: the application may have been fully refreshed between the check and the commit. The commit then
            # stands among those of another incarnation, which pass over it.
            self.check_same()
            self.apply(placed)
            self._identity = identity
            self._checksum = crc32(data)
            if self.number % SNAPSHOT_EVERY == 0:
                self.commits.save_snapshot(self.number, self.snapshot())
            return placed

    def apply(self, record: CommitRecord) -> None:
        """Apply the commit after `number`.

        If it does not continue this state, raises CommitOrderError and changes nothing.
        """
        with self.lock:
            self._partitions = grown_by(record, self._partitions, self.number + 1)
            self.number += 1
            self.unlisted = ()
            match record:
                case GenerationRecord():
                    self.generation = record.generation
                    self.topology = record.topology
                    self.assignment = record.assignment
                case AssignmentRecord():
                    self.assignment = record.assignment
                case EpochRecord():
                    self.tasks.add(record)
                    self.unlisted = tuple(path for task in record.tasks for path in self._applied(task))
                case SnapshotRecord():
                    self.store_snapshots = self.store_snapshots.after(record)
                    self.unlisted = record.removed
                case PurgeRecord():
                    self.unlisted = tuple(self._purged(record))
                case AppendRecord():
                    self._fed(record)

    def written(self) -> set[str]:
        """The topics, changelogs among them, that hold records."""
        with self.lock:
            return self._partitions.topics()

    def paths(self) -> set[str]:
        """The files that commits list."""
        with self.lock:
            return {segment.path for segment in self._partitions.segments()} | self.store_snapshots.paths()

    def ranges(self, topic: str, partition: int, start: int = 0) -> tuple[LogRange, ...]:
        """The committed ranges of a partition, of all lanes, that reach beyond offset `start`, by first offset."""
        with self.lock:
            return tuple(self._partitions.of(topic, partition).ranges(start))

    def lane_ranges(
        self, topic: str, partition: int, lane: int, start: int = 0, records: int | None = None
    ) -> tuple[LogRange, ...]:
        """The committed ranges of a lane that reach beyond position `start`, in order.

        `records`: only the first ones, which have that many records or more from there on.
        """
        with self.lock:
            return tuple(self._partitions.of(topic, partition).lane_ranges(lane, start, records))

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

    def snapshot(self) -> bytes:
        """The state as bytes, for `CommitStore.save_snapshot`."""
        with self.lock:
            return Snapshot(
                number=self.number,
                commit=self._checksum,
                generation=self.generation,
                topology=self.topology,
                assignment=self.assignment,
                seeds=self.seeds,
                topics=self.topics,
                tasks=self.tasks.all(),
                segments=tuple(self._partitions.segments()),
                paces=self.tasks.paces(),
                unlisted=self.unlisted,
                stores=self.store_snapshots.listed,
            ).encode()

    def _decoded(self, data: bytes) -> CommitRecord:
        try:
            return decode_commit(data)
        except CommitFormatError as error:
            if error.found is not None:
                raise
            raise CommitDamagedError(self.application, self.number + 1, "damaged") from error

    def _restore(self, number: int, data: bytes) -> None:
        """Load a snapshot if it is whole and belongs to the commits of this log. The commits have all that it has."""
        found = Snapshot.decode(data)
        identity, last = self.commits.identity(number), self.commits.read(number)
        if found is None or found.number != number or last is None or found.commit not in (None, crc32(last)):
            return  # it may be of other commits, after some were put back from an older copy
        self._identity = identity
        self._checksum = crc32(last)
        self.number = number
        self.generation = found.generation
        self.topology = found.topology
        self.assignment = found.assignment
        self.seeds = dict(found.seeds)
        self.topics = dict(found.topics)
        self.unlisted = found.unlisted
        self.tasks = TaskProgress(self.application, found.tasks, found.paces)
        self.store_snapshots = StoreSnapshots.of_all(found.stores)
        self._partitions.add(found.segments)

    def _is_void(self, record: CommitRecord) -> bool:
        """Whether a driver of an earlier incarnation made the commit, before it noticed that the application began
        again.
        """
        if isinstance(record, AppendRecord):
            return False
        return bool(record.incarnation and self.incarnation) and record.incarnation != self.incarnation

    def _applied(self, task: TaskCommit) -> Iterator[str]:
        """Remove the changes that have reached a store without changelog. Returns their files."""
        for store, position in task.applied.items():
            described = self.topology.stores.get(store)
            if described is not None and not described.changelog:
                topic = changelog_topic(self.application, store)
                gone = self._partitions.forget(topic, task.partition, task.partition, position)
                yield from (segment.path for segment in gone)

    def _purged(self, record: PurgeRecord) -> Iterator[str]:
        """Remove segments that lie before the purged positions. Returns the files of which none is left."""
        gone: dict[str, set[str]] = {}
        for each in record.purged:
            for lane, position in each.positions.items():
                segments = self._partitions.forget(each.topic, each.partition, lane, position)
                gone.setdefault(each.topic, set()).update(segment.path for segment in segments)
        for topic, paths in gone.items():
            yield from sorted(paths - self._partitions.paths(topic))

    def _fed(self, record: AppendRecord) -> None:
        if record.topic:
            known = self.topics.get(record.topic.name)
            since = self.number if known is None or record.replace else known.since
            self.topics[record.topic.name] = replace(record.topic, since=since)
        if record.source:
            self.seeds[record.source.topic] = record.source
