"""Finds plugins and asks them what they register.

Built-in plugins come first, then installed ones (entry points of the group `headwater`), then modules of the project.
Built-in and local ones are found by dotted name, so this module imports none of the classes that plugins make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pluggy

from .errors import InvalidPluginError, PluginError, PluginImportError, is_of_the_machine, told
from .hookspecs import Hooks
from .local_modules import import_from
from .registry import Registry

BUILTINS = ("headwater.runtime.builtin_plugins",)
ENTRY_POINTS = "headwater"


class PluginManager:
    """The plugins of one project. The hook of each kind is called once, when the kind is first used.

    `modules`: the project's own, found below `directory` (default: the current one). `block`: names of plugins (entry
    points or modules) that are left out and not imported. `installed`: whether entry points are used. Raises
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
        return self._asked("assignor", self.pluggy.hook.headwater_register_assignors)

    @cached_property
    def restore_strategies(self) -> Registry:
        """Restore strategies, by `restore.strategy`."""
        return self._asked("restore strategy", self.pluggy.hook.headwater_register_restore_strategies)

    @cached_property
    def restore_listeners(self) -> Registry:
        """Restore listeners. All of them are used."""
        return self._asked("restore listener", self.pluggy.hook.headwater_register_restore_listeners)

    @cached_property
    def store_backends(self) -> Registry:
        """Store backends, by `backend` of a store."""
        return self._asked("store backend", self.pluggy.hook.headwater_register_store_backends)

    @cached_property
    def logs(self) -> Registry:
        """Logs, by `log.type` of a target."""
        return self._asked("log", self.pluggy.hook.headwater_register_logs)

    @cached_property
    def serdes(self) -> Registry:
        """Serdes, by name."""
        return self._asked("serde", self.pluggy.hook.headwater_register_serdes)

    @cached_property
    def commands(self) -> Mapping[str, Any]:
        """Commands by name, as objects of click."""
        registry = self._asked("command", self.pluggy.hook.headwater_register_commands)
        return {name: registration.load() for name, registration in registry.items()}

    def _asked(self, kind: str, hook: pluggy.HookCaller) -> Registry:
        registry = Registry(kind)
        try:
            hook(register=registry.register)
        except PluginError:
            raise
        except BaseException as error:
            if is_of_the_machine(error):
                raise
            raise InvalidPluginError(f"a plugin fails in {hook.name}: {told(error)}") from error
        return registry

    def _register_installed(self) -> None:
        for entry_point in sorted(entry_points(group=ENTRY_POINTS)):
            if not self.pluggy.is_blocked(entry_point.name):
                try:
                    plugin = entry_point.load()
                except BaseException as error:
                    if is_of_the_machine(error):
                        raise
                    raise PluginImportError(entry_point.name, error) from error
                self.register(plugin, entry_point.name)

    def _register_local(self, module: str, directory: Path) -> None:
        if not self.pluggy.is_blocked(module):
            try:
                plugin = import_from(directory, module)
            except BaseException as error:
                if is_of_the_machine(error):
                    raise
                raise PluginImportError(module, error, local=True) from error
            self.register(plugin, module)

    def _check(self) -> None:
        try:
            self.pluggy.check_pending()
        except pluggy.PluginValidationError as error:
            name = self.pluggy.get_name(error.plugin)
            raise InvalidPluginError(f"plugin {name}: {error}", f"hooks: {', '.join(_hook_names())}") from error


def _hook_names() -> list[str]:
    return sorted(name for name in vars(Hooks) if name.startswith("headwater_"))
