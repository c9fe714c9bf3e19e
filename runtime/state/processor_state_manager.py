"""The stores of a task: ProcessorStateManager, the stores of an epoch, and global stores."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa

from ...errors import HeadwaterError
from ..ir.topology import GlobalTable, Store
from ..log.errors import CorruptSegmentError, RangeMissingError
from ..log.log import Log
from ..log.ranges import RangeReader, by_offset
from ..records.keys import encode_keys
from ..records.schema import key_columns, topic_schema, value_columns
from ..records.types import Kind
from ..records.window_keys import first_kept_key, row_step
from ..task_id import StoreId, TaskKey
from ..tasks.errors import RecordsMissingError, TaskCorruptedError, TaskMigratedError
from ..tasks.measured import StoreSize
from ..tasks.plan import EpochPlan, Positions, StoreInput, TaskPlan, TopicInput
from ..timed_parts import timed
from .catch_up import RECORDS_PER_SLICE, TimeBudget, apply_slices, catch_up, slices, start_empty
from .closed_stores import check_horizon, delete_horizon
from .codec import RowCodec
from .directory import StateDirectory
from .offset_checkpoint import NAME, sync_commit_mark, write_commit_mark
from .store import Changes, CheckpointedStore, StateStore, StoreBackend, StoreDamagedError, require_contract, size_of

# Manages the stores of one task on its client: registers, restores, checkpoints, closes and deletes them.
#
# Source: `ProcessorStateManager` of Kafka Streams 4.0. There a manager lives as long as its task. Here each epoch, and
# each request of the driver about stores, creates one, because Spark chooses the process. All durable state is in the
# stores' directories. `LinkedStores` (`runtime/restore`) is the driver's side, with the known position of each store.


OFFSET_DELTA_THRESHOLD_FOR_CHECKPOINT = 10_000
"""Changelog records that all stores of a task may apply before checkpoint files are written again. Source: the constant
of this name of Kafka Streams 4.0."""

BYTES_THRESHOLD_FOR_CHECKPOINT = 16 << 20
"""The same in bytes, because unflushed changes are in memory and are lost with their process."""


class IllegalStoreError(HeadwaterError):
    """A store cannot be registered with its task: `task`, `store`, `cause`. This is a bug of the caller."""

    def __init__(self, task: TaskKey, store: str, cause: str) -> None:
        super().__init__(f"task {task}: store {store!r} {cause}")
        self.task = task
        self.store = store
        self.cause = cause


@dataclass
class _StateStoreMetadata:
    """A registered store, with the name of Kafka Streams' class."""

    declared: Store
    backend: StoreBackend
    path: Path
    store: StateStore
    corrupted: bool = False


