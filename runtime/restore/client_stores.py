"""Handles requests about a client's stores on its machine: in a Spark task, or in this process in local mode.

Requests share no memory, because Spark may choose another process of the executor for each one. An error of one store
is reported in the response of that store; the other stores are processed as usual.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from ...errors import HeadwaterError, MachineError
from ..chosen_plugins import ChosenPlugins
from ..ir.topology import PluginRef, Store
from ..state.catch_up import TimeBudget
from ..state.closed_stores import DeletionsMissedError, read_closed_positions, write_closed_positions
from ..state.directory import StateDirectory, check_same_log, log_location, take_over_rebuild, wipe_outdated_copy
from ..state.directory_claim import claim, executor_process
from ..state.offset_checkpoint import write_commit_mark
from ..state.process_file import Owner, ProcessFile, update_lock
from ..state.processor_state_manager import GLOBAL, ProcessorStateManager, catch_up_global, positions_of
from ..state.store import StoreDamagedError
from ..task_id import StoreId, TaskKey
from ..tasks.errors import TaskCorruptedError
from ..tasks.measured import Trouble
from .copies import UnusableSnapshotError, discard_partial, load, save
from .requests import (
    TABLE,
    UNKNOWN,
    StateLocation,
    StateRequest,
    StateResponse,
    StoreResponse,
    StoreTarget,
    TableResponse,
    TableTarget,
)

SLICE_SECONDS = 0.2
"""The time budget of a restore request. A transaction that has begun is finished. Epochs of the client wait meanwhile.

Stores of the request that were not reached by then stay as they are.
"""


class WrongDirectoryError(HeadwaterError):
    """A client's state directory is missing: it was removed, or the request reached another machine."""

    def __init__(self, path: Path, process_id: str) -> None:
        super().__init__(f"the state directory of client {process_id} is not at {path} any more", "run again")
        self.path = path
        self.process_id = process_id


def handle(request: StateRequest) -> StateResponse:
    """The response to a request. Errors are part of it."""
    try:
        if request.what == "claim":
            return _claim(request.location)
        stores = ClientStores(request.location)
        return stores.release(request) if request.what == "release" else stores.handle(request)
    except HeadwaterError as error:
        return StateResponse(failure=Trouble.from_error(error))
    except OSError as error:
        reported = MachineError.from_error(error, Path(request.location.state_dir))
        message = f"its state cannot be used: {reported.message}"
        return StateResponse(failure=Trouble("failed", message, way_out=reported.hint or ""))


def _claim(location: StateLocation) -> StateResponse:
    """Claim the directory, and wipe stores with commits that the log does not have. No store is opened."""
    folder = location.folder
    if not folder:
        owner = executor_process(os.getpid()) or Owner.from_pid(os.getpid())
        if owner is None:  # the operating system does not report this process
            raise HeadwaterError("the process of this executor cannot be found")
        take_over_rebuild(Path(location.state_dir), location.application, location.incarnation, without_owner=True)
        folder = claim(Path(location.state_dir), location.application, owner, location.incarnation, location.former)
    directory = StateDirectory(Path(location.state_dir), folder, location.application)
    before = ProcessFile.read(directory.path)
    if before is None:
        raise WrongDirectoryError(directory.path, location.process_id)
    check_same_log(directory.path, location.log_identity, log_location(*location.log))
    with update_lock(directory.path):
        current = replace(
            before,
            process_id=str(uuid.uuid4()) if before.process_id == location.fenced else before.process_id,
            incarnation=location.incarnation or before.incarnation,
            log=location.log_identity,
            closed=False,
            assignment=location.assignment,
        )
        if before.incarnation and current.incarnation != before.incarnation:
            # Before the new incarnation is written: else, after a kill in between, old stores would count as new ones.
            directory.remove_all()
        if current != before:
            current.write(directory.path)
        directory.rename(location.renamed)
        directory.remove_abandoned()
    foreign_stores = directory.remove_foreign(ChosenPlugins(location.plugins).log(PluginRef(*location.log)))
    for table in location.tables:
        wipe_outdated_copy(directory, directory.path / GLOBAL / table.store.name, table)
    declared = {store.name for store in location.stores}
    existing = [store for store in directory.stores() if store.store in declared]
    closed_at = read_closed_positions(directory.path, existing, directory.store_path) if before.closed else {}
    tables = [table.store.name for table in location.tables]
    existing += [StoreId(name, TABLE) for name in tables if (directory.path / GLOBAL / name).is_dir()]
    stores = tuple(StoreResponse(store, closed_at.get(store, UNKNOWN)) for store in existing)
    return StateResponse(folder, current.process_id, stores, closed=before.closed, foreign_stores=foreign_stores)


