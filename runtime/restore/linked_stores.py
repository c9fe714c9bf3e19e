"""The stores of one client, from the driver's side: known positions, and requests over a link to the client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock

from ...errors import HeadwaterError
from ..ir.topology import GlobalTable, Store, Subtopology
from ..log.commit.records import StoreSnapshot
from ..progress.planner import Planner
from ..state.restore_strategy import Apply, Load, RestoreRequest, RestoreStrategy
from ..task_id import StoreId, TaskId
from ..tasks.errors import RecordsMissingError, TaskCorruptedError, TaskMigratedError
from ..tasks.measured import StoreSize, Trouble
from ..tasks.plan import Positions, TopicInput
from ..tasks.task import Task
from .copies import Snapshots
from .links import StateLink
from .requests import (
    TABLE,
    StateLocation,
    StateRequest,
    StateResponse,
    StoreResponse,
    StoreTarget,
    TableResponse,
    TableTarget,
    What,
)
from .strategies import ChangelogRestore

MAX_RECORDS_AT_CLOSE = 1_000_000
"""The most changelog records to apply when a store is closed, which takes some seconds. A store further behind is
closed as it is, and the next start restores it."""


Loaded = dict[int, dict[int, int]] | TaskCorruptedError
"""The result of loading a global table: partition -> lane -> position, or an error of the tasks that read it."""


class StateError(HeadwaterError):
    """A client could not work on its stores: `client`, `cause`."""

    def __init__(self, client: str, failure: Trouble) -> None:
        super().__init__(f"stores of {client}: {failure.cause}", failure.way_out or None)
        self.client = client
        self.cause = failure.cause


class LinkedStores:
    """RemoteStores over a link. `positions`: of the client's stores; stores without an entry are empty. `sizes`: the
    last known ones.

    It knows the position of each store, because no one else changes it. `report` is called for each store that was
    damaged, has lost its rows, has a snapshot that could not be loaded, or was wiped for the delete horizon.
    `strategy`: the restore strategy. `snapshots`: the snapshots that it may load; None: none. `steps`: number of steps
    on snapshots that did not change a store's position yet. Requests are sent one after the other, from all threads,
    except for those that save a store.
    """

    def __init__(
        self,
        client: str,
        link: StateLink,
        location: StateLocation,
        planner: Planner,
        parts: Sequence[Subtopology],
        positions: Mapping[StoreId, int],
        report: Callable[[StoreResponse], None] = lambda _: None,
        strategy: RestoreStrategy | None = None,
        snapshots: Snapshots | None = None,
        unopened: Collection[StoreId] = (),
    ) -> None:
        self.client = client
        self.threads = link.threads
        self._link = link
        self._location = location
        self._planner = planner
        self._parts = {part.number: part for part in parts}
        self.tables = {table.name: table for part in parts for table in part.global_tables}
        self._positions = dict(positions)
        self.sizes: dict[StoreId, StoreSize] = {}
        self._report = report
        self._strategy = strategy or ChangelogRestore()
        self._snapshots = snapshots
        self._loading: dict[StoreId, StoreSnapshot] = {}
        self._from_snapshots: set[StoreId] = set()
        self.steps = 0
        self._wiped: set[StoreId] = set()
        """Stores that the client found damaged and wiped, while an epoch may be open that had their rows."""
        self._link_lock = Lock()
        self._unopened = {store: self._clocked(store) for store in unopened}

    def declared(self, task: TaskId) -> Sequence[Store]:
        """The stores of a task."""
        return self._parts[task.subtopology].stores

    def global_tables(self, task: TaskId) -> Sequence[GlobalTable]:
        """The global tables that a task reads."""
        return self._parts[task.subtopology].global_tables

    def missing_records(self, table: GlobalTable, positions: Positions) -> tuple[TopicInput, ...]:
        """The records that a global table lacks at these positions: see `Planner.globals`."""
        return self._planner.globals([table], {table.name: positions})[table.name]

    def load(self, targets: Sequence[TableTarget]) -> dict[str, Loaded]:
        """Load records into global tables. Returns their new positions, or why their topics cannot be read.

        Raises StateError for any other failure.
        """
        with self._link_lock:
            (response,) = self._link.send([StateRequest("load", self._location, tables=tuple(targets))])
        if response.failure is not None:
            raise StateError(self.client, response.failure)
        for table in response.tables:
            if table.damage:
                self._report(StoreResponse(StoreId(table.table, TABLE), 0, damage=table.damage))
        return {table.table: self._loaded(table) for table in response.tables}

    def is_replaced(self, error: Exception) -> bool:
        """Whether records were unreadable because other files have replaced theirs since the work was planned.

        Then it is enough to plan again.
        """
        return isinstance(error, RecordsMissingError) and not self._planner.lists(error.path)

    def position(self, store: StoreId) -> int:
        """The known position of a store."""
        return self._positions.get(store, 0)

    def offsets(self, task: TaskId) -> dict[str, int]:
        """Store -> position, for the stores of a task."""
        return {store.name: self.position(StoreId(store.name, task.partition)) for store in self.declared(task)}

    def advance(self, task: TaskId, applied: Mapping[str, int]) -> None:
        """Record that an epoch has brought the stores of a task to these positions, by name.

        A store that was wiped since then, because it was damaged, is empty.
        """
        reached = {StoreId(store, task.partition): position for store, position in applied.items()}
        self._positions.update({store: at for store, at in reached.items() if store not in self._wiped})

    def stored(self) -> Mapping[TaskId, Mapping[str, int]]:
        """Store -> position, by task, for all tasks with a store on the client."""
        by_task: dict[TaskId, dict[str, int]] = {}
        for part in self._parts.values():
            for partition in range(part.partitions):
                ids = [StoreId(store.name, partition) for store in part.stores]
                if positions := {store.store: self._positions[store] for store in ids if store in self._positions}:
                    by_task[TaskId(part.number, partition, part.name)] = positions
        return by_task

    def positions(self) -> Mapping[StoreId, int]:
        """The positions of all stores on the client."""
        return dict(self._positions)

    def close(self, tasks: Collection[Task], *, clean: bool) -> Mapping[TaskId, Exception]:
        """Close stores. `clean`: first apply the remaining commits, delete expired rows, and sync.

        A store that is far behind, because it was being restored, is closed as it is.
        """
        if not clean:
            return {}  # a process with open files keeps them open, and detects itself when they are replaced
        ids = [task.id for task in tasks]
        shares = [
            [_without_long_restore(target) for target in share if not self._is_closed(target)]
            for share in self._targets_by_thread(ids)
        ]
        errors = self.send("close", shares)
        self._wiped.difference_update(self._stores_of(ids))
        return {task: error for task in ids if (error := self.first_error(task, errors))}

    def verify(self, tasks: Collection[TaskId]) -> dict[StoreId, Exception]:
        """Read all rows of the stores, and wipe stores that are damaged or ahead of the commits. Returns errors.

        Other stores of the same task are kept: they may have no changelog to be restored from.
        """
        before = self.positions()
        errors = self.send("verify", self._targets_by_thread(tasks))
        self._report_emptied(tasks, before)
        self._wiped.difference_update(self._stores_of(tasks))
        ahead = [
            target
            for share in self._targets_by_thread(tasks)
            for target in share
            if self.position(target.store) > target.input.position
        ]
        return {**errors, **self.send("wipe", [ahead])}

    def unused(self, tasks: Collection[TaskId]) -> list[StoreId]:
        """The stores of other tasks than these that could be restored from their changelogs."""
        parts = {store.name: part.number for part in self._parts.values() for store in part.stores if store.changelog}
        return [
            store
            for store in self.positions()  # a copy: requests of other threads add stores
            if store.store in parts and TaskId(parts[store.store], store.partition) not in tasks
        ]

    def forget(self, stores: Iterable[StoreId]) -> dict[StoreId, int]:
        """Remove the positions of stores. Returns them."""
        return {store: self._positions.pop(store) for store in stores if store in self._positions}

    def clean(self, stores: Mapping[StoreId, int], idle_s: float) -> list[StoreId]:
        """Delete forgotten stores that were not touched within `idle_s` seconds. Returns the deleted ones.

        The positions of the others are recorded again. Raises StateError, ClientLostError, StateJobError.
        """
        targets = tuple(StoreTarget.at(store, position) for store, position in stores.items())
        (response,) = self._send([StateRequest("clean", self._location, targets, idle_s=idle_s)])
        removed: list[StoreId] = []
        for result in response.stores:
            if result.removed:
                removed.append(result.store)
            else:  # its task may have returned meanwhile, with a newer position
                self._positions.setdefault(result.store, result.position)
        failures = [response.failure, *(result.failure for result in response.stores)]
        if (failure := next(filter(None, failures), None)) is not None:
            raise StateError(self.client, failure)
        return removed

    def send(self, what: What, shares: Iterable[Sequence[StoreTarget]]) -> dict[StoreId, Exception]:
        """Send one request per share, and record the responses. Returns errors by store.

        Raises StateError if a whole request failed.
        """
        requests = [StateRequest(what, self._location, tuple(share)) for share in shares if share]
        errors: dict[StoreId, Exception] = {}
        for request, response in zip(requests, self._send(requests), strict=True):
            if response.failure is not None:
                raise StateError(self.client, response.failure)
            for target, result in zip(request.stores, response.stores, strict=True):
                self.record(result, target.load)
                if result.failure is not None:
                    errors[result.store] = self._error(result.store, result.failure)
                elif result.damage and what == "restore":  # it is wiped already; the caller counts repeated damage
                    errors[result.store] = TaskCorruptedError(result.damage, store=result.store.store)
        return errors

    def record(self, response: StoreResponse, load: StoreSnapshot | None = None) -> None:
        """Record the position of a store, and report damage. `load`: the snapshot of the request."""
        store = response.store
        self._unopened.pop(store, None)
        self._positions[store] = response.position
        if response.size is not None:
            self.sizes[store] = response.size
        snapshots = self._snapshots
        if load is not None and response.unusable and snapshots is not None and not snapshots.is_listed(load):
            # After the step was planned, a newer snapshot replaced this one. The next step uses the newer one.
            response = replace(response, unusable="")
            self.steps += 1
        self._record_snapshot(store, load, response)
        if response.damage:
            self._wiped.add(store)
        else:
            self._wiped.discard(store)
        if response.damage or response.lost or response.unusable or response.outdated:
            self._report(response)

    def end(self, store: StoreId) -> int:
        """The committed position of a store."""
        return self._planner.end(store)

    def target(self, task: TaskId, store: Store, records: int | None = None) -> StoreTarget:
        """The target that brings a store to its committed position, or further by `records` or somewhat more."""
        clocks = self._planner.clocks(task)
        applied = self.position(StoreId(store.name, task.partition))
        planned = self._planner.store(store, task.partition, applied, clocks, records)
        return StoreTarget(task.partition, planned, subtopology=task.name)

    def next_step(self, task: TaskId, store: Store, records: int) -> StoreTarget:
        """The next step of the restore strategy: load a snapshot, or apply `records` or somewhat more."""
        target = self.target(task, store, records)
        planned = target.input
        end = self.end(target.store)
        if planned.applied >= end:
            return target
        usable = () if self._snapshots is None else self._snapshots.usable(target.store)
        ahead = tuple(snapshot for snapshot in usable if planned.applied < snapshot.position <= end)
        request = RestoreRequest(store.name, task.partition, planned.applied, end, planned.ranges, ahead)
        loading = self._loading.get(target.store)
        if loading is not None and loading not in ahead:
            target = replace(target, discarded=self._loading.pop(target.store))
        step = Load(loading) if loading in ahead else next(iter(self._strategy.steps(request)), None)
        match step:
            case Load(snapshot):
                return replace(target, load=snapshot, input=replace(planned, position=snapshot.position, ranges=()))
            case Apply(position, slice_records):
                planned = replace(planned, position=min(planned.position, position))
                return replace(target, input=planned, slice_records=slice_records)
        return replace(target, input=replace(planned, position=planned.applied, ranges=()))

    def save(self, task: TaskId, store: Store, path: str) -> StoreResponse:
        """Save a snapshot of a store to a path of the log. A damaged store is wiped instead, see `record`.

        Raises StateError, ClientLostError, StateJobError.
        """
        target = self.target(task, store, 1)
        target = replace(target, save_to=path, input=replace(target.input, position=target.input.applied, ranges=()))
        # Without the lock: other requests would wait until the whole store is saved.
        (response,) = self._link.send([StateRequest("save", self._location, (target,))])
        failure = response.failure or response.stores[0].failure
        if failure is not None:
            raise StateError(self.client, failure)
        return response.stores[0]

    def first_error(self, task: TaskId, errors: Mapping[StoreId, Exception]) -> Exception | None:
        """The error of the first of a task's stores with an error, or None."""
        return next((errors[store] for store in self._stores_of([task]) if store in errors), None)

    def _targets_by_thread(self, tasks: Iterable[TaskId]) -> list[list[StoreTarget]]:
        """The stores of all tasks, split over the threads of the client."""
        targets = [self.target(task, store) for task in tasks for store in self.declared(task)]
        return [targets[thread :: self.threads] for thread in range(self.threads)]

    def _record_snapshot(self, store: StoreId, load: StoreSnapshot | None, response: StoreResponse) -> None:
        """Record whether the snapshot `load` is partly fetched, loaded or unusable. If a store is damaged after it was
        loaded from a snapshot, none of its snapshots is trusted."""
        if self._snapshots is None:
            return
        if load is not None and response.fetched:
            self._loading[store] = load
            self.steps += 1
        if load is not None and (response.unusable or response.position >= load.position):
            self._loading.pop(store, None)
        if load is not None and response.unusable:
            self._snapshots.unusable.add(load.path)
            self.steps += 1
        elif load is not None and response.position >= load.position:
            self._from_snapshots.add(store)
        if response.damage and store in self._from_snapshots:
            self._from_snapshots.discard(store)
            self._snapshots.distrust(store)

    def _send(self, requests: Sequence[StateRequest]) -> Sequence[StateResponse]:
        with self._link_lock:
            return self._link.send(requests) if requests else []

    def _is_closed(self, target: StoreTarget) -> bool:
        """Whether a store need not be closed, because it has not changed since the last close."""
        before = self._unopened.get(target.store)
        return before is not None and before == self._clocked(target.store) and target.input.position == before[0]

    def _clocked(self, store: StoreId) -> tuple[int, int]:
        """The position of a store, and the clock by which its rows expire."""
        part = next(part for part in self._parts.values() if store.store in {s.name for s in part.stores})
        clocks = self._planner.clocks(TaskId(part.number, store.partition, part.name))
        return self.position(store), clocks.get(store.store, -1)

    def release_request(self) -> StateRequest:
        """The request that records that all stores are closed, and their positions."""
        targets = tuple(StoreTarget.at(store, position) for store, position in self._positions.items())
        return StateRequest("release", self._location, targets)

    def _stores_of(self, tasks: Iterable[TaskId]) -> list[StoreId]:
        return [StoreId(store.name, task.partition) for task in tasks for store in self.declared(task)]

    def _report_emptied(self, tasks: Collection[TaskId], before: Mapping[StoreId, int]) -> None:
        """Report stores that epochs have found damaged. The next open gets them empty, without an error."""
        for store in self._stores_of(tasks):
            position = self.position(store)
            if position < before.get(store, 0) and store not in self._wiped:
                emptied = StoreResponse(store, position, damage="it has lost what it had")
                self._record_snapshot(store, None, emptied)
                self._report(emptied)

    def _loaded(self, response: TableResponse) -> Loaded:
        failure = response.failure
        if failure is None:
            return {partition: dict(by_lane) for partition, by_lane in response.positions.items()}
        if failure.kind != "unreadable":
            raise StateError(self.client, failure)
        topic = self.tables[response.table].topic.name
        what = f"global table {response.table}, topic {topic}, cannot be loaded on {self.client}"
        return _unreadable(what, response.table, failure)

    def _error(self, store: StoreId, failure: Trouble) -> Exception:
        match failure.kind:
            case "corrupted":
                return TaskCorruptedError(failure.cause, store=store.store, way_out=failure.way_out or None)
            case "unreadable":
                what = f"store {store.store}, partition {store.partition}, cannot be restored on {self.client}"
                return _unreadable(what, store.store, failure)
            case "migrated":
                migrated = TaskMigratedError(f"store {store}", failure.expected, failure.found)
                migrated.message = failure.cause  # which names the path on the client
                return migrated
        return StateError(self.client, failure)


def _unreadable(what: str, store: str, failure: Trouble) -> TaskCorruptedError:
    """The error of a store whose changelog or topic cannot be read."""
    cause, way_out = f"{what}: {failure.cause}", failure.way_out or None
    if failure.path:
        return RecordsMissingError(cause, failure.path, store, way_out)
    return TaskCorruptedError(cause, store=store, way_out=way_out)


def _without_long_restore(target: StoreTarget) -> StoreTarget:
    """The target for a close: the store's own position if more than MAX_RECORDS_AT_CLOSE records are missing."""
    planned = target.input
    if planned.position - planned.applied <= MAX_RECORDS_AT_CLOSE:
        return target
    return replace(target, input=replace(planned, position=planned.applied, ranges=()))