class ProcessorStateManager:
    """The stores of `task`. `path`: store name -> directory. `backend`: creates and opens stores.

    `lost`: stores without a kept changelog that started empty although they had rows before.
    """

    def __init__(
        self, task: TaskKey, path: Callable[[str], Path], log: RangeReader, backend: Callable[[Store], StoreBackend]
    ) -> None:
        self.task = task
        self.lost: set[str] = set()
        self._path = path
        self._log = log
        self._backend = backend
        self._stores: dict[str, _StateStoreMetadata] = {}

    def register(self, store: Store) -> StateStore:
        """Open a store, and create it if it does not exist.

        Raises IllegalStoreError if it is registered already, UnfitStoreError if the backend returns no StateStore.
        """
        if store.name == NAME:
            raise IllegalStoreError(self.task, store.name, "has the name of the checkpoint file")
        if store.name in self._stores:
            raise IllegalStoreError(self.task, store.name, "has been registered already")
        backend, path = self._backend(store), self._path(store.name)
        with timed("open store"):
            metadata = _StateStoreMetadata(store, backend, path, backend.open(path))
        require_contract(metadata.store, store.backend)
        self._stores[store.name] = metadata
        return metadata.store

    def get_store(self, name: str) -> StateStore | None:
        """A registered store, or None."""
        metadata = self._stores.get(name)
        return None if metadata is None else metadata.store

    def changelog_offsets(self) -> dict[str, int]:
        """Store -> position, without corrupted stores. Raises StoreDamagedError."""
        return {name: self.position(name) for name, metadata in self._stores.items() if not metadata.corrupted}

    def position(self, name: str) -> int:
        """The position of a store, from its last transaction or its checkpoint file. Raises StoreDamagedError."""
        with self._marking_corruption(name) as metadata:
            return metadata.store.position

    def size(self, name: str) -> StoreSize | None:
        """The size of a store; None if its backend does not report it. Raises StoreDamagedError."""
        with self._marking_corruption(name) as metadata:
            return size_of(metadata.store)

    def catch_up(self, planned: StoreInput) -> StateStore:
        """Bring a store to a planned position, and delete the rows that have expired by then.

        For an epoch, and before a store is closed. Raises TaskMigratedError, TaskCorruptedError, StoreDamagedError,
        DeletionsMissedError.
        """
        with self._marking_corruption(planned.store) as metadata:
            position = metadata.store.position
            with timed("note commit"):
                check_horizon(metadata.path, position, planned.horizon)
                write_commit_mark(metadata.path, planned.commit)
            catch_up(metadata.store, planned, self._log, expire_below(metadata.declared, planned), position)
            self.checkpoint()
            return metadata.store

    def restore(self, planned: StoreInput, most: int = RECORDS_PER_SLICE, budget: TimeBudget | None = None) -> int:
        """Bring a store closer to a planned position within a time budget. Returns its new position.

        For restoring and standby stores. A store ahead of the planned position stays as it is; the driver decides about
        it. A store without a changelog that has lost rows starts empty, see `lost`. `most`: the most records of a
        slice. Raises TaskCorruptedError, StoreDamagedError, DeletionsMissedError.
        """
        budget = budget or TimeBudget()
        with self._marking_corruption(planned.store) as metadata:
            position = metadata.store.position
            # Before anything is applied: after a kill the commit mark may be too new, which is harmless, but not too
            # old.
            write_commit_mark(metadata.path, planned.commit)
            if position > planned.position:
                return position
            check_horizon(metadata.path, position, planned.horizon)
            if not metadata.declared.changelog and start_empty(metadata.store, planned):
                self.lost.add(planned.store)
                return metadata.store.position
            remaining = slices(planned, position, most)
            # Expiry as in epochs: else a standby store would keep all windows for ever.
            below = expire_below(metadata.declared, planned)
            while apply_slices(metadata.store, remaining, self._log, budget.may_read(), below):
                if budget.is_over():
                    break  # the next request continues: epochs of running tasks wait for the client
            self.checkpoint()
            return metadata.store.position

    def load(self, planned: StoreInput, position: int, put: Callable[[StoreBackend, Path], int]) -> int | None:
        """Replace a store by a snapshot at `position`, unless the store has reached that position itself.

        `put` replaces it. Returns its result, as it may need several calls; None if it was not called.
        """
        with self._marking_corruption(planned.store) as metadata:
            write_commit_mark(metadata.path, planned.commit)
            if metadata.store.position >= position:
                return None
            delete_horizon(metadata.path)
            result = put(metadata.backend, metadata.path)
            metadata.store = metadata.backend.open(metadata.path)
            return result

    def verify(self, name: str) -> int:
        """Read all rows of a store. Returns its position. Raises StoreDamagedError."""
        with self._marking_corruption(name) as metadata:
            for _ in metadata.store.range(None, None):
                pass
            return metadata.store.position

    def checkpoint(self, *, enforce: bool = False) -> bool:
        """Flush stores and write their checkpoint files, if that is due or enforced. Returns whether it was done.

        It concerns stores that are not transactional; others are durable after every change. All stores are tried, then
        the first error is raised.
        """
        stores = [store for store in self._checkpointed() if enforce or store.unwritten != (0, 0)]
        records, size = (sum(store.unwritten[part] for store in stores) for part in (0, 1))
        due = enforce or records > OFFSET_DELTA_THRESHOLD_FOR_CHECKPOINT or size > BYTES_THRESHOLD_FOR_CHECKPOINT
        if not stores or not due:
            return False
        _run_all([store.checkpoint for store in stores])
        return True

    def flush(self) -> None:
        """Flush all stores to the disk. Raises the first error after all were tried."""
        self.checkpoint(enforce=True)

    def mark_changelog_as_corrupted(self, name: str) -> None:
        """Exclude a store from checkpoints and offsets. Other stores of the task are not affected.

        Methods that find a store damaged call this themselves.
        """
        self._stores[name].corrupted = True

    def reinitialize(self, name: str) -> int:
        """Reopen a damaged store, which its backend recreates empty. Returns its position."""
        metadata = self._stores[name]
        metadata.store, metadata.corrupted = metadata.backend.open(metadata.path), False
        return self.position(name)

    def delete(self, name: str, remove: Callable[[Path], None]) -> None:
        """Unregister a store and remove its files (`remove`). Registered again, it is empty."""
        remove(self._stores.pop(name).path)

    def close(self, *names: str) -> None:
        """Flush and close these stores; without names all, in the order of registration.

        All are tried, then the first error is raised. A closed store may be used again.
        """
        closing = [self._stores[name] for name in names] if names else list(self._stores.values())
        _run_all([metadata.store.close for metadata in closing])
        for metadata in closing:
            sync_commit_mark(metadata.path)
            os.utime(metadata.path)  # the cleanup delay counts from the close, see `StateDirectory.clean`

    def _checkpointed(self) -> Iterator[CheckpointedStore]:
        for metadata in self._stores.values():
            if not metadata.corrupted and callable(getattr(type(metadata.store), "checkpoint", None)):
                yield cast(CheckpointedStore, metadata.store)

    @contextmanager
    def _marking_corruption(self, name: str) -> Iterator[_StateStoreMetadata]:
        try:
            yield self._stores[name]
        except StoreDamagedError:
            self.mark_changelog_as_corrupted(name)
            raise


