"""Saves snapshots of stores, and cleans unused stores, during a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from ...errors import HeadwaterError
from ..ir.topology import Store
from ..log.commit.records import StoreSnapshot
from ..log.state import LogState
from ..placing.place import ClientLostError
from ..records.schema import changelog_topic
from ..state.restore_strategy import Save, SavingStrategy, Unsaved
from ..task_id import StoreId, TaskId
from ..tasks.errors import TaskCorruptedError
from ..tasks.state import State
from ..tasks.task import StreamTask
from .copies import Snapshots
from .linked_stores import LinkedStores
from .requests import StoreResponse

# Saves snapshots of the stores of one client's running tasks, as the restore strategy decides, in parallel to epochs.
#
# Whether a snapshot is due depends on the commits only, so a run continues where the last one has ended. The client
# does the work, one store at a time. A snapshot exists once a commit lists it.

Saved = Future[StoreResponse]

Submit = Callable[[Callable[[], StoreResponse]], Saved]
"""Runs work in another thread."""

MAX_STORES_PER_ROUND = 500
"""The stores checked in one round of the epoch loop, which takes about a millisecond."""


class SnapshotCommits(Protocol):
    """The application's commits."""

    def list_snapshots(self, added: Sequence[StoreSnapshot], removed: Sequence[str]) -> None:
        """Commit new snapshots, and the removal of those at the paths `removed` with their files. Raises
        FencedError."""
        ...

    def discard(self, path: str) -> None:
        """Remove the file of a snapshot that no commit lists. Thread-safe."""
        ...


@dataclass
class _Changes:
    """The changes of a store up to `position` since its last snapshot, at `base`, or since the last failed attempt.

    `epochs`: with changes. `size`: bytes of the changelog. Mutable, and owned by the saver.
    """

    base: int
    position: int
    epochs: int = 0
    size: int = 0


class StoreSaver:
    """Saves snapshots. Only the epoch loop's thread uses it. `working`: a snapshot being saved, or not listed yet.

    `report` is called with a store and the reason if it cannot be saved. The next attempt is when the strategy wants a
    snapshot again, after further changes.
    """

    def __init__(
        self,
        stores: LinkedStores,
        strategy: SavingStrategy,
        snapshots: Snapshots,
        state: LogState,
        commits: SnapshotCommits,
        submit: Submit,
        report: Callable[[StoreId, str], None] = lambda *_: None,
    ) -> None:
        self._stores = stores
        self._strategy = strategy
        self._snapshots = snapshots
        self._state = state
        self._commits = commits
        self._submit = submit
        self._report = report
        self._changes: dict[StoreId, _Changes] = {}
        self._checked: tuple[int, int] | None = None
        self._to_check: list[tuple[StreamTask, Store]] = []
        self.working: Saved | None = None
        self._task: StreamTask
        self._damage: TaskCorruptedError | None = None
        self._store = StoreId("", 0)
        self._save = Save()
        self._path = ""

    def advance(self, tasks: Iterable[StreamTask]) -> bool:
        """Commit a saved snapshot, and start the next one that is due among the next stores to check.

        Returns whether all stores were checked since the last commit. Raises FencedError, and TaskCorruptedError for a
        damaged store.
        """
        if self.working is not None:
            if not self.working.done():
                return False
            self._finish()
        if self._damage is not None:
            if self._task.epoch is not None:
                return False  # the open epoch may detect the damage itself
            damage, self._damage = self._damage, None
            if self._task.state is State.RUNNING:
                raise damage
        if not self._to_check:
            running = list(tasks)
            current = self._state.number, len(running)
            if current == self._checked:
                return True
            self._checked = current
            self._to_check = [(task, store) for task in running for store in self._stores.declared(task.id)]
        for _ in range(min(MAX_STORES_PER_ROUND, len(self._to_check))):
            if self._start_if_due(*self._to_check.pop()):
                break
        return False

    def cancel(self) -> None:
        """Stop. A finished snapshot is still committed; an unfinished one is removed when it is finished. Raises
        FencedError.
        """
        if self.working is None:
            return
        if self.working.done():
            self._finish()
            return
        working, self.working, path = self.working, None, self._path
        if not working.cancel():
            working.add_done_callback(lambda _: self._commits.discard(path))

    def _finish(self) -> None:
        working, self.working = self.working, None
        if working is None:
            return
        try:
            response = working.result()
        except ClientLostError:
            return  # another client gets the task
        except HeadwaterError as error:
            self._report(self._store, error.message)
            return
        saved = response.saved
        if saved is None:
            self._stores.record(response)
            cause = f"store {self._store} was found damaged when it was copied: {response.damage}"
            self._damage = TaskCorruptedError(cause, [self._task.id], self._store.store)
            return
        end = self._stores.end(self._store)
        if self._latest(self._store) < saved.position <= end:
            self._changes[self._store] = _Changes(saved.position, saved.position)
            self._commits.list_snapshots((saved,), self._snapshots.outdated(saved, self._save.keep))
            return
        self._commits.discard(saved.path)  # without a commit: every commit makes the saver check all stores again
        if saved.position > end:
            cause = f"store {self._store} is ahead of its changelog: {saved.position} > {end}"
            self._damage = TaskCorruptedError(cause, [self._task.id], self._store.store)

    def _start_if_due(self, task: StreamTask, store: Store) -> bool:
        """Start to save a snapshot of a store if one is due. Returns whether it was started."""
        if not store.changelog or task.state is not State.RUNNING:
            return False
        store_id = StoreId(store.name, task.id.partition)
        changes = self._update_changes(store_id)
        if not changes.epochs:
            return False
        snapshots = self._snapshots.usable(store_id)
        position = self._stores.position(store_id)
        save = self._strategy.save(
            Unsaved(store_id.store, store_id.partition, position, changes.epochs, changes.size, snapshots)
        )
        if save is None:
            return False
        path = self._path = self._snapshots.new_path(store_id)
        self._task, self._store, self._save = task, store_id, save
        self._changes[store_id] = _Changes(changes.base, position)
        self.working = self._submit(lambda: self._stores.save(task.id, store, path))
        return True

    def _update_changes(self, store: StoreId) -> _Changes:
        """Count the changes of a store up to the position that the client has applied."""
        latest = self._latest(store)
        changes = self._changes.get(store)
        if changes is None or changes.base != latest:  # another client saved it, or its last snapshot is unusable
            changes = self._changes[store] = _Changes(latest, latest)
        position = self._stores.position(store)
        if position > changes.position:
            topic = changelog_topic(self._state.application, store.store)
            ranges = self._state.lane_ranges(topic, store.partition, store.partition, changes.position)
            new = [log_range for log_range in ranges if changes.position < log_range.end <= position]
            # Only a part of a merged range may be new.
            parts = [log_range.part_from(changes.position) for log_range in new]
            changes.epochs += sum(max(1, round(r.epochs * part)) for r, part in zip(new, parts, strict=True))
            changes.size += sum(round(r.size * part) for r, part in zip(new, parts, strict=True))
            changes.position = new[-1].end if new else changes.position
        return changes

    def _latest(self, store: StoreId) -> int:
        """The position of a store's newest usable snapshot; 0 without one."""
        snapshots = self._snapshots.usable(store)
        return max((snapshot.position for snapshot in snapshots), default=0)


