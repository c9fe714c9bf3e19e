"""The operator of the `aggregate` step with a class of the project."""

from __future__ import annotations

from dataclasses import dataclass

from .. import declarations
from ..keyed.stored_rows import stored_columns
from ..node import Edges, step_name
from ..task_epoch import TaskEpoch
from .calls import AggregatorFold
from .folded import folded


@dataclass(frozen=True)
class AggregateWith(declarations.AggregateWith):
    """Aggregates by key, and by window or session if `store.window` is set. The row is the state that the class keeps.

    What is dropped, and timestamps: see `Aggregate`. A null value in a window is a value of nulls.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowFailedError, FunctionError."""
        fold = AggregatorFold(self.function, stored_columns(self.store))
        edges[self.flow] = folded(fold, self, self.of, step_name(self), edges[self.flow], epoch)