def expire_below(store: Store, planned: StoreInput) -> bytes | None:
    """The key below which all rows of a window or session store are out of retention; None if none is."""
    held = store.held_ms
    if not store.is_windowed or held is None or planned.clock < held:
        return None
    return first_kept_key(planned.clock, held, row_step(store))


def _run_all(work: Iterable[Callable[[], None]]) -> None:
    """Call all functions, then raise the first error."""
    first: Exception | None = None
    for function in work:
        try:
            function()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first


# Opens the stores of one client for an epoch, at their planned positions.

POSITIONS = b"\xff positions"
"""The key of a global table's position in each lane, as JSON. No encoded key begins with 0xff."""

GLOBAL = "global"
"""Folder of the global tables' stores in an application's state directory."""


class TaskStores:
    """Opens stores for the epoch of one plan. `backend`: declaration of a store -> its backend."""

    def __init__(self, plan: EpochPlan, log: Log, backend: Callable[[Store], StoreBackend]) -> None:
        self._plan = plan
        self._directory = StateDirectory(Path(plan.state_dir), plan.client, plan.application)
        self._log = log
        self._make_backend = backend
        self._backends: dict[str, StoreBackend] = {}
        self._managers: dict[TaskKey, ProcessorStateManager] = {}

    @property
    def directory(self) -> Path:
        """The client's state directory."""
        return self._directory.path

    def open(self, task: TaskPlan, store: Store) -> StateStore:
        """A task's store at its planned position, without expired rows.

        Raises TaskMigratedError and TaskCorruptedError, see `catch_up`; the latter also if the changelog is unreadable.
        """
        manager = self._managers.get(task.key)
        if manager is None:
            manager = ProcessorStateManager(task.key, self._path_of(task.key), self._log, self._backend)
            self._managers[task.key] = manager
        if manager.get_store(store.name) is None:
            manager.register(store)
        with _reporting_unreadable(f"store {store.name}, partition {task.key.partition},", store):
            return manager.catch_up(next(planned for planned in task.stores if planned.store == store.name))

    def open_global(self, table: GlobalTable) -> StateStore:
        """A global table at the position pinned by the epoch's plan.

        Raises TaskMigratedError and TaskCorruptedError, see `catch_up_global`; the latter also if the topic is
        unreadable.
        """
        path = self._directory.path / GLOBAL / table.store.name
        store = self._backend(table.store).open(path)
        pinned = self._plan.globals_.get(table.name, ())
        for topic in pinned[:1]:  # all partitions have the same commit
            write_commit_mark(path, topic.commit)
        with _reporting_unreadable(f"global table {table.name}, topic {table.topic.name},", table.store):
            catch_up_global(store, table, pinned, self._log)
        return store

    def _backend(self, store: Store) -> StoreBackend:
        """One backend for all tasks: creating it checks its options, which takes longer than a small store's epoch."""
        if store.name not in self._backends:
            self._backends[store.name] = self._make_backend(store)
        return self._backends[store.name]

    def _path_of(self, task: TaskKey) -> Callable[[str], Path]:
        return lambda store: self._directory.store_path(StoreId(store, task.partition))


