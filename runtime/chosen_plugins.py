"""The plugins of a run, created by the names that a project uses: log, store backends, assignors and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from ..plugins.errors import InvalidPluginError
from ..plugins.manager import PluginManager, installed_plugins
from ..plugins.registry import Registry
from .assignment.assignor import TaskAssignor
from .ir.topology import PluginRef, Settings, Store
from .kafka.worker import KafkaOfWorker
from .log.log import Log
from .log.placed_log import PlacedLog
from .log.ranges import RangeReader
from .log.state import LoadedStates
from .serdes.serde import Serde
from .serdes.windows import serde_of
from .state.restore_listener import RestoreListener
from .state.restore_strategy import RestoreStrategy
from .state.store import StoreBackend
from .tasks.plan import EpochPlan

Origin = tuple[str, tuple[str, ...], tuple[str, ...]]
"""The sources of plugins: the project's directory, its plugin modules, and the names of plugins to skip."""


def origin_of(settings: Settings) -> Origin:
    """The sources of the plugins of a run."""
    return settings.project_dir, settings.plugins, settings.without_plugins


@lru_cache(maxsize=8)
def _manager(origin: Origin) -> PluginManager:
    """The plugins of one origin. Cached, because loading is slow and a worker needs them in every epoch."""
    directory, modules, without = origin
    return PluginManager(Path(directory), modules, without)


def load_for_workers() -> None:
    """Load what each worker of a run with the default log needs, and find the installed plugins without importing them.

    For a process that workers are forked from: a worker then takes 0.025 s of CPU before its first batch, not 0.15 s.
    """
    PluginManager(installed=False).logs.create("embedded", {"path": ""})
    installed_plugins()


class ChosenPlugins:
    """Creates the plugins of a run.

    Logs, backends, serdes, restore strategies and listeners must have all methods of their protocol. An assignor is
    checked at each assignment instead. The methods raise UnknownPluginError, PluginOptionsError, PluginImportError,
    InvalidPluginError.
    """

    def __init__(self, origin: Origin) -> None:
        self._plugins = _manager(origin)

    def log(
        self,
        ref: PluginRef,
        known: Mapping[str, str] | None = None,
        was: Mapping[str, Sequence[str]] | None = None,
        loaded: LoadedStates | None = None,
    ) -> PlacedLog:
        """The log of a profile. `known`, `was`, `loaded`: see `PlacedLog`."""
        log: Log = _with_methods_of(Log, self._plugins.logs, ref.name, ref.options)
        return PlacedLog(log, known, was, loaded=loaded)

    def backend(self, store: Store) -> StoreBackend:
        """The backend of a store."""
        backend: StoreBackend = _with_methods_of(
            StoreBackend, self._plugins.store_backends, store.backend, store.options
        )
        return backend

    def assignor(self, ref: PluginRef) -> TaskAssignor:
        """The assignor of a topology."""
        assignor: TaskAssignor = self._plugins.assignors.create(ref.name, _plain(ref.options))
        return assignor

    def restore_strategy(self, ref: PluginRef) -> RestoreStrategy:
        """The restore strategy of a topology."""
        strategy: RestoreStrategy = _with_methods_of(
            RestoreStrategy, self._plugins.restore_strategies, ref.name, ref.options
        )
        return strategy

    def serde(self, ref: PluginRef) -> Serde:
        """The format of keys or values in Kafka."""
        return serde_of(ref, lambda name, options: _with_methods_of(Serde, self._plugins.serdes, name, options))

    def reader(self, plan: EpochPlan) -> RangeReader:
        """A reader of the records that a plan names."""
        log, kafka = self.log(PluginRef(*plan.log), plan.places), self.kafka(plan)
        return log if kafka is None else kafka.reader(log)

    def kafka(self, plan: EpochPlan) -> KafkaOfWorker | None:
        """What the workers of a plan have of Kafka; None in a target without Kafka."""
        if not plan.kafka:
            return None
        return KafkaOfWorker(plan.application, plan.kafka, self.serde, partial(self.log, PluginRef(*plan.log)))

    def restore_listeners(self) -> Mapping[str, RestoreListener]:
        """New instances of all restore listeners, by name."""
        plugins = self._plugins.restore_listeners
        return {name: _with_methods_of(RestoreListener, plugins, name, {}) for name in plugins}


def log_of(settings: Settings, loaded: LoadedStates | None = None) -> PlacedLog:
    """The log of a run, with the current names of applications. `loaded`: see `PlacedLog`."""
    return ChosenPlugins(origin_of(settings)).log(settings.log, settings.beside, settings.former_names, loaded)


def _with_methods_of(protocol: type, plugins: Registry, name: str, options: Mapping[str, Any]) -> Any:
    """The object that a plugin creates. Raises InvalidPluginError at once if it lacks a method of `protocol`."""
    made = plugins.create(name, _plain(options))
    missing = [method for method in _methods_of(protocol) if not callable(getattr(made, method, None))]
    if missing:
        raise InvalidPluginError(
            f"the {plugins.kind} {name!r} ({plugins[name].origin}) has no method {', '.join(missing)}",
            f"what it makes needs the methods of {protocol.__module__}.{protocol.__name__}; "
            "was it written for another version of Headwater?",
        )
    return made


@cache
def _methods_of(protocol: type) -> tuple[str, ...]:
    """The public methods of a protocol, inherited ones included, sorted."""
    return tuple(name for name in dir(protocol) if not name.startswith("_") and callable(getattr(protocol, name)))


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    return dict(options)
