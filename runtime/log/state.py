"""The committed state of an application, and the way to commit the next record.

What commits say is folded in `state_parts/folded.py`. Here they are read, from the newest snapshot on, and made.

One thread changes a state (`refresh`, `commit`); others may read it meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from zlib import crc32

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
from .state_parts.folded import Fold, FoldedCommits, Folding, GoodSnapshot, fold_now
from .state_parts.parts import Snapshot
from .state_parts.renamed import renamed_record

MISSING = "missing, though later ones are there"
"""What `CommitDamagedError.what` says of a commit that was removed."""


class LogState(FoldedCommits):
    """The committed state of one application, under the name by which it was asked for.

    Commits may speak of other names so far: the application was renamed, and its next driver has not claimed it yet.
    Then the state is renamed as if it had, and the next claim says so (`renaming`).

    `folding`: what keeps the state as a snapshot when it is time, and removes the commits that this makes superfluous.
    """

    def __init__(self, commits: CommitStore) -> None:
        self.commits = commits
        self.folding: Folding = fold_now
        self._more = Renames()
        super().__init__(origin_of(commits))

    def _clear(self) -> None:
        super()._clear()
        self._identity: str | None = None
        self._checksum = 0
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
            return CommitMark(self.place, self.number, self._checksum) if self.number else None

    def reload(self) -> None:
        """Load the newest snapshot that is whole, and the commits after it. Raises LogError.

        For a start, and when the application was fully refreshed.
        """
        with self.lock:
            while True:
                snapshots = self.commits.snapshots()
                self._clear()
                self._restore_one_of(snapshots)
                self._apply_new()
                # Only here, because `latest` lists all commits. A new one may have come between the two calls.
                while self.commits.latest() > self.number:
                    if not self._apply_new():
                        break
                else:
                    self._rename_ahead()
                    if self._more:
                        self._rename_now(self._more)
                    return
                if self.commits.snapshots() == snapshots:  # else commits were folded while this went on
                    raise self._broken(snapshots)

    def refresh(self) -> int:
        """Apply the commits that others have made since. Returns how many there were.

        If they have been folded since, the newest snapshot is loaded. Raises FullyRefreshedError if these are other
        commits than those that this state was made of.
        """
        with self.lock:
            before, incarnation = self.number, self.incarnation
            self._apply_new()
            self._rename_ahead()
            if not self._last_is_kept():
                self.reload()
                if before and self.incarnation != incarnation:
                    self._identity = None  # so that this is found again
                    raise FullyRefreshedError(self.application)
            return self.number - before

    def has_known(self, sources: Mapping[str, tuple[int, int]]) -> bool:
        """Whether the commit that a reader has known last is there, or was folded. `sources`: see `EpochRecord`."""
        with self.lock:
            number, checksum = sources.get(self.place, (0, 0))
            if number == self.number:  # as a rule, and nothing is read for it
                return not number or checksum == self._checksum
            # A commit before the last one without a checksum was folded long ago.
            return not number or (number < self.number and self.commits.checksum(number) in (None, checksum))

    def check_same(self) -> None:
        """Check that the commits are still those that this state was made of. Raises FullyRefreshedError.

        They may have been folded since: then there are later ones, which `refresh` applies.
        """
        with self.lock:
            self._last_is_kept()

    def check_same_in(self, commits: CommitStore) -> None:
        """The same for a thread that does not change this state. `commits`: the application's, made for this check.

        Nobody waits for this state meanwhile, however long the log takes to answer. And such `commits` remember nothing
        of the application from before it was fully refreshed. Raises FullyRefreshedError.
        """
        with self.lock:
            last = self._last()
        last.is_kept_in(commits)

    def was_replaced(self, missing: RangeMissingError) -> bool:
        """Apply new commits, and say whether the file of missing records is listed no more. Then the ranges that they
        were read by are of the past, and new ones say where the records are. Raises FullyRefreshedError.
        """
        self.refresh()
        return missing.path not in self.paths()

    def commit(self, record: CommitRecord) -> CommitRecord:
        """Place the segments of `record` and commit it as the next one. Returns the record as it was committed.

        Raises CommitExistsError if another driver was first (`refresh` reads its commit), GenerationError for an epoch
        of another generation than the current one, FullyRefreshedError. After an error this state is unchanged.
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
            # Again: the application may have been fully refreshed between the check and the commit. The commit then
            # stands among those of another incarnation, which pass over it.
            self.check_same()
            self.apply(placed)
            if isinstance(placed, GenerationRecord):
                self.renaming = self._more = Renames()
            self._note_last(data, identity)
            self._fold_if_due()
            return placed

    def rename(self, renames: Renames) -> None:
        """Rename more than the application, until the next claim does so for all.

        `renames`: of what is now called otherwise, in the names that the state has.
        """
        with self.lock:
            self._more = self._more.then(renames)
            self._rename_now(renames)

    def snapshot(self) -> bytes:
        """The state as bytes, for `CommitStore.save_snapshot`."""
        return self.folded(self._checksum).encode()

    def _apply_new(self) -> int:
        """Apply the commits that come next, as far as they are there. Returns how many there were."""
        before = self.number
        # The identity first: if the commit is replaced between the two calls, `check_same` notices it.
        while (identity := self.commits.identity(self.number + 1)) is not None:
            data = self.commits.read(self.number + 1)
            if data is None:
                break
            record = self._decoded(data)
            if self.is_void(record):
                self.check_same()
            if self.renaming and isinstance(record, GenerationRecord) and record.renamed is not None:
                self._more = Renames()  # somebody else was first; what is still to be renamed is worked out again
                self.reload()
                break
            self.follow(renamed_record(record, self.renaming) if self.renaming else record)
            self._note_last(data, identity)
        return self.number - before

    def _rename_ahead(self) -> None:
        """Have the state speak of the application by the name by which it was asked for."""
        if self.application != self.commits.application:
            topics = {**dict.fromkeys(self._partitions.topics()), **self.topology.topics}
            self._rename_now(Renames.of_application(self.application, self.commits.application, topics))

    def _rename_now(self, renames: Renames) -> None:
        self._rename(renames)
        self.renaming = self.renaming.then(renames)

    def _written(self, record: CommitRecord) -> CommitRecord:
        """The record as it is written: a claim tells what it renames, and all others speak of the names before it."""
        if not self.renaming:
            return record
        if isinstance(record, GenerationRecord):
            return replace(record, renamed=self.renaming)
        return renamed_record(record, self.renaming.back)

    def _note_last(self, data: bytes, identity: str) -> None:
        """Note the commit that was applied last."""
        self._identity = identity
        self._checksum = crc32(data)
        self._bytes += len(data)

    def _last_is_kept(self) -> bool:
        """Whether the last commit is there, see `LastCommit`. Raises FullyRefreshedError."""
        return self._last().is_kept_in(self.commits)

    def _last(self) -> LastCommit:
        return LastCommit(self.number, self._identity, self._checksum)

    def _check_next(self) -> None:
        """Check that the next commit may have the next number. Raises CommitExistsError, FullyRefreshedError."""
        if not self._last_is_kept():
            raise CommitExistsError(self.application, self.number + 1)

    def _decoded(self, data: bytes) -> CommitRecord:
        try:
            return decode_commit(data)
        except CommitFormatError as error:
            if error.found is not None:
                raise
            raise self._damaged("damaged") from error

    def _restore_one_of(self, snapshots: list[int]) -> None:
        """Take over the first of these that is whole and belongs to the commits of this log, if there is one."""
        for number in snapshots:
            data = self.commits.read_snapshot(number)
            found = None if data is None else Snapshot.decode(data)
            identity, last = self.commits.identity(number), self.commits.read(number)
            if data is None or found is None or identity is None or last is None or found.number != number:
                continue
            if found.commit not in (None, crc32(last)):
                continue  # it is of other commits, after some were put back from an older copy
            self.unfold(found)
            self._note_last(last, identity)
            self._good, self._tried, self._bytes = GoodSnapshot(number, identity, len(data)), number, 0
            return

    def _broken(self, snapshots: list[int]) -> LogError:
        """Why the commits after the last that was applied cannot be."""
        first = self.commits.first()
        if not self.number and first > 1 and (snapshots or self.commits.checksum(first - 1) is not None):
            return SnapshotsDamagedError(self.application, snapshots, first)
        return self._damaged(MISSING)

    def _damaged(self, what: str) -> CommitDamagedError:
        """Of the commit that comes next."""
        number = self.number + 1
        return CommitDamagedError(self.application, number, what, self.commits.place(number))

    def _fold_if_due(self) -> None:
        """Have the state kept as a snapshot, if enough was committed since the last one."""
        if self.renaming or not self._good.due(self.number - self._tried, self._bytes):
            return
        assert self._identity is not None
        self._tried, self._bytes = self.number, 0
        self.folding(Fold(self.commits, self.folded(self._checksum), self._identity, self._good, self._note_good))

    def _note_good(self, snapshot: GoodSnapshot) -> None:
        self._good = snapshot
