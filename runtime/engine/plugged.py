"""Plugins of a run: logs, store backends, assignors and restore strategies by the names that a project gives."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...plugins.manager import PluginManager
from ..assignment.assignor import TaskAssignor
from ..log.log import Log
from ..restore.strategy import RestoreStrategy
from ..state.store import StoreBackend
from ..topology import PluginRef, Settings, Store

Origin = tuple[str, tuple[str, ...], tuple[str, ...]]
"""Where plugins are found: the project's directory, its plugin modules, names left out."""


def origin_of(settings: Settings) -> Origin:
    """Where the plugins of a run are found."""
    return settings.project_dir, settings.plugins, settings.without_plugins


@lru_cache(maxsize=8)
def _manager(origin: Origin) -> PluginManager:
    """Loading plugins takes time, and a worker asks for them in every epoch."""
    directory, modules, without = origin
    return PluginManager(Path(directory), modules, without)


class Plugged:
    """What a run uses of plugins. Raises UnknownPluginError, PluginOptionsError, PluginImportError."""

    def __init__(self, origin: Origin) -> None:
        self._plugins = _manager(origin)

    def log(self, ref: PluginRef) -> Log:
        """The log that a profile names."""
        log: Log = self._plugins.logs.create(ref.name, _plain(ref.options))
        return log

    def backend(self, store: Store) -> StoreBackend:
        """The backend that a store names."""
        backend: StoreBackend = self._plugins.store_backends.create(store.backend, _plain(store.options))
        return backend

    def assignor(self, ref: PluginRef) -> TaskAssignor:
        """The assignor that a topology names."""
        assignor: TaskAssignor = self._plugins.assignors.create(ref.name, _plain(ref.options))
        return assignor

    def restore_strategy(self, ref: PluginRef) -> RestoreStrategy:
        """The restore strategy that a topology names."""
        strategy: RestoreStrategy = self._plugins.restore_strategies.create(ref.name, _plain(ref.options))
        return strategy


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    return dict(options)
