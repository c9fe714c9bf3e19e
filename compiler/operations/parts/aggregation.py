"""The operations of an `aggregate` step besides projections: the aggregation, and storing the columns computed after
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....runtime.operators.declarations import (
    Aggregate,
    AggregateSessions,
    AggregateSliding,
    Declaration,
    Materialize,
    Side,
)
from ....runtime.topology import Agg, Store
from ....runtime.windows import SessionWindow, SlidingWindow
from ...language.expressions import Expression
from ..base.edge import argument_columns
from ..base.operation import EVERY_CHANGE, Description, Processor, PythonOperation, TableUse
from ..base.shape import Shape
from ..base.site import PythonLayout, Site


@dataclass(frozen=True)
class AggregateArgument:
    """An aggregate with the input column that it reads, which has no physical name yet."""

    aggregate: Agg
    column: Expression | None = None


@dataclass(frozen=True)
class Aggregation(PythonOperation):
    """Aggregates by key, or by key and window.

    `store` has no `aggregates` yet; the layout adds them with column names. `final`: whether only the rows go on whose
    windows have closed.
    """

    store: Store
    arguments: tuple[AggregateArgument, ...]
    of: Side
    final: bool = False

    has_effect = True
    null_keys = "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns that the aggregates read."""
        return argument_columns(argument.column for argument in self.arguments if argument.column is not None)

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """A table's changes arrive here through a repartition topic."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-AGGREGATE" if of_table else "KSTREAM-AGGREGATE"
        text = f"aggregate into {self.store.name}{', emit on_close' if self.final else ''}"
        return Description(text, (Processor(role, stores=(self.store.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        edge, shape = site.input, site.output.shape
        aggregates = tuple(
            replace(each.aggregate, column=edge.physical(each.column.as_column)) if each.column else each.aggregate
            for each in self.arguments
        )
        store = replace(self.store, aggregates=aggregates)
        site.declared.stores[store.name] = store
        emit, old = site.changes(self._counts(), self.of == "table")
        node: Declaration
        match store.window:
            case SessionWindow():
                node = AggregateSessions(edge.name, store, emit, old, self.final, site.at)
            case SlidingWindow():
                node = AggregateSliding(edge.name, store, emit, old, site.at)
            case _:
                node = Aggregate(edge.name, store, emit, old, self.of, site.at)
        return PythonLayout((node,), (replace(edge, shape=shape, value=tuple(shape.value)),))

    def _counts(self) -> frozenset[str]:
        """The results of `count(*)`, which are positive because a group without rows has no row."""
        aggregates = (argument.aggregate for argument in self.arguments if argument.column is None)
        return frozenset(aggregate.name for aggregate in aggregates if aggregate.function == "count")


@dataclass(frozen=True)
class Materialization(PythonOperation):
    """Stores the value columns that expressions over aggregates make, beside the aggregates."""

    store: Store

    has_effect = True
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """A store has all columns."""
        return offered

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """All changes go on as they are."""
        return TableUse(positive=positive)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """Nothing: it belongs to the aggregation."""
        return Description()

    def in_python(self, site: Site) -> PythonLayout:
        store = site.declared.stores[self.store.name]
        return PythonLayout((Materialize(site.input.name, store, site.at),), (site.onward,))
