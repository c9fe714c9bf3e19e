"""Restore strategies: how a store gets to its committed position, and when snapshots of stores are saved.

A strategy runs on the driver; the client of the store only applies its steps. The protocols are here and not in
`restore`, which uses them, because `chosen_plugins.py` checks plugins by them and lies below `restore`. The built-in
strategies are in `restore/strategies`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..log.commit.records import StoreSnapshot
from ..log.ranges import LogRange
from .catch_up import RECORDS_PER_SLICE


@dataclass(frozen=True)
class RestoreRequest:
    """One partition of a store, at `position` of its changelog, to be restored to `target`.

    `ranges`: committed ranges of the changelog from `position` on: not all of them, but more than one step needs.
    `snapshots`: the snapshots between position and target, the newest first.
    """

    store: str
    partition: int
    position: int
    target: int
    ranges: tuple[LogRange, ...] = ()
    snapshots: tuple[StoreSnapshot, ...] = ()


@dataclass(frozen=True)
class Load:
    """Replace the store by a snapshot. The store is then at the snapshot's position."""

    snapshot: StoreSnapshot


@dataclass(frozen=True)
class Apply:
    """Apply the changelog from the store's position to `position`, in transactions, until the time budget is used up.

    A transaction writes only the last record of a key. `slice_records`: the most records to read before the work may
    stop for epochs of the client.
    """

    position: int
    slice_records: int = RECORDS_PER_SLICE


Step = Load | Apply


class RestoreStrategy(Protocol):
    """Chooses the steps that bring a store to its target."""

    def steps(self, request: RestoreRequest) -> Iterator[Step]:
        """Steps from the request's position towards its target.

        The first step, or a part of it, is done. Then the method is called again, with the store's new position. A
        snapshot that cannot be loaded is missing in the next `snapshots`.
        """
        ...


@dataclass(frozen=True)
class Unsaved:
    """The changes of one partition of a running task's store since its last snapshot.

    `position`: of the store. `epochs`: number of epochs with changes. `size`: bytes of the changelog. `snapshots`: the
    existing snapshots, the newest first.
    """

    store: str
    partition: int
    position: int
    epochs: int
    size: int
    snapshots: tuple[StoreSnapshot, ...] = ()


@dataclass(frozen=True)
class Save:
    """Save a snapshot now. `keep`: how many snapshots of this partition to keep, with the new one; others are
    removed."""

    keep: int = 2


@runtime_checkable
class SavingStrategy(RestoreStrategy, Protocol):
    """A RestoreStrategy with snapshots. It needs stores with a CopyingBackend."""

    def save(self, unsaved: Unsaved) -> Save | None:
        """Whether to save a snapshot. It is called after every commit, so it should be quick."""
        ...
