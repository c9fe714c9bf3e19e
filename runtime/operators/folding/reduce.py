"""The operator of the `reduce` step."""

from __future__ import annotations

from dataclasses import dataclass

from .. import declarations
from ..keyed.stored_rows import stored_columns
from ..node import Edges, step_name
from ..task_epoch import TaskEpoch
from .calls import ReduceFold
from .folded import folded


@dataclass(frozen=True)
class Reduce(declarations.Reduce):
    """Reduces by key, and by window or session if `store.window` is set. The row has the columns of the values.

    What is dropped, and timestamps: see `Aggregate`. A null value in a window is a value of nulls.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowFailedError, FunctionLoadError."""
        fold = ReduceFold(self.function, stored_columns(self.store))
        edges[self.flow] = folded(fold, self, "stream", step_name(self), edges[self.flow], epoch)
