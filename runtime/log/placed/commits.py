"""The commits of an application that lives in a place of another name."""

from __future__ import annotations

from collections.abc import Callable

from ..commits import CommitStore


class PlacedCommits:
    """The `CommitStore` of an application under its name. `kept`: the same under the name of the `origin`, its place.

    `settle`: called before the first commit there, which makes the place the application's for good.
    """

    def __init__(self, application: str, kept: CommitStore, settle: Callable[[str], None]) -> None:
        self.application = application
        self.origin = kept.application
        self._kept = kept
        self._settle = settle

    def place(self, number: int, *, snapshot: bool = False) -> str:
        """See `CommitStore.place`."""
        return self._kept.place(number, snapshot=snapshot)

    def create(self, number: int, data: bytes) -> str:
        """See `CommitStore.create`."""
        if number == 1:
            self._settle(self.application)
        return self._kept.create(number, data)

    def read(self, number: int) -> bytes | None:
        """See `CommitStore.read`."""
        return self._kept.read(number)

    def identity(self, number: int) -> str | None:
        """See `CommitStore.identity`."""
        return self._kept.identity(number)

    def checksum(self, number: int) -> int | None:
        """See `CommitStore.checksum`."""
        return self._kept.checksum(number)

    def first(self) -> int:
        """See `CommitStore.first`."""
        return self._kept.first()

    def latest(self) -> int:
        """See `CommitStore.latest`."""
        return self._kept.latest()

    def snapshots(self) -> list[int]:
        """See `CommitStore.snapshots`."""
        return self._kept.snapshots()

    def read_snapshot(self, number: int) -> bytes | None:
        """See `CommitStore.read_snapshot`."""
        return self._kept.read_snapshot(number)

    def save_snapshot(self, number: int, data: bytes, identity: str) -> bool:
        """See `CommitStore.save_snapshot`."""
        return self._kept.save_snapshot(number, data, identity)

    def fold(self, before: int, identity: str) -> None:
        """See `CommitStore.fold`."""
        self._kept.fold(before, identity)


def origin_of(commits: CommitStore) -> str:
    """The place of an application's commits: under its name the first of them were written."""
    return commits.origin if isinstance(commits, PlacedCommits) else commits.application
