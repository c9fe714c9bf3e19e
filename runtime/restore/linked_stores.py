"""The stores of one client, as the driver works on them: by requests over a link to the client."""

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
from ..tasks.measured import StoreSize
from ..tasks.plan import StoreInput, TopicInput
from ..tasks.state import State, TaskType
from ..tasks.task import Task
from .copies import Snapshots
from .links import StateLink
from .requests import (
    TABLE,
    StateLocation,
    StateRequest,
    StateResponse,
    StoreFailure,
    StoreResponse,
    StoreTarget,
    TableResponse,
    TableTarget,
    What,
)
from .strategies import ChangelogRestore

MAX_RECORDS_AT_CLOSE = 1_000_000
"""Changelog records that are applied to a store that is closed: some seconds. The next start applies the others."""


Loaded = dict[int, dict[int, int]] | TaskCorruptedError
"""What came of loading a global table: partition -> lane -> position, or an error of the tasks that read it."""


class StateError(HeadwaterError):
    """A client could not work on its stores: `client`, `cause`."""

    def __init__(self, client: str, failure: StoreFailure) -> None:
        super().__init__(f"stores of {client}: {failure.message}", failure.hint or None)
        self.client = client
        self.cause = failure.message


class LinkedStores:
    """RemoteStores over a link. `held`: where the client's stores stand; those that are not in it are empty.

    It knows how far each store is, as nobody else works on it. `report` is called with each store that was damaged
    (and how), has lost its rows, has a snapshot that could not be loaded, or begins again. `strategy`: in which steps
    stores are restored. `snapshots`: those that it may load; None: none. `steps`: of work on
    snapshots that have brought no store further yet. Requests go one after the other, whoever asks, but for those that
    copy a store.
    """

    def __init__(
        self,
        client: str,
        link: StateLink,
        location: StateLocation,
        planner: Planner,
        parts: Sequence[Subtopology],
        held: Mapping[StoreId, int],
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
        self._positions = dict(held)
        self._sizes: dict[StoreId, StoreSize] = {}
        self._report = report
        self._strategy = strategy or ChangelogRestore()
        self._snapshots = snapshots
        self._loading: dict[StoreId, StoreSnapshot] = {}
        self._from_snapshots: set[StoreId] = set()
        self.steps = 0
        self._damaged: set[StoreId] = set()
        self._asking = Lock()
        self._unopened = {store: self._clocked(store) for store in unopened}

    def declared(self, task: TaskId) -> Sequence[Store]:
        """The stores of a task."""
        return self._parts[task.subtopology].stores

    def global_tables(self, task: TaskId) -> Sequence[GlobalTable]:
        """The global tables that a task reads."""
        return self._parts[task.subtopology].global_tables

    def rest(self, table: GlobalTable, held: Mapping[int, Mapping[int, int]]) -> tuple[TopicInput, ...]:
        """What a copy lacks that has these positions: see `Planner.globals`."""
        return self._planner.globals([table], {table.name: held})[table.name]

    def load(self, targets: Sequence[TableTarget]) -> dict[str, Loaded]:
        """Bring global tables forward; the positions that the copies have then, or why their topics cannot be read.

        Raises StateError where anything else fails.
        """
        with self._asking:
            (answer,) = self._link.send([StateRequest("load", self._location, tables=tuple(targets))])
        if answer.failure is not None:
            raise StateError(self.client, answer.failure)
        for each in answer.tables:
            if each.damage:
                self._report(StoreResponse(each.table, TABLE, 0, damage=each.damage))
        return {each.table: self._loaded(each) for each in answer.tables}

    def replaced(self, error: Exception) -> bool:
        """Whether records could not be read because others have taken their place since the work was planned.

        Then there is nothing to be done but to plan again.
        """
        return isinstance(error, RecordsMissingError) and not self._planner.lists(error.path)

    def position(self, store: str, partition: int) -> int:
        """Changelog records that a store has applied, as far as it is known here."""
        return self._positions.get(StoreId(store, partition), 0)

    def offsets(self, task: TaskId) -> dict[str, int]:
        """The positions of a task's stores."""
        return {store.name: self.position(store.name, task.partition) for store in self.declared(task)}

    def update_offsets(self, tasks: Iterable[Task]) -> None:
        """Epochs have brought the stores of those of the tasks that run to the tasks' offsets.

        Not of the others: a slice may have brought their stores further than the tasks know yet.
        """
        for task in tasks:
            if task.type is not TaskType.ACTIVE or task.state is not State.RUNNING:
                continue
            self._positions.update({StoreId(store, task.id.partition): at for store, at in task.offsets.items()})

    def stored(self) -> Mapping[TaskId, Mapping[str, int]]:
        """Store -> changelog records applied, of all tasks that have a store here."""
        found: dict[TaskId, dict[str, int]] = {}
        for part in self._parts.values():
            for partition in range(part.partitions):
                ids = [StoreId(store.name, partition) for store in part.stores]
                if here := {each.store: self._positions[each] for each in ids if each in self._positions}:
                    found[TaskId(part.number, partition, part.name)] = here
        return found

    def held(self) -> Mapping[StoreId, int]:
        """Where all stores stand that are here."""
        return dict(self._positions)

    def checkpoint(self, tasks: Collection[Task]) -> None:
        """Nothing beyond what slices and epochs do where the stores are: see `ProcessorStateManager.checkpoint`."""
        self.update_offsets(tasks)

    def close(self, tasks: Collection[Task], *, clean: bool) -> Mapping[TaskId, Exception]:
        """When clean, apply what is committed and not yet applied, expiry too, and sync.

        A store that is far behind, as it was being restored, is closed as it stands.
        """
        if not clean:
            return {}  # whoever has files open keeps them so, and sees by itself when others take their place
        ids = [task.id for task in tasks]
        shares = [[_near(each) for each in share if not self._is_closed(each)] for share in self._dealt(ids)]
        errors = self.send("close", shares)
        return {task: error for task in ids if (error := self.first_error(task, errors))}

    def examine(self, tasks: Collection[TaskId]) -> dict[StoreId, Exception]:
        """Read all rows of the stores, and wipe those that are damaged or ahead of the commits; what went wrong.

        Only those are wiped: another store of the same task may have no changelog to be restored from.
        """
        before, self._damaged = self.held(), set()
        errors = self.send("verify", self._dealt(tasks))
        self._tell_emptied(tasks, before)
        ahead = [
            target
            for share in self._dealt(tasks)
            for target in share
            if self.position(target.input.store, target.partition) > target.input.position
        ]
        return {**errors, **self.send("wipe", [ahead])}

    def unused(self, tasks: Collection[TaskId]) -> list[StoreId]:
        """The stores that are here of other tasks than these, and could be made again from their changelogs."""
        parts = {store.name: part.number for part in self._parts.values() for store in part.stores if store.changelog}
        return [
            store
            for store in self.held()  # a copy: requests of other threads add to it
            if store.store in parts and TaskId(parts[store.store], store.partition) not in tasks
        ]

    def forget(self, stores: Iterable[StoreId]) -> dict[StoreId, int]:
        """Count with these stores no more; where they stand."""
        return {store: self._positions.pop(store) for store in stores if store in self._positions}

    def clean(self, stores: Mapping[StoreId, int], idle_s: float) -> list[StoreId]:
        """Remove stores that were forgotten, unless they were touched within `idle_s` seconds; those that are gone.

        The others count again. Raises StateError, ClientLostError, StateJobError.
        """
        targets = tuple(StoreTarget(each.partition, StoreInput(each.store, at, at, ())) for each, at in stores.items())
        (answer,) = self._answers([StateRequest("clean", self._location, targets, idle_s=idle_s)])
        removed: list[StoreId] = []
        for each in answer.stores:
            store = StoreId(each.store, each.partition)
            if each.removed:
                removed.append(store)
            elif store not in self._positions:  # or its task has come back meanwhile, which knows better
                self._positions[store] = each.position
        failures = [answer.failure, *(each.failure for each in answer.stores)]
        if (failure := next(filter(None, failures), None)) is not None:
            raise StateError(self.client, failure)
        return removed

    def send(self, what: What, shares: Iterable[Sequence[StoreTarget]]) -> dict[StoreId, Exception]:
        """Send what is to be done; what went wrong with which store. Raises StateError where nothing was possible."""
        requests = [StateRequest(what, self._location, tuple(share)) for share in shares if share]
        errors: dict[StoreId, Exception] = {}
        for request, answer in zip(requests, self._answers(requests), strict=True):
            if answer.failure is not None:
                raise StateError(self.client, answer.failure)
            for target, each in zip(request.stores, answer.stores, strict=True):
                self.take(each, target.load)
                store = StoreId(each.store, each.partition)
                if each.failure is not None:
                    errors[store] = self._raised(store, each.failure)
                elif each.damage and what == "restore":  # it is wiped by now; how often that happens is counted
                    errors[store] = TaskCorruptedError(each.damage, store=store.store)
        return errors

    def take(self, answer: StoreResponse, load: StoreSnapshot | None = None) -> None:
        """Note where a store stands, and tell what has happened to it. `load`: the snapshot that was to be loaded."""
        store = StoreId(answer.store, answer.partition)
        self._unopened.pop(store, None)
        self._positions[store] = answer.position
        if answer.size is not None:
            self._sizes[store] = answer.size
        if load is not None and answer.unusable and self._snapshots is not None and not self._snapshots.lists(load):
            # A newer one took its place, and its file went, after this step was planned: the next step is another one.
            answer = replace(answer, unusable="")
            self.steps += 1
        self._note_snapshot(store, load, answer)
        if answer.damage or answer.lost or answer.unusable:
            self._damaged.add(store)
        if answer.damage or answer.lost or answer.unusable or answer.outdated:
            self._report(answer)

    def size(self, store: StoreId) -> StoreSize | None:
        """How large a store was when it was looked at last; None where that is not known."""
        return self._sizes.get(store)

    def note_size(self, store: StoreId, size: StoreSize) -> None:
        """Note how large an epoch has found a store."""
        self._sizes[store] = size

    def end(self, store: StoreId) -> int:
        """The committed position of a store."""
        return self._planner.end(store.store, store.partition)

    def target(self, task: TaskId, store: Store, records: int | None = None) -> StoreTarget:
        """What brings a store to its committed position, or, of the way there, by `records` or more."""
        clocks = self._planner.clocks(task)
        applied = self.position(store.name, task.partition)
        planned = self._planner.store(store, task.partition, applied, clocks, records)
        return StoreTarget(task.partition, planned, subtopology=task.name)

    def step(self, task: TaskId, store: Store, records: int) -> StoreTarget:
        """What the restore strategy wants to be done next: a snapshot is loaded, or `records` or more are applied."""
        target = self.target(task, store, records)
        to = target.input
        end = self.end(StoreId(store.name, task.partition))
        if to.applied >= end:
            return target
        known = () if self._snapshots is None else self._snapshots.of(store.name, task.partition)
        ahead = tuple(each for each in known if to.applied < each.position <= end)
        request = RestoreRequest(store.name, task.partition, to.applied, end, to.ranges, ahead)
        begun = self._loading.get(StoreId(store.name, task.partition))
        if begun is not None and begun not in ahead:
            target = replace(target, given_up=self._loading.pop(StoreId(store.name, task.partition)))
        step = Load(begun) if begun in ahead else next(iter(self._strategy.steps(request)), None)
        match step:
            case Load(snapshot):
                return replace(target, load=snapshot, input=replace(to, position=snapshot.position, ranges=()))
            case Apply(position, slice_records):
                to = replace(to, position=min(to.position, position))
                return replace(target, input=to, slice_records=slice_records)
        return replace(target, input=replace(to, position=to.applied, ranges=()))

    def save(self, task: TaskId, store: Store, path: str) -> StoreResponse:
        """Have a store copied to a path of the log. One that was found damaged is wiped instead, see `take`.

        Raises StateError, ClientLostError, StateJobError.
        """
        at = self.position(store.name, task.partition)
        target = replace(self.target(task, store, 1), save_to=path)
        target = replace(target, input=replace(target.input, position=at, ranges=()))
        # Beside other requests, whose turn would come after the whole copy.
        (answer,) = self._link.send([StateRequest("save", self._location, (target,))])
        failure = answer.failure or answer.stores[0].failure
        if failure is not None:
            raise StateError(self.client, failure)
        return answer.stores[0]

    def first_error(self, task: TaskId, errors: Mapping[StoreId, Exception]) -> Exception | None:
        """What is wrong with a task: with the first of its stores that has something."""
        ids = (StoreId(store.name, task.partition) for store in self.declared(task))
        return next((errors[store] for store in ids if store in errors), None)

    def _dealt(self, tasks: Iterable[TaskId]) -> list[list[StoreTarget]]:
        """The stores of all tasks, some for each thread of the client."""
        everything = [self.target(task, store) for task in tasks for store in self.declared(task)]
        return [everything[thread :: self.threads] for thread in range(self.threads)]

    def _note_snapshot(self, store: StoreId, load: StoreSnapshot | None, answer: StoreResponse) -> None:
        """Go on with a snapshot that is partly here. Leave one alone that could not be loaded, and all of a store that
        is damaged after one was loaded."""
        if self._snapshots is None:
            return
        if load is not None and answer.fetched:
            self._loading[store] = load
            self.steps += 1
        if load is not None and (answer.unusable or answer.position >= load.position):
            self._loading.pop(store, None)
        if load is not None and answer.unusable:
            self._snapshots.unusable.add(load.path)
            self.steps += 1
        elif load is not None and answer.position >= load.position:
            self._from_snapshots.add(store)
        if answer.damage and store in self._from_snapshots:
            self._from_snapshots.discard(store)
            self._snapshots.give_up(store)

    def _answers(self, requests: Sequence[StateRequest]) -> Sequence[StateResponse]:
        with self._asking:
            return self._link.send(requests) if requests else []

    def _is_closed(self, target: StoreTarget) -> bool:
        """Whether a store needs no close, as nothing has become of it since the last one."""
        store = StoreId(target.input.store, target.partition)
        before = self._unopened.get(store)
        return before is not None and before == self._clocked(store) and target.input.position == before[0]

    def _clocked(self, store: StoreId) -> tuple[int, int]:
        """Where a store stands, and the clock by which its rows expire."""
        part = next(each for each in self._parts.values() if store.store in {own.name for own in each.stores})
        clocks = self._planner.clocks(TaskId(part.number, store.partition, part.name))
        return self.position(store.store, store.partition), clocks.get(store.store, -1)

    def released(self) -> StateRequest:
        """What notes where all stores are closed."""
        targets = [
            StoreTarget(store.partition, StoreInput(store.store, position, position, ()))
            for store, position in self._positions.items()
        ]
        return StateRequest("release", self._location, tuple(targets))

    def _tell_emptied(self, tasks: Collection[TaskId], before: Mapping[StoreId, int]) -> None:
        """Tell of stores that epochs have found damaged: whoever opens one next gets it empty and sees no harm."""
        for store in [StoreId(store.name, task.partition) for task in tasks for store in self.declared(task)]:
            position = self._positions.get(store, 0)
            if position < before.get(store, 0) and store not in self._damaged:
                emptied = StoreResponse(store.store, store.partition, position, damage="it has lost what it had")
                self._note_snapshot(store, None, emptied)
                self._report(emptied)

    def _loaded(self, answer: TableResponse) -> Loaded:
        failure = answer.failure
        if failure is None:
            return {number: dict(of) for number, of in answer.positions.items()}
        if failure.kind != "unreadable":
            raise StateError(self.client, failure)
        topic = self.tables[answer.table].topic.name
        what = f"global table {answer.table}, topic {topic}, cannot be loaded on {self.client}"
        return _unreadable(what, answer.table, failure)

    def _raised(self, store: StoreId, failure: StoreFailure) -> Exception:
        match failure.kind:
            case "corrupted":
                return TaskCorruptedError(failure.message, store=store.store)
            case "unreadable":
                what = f"store {store.store}, partition {store.partition}, cannot be restored on {self.client}"
                return _unreadable(what, store.store, failure)
            case "migrated":
                return TaskMigratedError(failure.message, failure.expected, failure.found)
        return StateError(self.client, failure)


def _unreadable(what: str, store: str, failure: StoreFailure) -> TaskCorruptedError:
    """Why a store cannot be brought forward."""
    cause, way_out = f"{what}: {failure.message}", failure.hint or None
    if failure.missing:
        return RecordsMissingError(cause, failure.missing, store, way_out)
    return TaskCorruptedError(cause, store=store, way_out=way_out)


def _near(target: StoreTarget) -> StoreTarget:
    """The work on a store that is closed: none, where there would be much."""
    to = target.input
    if to.position - to.applied <= MAX_RECORDS_AT_CLOSE:
        return target
    return replace(target, input=replace(to, position=to.applied, ranges=()))
