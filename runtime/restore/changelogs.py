"""The changelogs that a StoreChangelogReader reads: the state of each, and what it means that none moves on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from ...errors import HeadwaterError
from ..task_id import StoreId, TaskId
from ..tasks.task import Task


class ReaderMode(Enum):
    """For whom slices are made."""

    ACTIVE_RESTORING = "active_restoring"
    STANDBY_UPDATING = "standby_updating"


class ChangelogState(Enum):
    """How far a registered changelog is. One of a standby task is never completed."""

    REGISTERED = "registered"
    RESTORING = "restoring"
    COMPLETED = "completed"


class RestoreStalledError(HeadwaterError):
    """Slices bring stores no further. `client`, `stores`; `tasks`: those that the stores are of."""

    def __init__(self, client: str, stores: Collection[StoreId], tasks: Iterable[TaskId] = ()) -> None:
        names = ", ".join(map(str, sorted(stores)))
        super().__init__(
            f"restoring on {client} makes no progress: the restore strategy's steps leave {names} where they are",
            "look at the topology's restore strategy; `changelog` is the built-in one",
        )
        self.client = client
        self.stores = frozenset(stores)
        self.tasks = frozenset(tasks)


@dataclass
class Changelog:
    """One changelog partition that is read. Mutable: the reader's own.

    `suspect`: its store is to be read whole first. `rests_until`: seconds; a standby's that had come to its end.
    """

    task: Task
    state: ChangelogState = ChangelogState.REGISTERED
    records: int = 0
    suspect: bool = False
    rests_until: float = 0.0
