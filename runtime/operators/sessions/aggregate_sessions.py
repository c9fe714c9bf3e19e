"""The operator of the `aggregate` step behind a session window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from ...records.arrays import Int64s
from ...topology import Store
from .. import declarations
from ..aggregates.registry import results
from ..hidden_state import travels
from ..node import Edges, step_name
from ..rows import Rows
from ..task_epoch import TaskEpoch
from .folding import Folded, fold_sessions
from .merging import Merged
from .session_table import SessionTable


@dataclass(frozen=True)
class AggregateSessions(declarations.AggregateSessions):
    """Aggregates by key and session. The aggregates are in `store.aggregates`.

    Null keys are dropped and counted, and records for a session that is closed. Null values are aggregated. A row's
    timestamp is the end of its session. `emit`, `old`: see `Aggregate`.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowFailedError, SumOverflowError."""
        fold = _Aggregates(self.store)
        table = SessionTable(self.store, fold, self.emit, self.old, step_name(self), self.headers)
        edges[self.flow] = table.run(edges[self.flow], epoch)


@dataclass(frozen=True)
class _Aggregates:
    """A SessionFold by the aggregates of a store."""

    store: Store

    @property
    def travels(self) -> bool:
        """Whether expressions over aggregates follow."""
        return travels(self.store)

    def fold(self, rows: Rows, merged: Merged, stored: Mapping[str, pa.Array], order: Int64s, each: bool) -> Folded:
        """See `SessionFold`. Raises SumOverflowError too."""
        return fold_sessions(self.store.aggregates, rows, merged, stored, order, each)

    def results(self, stored: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """See `SessionFold`."""
        return results(self.store.aggregates, stored, merges=True)
