"""Holds the stores of clients that live in the driver's own machine: opens, restores, closes them without a job."""

from __future__ import annotations

from collections.abc import Sequence

from ..log.log import Log
from ..restore.strategy import RestoreRequest, RestoreStrategy
from ..state.changelog import apply_slice, catch_up, start_empty
from ..state.directory import StateDirectory, StoreId
from ..state.store import StateStore
from ..state.task_stores import expire_below
from ..tasks.errors import TaskCorruptedError
from ..tasks.task_id import TaskId
from ..tasks.task_manager import Progress
from ..topology import Subtopology
from .planner import Planner
from .plugged import Plugged


class LocalRestorer:
    """See `TaskRestorer`."""

    def __init__(
        self,
        directory: StateDirectory,
        planner: Planner,
        log: Log,
        plugged: Plugged,
        strategy: RestoreStrategy,
        parts: Sequence[Subtopology],
    ) -> None:
        self._directory = directory
        self._planner = planner
        self._log = log
        self._plugged = plugged
        self._strategy = strategy
        self._stores = {store.name: store for part in parts for store in part.stores}
        self._names = {part.number: tuple(store.name for store in part.stores) for part in parts}

    def open(self, task: TaskId, stores: tuple[str, ...]) -> dict[str, int]:
        """Positions of the stores, made if they are not there."""
        return {name: self._open(task, name).position for name in stores}

    def restore(self, task: TaskId, stores: tuple[str, ...]) -> Progress:
        """Apply the next slice of each store's changelog. A lost store whose changelog is not kept starts empty."""
        positions, done = {}, True
        for name in stores:
            store = self._open(task, name)
            planned = self._planner.store(self._stores[name], task.partition, store.position, {})
            if store.position > planned.position:
                reason = f"store {name} of task {task} is ahead of its changelog: {store.position} > {planned.position}"
                raise TaskCorruptedError(reason, [task], name)
            if not self._stores[name].changelog and start_empty(store, planned):
                positions[name] = planned.position
                continue
            request = RestoreRequest(name, task.partition, store.position, planned.position, planned.segments)
            step = next(self._strategy.slices(request), None)
            if step is not None:
                apply_slice(store, step, self._log)
            positions[name] = store.position
            done = done and positions[name] >= planned.position
        return Progress(positions, done)

    def close(self, task: TaskId, *, clean: bool) -> None:
        """Let go of the stores; when clean, apply what is committed and not yet applied, expiry too, and sync."""
        names = self._names[task.subtopology]
        while clean and not self.restore(task, names).done:
            pass
        for name in names:
            store = self._open(task, name)
            if clean:
                self._expire(task, name, store)
            store.close()

    def wipe(self, task: TaskId, stores: tuple[str, ...]) -> None:
        """Remove the stores."""
        for name in stores:
            self._directory.remove(StoreId(name, task.partition))

    def _expire(self, task: TaskId, name: str, store: StateStore) -> None:
        """Remove what is out of retention by the committed clock, so that what is left does not tell of epochs."""
        declared, clocks = self._stores[name], self._planner.clocks(task.name, task.partition)
        planned = self._planner.store(declared, task.partition, store.position, clocks)
        catch_up(store, planned, self._log, expire_below(declared, planned))

    def _open(self, task: TaskId, name: str) -> StateStore:
        path = self._directory.store_path(StoreId(name, task.partition))
        return self._plugged.backend(self._stores[name]).open(path)
