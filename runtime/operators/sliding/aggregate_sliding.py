"""The operator of the `aggregate` step behind a sliding window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from ...topology import Store
from .. import declarations
from ..aggregates.registry import results
from ..hidden_state import travels
from ..node import Edges, step_name
from ..rows import Rows
from ..task_epoch import TaskEpoch
from .folding import Folded, fold_windows
from .sliding_table import SlidingTable
from .updates import Updates


@dataclass(frozen=True)
class AggregateSliding(declarations.AggregateSliding):
    """Aggregates by key and sliding window, see `SlidingTable`. The aggregates are in `store.aggregates`."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowFailedError, SumOverflowError."""
        table = SlidingTable(self.store, _Aggregates(self.store), self.emit, self.old, step_name(self))
        edges[self.flow] = table.run(edges[self.flow], epoch)


@dataclass(frozen=True)
class _Aggregates:
    """A SlidingFold by the aggregates of a store."""

    store: Store

    @property
    def travels(self) -> bool:
        """Whether expressions over aggregates follow."""
        return travels(self.store)

    def fold(self, rows: Rows, found: Updates, stored: Mapping[str, pa.Array], each: bool) -> Folded:
        """See `SlidingFold`. Raises SumOverflowError too."""
        return fold_windows(self.store.aggregates, rows, found, stored, each)

    def results(self, stored: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """See `SlidingFold`."""
        return results(self.store.aggregates, stored)
