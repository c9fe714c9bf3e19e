"""Progress of store restores."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ...readable_text import counted
from ..state.restore_listener import SuspendReason
from ..task_id import StoreId
from ..tasks.state import TaskType
from .client_events import (
    AssignmentFailed,
    ClientLost,
    StoreDamaged,
    StoreLost,
    StoreOutdated,
    StoreRestored,
    StoreRestoring,
    TasksPlaced,
)
from .events import ApplicationStopped, Event, Observer


@dataclass
class RestoringStore:
    """A store of an active task that is being restored. `first`, `began`: position and time (s) of its first event;
    `position`, `heard`: of its last one.
    """

    client: str
    store: str
    partition: int
    first: int
    began: float
    position: int
    heard: float
    end: int

    @property
    def rate(self) -> float:
        """Records per second, up to the last event."""
        return (self.position - self.first) / (self.heard - self.began) if self.heard > self.began else 0.0

    @property
    def work(self) -> int:
        """Changelog records to apply at the first event."""
        return max(0, self.end - self.first)

    @property
    def left(self) -> int:
        """Changelog records still to apply."""
        return max(0, self.end - self.position)


class Restoring:
    """The stores that are being restored, from the events of an application. `seconds`: a monotonic clock."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._stores: dict[tuple[str, str, int], RestoringStore] = {}

    @property
    def stores(self) -> list[RestoringStore]:
        """The stores, those with the most remaining records first."""
        return sorted(self._stores.values(), key=lambda store: (-store.left, store.store, store.partition))

    def on(self, event: Event) -> None:
        """Handle an event of the application.

        An assignment clears all stores, as their tasks may move. The others have another event after their next slice.
        """
        match event:
            case StoreRestoring():
                key = event.client, event.store, event.partition
                now = event.position, self._seconds()
                store = self._stores.setdefault(key, RestoringStore(*key, *now, *now, event.end))
                store.position, store.heard, store.end = *now, event.end
            case StoreRestored() | StoreDamaged() | StoreOutdated() | StoreLost():
                self._stores.pop((event.client, event.store, event.partition), None)
            case ClientLost():
                self._stores = {key: store for key, store in self._stores.items() if store.client != event.client}
            case TasksPlaced() | AssignmentFailed() | ApplicationStopped():
                self._stores = {}

    def summary(self) -> str:
        """`restoring 3 stores: 1,200,000 of 4,000,000 records, 310,000/s, 9 s left`; empty without stores."""
        stores = self._stores.values()
        if not stores:
            return ""
        done, end = sum(store.position for store in stores), sum(store.end for store in stores)
        return f"restoring {counted(len(self._stores), 'store')}: {done:,} of {end:,} records{pace(*stores)}"

    def short(self) -> str:
        """`restoring 3 stores: 30 %`; empty without stores."""
        stores = self._stores.values()
        if not stores:
            return ""
        done, end = sum(store.position for store in stores), sum(store.end for store in stores)
        return f"restoring {counted(len(self._stores), 'store')}: {100 * done // max(1, end)} %"


def pace(*stores: RestoringStore) -> str:
    """`, 310,000/s, 9 s left` for all stores together; empty before there is a rate."""
    rate = sum(store.rate for store in stores)
    return f", {rate:,.0f}/s, {span(sum(store.left for store in stores) / rate)} left" if rate > 0 else ""


def span(seconds: float) -> str:
    """A rounded duration: `12 s`, `5 min`, `3 h`, `2 days`."""
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h" if whole < 172_800 else f"{whole // 86_400} days"


class RestoreEvents:
    """A RestoreListener of one client that reports events of active tasks. Standbys restore all the time, without
    events.

    `bytes_from`: the size of a store's changelog from a position on, in bytes.
    """

    def __init__(
        self, application: str, client: str, observer: Observer, bytes_from: Callable[[StoreId, int], int]
    ) -> None:
        self._application = application
        self._client = client
        self._observer = observer
        self._bytes_from = bytes_from

    def started(self, role: TaskType, store: StoreId, position: int, end: int) -> None:
        """Report the start, if the store is behind."""
        if position < end:
            self._restoring(role, store, position, end)

    def batch(self, role: TaskType, store: StoreId, position: int, end: int, records: int) -> None:  # noqa: ARG002
        """Report the position."""
        self._restoring(role, store, position, end)

    def ended(self, role: TaskType, store: StoreId, records: int) -> None:
        """Report the end, if records were applied."""
        if role is TaskType.ACTIVE and records:
            self._observer.on(StoreRestored(self._application, self._client, store.store, store.partition, records))

    def suspended(self, role: TaskType, store: StoreId, records: int, reason: SuspendReason) -> None:
        """Do nothing: the event of the assignment has the moved task."""

    def _restoring(self, role: TaskType, store: StoreId, position: int, end: int) -> None:
        if role is TaskType.ACTIVE:
            at = self._application, self._client, store.store, store.partition
            self._observer.on(StoreRestoring(*at, position, end, self._bytes_from(store, position)))
