"""The copies of stores that an application's commits list."""

from __future__ import annotations

from dataclasses import dataclass

from .commit_records import SnapshotRecord, StoreSnapshot


@dataclass(frozen=True)
class StoreSnapshots:
    """All of them, in the order of their commits. Immutable, so that threads may read it while commits are applied."""

    listed: tuple[StoreSnapshot, ...] = ()

    def of(self, store: str, partition: int) -> tuple[StoreSnapshot, ...]:
        """Those of one partition of a store, the furthest first."""
        found = [each for each in self.listed if (each.store, each.partition) == (store, partition)]
        return tuple(sorted(found, key=lambda each: each.position, reverse=True))

    def paths(self) -> set[str]:
        """Their files."""
        return {each.path for each in self.listed}

    def after(self, record: SnapshotRecord) -> StoreSnapshots:
        """The same after a commit."""
        return StoreSnapshots(tuple(each for each in (*self.listed, *record.added) if each.path not in record.removed))
