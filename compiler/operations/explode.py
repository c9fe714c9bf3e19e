"""`explode`: makes one row per element of an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from ...runtime.engine.sql_step import SqlStep
from ..entries import Reader, entries
from ..language.expressions import Expression
from ..reading.source import Node, ScalarNode
from .base.context import FlowContext, Step, StepAction, scope_of
from .base.operation import Description, Processor, SqlOperation
from .base.site import Shape, Site, SqlLayout, column_types, columns_read
from .parts.projection import with_calls


@dataclass(frozen=True)
class ExplodeStep(StepAction):
    """`explode:`, with the new column and the array."""

    column: ScalarNode
    array: ScalarNode

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        columns = reader.columns(entries(node))
        return cls(*columns[0]) if columns else None

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require an array."""
        array = context.expressions([self.array], scope_of(shape))[0]
        context.distinct([self.column], shape.value)
        element = None
        if array is not None and array.type is not None:
            if not array.type.startswith("array<"):
                message = f"'explode' needs an array; this has type {array.type}."
                context.report("HW412", array.position, message)
            else:
                element = array.type[len("array<") : -1]
        after = shape.with_value({**shape.value, self.column.text: element})
        if array is None:
            return after
        ready = with_calls(context, step, shape, [array], null_values=True)
        return context.add(Explosion(self.column.text, array), ready, after, step)


@dataclass(frozen=True)
class Explosion(SqlOperation):
    """One row per element of an array, with the other value columns."""

    column: str
    array: Expression

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later, and the columns of the array's expression."""
        return (output - {self.column}) | columns_read([self.array])

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return Description(f"explode {self.array.sql.text}", (Processor("KSTREAM-FLATMAPVALUES"),))

    def in_sql(self, site: Site) -> SqlLayout:
        edge = site.input
        others = [name for name in edge.value if name in site.output.needed and name != self.column]
        out = replace(edge, shape=site.output.shape, value=(*others, self.column))
        columns = {self.column: self.array.render(edge.sql)}
        types = column_types(out.shape.value, columns)
        step = SqlStep("explode", site.flows, columns=columns, types=types, keep=tuple(others), at=site.at)
        return SqlLayout((step,), (out,))
