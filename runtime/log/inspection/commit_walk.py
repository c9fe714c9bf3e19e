"""Checks the commits of one application: each by its checksum, all by whether each continues the one before.

A snapshot has all that the commits up to it say. So the commits since the oldest snapshot, folded, must come to what
each later snapshot says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

from ..commit.encoding import decode_commit
from ..commit.records import CommitRecord
from ..commits import CommitStore
from ..errors import CommitFormatError, LogError
from ..placed.commits import origin_of
from ..state import MISSING, LogState
from ..state_parts.folded import FoldedCommits
from ..state_parts.snapshot import Snapshot

CHECKSUM_MISSING = "folded, and its checksum is missing"
"""What `BrokenCommit.what` says of a folded commit that can no longer be told from one of another log."""


@dataclass(frozen=True)
class BrokenCommit:
    """A commit, or a snapshot of all commits up to it, that is not as it was made. `what` is the matter with it."""

    number: int
    snapshot: bool
    what: str


@dataclass(frozen=True)
class WalkedCommits:
    """`commits`, `snapshots`: how many there are. `state`: after the last one; None if it cannot be known, for the
    reason `error`.
    """

    commits: int
    snapshots: int
    broken: tuple[BrokenCommit, ...]
    state: LogState | None
    error: LogError | None = None


def walk(commits: CommitStore) -> WalkedCommits:
    """Read all commits and snapshots. Raises CommitsMissingError, and CommitFormatError for those of newer versions."""
    snapshots = _snapshots(commits)
    first, last = commits.first(), commits.latest()
    found = _Walk(commits, {number: each for number, each in snapshots.items() if each is not None}, first)
    broken = [BrokenCommit(number, True, "damaged") for number, each in snapshots.items() if each is None]
    if first > 1 and commits.checksum(first - 1) is None:
        # What is folded begins with the commit of the oldest snapshot. Before any other one, commits were removed.
        folded = first in snapshots
        number = first - 1 if snapshots else 1
        broken.append(BrokenCommit(number, False, CHECKSUM_MISSING if folded else MISSING))
    for number in range(first, last + 1) if last else ():
        found.step(number)
    try:
        state, error = LogState.load(commits), None
    except LogError as caught:
        state, error = None, caught
    return WalkedCommits(last - first + 1 if last else 0, len(snapshots), (*found.broken, *broken), state, error)


def _snapshots(commits: CommitStore) -> dict[int, Snapshot | None]:
    """All of them; None for a damaged one."""
    there = ((number, commits.read_snapshot(number)) for number in commits.snapshots())
    return {number: Snapshot.decode(data) for number, data in there if data is not None}  # else folded meanwhile


class _Walk:
    """Goes from commit to commit, and keeps what they come to as long as each continues the one before.

    `first`: the commit that it begins with.
    """

    def __init__(self, commits: CommitStore, snapshots: Mapping[int, Snapshot], first: int) -> None:
        self._commits = commits
        self._snapshots = snapshots
        self._state = FoldedCommits(origin_of(commits))
        self._sound = first <= 1
        self.broken: list[BrokenCommit] = []

    def step(self, number: int) -> None:
        """The next commit."""
        data = self._commits.read(number)
        if data is None:
            if number >= self._commits.first():
                self._breaks(number, MISSING)
            self._sound = False  # where it was folded meanwhile, a snapshot says what it said
            return
        try:
            record = decode_commit(data)
        except CommitFormatError as error:
            if error.found is not None:
                raise
            self._breaks(number, "damaged")
            return
        if self._sound:
            self._apply(number, record)
        self._compare(number, crc32(data))

    def _apply(self, number: int, record: CommitRecord) -> None:
        try:
            self._state.follow(record)
        except LogError as error:
            self._breaks(number, f"not what comes next: {error.message}")

    def _compare(self, number: int, checksum: int) -> None:
        """With a snapshot of this commit. Where nothing is known to compare it with, the walk goes on from it."""
        said = self._snapshots.get(number)
        if said is None:
            return
        if said.commit not in (None, checksum):
            self.broken.append(BrokenCommit(number, True, "of another commit than the one that is there"))
        elif self._sound and _content(said) != _content(self._state.folded(checksum)):
            self.broken.append(BrokenCommit(number, True, "not what the commits up to it come to"))
        elif not self._sound:
            self._state = FoldedCommits(origin_of(self._commits))
            self._state.unfold(said)
            self._sound = True

    def _breaks(self, number: int, what: str) -> None:
        self.broken.append(BrokenCommit(number, False, what))
        self._sound = False


def _content(snapshot: Snapshot) -> tuple[object, ...]:
    """What readers depend on. The rest is not in snapshots of all versions."""
    tasks = {(task.subtopology, task.partition): task for task in snapshot.tasks}
    return snapshot.number, snapshot.generation, tasks, set(snapshot.segments), set(snapshot.stores), snapshot.seeds
