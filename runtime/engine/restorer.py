"""Holds the stores of clients that live in the driver's own machine: opens, restores, closes them without a job."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ..log.log import Log
from ..state.changelog import apply_slice, slices
from ..state.directory import StateDirectory, StoreId
from ..state.store import StateStore
from ..tasks.task_id import TaskId
from ..tasks.task_manager import Progress
from ..topology import Settings, Subtopology
from .committed import Committed
from .planner import Planner
from .plugged import open_backend


class LocalRestorer:
    """See `TaskRestorer`."""

    def __init__(
        self, client: str, settings: Settings, log: Log, committed: Committed, parts: Sequence[Subtopology]
    ) -> None:
        self._directory = StateDirectory(Path(settings.state_dir), client, committed.application)
        self._log = log
        self._committed = committed
        self._planner = Planner(committed, settings.max_records)
        self._stores = {store.name: store for part in parts for store in part.stores}
        self._names = {part.number: tuple(store.name for store in part.stores) for part in parts}

    def open(self, task: TaskId, stores: tuple[str, ...]) -> dict[str, int]:
        """Positions of the stores, made if they are not there."""
        return {name: self._open(task, name).position for name in stores}

    def restore(self, task: TaskId, stores: tuple[str, ...]) -> Progress:
        """Apply the next slice of each store's changelog."""
        positions, done = {}, True
        for name in stores:
            store = self._open(task, name)
            planned = self._planner.store(self._stores[name], task.partition, store.position, {})
            step = next(slices(name, planned.segments, store.position, planned.position), None)
            if step is not None:
                apply_slice(store, step, self._log)
            positions[name] = store.position
            done = done and positions[name] >= planned.position
        return Progress(positions, done)

    def close(self, task: TaskId, *, clean: bool) -> None:
        """Let go of the stores; when clean, apply what is committed and not yet applied, and sync."""
        names = self._names[task.subtopology]
        while clean and not self.restore(task, names).done:
            pass
        for name in names:
            self._open(task, name).close()

    def wipe(self, task: TaskId, stores: tuple[str, ...]) -> None:
        """Remove the stores."""
        for name in stores:
            shutil.rmtree(self._directory.store_path(StoreId(name, task.partition)), ignore_errors=True)

    def _open(self, task: TaskId, name: str) -> StateStore:
        path = self._directory.store_path(StoreId(name, task.partition))
        return open_backend(self._stores[name]).open(path)
