"""Rows that leave the result of a join by a foreign key without a change of it."""

from __future__ import annotations

from dataclasses import dataclass

from ... import declarations
from ...keyed.codes import bytes_of
from ...keyed.stored_rows import store_keys
from ...node import Edges
from ...task_epoch import TaskEpoch


@dataclass(frozen=True)
class Forget(declarations.Forget):
    """Removes the rows of keys from a store. Nobody is told: they are as they were, but can change no more."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        rows = edges.pop(self.flow)
        keys = bytes_of(store_keys(self.store, rows.keys))
        epoch.store(self.store).put_many(keys, [None] * len(keys), rows.timestamp)
