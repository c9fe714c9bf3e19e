"""The plugins that a project may name, to check names and options before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any

from ...plugins.errors import PluginImportError
from ...plugins.manager import PluginManager
from ...plugins.registry import Registry
from ...runtime.assignment.racks.solver import has_solver


class InstalledPlugins:
    """Implements `checks.plugins.PluginCatalog`. Plugins are imported when the first question is asked.

    `manager` makes a PluginManager without the plugins that it is given.
    """

    def __init__(self, manager: Callable[[Collection[str]], PluginManager]) -> None:
        self._find = manager

    def names(self, kind: str) -> Collection[str]:
        """The names of the plugins of a kind."""
        return list(self._registry(kind))

    def options_schema(self, kind: str, name: str) -> Mapping[str, Any]:
        """The JSON Schema of a plugin's options. The schema of profiles covers those of the embedded log."""
        return {} if (kind, name) == ("log", "embedded") else self._registry(kind)[name].options_schema

    def missing(self, kind: str, name: str) -> Mapping[str, str]:
        """The modules that a plugin requires and that are not installed, each with what `pip install` gets it by."""
        return self._registry(kind)[name].missing

    def needs_changelog(self, backend: str) -> bool:
        """Whether the stores of a backend can lose their rows with a process."""
        return self._registry("store_backend")[backend].needs_changelog

    def makes(self, kind: str, name: str, method: str) -> bool:
        """Whether a plugin's class has a method. Of a factory that is no class, nothing is known: True for backends."""
        factory = self._registry(kind)[name].load()
        return hasattr(factory, method) if isinstance(factory, type) else kind == "store_backend"

    def has_rack_solver(self) -> bool:
        """Whether OR-Tools is installed."""
        return has_solver()

    def failures(self) -> Mapping[str, str]:
        """The project's modules that cannot be imported, each with the reason. Raises PluginError for other plugins."""
        failed: dict[str, str] = {}
        # Each round leaves out the modules that have failed, so that one run reports all of them.
        while True:
            try:
                self._find(failed)
            except PluginImportError as error:
                if not error.local:
                    raise
                failed[error.name] = error.reason
            else:
                return failed

    @cached_property
    def _registries(self) -> Mapping[str, Registry]:
        manager = self._find(())
        return {
            "assignor": manager.assignors,
            "restore_strategy": manager.restore_strategies,
            "restore_listener": manager.restore_listeners,
            "store_backend": manager.store_backends,
            "log": manager.logs,
        }

    def _registry(self, kind: str) -> Registry:
        return self._registries[kind]
