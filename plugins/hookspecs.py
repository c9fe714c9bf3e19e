"""The hooks of plugins. Each is called when the first plugin of its kind is needed, and gets a `register` function.

A name is registered once for each kind, by one plugin. Built-in ones are registered through the same hooks. Each hook
names the class that a factory must make; `docs/plugins.md` describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pluggy import HookspecMarker

_hookspec = HookspecMarker("headwater")


class Register(Protocol):
    """Registers one plugin of a kind."""

    def __call__(
        self,
        name: str,
        factory: Callable[..., Any] | str,
        options_schema: Mapping[str, Any] | None = None,
        description: str = "",
        *,
        requires: Mapping[str, str] | None = None,
        needs_changelog: bool = False,
    ) -> None:
        """Make `name` known in YAML.

        `factory` is called with the options as keyword arguments; as text (`package.module:attribute`) it is imported
        when it is first used. `options_schema`: a JSON Schema (draft 7) that the options must fit; None: there are no
        options. `description`: one sentence for people. `requires`: modules that must be installed to use it, each with
        what `pip install` gets it by. `needs_changelog`: of a store backend, whether its stores can lose their rows
        with a process, so that one without a changelog is refused.
        """
        ...


class Hooks:
    """All hooks of Headwater."""

    @_hookspec
    def headwater_register_assignors(self, register: Register) -> None:
        """Register task assignors: `assignment: {assignor: NAME}`. Makes a `runtime.assignment` TaskAssignor."""

    @_hookspec
    def headwater_register_restore_strategies(self, register: Register) -> None:
        """Register restore strategies: `restore: {strategy: NAME}`. Makes a `runtime.state` RestoreStrategy."""

    @_hookspec
    def headwater_register_restore_listeners(self, register: Register) -> None:
        """Register restore listeners: all hear what any run restores. Makes a `runtime.state` RestoreListener."""

    @_hookspec
    def headwater_register_store_backends(self, register: Register) -> None:
        """Register store backends: `stores: {s: {backend: NAME}}`. Makes a `runtime.state` StoreBackend."""

    @_hookspec
    def headwater_register_logs(self, register: Register) -> None:
        """Register logs: `log: {type: NAME}` of a target in profiles.yml. Makes a `runtime.log` Log."""

    @_hookspec
    def headwater_register_serdes(self, register: Register) -> None:
        """Reserved: serdes, which turn records into bytes and back, for logs that others read. Not used yet."""

    @_hookspec
    def headwater_register_commands(self, register: Register) -> None:
        """Register commands: `headwater NAME`. Instead of a factory: a click Command, or where to import one."""
