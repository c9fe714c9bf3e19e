"""Opens the stores of one client for an epoch, and brings them to the planned position."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from ..log.errors import CorruptSegmentError, RangeMissingError
from ..log.log import Log
from ..log.offset_order import by_offset
from ..records.keys.encoding import encode_keys
from ..records.kinds import Kind
from ..records.schema import key_columns, topic_schema, value_columns
from ..task_id import StoreId, TaskKey
from ..tasks.errors import RecordsMissingError, TaskCorruptedError, TaskMigratedError
from ..tasks.plan import EpochPlan, TaskPlan, TopicInput
from ..topology import GlobalTable, Store
from .codec import RowCodec
from .directories.directory import StateDirectory
from .processor_state_manager import ProcessorStateManager
from .store import Changes, StateStore, StoreBackend
from .synced_commit import note_sync

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
