"""The copies of stores that an application's commits list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from ..commit.records import SnapshotRecord, StoreSnapshot


@dataclass(frozen=True)
class StoreSnapshots:
    """Immutable, so that threads may read it while commits are applied. `by_store`: store and partition -> its
    snapshots, in the order of their commits.
    """

    by_store: Mapping[tuple[str, int], tuple[StoreSnapshot, ...]] = field(default_factory=dict)

    @classmethod
    def of_all(cls, listed: Iterable[StoreSnapshot]) -> Self:
        """All that there are, in the order of their commits."""
        by_store: dict[tuple[str, int], tuple[StoreSnapshot, ...]] = {}
        for each in listed:
            key = each.store, each.partition
            by_store[key] = (*by_store.get(key, ()), each)
        return cls(by_store)

    @property
    def listed(self) -> tuple[StoreSnapshot, ...]:
        """All that there are."""
        return tuple(each for some in self.by_store.values() for each in some)

    def of(self, store: str, partition: int) -> tuple[StoreSnapshot, ...]:
        """Those of one partition of a store, the furthest first."""
        found = self.by_store.get((store, partition), ())
        return tuple(sorted(found, key=lambda each: each.position, reverse=True))

    def paths(self) -> set[str]:
        """Their files."""
        return {each.path for each in self.listed}

    def after(self, record: SnapshotRecord) -> StoreSnapshots:
        """The same after a commit."""
        removed = set(record.removed)
        return StoreSnapshots.of_all(each for each in (*self.listed, *record.added) if each.path not in removed)
