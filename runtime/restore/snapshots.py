"""What the driver knows of an application's snapshots: those that commits list, and those that could not be loaded."""

from __future__ import annotations

import uuid

from ..log.commit.records import StoreSnapshot
from ..log.log import snapshot_name, snapshot_path
from ..log.state import LogState
from ..records.schema import changelog_topic
from ..task_id import StoreId


class Snapshots:
    """The snapshots that a run may use. All clients of the application share it, and threads may use it at once.

    `unusable`: paths of those that are listed, and could not be loaded or may be damaged.
    """

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.unusable: set[str] = set()

    def of(self, store: str, partition: int) -> tuple[StoreSnapshot, ...]:
        """Those of one partition of a store, the furthest first.

        Not those that may have rows whose deletions are dropped from the changelog by now.
        """
        found = self._state.store_snapshots.of(store, partition)
        horizon = self._state.horizon(changelog_topic(self._state.application, store), partition, partition)
        return tuple(each for each in found if each.path not in self.unusable and each.position >= horizon)

    def lists(self, snapshot: StoreSnapshot) -> bool:
        """Whether a commit lists it, and none after that has removed it."""
        return snapshot in self._state.store_snapshots.of(snapshot.store, snapshot.partition)

    def give_up(self, store: StoreId) -> None:
        """A store is damaged that was loaded from a snapshot: a flipped bit is copied with the page that it is in, and
        what one snapshot has, others may have too."""
        self.unusable |= {each.path for each in self._state.store_snapshots.of(store.store, store.partition)}

    def outdated(self, new: StoreSnapshot, keep: int) -> list[str]:
        """The paths of those that are not needed any more once a new one is there."""
        listed = self._state.store_snapshots.of(new.store, new.partition)
        usable = [each.path for each in self.of(new.store, new.partition)]
        return [each.path for each in listed if each.path not in usable[: max(0, keep - 1)]]

    def new_path(self, store: str, partition: int) -> str:
        """Where a snapshot that is made now is kept."""
        name = snapshot_name(self._state.incarnation, self._state.generation, partition, uuid.uuid4().hex)
        return snapshot_path(self._state.place, store, name)
