"""Tells an observer what is restored."""

from __future__ import annotations

from collections.abc import Callable

from ...state.restore_listener import Suspended
from ...task_id import StoreId
from ...tasks.state import TaskType
from .events import Observer, StoreRestored, StoreRestoring


class RestoreEvents:
    """A RestoreListener of one client. Standby tasks are not told of: they follow their changelogs all the time.

    `bytes_from`: the bytes of a store's changelog from a position on.
    """

    def __init__(
        self, application: str, client: str, observer: Observer, bytes_from: Callable[[StoreId, int], int]
    ) -> None:
        self._application = application
        self._client = client
        self._observer = observer
        self._bytes_from = bytes_from

    def started(self, role: TaskType, store: StoreId, position: int, end: int) -> None:
        """Tell of an active task's store that is behind."""
        if position < end:
            self._restoring(role, store, position, end)

    def batch(self, role: TaskType, store: StoreId, position: int, end: int, records: int) -> None:  # noqa: ARG002
        """Tell how far it is."""
        self._restoring(role, store, position, end)

    def ended(self, role: TaskType, store: StoreId, records: int) -> None:
        """Tell that it is done, where there was something to do."""
        if role is TaskType.ACTIVE and records:
            self._observer.on(StoreRestored(self._application, self._client, store.store, store.partition, records))

    def suspended(self, role: TaskType, store: StoreId, records: int, reason: Suspended) -> None:
        """Say nothing: whatever moved the task is told."""

    def _restoring(self, role: TaskType, store: StoreId, position: int, end: int) -> None:
        if role is TaskType.ACTIVE:
            at = self._application, self._client, store.store, store.partition
            self._observer.on(StoreRestoring(*at, position, end, self._bytes_from(store, position)))