class ClientStores:
    """The stores of one application on one client. Raises WrongDirectoryError if the directory is missing."""

    def __init__(self, location: StateLocation) -> None:
        self._directory = StateDirectory(Path(location.state_dir), location.folder, location.application)
        process_file = ProcessFile.read(self._directory.path)
        if process_file is None or process_file.process_id != location.process_id:
            raise WrongDirectoryError(self._directory.path, location.process_id)
        self._location = location
        self._declared = {store.name: store for store in location.stores}
        self._tables = {table.store.name: table.store for table in location.tables}
        self._plugins = ChosenPlugins(location.plugins)
        self._log = self._plugins.log(PluginRef(*location.log))
        self._managers: dict[TaskKey, ProcessorStateManager] = {}
        self._budget = TimeBudget(SLICE_SECONDS)
        self._started = False

    def handle(self, request: StateRequest) -> StateResponse:
        """Process all stores, or all global tables, of a request."""
        response = StateResponse(self._location.folder, self._location.process_id)
        if request.what == "load":
            return replace(response, tables=tuple(map(self._load, request.tables)))
        if request.what == "clean":
            return replace(response, stores=tuple(self._clean(request)))
        work: dict[str, Callable[[StoreTarget], StoreResponse]] = {
            "open": self._open,
            "verify": self._verify,
            "restore": self._restore,
            "save": self._save,
            "close": self._close,
            "wipe": self._wipe,
        }
        return replace(response, stores=tuple(self._process(work[request.what], t) for t in request.stores))

    def _clean(self, request: StateRequest) -> Iterator[StoreResponse]:
        """Remove stores that were not touched recently."""
        removed = set(self._directory.clean([target.store for target in request.stores], request.idle_s))
        for target in request.stores:
            yield StoreResponse(target.store, target.input.applied, removed=target.store in removed)

    def _load(self, target: TableTarget) -> TableResponse:
        """Load records into a global table, within the time budget. A damaged one is recreated empty."""
        path = self._directory.path / GLOBAL / target.table.store.name
        backend = self._plugins.backend(target.table.store)
        try:
            store = backend.open(path)
            for topic in target.topics[:1]:  # all partitions have the same commit
                write_commit_mark(path, topic.commit)
            catch_up_global(store, target.table, target.topics, self._log, lambda: not self._budget.is_over())
            return TableResponse(target.table.name, positions_of(store))
        except StoreDamagedError as error:
            return TableResponse(target.table.name, positions_of(backend.open(path)), damage=error.cause)
        except TaskCorruptedError:
            # The store lacks rows that the driver expects. The driver gets the real positions and plans again.
            return TableResponse(target.table.name, positions_of(backend.open(path)))
        except HeadwaterError as error:
            return TableResponse(target.table.name, {}, Trouble.from_error(error))

    def release(self, request: StateRequest) -> StateResponse:
        """Write that all stores are closed, and their positions, so that the next owner need not open them."""
        positions = {target.store: target.input.position for target in request.stores}
        write_closed_positions(self._directory.path, positions, self._directory.store_path)
        process_file = ProcessFile.read(self._directory.path)
        if process_file is not None:
            replace(process_file, closed=True).write(self._directory.path)
        return StateResponse(self._location.folder, self._location.process_id)

    def _process(self, work: Callable[[StoreTarget], StoreResponse], target: StoreTarget) -> StoreResponse:
        """Process one store. A damaged one is at position 0 afterwards. This is not a failure: it is restored."""
        store = target.store
        try:
            response = work(target)
        except StoreDamagedError as error:
            position = self._manager(target).reinitialize(store.store)
            response = StoreResponse(store, position, damage=error.cause)
        except DeletionsMissedError as error:
            self._wipe(target)
            response = StoreResponse(store, 0, outdated=error.position, horizon=error.horizon)
        except UnusableSnapshotError as error:
            response = StoreResponse(store, self._position(target), unusable=error.path_and_cause)
        except HeadwaterError as error:
            response = StoreResponse(store, target.input.applied, Trouble.from_error(error))
        manager = self._managers.get(self._task(target))
        return replace(response, lost=manager is not None and store.store in manager.lost)

    def _position(self, target: StoreTarget) -> int:
        return self._manager(target).position(target.input.store)

    def _open(self, target: StoreTarget) -> StoreResponse:
        return StoreResponse(target.store, self._position(target))

    def _verify(self, target: StoreTarget) -> StoreResponse:
        """Read all rows."""
        manager, name = self._manager(target), target.input.store
        return StoreResponse(target.store, manager.verify(name), size=manager.size(name))

    def _restore(self, target: StoreTarget) -> StoreResponse:
        """Load a snapshot, or apply the changelog up to the target. A lost store without a changelog starts empty."""
        if target.discarded is not None:
            discard_partial(self._path(target.store), target.discarded)
        if self._started and self._budget.is_over():
            return StoreResponse(target.store, target.input.applied)
        self._started = True
        manager, snapshot = self._manager(target), target.load
        fetched = None
        if snapshot is not None:
            put = partial(load, snapshot=snapshot, log=self._log, budget=self._budget)
            fetched = manager.load(target.input, snapshot.position, put)
        if snapshot is not None and fetched is not None and fetched < snapshot.size:
            response = StoreResponse(target.store, self._position(target), fetched=fetched)
        else:
            position = manager.restore(target.input, target.slice_records, self._budget)
            response = StoreResponse(target.store, position)
        return replace(response, size=manager.size(target.input.store))

    def _close(self, target: StoreTarget) -> StoreResponse:
        """Apply all commits and remove expired rows, so that the content does not depend on where epochs ended.

        Raises StoreDamagedError if the store has lost rows: the next run restores them.
        """
        if self._position(target) < target.input.applied and self._declared[target.input.store].changelog:
            raise StoreDamagedError(self._path(target.store), "it has lost what it had")
        manager = self._manager(target)
        position = manager.restore(target.input)
        if position <= target.input.position:
            manager.catch_up(target.input)
        size = manager.size(target.input.store)
        manager.close(target.input.store)
        return StoreResponse(target.store, position, size=size)

    def _save(self, target: StoreTarget) -> StoreResponse:
        """Save a snapshot of the store into the log. Raises StoreDamagedError."""
        backend = self._plugins.backend(self._store_of(target))
        saved = save(backend, self._path(target.store), target.store, self._log, target.save_to)
        return StoreResponse(target.store, saved.position, saved=saved)

    def _wipe(self, target: StoreTarget) -> StoreResponse:
        self._manager(target).delete(target.input.store, self._directory.remove_at)
        return StoreResponse(target.store, 0)

    def _manager(self, target: StoreTarget) -> ProcessorStateManager:
        """The state manager of the target's task, with the store registered."""
        task = self._task(target)
        if task not in self._managers:
            self._managers[task] = ProcessorStateManager(
                task, lambda store: self._path(StoreId(store, task.partition)), self._log, self._plugins.backend
            )
        manager = self._managers[task]
        if manager.get_store(target.input.store) is None:
            manager.register(self._store_of(target))
        return manager

    def _task(self, target: StoreTarget) -> TaskKey:
        return TaskKey(self._location.application, target.subtopology, target.partition)

    def _store_of(self, target: StoreTarget) -> Store:
        return (self._tables if target.partition == TABLE else self._declared)[target.input.store]

    def _path(self, store: StoreId) -> Path:
        if store.partition == TABLE:
            return self._directory.path / GLOBAL / store.store
        return self._directory.store_path(store)
