"""The stores of a task."""

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
from ..records.join_keys import row_step
from ..records.keys import encode_keys
from ..records.schema import key_columns, topic_schema, value_columns
from ..records.types import Kind
from ..records.window_keys import first_kept_key
from ..task_id import StoreId, TaskKey
from ..tasks.errors import Checkpoints, RecordsMissingError, TaskCorruptedError, TaskMigratedError
from ..tasks.measured import StoreSize
from ..tasks.plan import EpochPlan, StoreInput, TaskPlan, TopicInput
from ..timed_parts import timed
from .catch_up import RECORDS_PER_SLICE, Pace, apply_slices, catch_up, slices, start_empty
from .closed_stores import check_horizon, forget_horizon
from .codec import RowCodec
from .directory import StateDirectory
from .offset_checkpoint import NAME, keep_note, note_sync
from .store import Changes, CheckpointedStore, StateStore, StoreBackend, StoreDamagedError, require_contract, size_of

# The stores of one task where they are: registered, brought forward, written down, closed and given up.
#
# Source: `ProcessorStateManager` of Kafka Streams 4.0. There one lives as long as its task. Here each epoch makes one,
# and each request of the driver about stores, as Spark chooses the process of both. What lasts is in the stores'
# folders. The driver's side, which remembers where each store stands, is `LinkedStores` (`runtime/restore`).


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


# Opens the stores of one client for an epoch, and brings them to the planned position.

POSITIONS = b"\xff positions"
"""The key of a global table's position in each lane, as JSON. No encoded key begins with 0xff."""

GLOBAL = "global"
"""Folder of the global tables' stores in an application's state directory."""

Positions = Mapping[int, Mapping[int, int]]
"""Partition -> lane -> position."""


class TaskStores:
    """Opens stores for the epoch of one plan. `backend`: a store's backend by its declaration."""

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
        """A task's store at its planned position, without the rows that have expired.

        Raises TaskMigratedError and TaskCorruptedError, see `catch_up`; the latter also where the changelog cannot be
        read.
        """
        manager = self._managers.get(task.key)
        if manager is None:
            manager = ProcessorStateManager(task.key, self._path_of(task.key), self._log, self._backend)
            self._managers[task.key] = manager
        if manager.get_store(store.name) is None:
            manager.register(store)
        with _unreadable_told(f"store {store.name}, partition {task.key.partition},", store):
            return manager.catch_up(next(each for each in task.stores if each.store == store.name))

    def open_global(self, table: GlobalTable) -> StateStore:
        """A global table at the position that the epoch's plan sets.

        Raises TaskMigratedError and TaskCorruptedError, see `catch_up_global`; the latter also where the topic cannot
        be read.
        """
        path = self._directory.path / GLOBAL / table.store.name
        store = self._backend(table.store).open(path)
        pinned = self._plan.globals_.get(table.name, ())
        for topic in pinned[:1]:  # all partitions are of one commit
            note_sync(path, topic.commit)
        with _unreadable_told(f"global table {table.name}, topic {table.topic.name},", table.store):
            catch_up_global(store, table, pinned, self._log)
        return store

    def _backend(self, store: Store) -> StoreBackend:
        """One for all tasks: making one checks its options, which takes longer than a small store's epoch."""
        if store.name not in self._backends:
            self._backends[store.name] = self._make_backend(store)
        return self._backends[store.name]

    def _path_of(self, task: TaskKey) -> Callable[[str], Path]:
        return lambda store: self._directory.store_path(StoreId(store, task.partition))


@contextmanager
def _unreadable_told(what: str, store: Store) -> Iterator[None]:
    """Records that a store cannot do without, and that cannot be read, are a trouble of the tasks that use it.

    Nothing is wrong with the store: it keeps what it has, and goes on when the records can be read again.
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

    Between two steps `may_go_on` is asked: if it says no, the rest is left out.

    All threads of a client use one store, and several may do this at once: one of them applies some records, and the
    others continue after these. Raises TaskMigratedError if the store's position differs from the positions that it
    keeps, and TaskCorruptedError if it lacks records that the plan leaves out.
    """
    lost_to = -1
    while True:
        try:
            return _apply_rest(store, table, pinned, log, may_go_on)
        except TaskMigratedError as error:
            if error.found is None or error.found <= lost_to:
                raise
            lost_to = error.found


def _apply_rest(
    store: StateStore,
    table: GlobalTable,
    pinned: tuple[TopicInput, ...],
    log: Log,
    may_go_on: Callable[[], bool],
) -> None:
    held: Positions = positions_of(store)
    codec = RowCodec(value_columns(table.topic))
    for partition, topic in enumerate(pinned):
        of_partition = held.get(partition, {})
        for lane in topic.lanes:
            if of_partition.get(lane.lane, 0) < lane.position:
                raise TaskCorruptedError(
                    f"global table {table.name} has lost records of {topic.topic} {partition}", store=table.store.name
                )
        starts = [(each, of_partition.get(lane.lane, 0)) for lane in topic.lanes for each in lane.ranges]
        for found in by_offset(log, starts, topic_schema(table.topic)):
            held = _applied(store, held, partition, found.ends, [_upserts(table, codec, found.records)])
            if not may_go_on():
                return
        held = _applied(store, held, partition, {lane.lane: lane.end for lane in topic.lanes}, [])


def positions_of(store: StateStore) -> dict[int, dict[int, int]]:
    """Partition -> lane -> position of a global table's topic up to which its store holds the records."""
    (text,) = store.get_many([POSITIONS])
    plain: Mapping[str, Mapping[str, int]] = {} if text is None else json.loads(text)
    return {int(p): {int(lane): count for lane, count in lanes.items()} for p, lanes in plain.items()}


def _applied(
    store: StateStore, held: Positions, partition: int, ends: Mapping[int, int], changes: list[Changes]
) -> Positions:
    """Apply changes that bring the lanes of a partition to `ends`. Returns the store's new positions."""
    of_partition = held.get(partition, {})
    further = {lane: end for lane, end in ends.items() if end > of_partition.get(lane, 0)}
    if not further:
        return held
    after = {**held, partition: {**of_partition, **further}}
    store.apply([*changes, ([POSITIONS], [json.dumps(after).encode()])], _sum(held), _sum(after))
    return after


def _sum(held: Positions) -> int:
    """A global store's own position: the sum of those of all lanes."""
    return sum(position for lanes in held.values() for position in lanes.values())


def _upserts(table: GlobalTable, codec: RowCodec, rows: pa.RecordBatch) -> Changes:
    """The table's changes by these records. Records with a null key are left out."""
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
