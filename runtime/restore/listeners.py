"""Tells several listeners what is restored: the run's own, and those of plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...plugins.errors import PluginError, is_of_the_machine, told
from ..state.restore_listener import RestoreListener, Suspended
from ..task_id import StoreId
from ..tasks.state import TaskType


class RestoreListenerError(PluginError):
    """A restore listener of a plugin raised. `name`: the listener's, `event`: what it was told."""

    def __init__(self, name: str, event: str, error: BaseException) -> None:
        super().__init__(
            f"the restore listener {name!r} fails in `{event}`: {told(error)}",
            "a listener must not raise, as the run ends with it; nothing that was committed is lost",
        )
        self.name = name
        self.event = event


class Listeners:
    """A RestoreListener. `own` hears first, then those of plugins, by name. Raises RestoreListenerError."""

    def __init__(self, own: RestoreListener, plugins: Mapping[str, RestoreListener]) -> None:
        self._own = own
        self._plugins = dict(plugins)

    def started(self, role: TaskType, store: StoreId, position: int, end: int) -> None:
        """See `RestoreListener`."""
        self._tell("started", lambda each: each.started(role, store, position, end))

    def batch(self, role: TaskType, store: StoreId, position: int, end: int, records: int) -> None:
        """See `RestoreListener`."""
        self._tell("batch", lambda each: each.batch(role, store, position, end, records))

    def ended(self, role: TaskType, store: StoreId, records: int) -> None:
        """See `RestoreListener`."""
        self._tell("ended", lambda each: each.ended(role, store, records))

    def suspended(self, role: TaskType, store: StoreId, records: int, reason: Suspended) -> None:
        """See `RestoreListener`."""
        self._tell("suspended", lambda each: each.suspended(role, store, records, reason))

    def _tell(self, event: str, tell: Callable[[RestoreListener], None]) -> None:
        tell(self._own)
        for name, listener in self._plugins.items():
            try:
                tell(listener)
            except BaseException as error:
                if is_of_the_machine(error):
                    raise
                raise RestoreListenerError(name, event, error) from error
