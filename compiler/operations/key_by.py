"""`key_by`: new key columns for a stream, or for a table before an `aggregate`. `repartition`: new partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from ...runtime.engine.operators.stateless import KeyBy
from ...runtime.engine.sql_step import SqlStep
from ..entries import Reader, integer
from ..language.expressions import Expression
from ..reading.source import MappingNode, Node, ScalarNode
from .base.context import ColumnsStep, FlowContext, Step, StepAction, complete, scope_of
from .base.operation import (
    Description,
    EitherOperation,
    Engine,
    Processor,
    TableUse,
    columns_text,
    is_pure,
    may_fail,
)
from .base.site import UNKNOWN, PythonLayout, Rekey, Shape, Site, SqlLayout, column_types, columns_read
from .parts.projection import with_calls


@dataclass(frozen=True)
class KeyByStep(ColumnsStep):
    """`key_by`: key columns with their expressions."""

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require a stream, or a table with `aggregate` as the next step."""
        if shape.is_table and not (following and following.word.text == "aggregate"):
            message = "After `key_by`, a table can only be aggregated."
            hint = "Put `aggregate` right behind `key_by`, or `to_stream` before it."
            context.report("HW501", step.word.position, message, hint)
            return UNKNOWN
        expressions = context.columns(self.columns, scope_of(shape))
        for expression in expressions.values():
            if expression is not None:
                context.rejects_map(expression.type, expression.position)
        rekey = Rekey(context.name.text, step.name.text if step.name else None, step.word.position)
        key = {name: expression.type if expression else None for name, expression in expressions.items()}
        after = replace(shape, key=key, windowed=False, rekey=rekey, store=None)
        columns = complete(expressions)
        if columns is None:
            return after
        ready = with_calls(context, step, shape, columns.values(), null_values=True)
        return context.add(Rekeying(columns), ready, after, step)


@dataclass(frozen=True)
class Rekeying(EitherOperation):
    """Sets new key columns."""

    columns: Mapping[str, Expression]

    has_effect = False
    null_keys = "passed"

    def engine(self, needed: frozenset[str]) -> Engine:
        """Existing columns need no SQL."""
        return "either" if is_pure(self.columns) else "sql"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later, and the columns of the key's expressions."""
        return output | columns_read(self.columns.values())

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """All changes are passed on, to be regrouped."""
        return TableUse(may_fail=may_fail(self.columns.values(), shape, positive), positive=positive)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-SELECT" if of_table else "KSTREAM-KEY-SELECT"
        return Description(f"key_by {columns_text(self.columns)}", (Processor(role),))

    def in_python(self, site: Site) -> PythonLayout:
        edge = site.input
        key = {name: edge.physical(e.refs[0]) for name, e in self.columns.items()}
        return PythonLayout((KeyBy(edge.name, key, site.at),), (site.onward,))

    def in_sql(self, site: Site) -> SqlLayout:
        edge = site.input
        value = tuple(name for name in edge.value if name in site.output.needed)
        out = replace(edge, shape=site.output.shape, value=value)
        key = {name: expression.render(edge.sql) for name, expression in self.columns.items()}
        types = column_types(out.shape.key, key)
        keep = None if value == edge.value else value
        step = SqlStep("key_by", site.flows, columns=key, types=types, keep=keep, at=site.at)
        return SqlLayout((step,), (out,))


# `repartition`: sends a stream through a repartition topic, with the same or another number of partitions.


@dataclass(frozen=True)
class RepartitionStep(StepAction):
    """`repartition:`, with an optional number of partitions. Its operation is `base.context.Repartition`."""

    partitions: int | None

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        if isinstance(node, MappingNode):
            return cls(integer(node, "partitions", None))
        return cls(None) if isinstance(node, ScalarNode) and node.value is None and not node.broken else None

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Add a repartition topic, whether the key has changed or not."""
        if shape.open or not context.has_key(step, shape):
            return replace(shape, rekey=None)
        own = step.name.text if step.name else None
        cause = shape.rekey if shape.rekey and shape.rekey.flow == context.name.text and own is None else None
        rekey = cause or Rekey(context.name.text, own, step.word.position)
        return context.repartition(shape, step, rekey, self.partitions or shape.partitions)
