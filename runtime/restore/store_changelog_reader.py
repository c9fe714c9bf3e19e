"""Restores the stores of a client from their changelogs."""

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
from ..state.restore_listener import RestoreListener, SuspendReason
from ..task_id import StoreId, TaskId
from ..tasks.errors import LockError, TaskCorruptedError, TaskMigratedError
from ..tasks.state import State, TaskType
from ..tasks.task import Task
from .global_tables import GlobalTables
from .linked_stores import LinkedStores, Loaded
from .requests import UNKNOWN, StoreTarget, TableTarget

# The changelogs of a StoreChangelogReader: their states, and the error if none makes progress.


class ReaderMode(Enum):
    """The kind of tasks that the current slices are for."""

    ACTIVE_RESTORING = "active_restoring"
    STANDBY_UPDATING = "standby_updating"


class ChangelogState(Enum):
    """The state of a registered changelog. The changelog of a standby task is never completed."""

    REGISTERED = "registered"
    RESTORING = "restoring"
    COMPLETED = "completed"


class RestoreStalledError(HeadwaterError):
    """Slices do not advance stores: `client`, `stores`. `tasks`: the owners of the stores."""

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
    """A registered changelog partition. Mutable, and owned by the reader.

    `records`: applied so far. `verify`: its store has to be verified first. `paused_until`: in seconds of
    `time.monotonic`, for a standby store that has caught up.
    """

    task: Task
    state: ChangelogState = ChangelogState.REGISTERED
    records: int = 0
    verify: bool = False
    paused_until: float = 0.0


# Restores the stores of one client's tasks in slices, while other tasks run.
#
# Source: `StoreChangelogReader` of Kafka Streams 4.0. Its decisions are made here, on the driver; the client does the
# slices. Standby tasks wait while an active task is restoring.

RECORDS_PER_REQUEST = 4_194_304
"""The most changelog records of a request. The client stops earlier, after SLICE_SECONDS, and should not run out of
work before: it reads millions of records a second from a hot changelog."""

MAX_STORES = 64
"""The most stores in one request. Each of them takes at least one step."""

MAX_STALLS = 3
"""Slices in a row without progress until the restore strategy counts as broken."""

STANDBY_REST = 0.5
"""Seconds between slices of a standby store that has caught up. A slice after every commit would cost the epochs of the
client more: each slice is a job, and a key that changes in every epoch is written only once per slice."""

COST_OF_RANGE = 4096
"""The cost of a range, in records: its file is opened, and its path is part of the request."""


Errors = dict[StoreId, Exception]
"""Errors by store."""

Slice = Future[Errors]

Submit = Callable[[Callable[[], Errors]], Slice]
"""Runs the work of a slice in another thread."""


