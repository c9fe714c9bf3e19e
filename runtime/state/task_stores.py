"""The stores of one client as an epoch needs them: opened, and brought to the planned position."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..log.log import Log
from ..log.records import Segment
from ..records.keys import encode_keys
from ..records.schema import key_columns, value_columns
from ..records.window_keys import first_visible_start, first_window_key
from ..tasks.errors import TaskCorruptedError, TaskMigratedError
from ..tasks.plan import EpochPlan, StoreInput, TaskPlan, TopicInput
from ..tasks.task_id import StoreId
from ..topology import GlobalTable, Store
from .changelog import catch_up
from .codec import RowCodec
from .directory import StateDirectory
from .store import Changes, StateStore, StoreBackend
from .synced_commit import note_sync

POSITIONS = b"\xff positions"
"""The key of what a global table's store keeps, as JSON: its place in each lane. No encoded key begins with 0xff."""

GLOBAL = "global"
"""Folder of the global tables' stores in an application's state directory."""

Positions = Mapping[int, Mapping[int, int]]
"""Partition -> lane -> records."""

_KIND_VALUE = 1


class TaskStores:
    """Opens stores for the epoch of one plan. `backend`: a store's backend by its declaration."""

    def __init__(self, plan: EpochPlan, log: Log, backend: Callable[[Store], StoreBackend]) -> None:
        self._plan = plan
        self._directory = StateDirectory(Path(plan.state_dir), plan.client, plan.application)
        self._log = log
        self._backend = backend

    def open(self, task: TaskPlan, store: Store) -> StateStore:
        """A task's store at its planned position, without the rows that have expired.

        Raises TaskMigratedError and TaskCorruptedError, see `catch_up`.
        """
        planned = next(each for each in task.stores if each.store == store.name)
        found = self.find(store, task.partition)
        note_sync(self._path(store, task.partition), planned.commit)
        catch_up(found, planned, self._log, expire_below(store, planned))
        return found

    def find(self, store: Store, partition: int) -> StateStore:
        """A task's store as it stands."""
        return self._backend(store).open(self._path(store, partition))

    def open_global(self, table: GlobalTable) -> StateStore:
        """A global table at the position that the epoch pins."""
        path = self._directory.path / GLOBAL / table.store.name
        store = self._backend(table.store).open(path)
        pinned = self._plan.globals_.get(table.name, ())
        for topic in pinned[:1]:  # all partitions are of one commit
            note_sync(path, topic.commit)
        catch_up_global(store, table, pinned, self._log)
        return store

    def _path(self, store: Store, partition: int) -> Path:
        return self._directory.store_path(StoreId(store.name, partition))


def expire_below(store: Store, planned: StoreInput) -> bytes | None:
    """The key below which all rows of a window store are out of retention."""
    if store.type != "window" or store.retention_ms is None or planned.clock < 0:
        return None
    start = first_visible_start(planned.clock, store.retention_ms)
    return first_window_key(start) if start > 0 else None


def catch_up_global(store: StateStore, table: GlobalTable, pinned: tuple[TopicInput, ...], log: Log) -> None:
    """Apply what is committed to the table's topic and not yet in `store`, in offset order of each partition.

    All threads of a client use one store, and several may do this at once: one of them applies a segment, and the
    others go on from there. Raises TaskMigratedError where the store's position is not what it says it holds, and
    TaskCorruptedError where it does not hold what the plan leaves out.
    """
    lost_to = -1
    while True:
        try:
            return _apply_rest(store, table, pinned, log)
        except TaskMigratedError as error:
            if error.found is None or error.found <= lost_to:
                raise
            lost_to = error.found


def _apply_rest(store: StateStore, table: GlobalTable, pinned: tuple[TopicInput, ...], log: Log) -> None:
    held = positions_of(store)
    for partition, topic in enumerate(pinned):
        for lane in topic.lanes:
            if held.get(partition, {}).get(lane.lane, 0) < lane.position:
                raise TaskCorruptedError(
                    f"global table {table.name} has lost records of {topic.topic} {partition}", store=table.store.name
                )
        segments = sorted(
            (segment for lane in topic.lanes for segment in lane.segments), key=lambda segment: segment.base_offset
        )
        for segment in segments:
            of_partition = held.get(partition, {})
            end = segment.end_position
            if end > of_partition.get(segment.lane, 0):
                after = {**held, partition: {**of_partition, segment.lane: end}}
                _apply(store, table, segment, held, after, log)
                held = after


def positions_of(store: StateStore) -> dict[int, dict[int, int]]:
    """Partition -> lane -> records of a global table's topic that its store holds."""
    (text,) = store.get_many([POSITIONS])
    plain: Mapping[str, Mapping[str, int]] = {} if text is None else json.loads(text)
    return {int(p): {int(lane): count for lane, count in lanes.items()} for p, lanes in plain.items()}


def _apply(
    store: StateStore, table: GlobalTable, segment: Segment, held: Positions, after: Positions, log: Log
) -> None:
    skip = held.get(segment.partition, {}).get(segment.lane, 0) - segment.base_position
    changes = list(_changes(table, segment, skip, log))
    changes.append(([POSITIONS], [json.dumps(after).encode()]))
    store.apply(changes, _records(held), _records(after))


def _records(held: Positions) -> int:
    """A global store's own position: all records that it holds."""
    return sum(count for lanes in held.values() for count in lanes.values())


def _changes(table: GlobalTable, segment: Segment, skip: int, log: Log) -> Iterator[Changes]:
    """Upserts of a segment's records after the first `skip`; null keys are no rows."""
    codec = RowCodec(value_columns(table.topic))
    for batch in log.read_batches(segment):
        rows = batch.slice(min(skip, len(batch)))
        skip -= len(batch) - len(rows)
        keys = encode_keys([rows.column(f"key.{name}") for name in key_columns(table.topic)]).to_pylist()
        columns = [rows.column(f"value.{name}") for name in codec.types]
        values = codec.encode(columns, rows.column("_timestamp").to_numpy())
        kinds = rows.column("_kind").to_pylist()
        upserts = [
            (key, value if kind == _KIND_VALUE else None)
            for key, value, kind in zip(keys, values, kinds, strict=True)
            if key is not None
        ]
        yield [key for key, _ in upserts], [value for _, value in upserts]
