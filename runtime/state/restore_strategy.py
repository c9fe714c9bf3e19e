"""How a store gets from where it is to its committed position, and when copies of stores are saved.

The driver asks a strategy and remembers; where the store is, the steps are only applied. The protocols are here and not
in `restore`, where they are used, because `chosen_plugins.py`, which lies below `restore`, checks plugins by them. The
built-in strategies are in `restore/strategies`.
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
    """One partition of a store that stands at `position` of its changelog, and is to come to `target`.

    `ranges`: the committed ranges of the changelog from `position` on: not all, but more than one step of work.
    `snapshots`: those between position and target, the furthest first.
    """

    store: str
    partition: int
    position: int
    target: int
    ranges: tuple[LogRange, ...] = ()
    snapshots: tuple[StoreSnapshot, ...] = ()


@dataclass(frozen=True)
class Load:
    """Put a snapshot in the place of the store, which then stands at the snapshot's position."""

    snapshot: StoreSnapshot


@dataclass(frozen=True)
class Apply:
    """Apply the changelog from where the store is up to `position`: in transactions, and as long as there is time.

    Of the records of a key only the last one in a transaction is written. `slice_records`: the most that are read
    before the work may stop and leave the client to epochs.
    """

    position: int
    slice_records: int = RECORDS_PER_SLICE


Step = Load | Apply


class RestoreStrategy(Protocol):
    """Decides in which steps a store comes to its target."""

    def steps(self, request: RestoreRequest) -> Iterator[Step]:
        """Steps from the request's position towards its target.

        The first is done, or a part of it, and then the strategy is asked again, from where the store is by then. A
        snapshot that turns out broken is not among `snapshots` the next time.
        """
        ...


@dataclass(frozen=True)
class Unsaved:
    """What one partition of a running task's store has applied since its last snapshot.

    `position`: where the store stands. `epochs`: how many epochs have changed it since, `size`: by how many bytes of
    its changelog. `snapshots`: those that there are, the furthest first.
    """

    store: str
    partition: int
    position: int
    epochs: int
    size: int
    snapshots: tuple[StoreSnapshot, ...] = ()


@dataclass(frozen=True)
class Save:
    """Save a snapshot now. `keep`: how many of this partition are kept, the new one too; older ones are removed."""

    keep: int = 2


@runtime_checkable
class SavingStrategy(RestoreStrategy, Protocol):
    """A RestoreStrategy that has snapshots saved. It needs stores whose backend is a CopyingBackend."""

    def save(self, unsaved: Unsaved) -> Save | None:
        """Whether to save a snapshot. Asked after each commit, so it should be quick."""
        ...