class StoreChangelogReader:
    """A ChangelogReader for the stores of a client. `submit` runs one slice at a time in another thread.

    `slice`: the slice that is running, or is done and not processed yet. `standby_rest`: see STANDBY_REST, in seconds.
    `runs`: whether a task of the client may run.
    """

    def __init__(
        self,
        stores: LinkedStores,
        submit: Submit,
        listener: RestoreListener,
        standby_rest: float = 0.0,
        runs: Callable[[], bool] = lambda: True,
    ) -> None:
        self._stores = stores
        self._submit = submit
        self._listener = listener
        self._changelogs: dict[StoreId, Changelog] = {}
        self.slice: Slice | None = None
        self._in_slice: dict[StoreId, int] = {}
        self._registered: set[TaskId] = set()
        self._to_verify: set[TaskId] = set()
        self._turn = 0
        self._standby_rest = standby_rest
        self._runs = runs
        self._targets: dict[StoreId, int] = {}
        self._stalls = 0
        self._steps = 0
        self._loaded: dict[str, Loaded] | None = None
        self.tables = GlobalTables(stores, self._listener)

    @property
    def mode(self) -> ReaderMode:
        """The kind of tasks that the next slice is for."""
        restoring = any(
            changelog.task.type is TaskType.ACTIVE and changelog.state is not ChangelogState.COMPLETED
            for changelog in self._changelogs.values()
        )
        return ReaderMode.ACTIVE_RESTORING if restoring else ReaderMode.STANDBY_UPDATING

    @property
    def busy(self) -> bool:
        """Whether a slice is running."""
        return self.slice is not None and not self.slice.done()

    def state(self, store: StoreId) -> ChangelogState | None:
        """The state of a store's changelog; None if it is not registered."""
        changelog = self._changelogs.get(store)
        return None if changelog is None else changelog.state

    def register(self, task: Task) -> None:
        """Start with a task.

        Raises LockError while a slice works on one of its stores, or while a global table that it reads is loading.
        """
        ids = _ids(task)
        if task.type is TaskType.ACTIVE and not self.tables.is_ready(task.id):
            raise LockError("the global tables that it reads", None)
        if self.slice is not None and any(store in self._in_slice for store in ids):
            raise LockError(", ".join(map(str, ids)), None)
        verify = task.id in self._to_verify
        self._to_verify.discard(task.id)
        self._registered.add(task.id)
        self._changelogs.update({store: Changelog(task, verify=verify) for store in ids})

    def unregister(self, tasks: Collection[TaskId]) -> None:
        """Stop with these tasks. Positions of a running slice are still recorded."""
        ended = self._registered.intersection(tasks)
        self._registered -= ended
        for store, changelog in list(self._changelogs.items()) if ended else ():
            task = changelog.task
            if task.id not in ended:
                continue
            del self._changelogs[store]
            if changelog.verify:
                self._to_verify.add(task.id)
            if changelog.state is ChangelogState.RESTORING:
                promoted = task.type is TaskType.STANDBY and task.state is State.RUNNING
                reason = SuspendReason.PROMOTED if promoted else SuspendReason.MIGRATED
                self._listener.suspended(task.type, store, changelog.records, reason)

    def has(self, task: TaskId) -> bool:
        """Whether a task is registered."""
        return task in self._registered

    def verify_on_register(self, tasks: Collection[TaskId]) -> None:
        """Verify the stores of these tasks, and wipe damaged ones, when the tasks are registered again."""
        self._to_verify |= set(tasks)

    def offsets(self, task: TaskId) -> Mapping[str, int]:
        """Store -> position, for the stores of a task."""
        return self._stores.offsets(task)

    def stored(self) -> Mapping[TaskId, Mapping[str, int]]:
        """The offsets of all stores on the client, by task, without tasks with a store in the running slice."""
        in_slice = {(store.store, store.partition) for store in self._in_slice}
        return {
            task: offsets
            for task, offsets in self._stores.stored().items()
            if not any((store, task.partition) in in_slice for store in offsets)
        }

    def completed(self) -> Collection[StoreId]:
        """The stores of active tasks at their committed positions."""
        return [store for store, changelog in self._changelogs.items() if changelog.state is ChangelogState.COMPLETED]

    def restore(self) -> Mapping[TaskId, Exception]:
        """Process a finished slice, and start the next one. Returns errors by task.

        Raises StateError, ClientLostError, StateJobError, RestoreStalledError.
        """
        if self.busy:
            return {}
        failed = self._process_slice()
        if failed:
            return failed  # the caller unregisters these tasks first
        self._update_states()
        if to_verify := {store: changelog for store, changelog in self._changelogs.items() if changelog.verify}:
            tasks = sorted({changelog.task.id for changelog in to_verify.values()})
            self._start(dict.fromkeys(to_verify, UNKNOWN), lambda: self._stores.verify(tasks))
        elif self._loaded is None and (targets := self.tables.next_targets()):
            self._load(targets)
        elif shares := self._next_slice():
            self._loaded = None
            positions = {target.store: target.input.applied for share in shares for target in share}
            self._start(positions, lambda: self._stores.send("restore", shares))
        elif targets := self.tables.next_targets():
            self._load(targets)
        return {}

    def wait(self) -> None:
        """Wait for the end of the running slice, and ignore its result."""
        if self.slice is not None:
            self.slice.exception()

    def _start(self, positions: dict[StoreId, int], work: Callable[[], Errors]) -> None:
        """Start a slice. `positions`: the positions of its stores before it."""
        self._in_slice = positions
        self._targets = {store: self._stores.end(store) for store in positions}
        self.slice = self._submit(work)

    def _load(self, targets: Sequence[TableTarget]) -> None:
        """Start a slice for global tables. They take turns with stores, because a large table may concern few tasks."""
        loaded: dict[str, Loaded] = {}

        def work() -> Errors:
            loaded.update(self._stores.load(targets))
            return {}

        self._start({}, work)
        self._loaded = loaded

    def _process_slice(self) -> Mapping[TaskId, Exception]:
        """Process the results of the finished slice. Returns errors by task."""
        if self.slice is None:
            return {}
        finished, in_slice = self.slice, self._in_slice
        self.slice, self._in_slice = None, {}
        failures = {store: error for store, error in finished.result().items() if not self._stores.is_replaced(error)}
        errors = {**failures, **self._ahead(in_slice)}
        if not in_slice:  # it was for global tables
            return self.tables.record(self._loaded or {})
        progress, self._steps = self._steps != self._stores.steps, self._stores.steps
        for store, before in in_slice.items():
            position = self._stores.position(store)
            progress = progress or position != before  # also after a verification, which is no step of the strategy
            changelog = self._changelogs.get(store)
            if changelog is None:
                continue
            changelog.verify = changelog.verify and before != UNKNOWN
            if position >= self._targets[store]:
                changelog.paused_until = time.monotonic() + self._standby_rest
            if before != UNKNOWN and position > before:
                changelog.records += position - before
                end = self._stores.end(store)
                self._listener.batch(changelog.task.type, store, position, end, position - before)
        self._stalls = 0 if progress or errors else self._stalls + 1
        if self._stalls >= MAX_STALLS:
            tasks = [self._changelogs[store].task.id for store in in_slice if store in self._changelogs]
            raise RestoreStalledError(self._stores.client, in_slice.keys(), tasks)
        failed: dict[TaskId, Exception] = {}
        for store, error in errors.items():
            if (changelog := self._changelogs.get(store)) is not None:
                if isinstance(error, TaskMigratedError):
                    # No other driver has this one's generation. So a slice from before this client was lost and found
                    # again has advanced the store, and its position has to be read again.
                    error = TaskCorruptedError(error.message, store=store.store)
                failed.setdefault(changelog.task.id, error)
        return failed

    def _ahead(self, in_slice: Collection[StoreId]) -> Errors:
        """Errors of the stores ahead of the committed ends of their changelogs: they have uncommitted changes."""
        errors: Errors = {}
        for store in in_slice:
            if store not in self._changelogs:
                continue
            position, end = self._stores.position(store), self._stores.end(store)
            if position > end:
                cause = f"store {store.store} is ahead of its changelog: {position} > {end}"
                errors[store] = TaskCorruptedError(cause, store=store.store)
        return errors

    def _update_states(self) -> None:
        """Start the restores of new changelogs, and complete those of active tasks at their ends."""
        for store, changelog in self._changelogs.items():
            role = changelog.task.type
            if changelog.state is ChangelogState.REGISTERED:
                changelog.state = ChangelogState.RESTORING
                position = self._stores.position(store)
                self._listener.started(role, store, position, self._stores.end(store))
            restoring = changelog.state is ChangelogState.RESTORING and not changelog.verify
            if restoring and role is TaskType.ACTIVE and not self._has_work(store):
                changelog.state = ChangelogState.COMPLETED
                self._listener.ended(role, store, changelog.records)

    def _next_slice(self) -> list[list[StoreTarget]]:
        """One request per thread of the client. If a task may run, one thread is left for epochs.

        Stores take turns. The first store of a request may use its whole time budget, so each slice starts behind the
        first stores of the last one. So a small store does not wait for large ones.
        """
        role = TaskType.ACTIVE if self.mode is ReaderMode.ACTIVE_RESTORING else TaskType.STANDBY
        now = time.monotonic()
        waiting = [
            store
            for store, changelog in self._changelogs.items()
            if changelog.task.type is role and changelog.state is ChangelogState.RESTORING and self._has_work(store)
            if role is TaskType.ACTIVE or now >= changelog.paused_until
        ]
        if not waiting:
            return []
        threads = max(1, self._stores.threads - 1) if self._runs() else self._stores.threads
        turn = self._turn % len(waiting)
        chosen = (waiting[turn:] + waiting[:turn])[: threads * MAX_STORES]
        shares: list[list[StoreTarget]] = [[] for _ in range(min(threads, len(chosen)))]
        self._turn += len(shares)
        for number, store in enumerate(chosen):
            records = RECORDS_PER_REQUEST * len(shares) // len(chosen)
            shares[number % len(shares)].append(self._next_target(store, records))
        return shares

    def _has_work(self, store: StoreId) -> bool:
        """Whether the store is not at the end of its changelog. A store ahead of it is corrupted, see `_ahead`."""
        return self._stores.position(store) != self._stores.end(store)

    def _next_target(self, store: StoreId, records: int) -> StoreTarget:
        """The next target of a store, at a cost of about `records`. A store without a changelog is emptied at once."""
        task = self._changelogs[store].task.id
        declared = next(declaration for declaration in self._stores.declared(task) if declaration.name == store.store)
        if not declared.changelog:
            return self._stores.target(task, declared)
        return _limited(self._stores.next_step(task, declared, records), records)


