"""The stores of one task where they are: registered, brought forward, written down, closed and given up.

Source: `ProcessorStateManager` of Kafka Streams 4.0. There one lives as long as its task. Here each epoch makes one,
and each request of the driver about stores, as Spark chooses the process of both. What lasts is in the stores' folders.
The driver's side, which remembers where each store stands, is `LinkedStores` (`runtime/restore`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ...errors import HeadwaterError
from ..log.ranges import RangeReader
from ..records.keys.row_steps import row_step
from ..records.keys.windows import first_kept_key
from ..task_id import TaskKey
from ..tasks.checkpoints import Checkpoints
from ..tasks.measured import StoreSize
from ..tasks.plan import StoreInput
from ..timed_parts import timed
from ..topology import Store
from .catch_up import RECORDS_PER_SLICE, apply_slices, catch_up, slices, start_empty
from .directories.horizon import check_horizon, forget_horizon
from .offset_checkpoint import NAME
from .pace import Pace
from .store import CheckpointedStore, StateStore, StoreBackend, StoreDamagedError, require_contract, size_of
from .synced_commit import keep_note, note_sync


class IllegalStoreError(HeadwaterError):
    """A store cannot be registered with its task: `task`, `store`, `cause`. It is a bug of the caller."""

    def __init__(self, task: TaskKey, store: str, cause: str) -> None:
        super().__init__(f"task {task}: store {store!r} {cause}")
        self.task = task
        self.store = store
        self.cause = cause


@dataclass
class _Registered:
    declared: Store
    backend: StoreBackend
    path: Path
    store: StateStore
    corrupted: bool = False


class ProcessorStateManager:
    """The stores of `task`. `path`: the directory of a store; `backend`: makes and opens it.

    `lost`: stores without a kept changelog that began empty, although they had rows once.
    """

    def __init__(
        self, task: TaskKey, path: Callable[[str], Path], log: RangeReader, backend: Callable[[Store], StoreBackend]
    ) -> None:
        self.task = task
        self.lost: set[str] = set()
        self._path = path
        self._log = log
        self._backend = backend
        self._stores: dict[str, _Registered] = {}

    def register(self, store: Store) -> StateStore:
        """Open a store; it is made if there is none.

        Raises IllegalStoreError for one that is registered, UnfitStoreError for one that is no store.
        """
        if store.name == NAME:
            raise IllegalStoreError(self.task, store.name, "has the name of the checkpoint file")
        if store.name in self._stores:
            raise IllegalStoreError(self.task, store.name, "has been registered already")
        backend, path = self._backend(store), self._path(store.name)
        with timed("open store"):
            found = _Registered(store, backend, path, backend.open(path))
        require_contract(found.store, store.backend)
        self._stores[store.name] = found
        return found.store

    def get_store(self, name: str) -> StateStore | None:
        """A registered store."""
        found = self._stores.get(name)
        return None if found is None else found.store

    def changelog_offsets(self) -> dict[str, int]:
        """Where the stores stand, but for corrupted ones. Raises StoreDamagedError."""
        return {name: self.position(name) for name, each in self._stores.items() if not each.corrupted}

    def position(self, name: str) -> int:
        """Where a store stands: as its last transaction says, or its checkpoint file. Raises StoreDamagedError."""
        with self._corruption_marked(name) as found:
            return found.store.position

    def size(self, name: str) -> StoreSize | None:
        """How large a store is, if its backend tells. Raises StoreDamagedError."""
        with self._corruption_marked(name) as found:
            return size_of(found.store)

    def catch_up(self, planned: StoreInput) -> StateStore:
        """Bring a store to a planned position, without the rows that have expired by then.

        For an epoch, and before a store is closed. Raises TaskMigratedError, TaskCorruptedError, StoreDamagedError,
        DeletionsMissedError.
        """
        with self._corruption_marked(planned.store) as found:
            position = found.store.position
            with timed("note commit"):
                check_horizon(found.path, position, planned.horizon)
                note_sync(found.path, planned.commit)
            catch_up(found.store, planned, self._log, expire_below(found.declared, planned), position)
            self.checkpoint()
            return found.store

    def restore(self, planned: StoreInput, most: int = RECORDS_PER_SLICE, pace: Pace | None = None) -> int:
        """Bring a store nearer to a planned position, as far as there is time; its position then.

        For a store that is restored, and for a standby task's. A store beyond the position stays as it is: the driver
        decides what to think of it. One that has lost rows without a changelog begins empty, see `lost`. `most`: the
        most records of a slice. Raises TaskCorruptedError, StoreDamagedError, DeletionsMissedError.
        """
        pace = pace or Pace()
        with self._corruption_marked(planned.store) as found:
            position = found.store.position
            # Before anything is applied: after a kill the note may claim too much, which is harmless, but never too
            # little.
            note_sync(found.path, planned.commit)
            if position > planned.position:
                return position
            check_horizon(found.path, position, planned.horizon)
            if not found.declared.changelog and start_empty(found.store, planned):
                self.lost.add(planned.store)
                return found.store.position
            steps = slices(planned.store, planned.ranges, position, planned.position, most)
            # As in epochs: a copy that is never asked would keep all that has ever been in its windows.
            below = expire_below(found.declared, planned)
            while apply_slices(found.store, steps, self._log, pace.may_read(), below):
                if pace.is_over():
                    break  # another slice goes on: epochs of the tasks that run are waiting for the client
            self.checkpoint()
            return found.store.position

    def load(self, planned: StoreInput, position: int, put: Callable[[StoreBackend, Path], int]) -> int | None:
        """Have something else take a store's place (`put`), which stands at `position`, unless the store is as far.

        Returns what `put` does, which may need several calls; None if it was not called.
        """
        with self._corruption_marked(planned.store) as found:
            note_sync(found.path, planned.commit)
            if found.store.position >= position:
                return None
            forget_horizon(found.path)
            done = put(found.backend, found.path)
            found.store = found.backend.open(found.path)
            return done

    def verify(self, name: str) -> int:
        """Read all rows of a store; its position. Raises StoreDamagedError."""
        with self._corruption_marked(name) as found:
            for _ in found.store.range(None, None):
                pass
            return found.store.position

    def checkpoint(self, *, enforce: bool = False) -> bool:
        """Bring what was applied to the disk and write the positions down, if that is due or enforced; whether it was.

        Of stores that are not transactional; others do both with each change. All stores are tried; raises the first
        error that there was.
        """
        found = [(name, store) for name, store in self._checkpointed() if enforce or store.unwritten != (0, 0)]
        written = Checkpoints()
        written.wrote({name: store.position - store.unwritten[0] for name, store in found})
        offsets = {name: store.position for name, store in found}
        size = sum(store.unwritten[1] for _, store in found)
        if not found or not written.due(offsets, enforce=enforce, size=size):
            return False
        _all_done([store.checkpoint for _, store in found])
        return True

    def flush(self) -> None:
        """Bring everything that was applied to the disk. Raises the first error that there was."""
        self.checkpoint(enforce=True)

    def mark_changelog_as_corrupted(self, name: str) -> None:
        """Leave a store out of checkpoints and offsets. Its neighbours stay as they are.

        The methods that find a store damaged do so themselves.
        """
        self._stores[name].corrupted = True

    def reinitialize(self, name: str) -> int:
        """Begin again with a store that was found damaged: its backend makes an empty one. The position."""
        found = self._stores[name]
        found.store, found.corrupted = found.backend.open(found.path), False
        return self.position(name)

    def delete(self, name: str, remove: Callable[[Path], None]) -> None:
        """Remove a store's files (`remove`). It may be registered again, and is empty then."""
        remove(self._stores.pop(name).path)

    def close(self, *names: str) -> None:
        """Make these stores durable and close them; without names all, in the order in which they were registered.

        All are tried; raises the first error that there was. They may be used again.
        """
        chosen = [self._stores[name] for name in names] if names else list(self._stores.values())
        _all_done([each.store.close for each in chosen])
        for each in chosen:
            keep_note(each.path)
            os.utime(each.path)  # a copy that its task leaves here now is kept for a while, see `StateDirectory.clean`

    def _checkpointed(self) -> Iterator[tuple[str, CheckpointedStore]]:
        for name, each in self._stores.items():
            if not each.corrupted and callable(getattr(type(each.store), "checkpoint", None)):
                yield name, cast(CheckpointedStore, each.store)

    @contextmanager
    def _corruption_marked(self, name: str) -> Iterator[_Registered]:
        found = self._stores[name]
        try:
            yield found
        except StoreDamagedError:
            self.mark_changelog_as_corrupted(name)
            raise


def expire_below(store: Store, planned: StoreInput) -> bytes | None:
    """The key below which all rows of a window or session store are out of retention."""
    held = store.held_ms
    if not store.is_windowed or held is None or planned.clock < held:
        return None
    return first_kept_key(planned.clock, held, row_step(store))


def _all_done(work: Iterable[Callable[[], None]]) -> None:
    first: Exception | None = None
    for do in work:
        try:
            do()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first
