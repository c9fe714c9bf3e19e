"""`select`, `with_columns`, `drop`: choose and compute value columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from ..diagnostics import did_you_mean
from ..entries import Reader, scalars
from ..language.expressions import Expression, column
from ..reading.source import Node, ScalarNode
from .base.context import ColumnsStep, FlowContext, Step, StepAction, complete, scope_of
from .base.site import UNKNOWN, Shape
from .parts.projection import Projection, with_calls


@dataclass(frozen=True)
class SelectStep(ColumnsStep):
    """`select`: value columns with their expressions. They replace all value columns."""

    passes_tombstones = True

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        return _project(context, step, context.columns(self.columns, scope_of(shape)), shape, open_=False)


@dataclass(frozen=True)
class WithColumnsStep(ColumnsStep):
    """`with_columns`: value columns to add or replace, with their expressions."""

    passes_tombstones = True

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        new = context.columns(self.columns, scope_of(shape))
        context.distinct([name for name, _ in self.columns], shape.value)
        first = self.columns[0][1]
        # A replaced column keeps its index: `new` overwrites it in the dict.
        kept = {name: column(first, "value", name, type_) for name, type_ in shape.value.items()}
        return _project(context, step, {**kept, **new}, shape, open_=shape.open)


@dataclass(frozen=True)
class DropStep(StepAction):
    """`drop: [column, ...]`: value columns to remove."""

    columns: tuple[ScalarNode, ...]

    accepts_tables = True
    passes_tombstones = True

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        return cls(tuple(scalars(node)))

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require existing value columns."""
        dropped = set()
        for name in self.columns:
            if name.text in shape.value:
                dropped.add(name.text)
            elif shape.open:
                continue
            elif name.text in shape.key:
                message = f"'{name.text}' is a key column; only value columns can be dropped."
                context.report("HW403", name.position, message, "Change the key with `key_by`.")
            else:
                message = f"There is no column '{name.text}'."
                context.report("HW403", name.position, message, did_you_mean(name.text, shape.value))
        left = {name: type_ for name, type_ in shape.value.items() if name not in dropped}
        if not left and not shape.open and self.columns:
            context.report(
                "HW518", step.word.position, "This drops all value columns.", "Keep one, or `select` a new one."
            )
            return UNKNOWN
        where = self.columns[0] if self.columns else step.word
        kept: dict[str, Expression | None] = {name: column(where, "value", name, type_) for name, type_ in left.items()}
        return _project(context, step, kept, shape, open_=shape.open)


def _project(
    context: FlowContext, step: Step, columns: Mapping[str, Expression | None], shape: Shape, open_: bool
) -> Shape:
    value = {name: expression.type if expression else None for name, expression in columns.items()}
    after = replace(shape.with_value(value), open=open_)
    valid = complete(columns)
    if valid is None:
        return after
    shape = with_calls(context, step, shape, valid.values())
    return context.add(Projection(valid, step.word.text), shape, after, step)
