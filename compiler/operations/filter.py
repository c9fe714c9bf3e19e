"""`filter`: keeps the rows for which a predicate is true. On a table, it deletes the other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from ...runtime.engine.sql_step import SqlStep
from ..entries import Reader
from ..language.expressions import Expression
from ..reading.source import Node, ScalarNode
from .base.context import FlowContext, Step, StepAction
from .base.operation import Description, Processor, SqlOperation, TableUse, may_fail
from .base.site import Shape, Site, SqlLayout, columns_read
from .parts.projection import with_calls, without_calls


@dataclass(frozen=True)
class FilterStep(StepAction):
    """`filter: <predicate>`."""

    predicate: ScalarNode

    accepts_tables = True
    passes_tombstones = True

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        return cls(node) if isinstance(node, ScalarNode) else None

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require a boolean."""
        predicate = context.predicate(self.predicate, shape)
        if predicate is None:
            return shape
        ready = with_calls(context, step, shape, [predicate], null_values=not shape.is_table)
        after = replace(ready.without_store(), unsettled=shape.is_table)
        return without_calls(context, step, context.add(Filter(predicate), ready, after, step), shape)


@dataclass(frozen=True)
class Filter(SqlOperation):
    """Keeps the rows for which the predicate is true."""

    predicate: Expression

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later, and the columns of the predicate."""
        return output | columns_read([self.predicate])

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Some changes are not passed on."""
        fails = may_fail([self.predicate], shape, positive)
        return TableUse(filters=True, may_fail=fails, positive=positive)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-FILTER" if of_table else "KSTREAM-FILTER"
        return Description(f"filter {self.predicate.sql.text}", (Processor(role),))

    def in_sql(self, site: Site) -> SqlLayout:
        edge = site.input
        condition = self.predicate.render(edge.sql)
        step = SqlStep("where", site.flows, condition=condition, table=edge.shape.is_table, at=site.at)
        return SqlLayout((step,), (site.onward,))
