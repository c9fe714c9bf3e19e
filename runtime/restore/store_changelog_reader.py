"""Restores from changelogs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

from ...errors import HeadwaterError
from ...plugins.errors import PluginError, error_text_with_line, wrapping_errors
from ..log.ranges import LogRange
from ..state.restore_listener import NoListener, RestoreListener, SuspendReason
from ..task_id import StoreId, TaskId
from ..tasks.errors import LockError, TaskCorruptedError, TaskMigratedError
from ..tasks.state import State, TaskType
from ..tasks.task import Task
from .global_tables import GlobalTables
from .linked_stores import LinkedStores, Loaded
from .requests import StoreTarget, TableTarget

# The changelogs that a StoreChangelogReader reads: the state of each, and what it means that none moves on.


class ReaderMode(Enum):
    """For whom slices are made."""

    ACTIVE_RESTORING = "active_restoring"
    STANDBY_UPDATING = "standby_updating"


class ChangelogState(Enum):
    """How far a registered changelog is. One of a standby task is never completed."""

    REGISTERED = "registered"
    RESTORING = "restoring"
    COMPLETED = "completed"


class RestoreStalledError(HeadwaterError):
    """Slices bring stores no further. `client`, `stores`; `tasks`: those that the stores are of."""

    def __init__(self, client: str, stores: Collection[StoreId], tasks: Iterable[TaskId] = ()) -> None:
        names = ", ".join(map(str, sorted(stores)))
        super().__init__(
            f"restoring on {client} makes no progress: the restore strategy's steps leave {names} where they are",
            "look at the topology's restore strategy; `changelog` is the built-in one",
        )
        self.client = client
        self.stores = frozenset(stores)
        self.tasks = frozenset(tasks)


@dataclass
class Changelog:
    """One changelog partition that is read. Mutable: the reader's own.

    `verify`: its store is to be read whole first. `rests_until`: seconds; a standby's that had come to its end.
    """

    task: Task
    state: ChangelogState = ChangelogState.REGISTERED
    records: int = 0
    verify: bool = False
    rests_until: float = 0.0


# Brings the stores of one client's tasks forward by their changelogs, in slices, while other tasks run.
#
# Source: `StoreChangelogReader` of Kafka Streams 4.0. What it decides is here, on the driver; a slice is done where the
# stores are. Active tasks that restore come first: as long as there is one, standby tasks wait.

RECORDS_PER_REQUEST = 4_194_304
"""Changelog records that a request has at most. The client stops earlier, after SLICE_SECONDS, but it should not run
out of work before: of a hot changelog it reads millions of records a second."""

MAX_STORES = 64
"""Stores in one request: each takes a step at least."""

MAX_STALLS = 3
"""Slices in a row that bring no store forward, until the restore strategy is taken for broken."""

STANDBY_REST = 0.5
"""Seconds. A slice after each commit would cost the epochs of the same client more than the changes in it: each is a
job, and a key that changes in every epoch is written once for all that have come meanwhile."""

_UNKNOWN = -1
"""Instead of the position of a store that is being read, and may be wiped."""

COST_OF_RANGE = 4096
"""In records: a file is opened, and its place travels with the request."""


Errors = dict[StoreId, Exception]
"""What went wrong with which store."""

Slice = Future[Errors]

Submit = Callable[[Callable[[], Errors]], Slice]
"""Runs the work of a slice somewhere else."""


class StoreChangelogReader:
    """A ChangelogReader over the stores of a client. `submit` runs a function somewhere else: one slice at a time.

    `slice`: the one that is being worked on, or is done and not taken up yet. `standby_rest`: for how many seconds a
    standby task's store is left alone once it has come to its end. `runs`: whether a task of the client may run.
    """

    def __init__(
        self,
        stores: LinkedStores,
        submit: Submit,
        listener: RestoreListener | None = None,
        standby_rest: float = 0.0,
        runs: Callable[[], bool] = lambda: True,
    ) -> None:
        self._stores = stores
        self._submit = submit
        self._listener = listener or NoListener()
        self._changelogs: dict[StoreId, Changelog] = {}
        self.slice: Slice | None = None
        self._worked: dict[StoreId, int] = {}
        self._registered: set[TaskId] = set()
        self._suspects: set[TaskId] = set()
        self._turn = 0
        self._rest = standby_rest
        self._runs = runs
        self._aims: dict[StoreId, int] = {}
        self._stalls = 0
        self._steps = 0
        self._loaded: dict[str, Loaded] | None = None
        self.tables = GlobalTables(stores, self._listener)

    @property
    def mode(self) -> ReaderMode:
        """Whose turn it is."""
        restoring = any(
            each.task.type is TaskType.ACTIVE and each.state is not ChangelogState.COMPLETED
            for each in self._changelogs.values()
        )
        return ReaderMode.ACTIVE_RESTORING if restoring else ReaderMode.STANDBY_UPDATING

    @property
    def busy(self) -> bool:
        """Whether a slice is being worked on."""
        return self.slice is not None and not self.slice.done()

    def state(self, store: StoreId) -> ChangelogState | None:
        """Of a changelog; None where it is not registered."""
        found = self._changelogs.get(store)
        return None if found is None else found.state

    def register(self, task: Task) -> Mapping[str, int]:
        """Begin with a task; where its stores stand.

        Raises LockError while a slice works on one of them, or a global table that it reads is not loaded yet.
        """
        ids = _ids(task)
        if task.type is TaskType.ACTIVE and not self.tables.ready(task.id):
            raise LockError("the global tables that it reads", None)
        if self.slice is not None and any(store in self._worked for store in ids):
            raise LockError(", ".join(map(str, ids)), None)
        verify = task.id in self._suspects
        self._suspects.discard(task.id)
        self._registered.add(task.id)
        self._changelogs.update({store: Changelog(task, verify=verify) for store in ids})
        return self._stores.offsets(task.id)

    def unregister(self, tasks: Collection[TaskId]) -> None:
        """Leave these tasks alone. What a slice does with them meanwhile is only noted."""
        ended = self._registered.intersection(tasks)
        self._registered -= ended
        for store, each in list(self._changelogs.items()) if ended else ():
            if each.task.id not in ended:
                continue
            del self._changelogs[store]
            if each.verify:
                self._suspects.add(each.task.id)
            if each.state is ChangelogState.RESTORING:
                promoted = each.task.type is TaskType.STANDBY and each.task.state is State.RUNNING
                reason = SuspendReason.PROMOTED if promoted else SuspendReason.MIGRATED
                self._listener.suspended(each.task.type, store, each.records, reason)

    def has(self, task: TaskId) -> bool:
        """Whether a task is registered."""
        return task in self._registered

    def verify_on_register(self, tasks: Collection[TaskId]) -> None:
        """Have the stores of these tasks read, and wiped where need be, once the tasks are registered again."""
        self._suspects |= set(tasks)

    def offsets(self, task: TaskId) -> Mapping[str, int]:
        """Where the task's stores stand."""
        return self._stores.offsets(task)

    def stored(self) -> Mapping[TaskId, Mapping[str, int]]:
        """What is there of all tasks, without those whose stores a slice works on."""
        working = {(store.store, store.partition) for store in self._worked}
        return {
            task: offsets
            for task, offsets in self._stores.stored().items()
            if not any((store, task.partition) in working for store in offsets)
        }

    def completed(self) -> Collection[StoreId]:
        """The stores of active tasks that stand where the commits say."""
        return [store for store, each in self._changelogs.items() if each.state is ChangelogState.COMPLETED]

    def restore(self) -> Mapping[TaskId, Exception]:
        """Take up the slice that is done, and begin the next one; what went wrong with which task.

        Raises StateError, ClientLostError, StateJobError, RestoreStalledError.
        """
        if self.busy:
            return {}
        failed = self._take()
        if failed:
            return failed  # whoever asks leaves these tasks alone first
        self._look()
        if suspects := {store: each for store, each in self._changelogs.items() if each.verify}:
            tasks = sorted({each.task.id for each in suspects.values()})
            self._begin(dict.fromkeys(suspects, _UNKNOWN), lambda: self._stores.examine(tasks))
        elif self._loaded is None and (targets := self.tables.next_targets()):
            self._load(targets)
        elif shares := self._next_slice():
            self._loaded = None
            worked = {
                StoreId(each.input.store, each.partition): each.input.applied for share in shares for each in share
            }
            self._begin(worked, lambda: self._stores.send("restore", shares))
        elif targets := self.tables.next_targets():
            self._load(targets)
        return {}

    def wait(self) -> None:
        """Let the slice that is being worked on end, whatever becomes of it."""
        if self.slice is not None:
            self.slice.exception()

    def _begin(self, worked: dict[StoreId, int], work: Callable[[], Errors]) -> None:
        self._worked = worked
        self._aims = {store: self._stores.end(store) for store in worked}
        self.slice = self._submit(work)

    def _load(self, targets: Sequence[TableTarget]) -> None:
        """Global tables take turns with stores: one of them may be large, and concern few tasks."""
        loaded: dict[str, Loaded] = {}

        def work() -> Errors:
            loaded.update(self._stores.load(targets))
            return {}

        self._begin({}, work)
        self._loaded = loaded

    def _take(self) -> Mapping[TaskId, Exception]:
        """What has become of the slice."""
        if self.slice is None:
            return {}
        done, worked = self.slice, self._worked
        self.slice, self._worked = None, {}
        found = {store: error for store, error in done.result().items() if not self._stores.replaced(error)}
        errors = {**found, **self._ahead(worked)}
        if not worked:  # it was for global tables
            return self.tables.take(self._loaded or {})
        moved, self._steps = self._steps != self._stores.steps, self._stores.steps
        for store, before in worked.items():
            position = self._stores.position(store.store, store.partition)
            moved = moved or position != before  # also where a store was read: that is no step of the strategy
            each = self._changelogs.get(store)
            if each is not None:
                each.verify = each.verify and before != _UNKNOWN
            if each is not None and position >= self._aims[store]:
                each.rests_until = time.monotonic() + self._rest
            if each is not None and before != _UNKNOWN and position > before:
                each.records += position - before
                self._listener.batch(each.task.type, store, position, self._stores.end(store), position - before)
        self._stalls = 0 if moved or errors else self._stalls + 1
        if self._stalls >= MAX_STALLS:
            of = [each.task.id for store in worked if (each := self._changelogs.get(store)) is not None]
            raise RestoreStalledError(self._stores.client, worked.keys(), of)
        failed: dict[TaskId, Exception] = {}
        for store, error in errors.items():
            if (each := self._changelogs.get(store)) is not None:
                if isinstance(error, TaskMigratedError):
                    # A slice of before this client was lost and found has moved it on: no other driver has this one's
                    # generation. So its position is to be looked up again.
                    error = TaskCorruptedError(error.message, store=store.store)
                failed.setdefault(each.task.id, error)
        return failed

    def _ahead(self, worked: Collection[StoreId]) -> Errors:
        """The stores that stand behind the committed ends of their changelogs: they hold what was never committed."""
        errors: Errors = {}
        for store in worked:
            if store not in self._changelogs:
                continue
            position, end = self._stores.position(store.store, store.partition), self._stores.end(store)
            if position > end:
                cause = f"store {store.store} is ahead of its changelog: {position} > {end}"
                errors[store] = TaskCorruptedError(cause, store=store.store)
        return errors

    def _look(self) -> None:
        """Begin with changelogs that are new, and complete those of active tasks that have come to their ends."""
        for store, each in self._changelogs.items():
            if each.state is ChangelogState.REGISTERED:
                each.state = ChangelogState.RESTORING
                self._listener.started(
                    each.task.type, store, self._stores.position(store.store, store.partition), self._stores.end(store)
                )
            restoring = each.state is ChangelogState.RESTORING and not each.verify
            if restoring and each.task.type is TaskType.ACTIVE and not self._behind(store):
                each.state = ChangelogState.COMPLETED
                self._listener.ended(each.task.type, store, each.records)

    def _next_slice(self) -> list[list[StoreTarget]]:
        """A request for each thread of the client, but for one where a task may run: that one is for epochs.

        Stores take turns: the first of a request, which may take all of its time, is behind those of the last slice.
        So a small store does not wait until large ones are restored.
        """
        role = TaskType.ACTIVE if self.mode is ReaderMode.ACTIVE_RESTORING else TaskType.STANDBY
        now = time.monotonic()
        waiting = [
            store
            for store, each in self._changelogs.items()
            if each.task.type is role and each.state is ChangelogState.RESTORING and self._behind(store)
            if role is TaskType.ACTIVE or now >= each.rests_until
        ]
        if not waiting:
            return []
        threads = max(1, self._stores.threads - 1) if self._runs() else self._stores.threads
        turn = self._turn % len(waiting)
        chosen = (waiting[turn:] + waiting[:turn])[: threads * MAX_STORES]
        shares: list[list[StoreTarget]] = [[] for _ in range(min(threads, len(chosen)))]
        self._turn += len(shares)
        for number, store in enumerate(chosen):
            room = RECORDS_PER_REQUEST * len(shares) // len(chosen)
            shares[number % len(shares)].append(self._part(store, room))
        return shares

    def _behind(self, store: StoreId) -> bool:
        """Whether the store is anywhere but at the end: one that is beyond it is corrupted, see `_ahead`."""
        return self._stores.position(store.store, store.partition) != self._stores.end(store)

    def _part(self, store: StoreId, room: int) -> StoreTarget:
        """The next part of the work on a store. Rows without a changelog are given up all at once."""
        task = self._changelogs[store].task.id
        declared = next(each for each in self._stores.declared(task) if each.name == store.store)
        if not declared.changelog:
            return self._stores.target(task, declared)
        return _first(self._stores.step(task, declared, room), room)