# Deletes stores of tasks that one client has not had for some time (`state_cleanup_delay`).
#
# Source: the cleaner of `StateDirectory` of Kafka Streams 4.0. The stores of a moved task are kept for a while: if the
# task returns, they are nearly caught up. Only stores with a changelog are deleted. The client does the work, in
# parallel to epochs.

_CHECKS_PER_DELAY = 10


class StoreCleaner:
    """Deletes unused stores. Only the epoch loop's thread uses it.

    `report` is called with the deleted stores, or with an error message. `seconds`: a monotonic clock.
    """

    def __init__(
        self,
        stores: LinkedStores,
        delay_s: float,
        submit: Callable[[Callable[[], Sequence[StoreId]]], Future[Sequence[StoreId]]],
        report: Callable[[Sequence[StoreId], str], None] = lambda *_: None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stores = stores
        self._delay = delay_s
        self._submit = submit
        self._report = report
        self._seconds = seconds
        self._unused: dict[StoreId, float] = {}
        self._next_check = seconds()
        self._working: Future[Sequence[StoreId]] | None = None

    def advance(self, tasks: Callable[[], Collection[TaskId]]) -> None:
        """Report deleted stores, and start to delete those that are due. `tasks`: the tasks of the client."""
        if self._working is not None:
            if self._working.done():
                self.finish()
            return
        now = self._seconds()
        if now < self._next_check:
            return
        self._next_check = now + self._delay / _CHECKS_PER_DELAY
        self._unused = {store: self._unused.get(store, now) for store in self._stores.unused(tasks())}
        due = [store for store, since in self._unused.items() if now - since >= self._delay]
        if due:
            positions = self._stores.forget(due)
            self._working = self._submit(lambda: self._stores.clean(positions, self._delay))

    def finish(self) -> None:
        """Wait for a running deletion."""
        if self._working is None:
            return
        working, self._working, self._unused = self._working, None, {}
        try:
            if removed := working.result():
                self._report(removed, "")
        except ClientLostError:
            pass  # its stores are lost with it
        except HeadwaterError as error:
            self._report((), error.message)
