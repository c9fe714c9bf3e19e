"""The committed state of an application, and the commit of its next record.

`state_parts/folded.py` folds the content of commits. This module reads them, from the newest snapshot on, and creates
new ones.

One thread changes a state (`refresh`, `commit`); others may read it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from threading import Lock
from zlib import crc32

import numpy as np
import pyarrow as pa

from ..records.arrays import Int64s
from .commit.encoding import decode_commit, encode_commit
from .commit.records import CommitMark, CommitRecord, DriversRecord, GenerationRecord, Renames, RewindRecord
from .errors import (
    CommitDamagedError,
    CommitExistsError,
    CommitFormatError,
    CommitGapError,
    FullyRefreshedError,
    GenerationError,
    LogError,
    RangeMissingError,
    SnapshotsDamagedError,
)
from .log import CommitStore, LastCommit
from .places import origin_of
from .ranges import Columns, RangeReader, by_offset
from .state_parts.folded import Fold, FoldedCommits, Folding, GoodSnapshot, fold_now
from .state_parts.parts import Snapshot
from .state_parts.renamed import renamed_record

MISSING = "missing, though later ones exist"
"""`CommitDamagedError.what` of a commit that was removed."""


class LogState(FoldedCommits):
    """The committed state of one application, under its present name.

    Existing commits may contain earlier names: the application was renamed, and its next driver has not claimed it yet.
    Then the state has the new names already, and the next claim commits them (`renaming`).

    `folding`: saves the state as a snapshot when it is due, and removes the commits that become superfluous.
    """

    def __init__(self, commits: CommitStore) -> None:
        self.commits = commits
        self.folding: Folding = fold_now
        self._more = Renames()
        super().__init__(origin_of(commits))

    def _clear(self) -> None:
        super()._clear()
        self._last = LastCommit(0, None, 0)
        self._good = GoodSnapshot()
        self._tried = 0
        self._bytes = 0
        self.renaming = Renames()

    @classmethod
    def load(cls, commits: CommitStore) -> LogState:
        """The state after the last commit. Raises LogError."""
        state = cls(commits)
        state.reload()
        return state

    @property
    def mark(self) -> CommitMark | None:
        """The mark of the last commit; None if there is none."""
        with self.lock:
            return CommitMark(self.place, self.number, self._last.checksum) if self.number else None

    def reload(self) -> None:
        """Load the newest undamaged snapshot and the commits after it. Raises LogError.

        For a start, and after a full refresh of the application.
        """
        with self.lock:
            while True:
                snapshots = self.commits.snapshots()
                self._clear()
                self._restore_one_of(snapshots)
                self._apply_new()
                # Only here, because `latest` lists all commits. A new one may appear between the two calls.
                while self.commits.latest() > self.number:
                    if not self._apply_new():
                        break
                else:
                    self._rename_ahead()
                    if self._more:
                        self._rename_now(self._more)
                    return
                if self.commits.snapshots() == snapshots:  # else commits were folded meanwhile
                    raise self._broken(snapshots)

    def refresh(self) -> int:
        """Apply new commits of others. Returns their number.

        If they have been folded already, loads the newest snapshot. Raises FullyRefreshedError if the application has
        other commits now than those in this state.
        """
        with self.lock:
            before, incarnation = self.number, self.incarnation
            self._apply_new()
            self._rename_ahead()
            if not self._last.is_kept_in(self.commits):
                self.reload()
                if before and self.incarnation != incarnation:
                    self._last = replace(self._last, identity=None)  # so that the next call raises again
                    raise FullyRefreshedError(self.application)
            return self.number - before

    def refresh_or_reload(self) -> None:
        """`refresh`, and `reload` if the application was fully refreshed. After a LogError the state is incomplete."""
        try:
            self.refresh()
        except FullyRefreshedError:
            self.reload()

    def has_source(self, sources: Mapping[str, tuple[int, int]]) -> bool:
        """Whether the last commit that a reader knew exists, or was folded. `sources`: see `EpochRecord`."""
        with self.lock:
            number, checksum = sources.get(self.place, (0, 0))
            if number == self.number:  # the usual case, without any read
                return not number or checksum == self._last.checksum
            # A commit before the last one without a checksum was folded long ago.
            return not number or (number < self.number and self.commits.checksum(number) in (None, checksum))

    def check_same(self) -> None:
        """Check that the application still has the commits of this state. Raises FullyRefreshedError.

        They may be folded: then later ones exist, which `refresh` applies.
        """
        with self.lock:
            self._last.is_kept_in(self.commits)

    def check_same_in(self, commits: CommitStore) -> None:
        """`check_same` for other threads. `commits`: of the application, a new instance for this check.

        The state is not locked while the log is read. A new instance has no cache from before a full refresh.
        """
        with self.lock:
            last = self._last
        last.is_kept_in(commits)

    def was_replaced(self, missing: RangeMissingError) -> bool:
        """Apply new commits. Returns whether the file of missing records is not listed any more.

        Then the reader's ranges are outdated, and the state has new ones. Raises FullyRefreshedError.
        """
        self.refresh()
        return missing.path not in self.paths()

    def commit(self, record: CommitRecord) -> CommitRecord:
        """Commit `record` as the next one, with offsets for its segments. Returns the committed record.

        Raises CommitExistsError if another driver was first (`refresh` reads its commit), GenerationError for an old
        generation, FullyRefreshedError. After an error this state is unchanged.
        """
        with self.lock:
            if isinstance(record, DriversRecord) and record.generation != self.generation:
                raise GenerationError(self.application, self.generation, record.generation)
            if isinstance(record, GenerationRecord | RewindRecord) and record.generation <= self.generation:
                raise GenerationError(self.application, self.generation, record.generation)
            placed = self._placed(record)
            self._check_next()
            data = encode_commit(self._written(placed))
            try:
                identity = self.commits.create(self.number + 1, data)
            except CommitGapError:
                self._check_next()
                raise
            # Again: the application may have been fully refreshed between the check and the commit. Readers of the
            # new incarnation then ignore the commit.
            self.check_same()
            self.apply(placed)
            if isinstance(placed, GenerationRecord):
                self.renaming = self._more = Renames()
            self._note_last(data, identity)
            self._fold_if_due()
            return placed

    def rename(self, renames: Renames) -> None:
        """Rename more than the application; the next claim commits the new names.

        `renames`: from the names that the state has.
        """
        with self.lock:
            self._more = self._more.then(renames)
            self._rename_now(renames)

    def snapshot(self) -> bytes:
        """The encoded state, for `CommitStore.save_snapshot`."""
        return self.to_snapshot(self._last.checksum).encode()

    def _apply_new(self) -> int:
        """Apply all commits that follow. Returns their number."""
        before = self.number
        # The identity first: `check_same` then notices a commit that is replaced between the two calls.
        while (identity := self.commits.identity(self.number + 1)) is not None:
            data = self.commits.read(self.number + 1)
            if data is None:
                break
            record = self._decoded(data)
            if self.is_void(record):
                self.check_same()
            if self.renaming and isinstance(record, GenerationRecord) and record.renamed is not None:
                self._more = Renames()  # another driver has claimed it: the remaining renames are determined again
                self.reload()
                break
            self.follow(renamed_record(record, self.renaming) if self.renaming else record)
            self._note_last(data, identity)
        return self.number - before

    def _rename_ahead(self) -> None:
        """Rename the application in the state to its present name."""
        if self.application != self.commits.application:
            topics = {**dict.fromkeys(self._partitions.topics()), **self.topology.topics}
            self._rename_now(Renames.of_application(self.application, self.commits.application, topics))

    def _rename_now(self, renames: Renames) -> None:
        self._rename(renames)
        self.renaming = self.renaming.then(renames)

    def _written(self, record: CommitRecord) -> CommitRecord:
        """The record to write: a claim contains the renames, all other records have the names before it."""
        if not self.renaming:
            return record
        if isinstance(record, GenerationRecord):
            return replace(record, renamed=self.renaming)
        return renamed_record(record, self.renaming.inverse)

    def _note_last(self, data: bytes, identity: str) -> None:
        """Note the last applied commit."""
        self._last = LastCommit(self.number, identity, crc32(data))
        self._bytes += len(data)

    def _check_next(self) -> None:
        """Check that no later commit exists. Raises CommitExistsError, FullyRefreshedError."""
        if not self._last.is_kept_in(self.commits):
            raise CommitExistsError(self.application, self.number + 1)

    def _decoded(self, data: bytes) -> CommitRecord:
        try:
            return decode_commit(data)
        except CommitFormatError as error:
            if error.found is not None:
                raise
            raise self._damaged("damaged") from error

    def _restore_one_of(self, snapshots: list[int]) -> None:
        """Restore the first of these snapshots that is undamaged and belongs to the commits of this log, if any."""
        for number in snapshots:
            data = self.commits.read_snapshot(number)
            snapshot = None if data is None else Snapshot.decode(data)
            identity, last = self.commits.identity(number), self.commits.read(number)
            if data is None or snapshot is None or identity is None or last is None or snapshot.number != number:
                continue
            if snapshot.commit not in (None, crc32(last)):
                continue  # of other commits: some were put back from an older copy
            self.restore(snapshot)
            self._note_last(last, identity)
            self._good, self._tried, self._bytes = GoodSnapshot(number, identity, len(data)), number, 0
            return

    def _broken(self, snapshots: list[int]) -> LogError:
        """The error for commits after the last applied one that cannot be read."""
        first = self.commits.first()
        if not self.number and first > 1 and (snapshots or self.commits.checksum(first - 1) is not None):
            return SnapshotsDamagedError(self.application, snapshots, first)
        return self._damaged(MISSING)

    def _damaged(self, what: str) -> CommitDamagedError:
        """The error for the next commit."""
        number = self.number + 1
        return CommitDamagedError(self.application, number, what, self.commits.path(number))

    def _fold_if_due(self) -> None:
        """Save the state as a snapshot, if there are enough commits since the last one."""
        if self.renaming or not self._good.due(self.number - self._tried, self._bytes):
            return
        identity = self._last.identity
        assert identity is not None
        self._tried, self._bytes = self.number, 0
        self.folding(Fold(self.commits, self.to_snapshot(self._last.checksum), identity, self._good, self._note_good))

    def _note_good(self, snapshot: GoodSnapshot) -> None:
        self._good = snapshot


class LoadedStates:
    """Latest states of applications, for decisions that only read them. Thread-safe.

    Each state is loaded once and refreshed at each later look. So a run of N applications, each of which is compared
    with all others, loads N states and not N * N.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], LogState] = {}
        self._lock = Lock()

    def latest(self, commits: CommitStore) -> LogState:
        """The state after the last commit. Raises LogError."""
        key = (commits.application, origin_of(commits))
        with self._lock:
            state = self._states.pop(key, None)  # with an error it stays out
            if state is None:
                state = LogState.load(commits)
            else:
                state.refresh_or_reload()
            self._states[key] = state
            return state


def committed_records(
    log: RangeReader,
    state: LogState,
    topic: str,
    partition: int,
    start: int = 0,
    end: int | None = None,
    columns: Columns = None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
    """The records of a partition with offsets from `start` up to `end` (None: all), in batches with their offsets.

    Continues with the new ranges if files are replaced meanwhile, after a call of `check`. Raises errors of
    `RangeReader.read`, FullyRefreshedError and those of `check`.
    """
    while end is None or start < end:
        ranges = state.ranges(topic, partition, start)
        wanted = [(each, each.position_of(start)) for each in ranges if end is None or each.start_offset < end]
        try:
            for batch in by_offset(log, wanted, columns):
                first = int(np.searchsorted(batch.offsets, start))
                last = len(batch.offsets) if end is None else int(np.searchsorted(batch.offsets, end))
                if first < last:
                    start = int(batch.offsets[last - 1]) + 1
                    yield batch.offsets[first:last], batch.records[first:last]
            return
        except RangeMissingError as error:
            if not state.was_replaced(error):  # a file is lost only if it is still listed
                raise
            check()