def _ids(task: Task) -> list[StoreId]:
    return [StoreId(store, task.id.partition) for store in task.stores]


def _limited(target: StoreTarget, max_cost: int) -> StoreTarget:
    """The target with its first ranges only, at a cost of `max_cost` or little more, in records."""
    first: list[LogRange] = []
    cost, position = 0, target.input.applied
    for log_range in target.input.ranges:
        if cost >= max_cost:
            return replace(target, input=replace(target.input, ranges=tuple(first), position=position))
        end = min(log_range.end, target.input.position)
        first.append(log_range)
        cost += COST_OF_RANGE + min(end - position, log_range.records)
        position = end
    return target


# Calls several restore listeners: the run's own, and those of plugins.


class RestoreListenerError(PluginError):
    """A restore listener of a plugin raised an error. `name`: of the listener. `event`: the called method."""

    def __init__(self, name: str, event: str, error: BaseException) -> None:
        super().__init__(
            f"the restore listener {name!r} fails in `{event}`: {error_text_with_line(error)}",
            "a listener must not raise, as the run ends with it; nothing that was committed is lost",
        )
        self.name = name
        self.event = event


class Listeners:
    """A RestoreListener that calls `own` first, then the plugins' listeners. Raises RestoreListenerError."""

    def __init__(self, own: RestoreListener, plugins: Mapping[str, RestoreListener]) -> None:
        self._own = own
        self._plugins = dict(plugins)

    def started(self, role: TaskType, store: StoreId, position: int, end: int) -> None:
        """See `RestoreListener`."""
        self._call("started", lambda listener: listener.started(role, store, position, end))

    def batch(self, role: TaskType, store: StoreId, position: int, end: int, records: int) -> None:
        """See `RestoreListener`."""
        self._call("batch", lambda listener: listener.batch(role, store, position, end, records))

    def ended(self, role: TaskType, store: StoreId, records: int) -> None:
        """See `RestoreListener`."""
        self._call("ended", lambda listener: listener.ended(role, store, records))

    def suspended(self, role: TaskType, store: StoreId, records: int, reason: SuspendReason) -> None:
        """See `RestoreListener`."""
        self._call("suspended", lambda listener: listener.suspended(role, store, records, reason))

    def _call(self, event: str, call: Callable[[RestoreListener], None]) -> None:
        call(self._own)
        for name, listener in self._plugins.items():
            with wrapping_errors(partial(RestoreListenerError, name, event)):
                call(listener)
