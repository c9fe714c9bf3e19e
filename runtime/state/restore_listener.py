"""The interface of restore listeners."""

# ruff: noqa: ARG002  (defaults ignore their arguments)

from __future__ import annotations

from enum import Enum
from typing import Protocol

from ..task_id import StoreId
from ..tasks.state import TaskType


class SuspendReason(Enum):
    """Why a restore, or the update of a standby store, ended early. Source: KIP-988, `SuspendReason`."""

    PROMOTED = "promoted"
    MIGRATED = "migrated"


class RestoreListener(Protocol):
    """Is called about restored stores (`role` ACTIVE) and standby stores (STANDBY).

    Positions count changelog records. A subclass ignores all calls that it does not override.
    """

    def started(self, role: TaskType, store: StoreId, position: int, end: int) -> None:
        """A restore starts at `position`. `end`: the committed position."""
        return

    def batch(self, role: TaskType, store: StoreId, position: int, end: int, records: int) -> None:
        """`records` were applied, and the store is at `position`."""
        return

    def ended(self, role: TaskType, store: StoreId, records: int) -> None:
        """The store is at its committed position. `records`: applied in total."""
        return

    def suspended(self, role: TaskType, store: StoreId, records: int, reason: SuspendReason) -> None:
        """The restore ended early. `records`: applied in total."""
        return
