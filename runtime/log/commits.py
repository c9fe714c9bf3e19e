"""The sequence of an application's commits: numbered from 1. Each is created exactly once, by the first to do so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .errors import FullyRefreshedError


class CommitStore(Protocol):
    """Keeps the commits of one application. Implementations must make `create` exclusive and durable.

    Old commits are folded: a snapshot has all that they say, and they are removed. Of each its checksum is kept. So a
    store that was brought forward with a folded commit can still tell whether it belongs to this log, and a reader that
    was suspended can tell a folded commit from one of an application that was fully refreshed.

    `save_snapshot` and `fold` are called in the background, perhaps by a driver that was suspended meanwhile and works
    on an application that was fully refreshed since. So they are told a commit with its identity, and must change
    nothing if there is another commit of that number, or none. This must hold at the moment of the change: a check
    before it is not enough where an application is dropped and begins again under the same names.
    """

    @property
    def application(self) -> str:
        """The application whose commits these are."""
        ...

    def place(self, number: int, *, snapshot: bool = False) -> str:
        """Where commit `number` is kept, or its snapshot, whether or not it is there: for messages."""
        ...

    def create(self, number: int, data: bytes) -> str:
        """Make commit `number` durably, whole or not at all. Returns its identity.

        Raises CommitExistsError if it exists or has existed and was folded, CommitGapError if `number - 1` is not
        there. A writer may be suspended at any place in this method until both have been folded.
        """
        ...

    def read(self, number: int) -> bytes | None:
        """The data of commit `number`; None if it is not there (yet, or any more).

        None also for another commit of a number that was folded: `create` was ended before it could take that back.
        """
        ...

    def identity(self, number: int) -> str | None:
        """The identity of commit `number`, different from that of any other commit of this number; None if it is not
        there.

        A driver asks for it many times a second, so it costs less than reading the commit.
        """
        ...

    def checksum(self, number: int) -> int | None:
        """The crc32 of commit `number`, which may be folded; None if there was no such commit.

        None also for one that was folded more than `KEPT_CHECKSUMS` commits ago.
        """
        ...

    def first(self) -> int:
        """The lowest number of a commit that is there: 1 until some were folded; 0 if there are no commits.

        It may list all of them. It is called again and again only for an application that has no commits.
        """
        ...

    def latest(self) -> int:
        """The highest number; 0 if there are no commits. It may list all of them, so call it only at a start.

        Raises LogError if the commits are known to have been lost: an entry or snapshots are there without commits.
        """
        ...

    def snapshots(self) -> list[int]:
        """The numbers of all snapshots, the newest first, whether they are whole or not."""
        ...

    def read_snapshot(self, number: int) -> bytes | None:
        """The data of a snapshot; None if it is not there any more."""
        ...

    def save_snapshot(self, number: int, data: bytes, identity: str) -> bool:
        """Keep the folded state after commit `number` durably: before this returns, whole or not at all. It takes the
        place of a snapshot of this number.

        `identity`: of that commit. If that is not there, nothing is done. Returns whether the snapshot is kept.
        """
        ...

    def fold(self, before: int, identity: str) -> None:
        """Remove the commits and the snapshots before `before`, which is the number of a commit and of a snapshot, and
        snapshots whose commit is not there.

        `identity`: of that commit. If that is not there, nothing is done. In this order, so that it may end at any
        place and be called again: the checksums of the commits are durable; the snapshots go; the commits go, the
        lowest first. A checksum that was kept once is never replaced.
        """
        ...


KEPT_CHECKSUMS = 10_000_000
"""At least the checksums of so many commits are kept, which at 4 bytes are 40 MB: of two months at 500 ms."""


@dataclass(frozen=True)
class LastCommit:
    """The last commit that a state was made of: its number (0: of none), identity and crc32."""

    number: int
    identity: str | None
    checksum: int

    def is_kept_in(self, commits: CommitStore) -> bool:
        """Whether it is there; if not, it was folded, and there are later ones.

        Raises FullyRefreshedError if there are other commits in their place.
        """
        if not self.number:
            return not commits.first()
        identity = commits.identity(self.number)
        if identity == self.identity:
            return True
        if commits.read(self.number) is None and commits.checksum(self.number) == self.checksum:
            return False
        raise FullyRefreshedError(commits.application)
