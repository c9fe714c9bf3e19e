"""Rows that leave the result of a join by a foreign key without a change of it."""

from __future__ import annotations

from dataclasses import dataclass

from ....topology import Store
from ... import declarations
from ...keyed.codes import bytes_of
from ...keyed.stored_rows import store_keys
from ...node import Edges
from ...rows import Rows
from ...task_epoch import TaskEpoch


@dataclass(frozen=True)
class Forget(declarations.Forget):
    """Removes the rows of keys from a store. Nobody is told: they are as they were, but can change no more."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        forget(self.store, edges.pop(self.flow), epoch)


def forget(store: Store, rows: Rows, epoch: TaskEpoch) -> None:
    """Remove the rows with these keys from a store."""
    keys = bytes_of(store_keys(store, rows.keys))
    epoch.store(store).put_many(keys, [None] * len(keys), rows.timestamp)