@contextmanager
def _reporting_unreadable(what: str, store: Store) -> Iterator[None]:
    """Raise TaskCorruptedError for the tasks of a store if records that it needs cannot be read.

    The store itself is sound. It keeps its rows, and continues when the records can be read again.
    """
    try:
        yield
    except RangeMissingError as error:
        cause = f"{what} cannot be brought forward: {error.message}"
        raise RecordsMissingError(cause, error.path, store.name, error.hint) from error
    except CorruptSegmentError as error:
        cause = f"{what} cannot be brought forward: {error.message}"
        raise TaskCorruptedError(cause, store=store.name, way_out=error.hint) from error


def catch_up_global(
    store: StateStore,
    table: GlobalTable,
    pinned: tuple[TopicInput, ...],
    log: Log,
    may_go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Apply the committed records of the table's topic that `store` lacks, by offset within each partition.

    It stops between two batches when `may_go_on` returns False.

    All threads of a client share one store, and several may call this at once: one applies some records, and the others
    continue after them. Raises TaskMigratedError if the store's position differs from the sum of its lane positions,
    and TaskCorruptedError if it lacks records that are not in the plan.
    """
    overtaken_at = -1
    while True:
        try:
            return _apply_missing(store, table, pinned, log, may_go_on)
        except TaskMigratedError as error:  # another thread was faster
            if error.found is None or error.found <= overtaken_at:
                raise
            overtaken_at = error.found


def _apply_missing(
    store: StateStore,
    table: GlobalTable,
    pinned: tuple[TopicInput, ...],
    log: Log,
    may_go_on: Callable[[], bool],
) -> None:
    positions: Positions = positions_of(store)
    codec = RowCodec(value_columns(table.topic))
    for partition, topic in enumerate(pinned):
        by_lane = positions.get(partition, {})
        for lane in topic.lanes:
            if by_lane.get(lane.lane, 0) < lane.position:
                raise TaskCorruptedError(
                    f"global table {table.name} has lost records of {topic.topic} {partition}", store=table.store.name
                )
        starts = [(log_range, by_lane.get(lane.lane, 0)) for lane in topic.lanes for log_range in lane.ranges]
        for batch in by_offset(log, starts, topic_schema(table.topic)):
            positions = _apply(store, positions, partition, batch.ends, [_upserts(table, codec, batch.records)])
            if not may_go_on():
                return
        positions = _apply(store, positions, partition, {lane.lane: lane.end for lane in topic.lanes}, [])


def positions_of(store: StateStore) -> dict[int, dict[int, int]]:
    """The positions of a global table's store in its topic: partition -> lane -> position."""
    (text,) = store.get_many([POSITIONS])
    plain: Mapping[str, Mapping[str, int]] = {} if text is None else json.loads(text)
    return {int(p): {int(lane): count for lane, count in lanes.items()} for p, lanes in plain.items()}


def _apply(
    store: StateStore, positions: Positions, partition: int, ends: Mapping[int, int], changes: list[Changes]
) -> Positions:
    """Apply changes that bring the lanes of a partition to `ends`. Returns the store's new positions."""
    by_lane = positions.get(partition, {})
    advanced = {lane: end for lane, end in ends.items() if end > by_lane.get(lane, 0)}
    if not advanced:
        return positions
    after = {**positions, partition: {**by_lane, **advanced}}
    store.apply([*changes, ([POSITIONS], [json.dumps(after).encode()])], _sum(positions), _sum(after))
    return after


def _sum(positions: Positions) -> int:
    """A global store's own position: the sum of all lane positions."""
    return sum(position for lanes in positions.values() for position in lanes.values())


def _upserts(table: GlobalTable, codec: RowCodec, rows: pa.RecordBatch) -> Changes:
    """The table's changes by these records, without records with a null key."""
    keys = encode_keys([rows.column(f"key.{name}") for name in key_columns(table.topic)]).to_pylist()
    columns = [rows.column(f"value.{name}") for name in codec.types]
    values = codec.encode(columns, rows.column("_timestamp").to_numpy())
    kinds = rows.column("_kind").to_pylist()
    upserts = [
        (key, value if kind == Kind.VALUE else None)
        for key, value, kind in zip(keys, values, kinds, strict=True)
        if key is not None
    ]
    return [key for key, _ in upserts], [value for _, value in upserts]