def _ids(task: Task) -> list[StoreId]:
    return [StoreId(store, task.id.partition) for store in task.stores]


def _first(target: StoreTarget, room: int) -> StoreTarget:
    """The part of the work that costs `room` at most, or little more."""
    kept: list[LogRange] = []
    cost, position = 0, target.input.applied
    for each in target.input.ranges:
        if cost >= room:
            return replace(target, input=replace(target.input, ranges=tuple(kept), position=position))
        end = min(each.end, target.input.position)
        kept.append(each)
        cost += COST_OF_RANGE + min(end - position, each.records)
        position = end
    return target


# Tells several listeners what is restored: the run's own, and those of plugins.


class RestoreListenerError(PluginError):
    """A restore listener of a plugin raised. `name`: the listener's, `event`: what it was told."""

    def __init__(self, name: str, event: str, error: BaseException) -> None:
        super().__init__(
            f"the restore listener {name!r} fails in `{event}`: {error_text_with_line(error)}",
            "a listener must not raise, as the run ends with it; nothing that was committed is lost",
        )
        self.name = name
        self.event = event


class Listeners:
    """A RestoreListener. `own` hears first, then those of plugins, by name. Raises RestoreListenerError."""

    def __init__(self, own: RestoreListener, plugins: Mapping[str, RestoreListener]) -> None:
        self._own = own
        self._plugins = dict(plugins)

    def started(self, role: TaskType, store: StoreId, position: int, end: int) -> None:
        """See `RestoreListener`."""
        self._tell("started", lambda each: each.started(role, store, position, end))

    def batch(self, role: TaskType, store: StoreId, position: int, end: int, records: int) -> None:
        """See `RestoreListener`."""
        self._tell("batch", lambda each: each.batch(role, store, position, end, records))

    def ended(self, role: TaskType, store: StoreId, records: int) -> None:
        """See `RestoreListener`."""
        self._tell("ended", lambda each: each.ended(role, store, records))

    def suspended(self, role: TaskType, store: StoreId, records: int, reason: SuspendReason) -> None:
        """See `RestoreListener`."""
        self._tell("suspended", lambda each: each.suspended(role, store, records, reason))

    def _tell(self, event: str, tell: Callable[[RestoreListener], None]) -> None:
        tell(self._own)
        for name, listener in self._plugins.items():
            with wrapping_errors(partial(RestoreListenerError, name, event)):
                tell(listener)
