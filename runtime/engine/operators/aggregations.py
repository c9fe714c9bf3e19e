"""Operators that aggregate by key, and by window if their store has one. The rows of a key become a row of a table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.functions import PythonFunction
from ...ir.topology import Store
from .operator import NO_INPUTS, Column, EdgeColumns, Emit, Lineage, Place, Side, Stores, column_of, columns_of

if TYPE_CHECKING:
    from ..execution.node import Edges, TaskEpoch


class Aggregation(Stores):
    """The base of all aggregations. `of`: a stream, or a regrouped table; the old rows of a table are subtracted."""

    store: Store
    of: Side = "stream"

    old_rows = "stored"

    @property
    def needs_all(self) -> bool:
        """True for a regrouped table, because each change is subtracted later."""
        return self.of == "table"

    @abstractmethod
    def results(self, edge: EdgeColumns) -> dict[str, Column]:
        """The value columns of the result. `edge`: the columns of the input edge."""

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """The key columns, those of the window, and the results."""
        from ...records.schema import WINDOW_COLUMNS

        edge = edges[self.flow]
        # The key of a store with a window may name the window's columns, which the edge before does not have.
        window = WINDOW_COLUMNS if self.store.window is not None else ()
        columns = {name: column for name, column in columns_of(self.store.key).items() if name not in window}
        key = {name: column.with_inputs(edge.key[name].inputs) for name, column in columns.items()}
        key |= dict.fromkeys(window, Column("timestamp"))
        return {self.flow: EdgeColumns(key, self.results(edge))}


class _InSql(Aggregation):
    """Aggregation with the SQL aggregates in `store.aggregates`."""

    text = ""

    def results(self, edge: EdgeColumns) -> dict[str, Column]:
        return {
            agg.name: column_of(agg.type, edge.at(agg.column).inputs if agg.column else NO_INPUTS)
            for agg in self.store.aggregates
        }


class _InPython(Aggregation):
    """Aggregation with Python code of the project, which computes all value columns of the store."""

    def results(self, edge: EdgeColumns) -> dict[str, Column]:
        inputs = edge.of_python()
        return {name: column.with_inputs(inputs) for name, column in columns_of(self.store.value).items()}


@dataclass(frozen=True)
class Aggregate(_InSql):
    """Aggregates by key, and by window if `store.window` is set. The aggregates are in `store.aggregates`.

    `of`: a stream, or a regrouped table. OLD rows of a table are subtracted, and all aggregates must support that.
    `emit`: every update, or one change for each key and epoch. `old`: whether changes include the replaced rows.

    | | null key | null value | late |
    |---|---|---|---|
    | stream | dropped, counted | dropped, counted | - |
    | stream, windows | dropped, counted | aggregated | counted for each closed window |

    A row's timestamp is the greatest timestamp of its records. If the store has value columns that are no aggregates,
    expressions over aggregates follow. Then the state of each key travels with its last change (`Rows.state`), and
    `Materialize` stores both.
    """

    flow: str
    store: Store
    emit: Emit = "each_update"
    old: bool = False
    of: Side = "stream"
    at: Place = ""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises RowFailedError, SumOverflowError."""
        from ..execution.aggregate import aggregate_by_key

        aggregate_by_key(self, edges, epoch)


@dataclass(frozen=True)
class AggregateSessions(_InSql):
    """Aggregates by key and session. `store.window` is a SessionWindow. `emit`, `old`: see `Aggregate`.

    `headers`: whether results have the headers of their records; only final results of sessions have them. Records with
    a null key or for a closed session are dropped and counted. Null values are aggregated. A row's timestamp is the end
    of its session.
    """

    flow: str
    store: Store
    emit: Emit = "each_update"
    old: bool = False
    headers: bool = False
    at: Place = ""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises RowFailedError, SumOverflowError."""
        from ..execution.aggregate_sessions import aggregate_sessions

        aggregate_sessions(self, edges, epoch)


@dataclass(frozen=True)
class AggregateSliding(_InSql):
    """Aggregates by key and sliding window. `store.window` is a SlidingWindow. `emit`, `old`: see `Aggregate`."""

    flow: str
    store: Store
    emit: Emit = "each_update"
    old: bool = False
    at: Place = ""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises RowFailedError, SumOverflowError."""
        from ..execution.sliding.aggregate_sliding import aggregate_sliding

        aggregate_sliding(self, edges, epoch)


@dataclass(frozen=True)
class Reduce(_InPython):
    """Reduces by key, and by window or session if the store has one, with a Python function of two values.

    The result row has the columns of the values. `emit`, `old`, dropped records and timestamps: see `Aggregate`.
    `headers`: see `AggregateSessions`. A null value in a window counts as a value with only nulls.
    """

    flow: str
    store: Store
    function: PythonFunction
    emit: Emit = "each_update"
    old: bool = False
    headers: bool = False
    at: Place = ""

    @property
    def text(self) -> str:
        return f"reduce {self.function.name}"

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises RowFailedError, FunctionLoadError."""
        from ..execution.aggregate_with import reduce_rows

        reduce_rows(self, edges, epoch)


@dataclass(frozen=True)
class AggregateWith(_InPython):
    """Aggregates by key, and by window or session if the store has one, with a Python class. Its state is the row.

    `emit`, `old`, `of`, dropped records and timestamps: see `Aggregate`. `headers`: see `AggregateSessions`. A null
    value in a window counts as a value with only nulls.
    """

    flow: str
    store: Store
    function: PythonFunction
    emit: Emit = "each_update"
    old: bool = False
    of: Side = "stream"
    headers: bool = False
    at: Place = ""

    @property
    def text(self) -> str:
        return f"aggregate {self.function.name}"

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises RowFailedError, FunctionError."""
        from ..execution.aggregate_with import aggregate_with

        aggregate_with(self, edges, epoch)
