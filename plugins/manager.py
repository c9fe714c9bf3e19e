"""Finds plugins and calls their registration hooks.

Built-in plugins come first, then installed ones (entry points of the group `headwater`), then modules of the project.
Built-in and local plugins are loaded by dotted name, so this module does not import the classes that plugins make.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from typing import Any

import pluggy

from .errors import InvalidPluginError, PluginError, PluginImportError, error_text_with_line, wrapping_errors
from .hookspecs import Hooks
from .local_modules import import_from
from .registry import Registry

BUILTINS = ("headwater.runtime.builtin_plugins",)
ENTRY_POINTS = "headwater"


class PluginManager:
    """The plugins of one project. The hook of each kind is called once, when the kind is first used.

    `modules`: the project's own, found below `directory` (default: the current folder). `block`: names of plugins
    (entry points or modules) that are disabled and not imported. `installed`: whether entry points are used. Raises
    PluginImportError, InvalidPluginError.
    """

    def __init__(
        self,
        directory: Path | None = None,
        modules: Iterable[str] = (),
        block: Iterable[str] = (),
        *,
        installed: bool = True,
    ) -> None:
        self.pluggy = pluggy.PluginManager("headwater")
        self.pluggy.add_hookspecs(Hooks)
        for name in block:
            self.pluggy.set_blocked(name)
        for module in BUILTINS:
            self.register(import_module(module), module)
        if installed:
            self._register_installed()
        for module in dict.fromkeys(modules):
            self._register_local(module, directory or Path())
        self._check()

    def register(self, plugin: object, name: str) -> None:
        """Add a plugin. Raises InvalidPluginError when it does not fit the hooks."""
        try:
            self.pluggy.register(plugin, name=name)
        except (pluggy.PluginValidationError, ValueError) as error:
            raise InvalidPluginError(f"plugin {name}: {error}") from error

    @cached_property
    def assignors(self) -> Registry:
        """Task assignors, by `assignment.assignor`."""
        return self._registry("assignor", self.pluggy.hook.headwater_register_assignors)

    @cached_property
    def restore_strategies(self) -> Registry:
        """Restore strategies, by `restore.strategy`."""
        return self._registry("restore strategy", self.pluggy.hook.headwater_register_restore_strategies)

    @cached_property
    def restore_listeners(self) -> Registry:
        """Restore listeners. A run uses all of them."""
        return self._registry("restore listener", self.pluggy.hook.headwater_register_restore_listeners)

    @cached_property
    def store_backends(self) -> Registry:
        """Store backends, by `backend` of a store."""
        return self._registry("store backend", self.pluggy.hook.headwater_register_store_backends)

    @cached_property
    def logs(self) -> Registry:
        """Logs, by `log.type` of a target."""
        return self._registry("log", self.pluggy.hook.headwater_register_logs)

    @cached_property
    def serdes(self) -> Registry:
        """Serdes, by name."""
        return self._registry("serde", self.pluggy.hook.headwater_register_serdes)

    @cached_property
    def commands(self) -> Mapping[str, Any]:
        """Commands by name, as objects of click."""
        registry = self._registry("command", self.pluggy.hook.headwater_register_commands)
        return {name: registration.load() for name, registration in registry.items()}

    def _registry(self, kind: str, hook: pluggy.HookCaller) -> Registry:
        registry = Registry(kind)

        def failed(error: BaseException) -> InvalidPluginError:
            return InvalidPluginError(f"a plugin fails in {hook.name}: {error_text_with_line(error)}")

        with wrapping_errors(failed, passing=PluginError):
            hook(register=registry.register)
        return registry

    def _register_installed(self) -> None:
        for entry_point in installed_plugins():
            name = entry_point.name
            if not self.pluggy.is_blocked(name):
                with wrapping_errors(partial(PluginImportError, name)):
                    plugin = entry_point.load()
                self.register(plugin, name)

    def _register_local(self, module: str, directory: Path) -> None:
        if not self.pluggy.is_blocked(module):
            with wrapping_errors(partial(PluginImportError, module, local=True)):
                plugin = import_from(directory, module)
            self.register(plugin, module)

    def _check(self) -> None:
        try:
            self.pluggy.check_pending()
        except pluggy.PluginValidationError as error:
            name = self.pluggy.get_name(error.plugin)
            raise InvalidPluginError(f"plugin {name}: {error}", f"hooks: {', '.join(_hook_names())}") from error


def installed_plugins() -> list[EntryPoint]:
    """The entry points of the group `headwater`. Of a package that is on the path twice, those of the first count."""
    of_package = dict[str, list[EntryPoint]]()
    for folder in map(Path, dict.fromkeys(sys.path)):
        if folder.exists():
            of_package = dict(_packages_with_plugins(folder.absolute(), folder.stat().st_mtime_ns)) | of_package
    return sorted(entry_point for declared in of_package.values() for entry_point in declared)


# `importlib.metadata` lists the zip files of the path again whenever the path has changed, as it does in each Python
# worker of Spark after its fork: 0.06 s of CPU for the file of PySpark.
@lru_cache(maxsize=64)
def _packages_with_plugins(folder: Path, _changed_at: int) -> Sequence[tuple[str, list[EntryPoint]]]:
    """The packages of a folder, or of a zip file, that have entry points of the group."""
    packages = distributions(path=[str(folder)])
    declared = ((package, package.entry_points.select(group=ENTRY_POINTS)) for package in packages)
    return [(package.name, list(points)) for package, points in declared if points]


def _hook_names() -> list[str]:
    return sorted(name for name in vars(Hooks) if name.startswith("headwater_"))
