"""Who hears what is restored."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from ..task_id import StoreId
from ..tasks.state import TaskType


class Suspended(Enum):
    """Why a changelog is left alone before it is completed."""

    PROMOTED = "promoted"
    MIGRATED = "migrated"


class RestoreListener(Protocol):
    """Hears of stores that are restored (`role` ACTIVE) and of standby stores (STANDBY).

    Positions are numbers of changelog records.
    """

    def started(self, role: TaskType, store: StoreId, position: int, end: int) -> None:
        """Restoring begins, from a position."""
        ...

    def batch(self, role: TaskType, store: StoreId, position: int, end: int, records: int) -> None:
        """So many records were applied, and the store stands at `position`."""
        ...

    def ended(self, role: TaskType, store: StoreId, records: int) -> None:
        """The store stands where the commits say; `records` were applied in all."""
        ...

    def suspended(self, role: TaskType, store: StoreId, records: int, reason: Suspended) -> None:
        """The store is left alone from now on. `records`: applied in all."""
        ...


class NoListener:
    """Hears nothing."""

    def started(self, role: TaskType, store: StoreId, position: int, end: int) -> None:
        """Do nothing."""

    def batch(self, role: TaskType, store: StoreId, position: int, end: int, records: int) -> None:
        """Do nothing."""

    def ended(self, role: TaskType, store: StoreId, records: int) -> None:
        """Do nothing."""

    def suspended(self, role: TaskType, store: StoreId, records: int, reason: Suspended) -> None:
        """Do nothing."""
