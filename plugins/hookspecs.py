"""The hooks of plugins. The hook of a kind is called when the first plugin of that kind is needed.

A hook gets a `register` function. A name is registered once for each kind, by one plugin; built-in plugins use the same
hooks. The docstring of a hook names the class that a factory must make; `docs/plugins.md` describes it.
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
        """Make `name` usable in YAML.

        `factory` is called with the options as keyword arguments. As text (`package.module:attribute`) it is imported
        on first use. `options_schema`: a JSON Schema (draft 7) of the options; None: the plugin has no options.
        `description`: one sentence for users. `requires`: modules that must be installed to use it, each with the name
        for `pip install`. `needs_changelog`: for a store backend whose rows can be lost with the process; a store of it
        without a changelog is an error.
        """
        ...


class Hooks:
    """All hooks of Headwater."""

    @_hookspec
    def headwater_register_assignors(self, register: Register) -> None:
        """Register task assignors: `assignment: {assignor: NAME}`.

        A factory makes a `runtime.assignment` TaskAssignor.
        """

    @_hookspec
    def headwater_register_restore_strategies(self, register: Register) -> None:
        """Register restore strategies: `restore: {strategy: NAME}`.

        A factory makes a `runtime.state` RestoreStrategy.
        """

    @_hookspec
    def headwater_register_restore_listeners(self, register: Register) -> None:
        """Register restore listeners, which see every restore. A factory makes a `runtime.state` RestoreListener."""

    @_hookspec
    def headwater_register_store_backends(self, register: Register) -> None:
        """Register store backends: `stores: {s: {backend: NAME}}`. A factory makes a `runtime.state` StoreBackend."""

    @_hookspec
    def headwater_register_logs(self, register: Register) -> None:
        """Register logs: `log: {type: NAME}` of a target in profiles.yml. A factory makes a `runtime.log` Log."""

    @_hookspec
    def headwater_register_serdes(self, register: Register) -> None:
        """Register serdes: `format: NAME` of a key or value in Kafka. A factory makes a `runtime.serdes` Serde."""

    @_hookspec
    def headwater_register_commands(self, register: Register) -> None:
        """Register commands: `headwater NAME`. In place of a factory: a click Command, or where to import one."""
