"""Progress of restores."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..state.restore_listener import SuspendReason
from ..task_id import StoreId
from ..tasks.state import TaskType
from . import events
from .events import Event, Observer, StoreRestored, StoreRestoring

# How far the stores of an application are that are being restored, added up from its events.


@dataclass
class RestoringStore:
    """A store of an active task. `first`, `began`: where it stood, and when (seconds), as it was first heard of;
    `position`, `heard`: as it was heard of last."""

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
        """Records a second, up to when it was heard of last."""
        return (self.position - self.first) / (self.heard - self.began) if self.heard > self.began else 0.0

    @property
    def work(self) -> int:
        """Changelog records that were missing at first."""
        return max(0, self.end - self.first)

    @property
    def left(self) -> int:
        """Changelog records that are missing."""
        return max(0, self.end - self.position)


class Restoring:
    """What is being restored. `seconds`: a clock that never goes back."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._stores: dict[tuple[str, str, int], RestoringStore] = {}

    @property
    def stores(self) -> list[RestoringStore]:
        """Those with the most to do first."""
        return sorted(self._stores.values(), key=lambda each: (-each.left, each.store, each.partition))

    def on(self, event: Event) -> None:
        """Take note of an event of the application.

        Placing tasks ends what is known: they may have moved. Those that have not are heard of again after a slice.
        """
        match event:
            case events.StoreRestoring():
                key = event.client, event.store, event.partition
                now = event.position, self._seconds()
                found = self._stores.setdefault(key, RestoringStore(*key, *now, *now, event.end))
                found.position, found.heard, found.end = *now, event.end
            case events.StoreRestored() | events.StoreDamaged() | events.StoreOutdated() | events.StoreLost():
                self._stores.pop((event.client, event.store, event.partition), None)
            case events.ClientLost():
                self._stores = {key: each for key, each in self._stores.items() if each.client != event.client}
            case events.TasksPlaced() | events.AssignmentFailed() | events.ApplicationStopped():
                self._stores = {}

    def summary(self) -> str:
        """`restoring 3 stores: 1,200,000 of 4,000,000 records, 310,000/s, 9 s left`; empty where there are none."""
        stores = self._stores.values()
        if not stores:
            return ""
        done, end = sum(each.position for each in stores), sum(each.end for each in stores)
        return f"restoring {self._counted()}: {done:,} of {end:,} records{pace(*stores)}"

    def short(self) -> str:
        """`restoring 3 stores: 30 %`; empty where there are none."""
        stores = self._stores.values()
        if not stores:
            return ""
        done, end = sum(each.position for each in stores), sum(each.end for each in stores)
        return f"restoring {self._counted()}: {100 * done // max(1, end)} %"

    def _counted(self) -> str:
        return "1 store" if len(self._stores) == 1 else f"{len(self._stores):,} stores"


def pace(*stores: RestoringStore) -> str:
    """`, 310,000/s, 9 s left`: of stores together; empty where nothing is known yet."""
    rate = sum(each.rate for each in stores)
    return f", {rate:,.0f}/s, {span(sum(each.left for each in stores) / rate)} left" if rate > 0 else ""


def span(seconds: float) -> str:
    """About how long: `12 s`, `5 min`, `3 h`, `2 days`."""
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h" if whole < 172_800 else f"{whole // 86_400} days"


# Tells an observer what is restored.


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

    def suspended(self, role: TaskType, store: StoreId, records: int, reason: SuspendReason) -> None:
        """Say nothing: whatever moved the task is told."""

    def _restoring(self, role: TaskType, store: StoreId, position: int, end: int) -> None:
        if role is TaskType.ACTIVE:
            at = self._application, self._client, store.store, store.partition
            self._observer.on(StoreRestoring(*at, position, end, self._bytes_from(store, position)))
