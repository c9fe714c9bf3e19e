"""Calls of Python functions in expressions: each is an operation before that of its step, and makes a column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ....runtime.operators.declarations import Call
from ...language.expressions import Expression, FunctionCall, column
from ..base.context import FlowContext, StepPlace
from ..base.edge import argument_columns
from ..base.operation import Description, PythonOperation, TableUse
from ..base.shape import Shape
from ..base.site import PythonLayout, Site
from .projection import Projection, with_computed


def called(
    context: FlowContext, step: StepPlace, shape: Shape, expressions: Iterable[Expression], null_values: bool = False
) -> Shape:
    """The flow with a value column for each call of a Python function, before a step that reads these expressions.

    `null_values`: whether the step computes them for records with a null value too.
    """
    return calling(context, step, shape, [call for each in expressions for call in each.calls], null_values)


def calling(
    context: FlowContext, step: StepPlace, shape: Shape, calls: Sequence[FunctionCall], null_values: bool = False
) -> Shape:
    """The same for calls."""
    if not calls:
        return shape
    arguments = [argument for call in calls for argument in call.arguments]
    shape = called(context, step, shape, arguments, null_values)
    columns = {argument.as_column.name: argument for argument in arguments if argument.as_column != argument.plain}
    computed = {name: argument for name, argument in columns.items() if name not in shape.value}
    shape = with_computed(context, step, shape, computed, null_values)
    for call in calls:
        if call.column not in shape.value:
            after = shape.with_value({**shape.value, call.column: call.udf.returns})
            shape = context.add(Calling(call, null_values), shape, after, step)
    return shape


def without_calls(context: FlowContext, step: StepPlace, shape: Shape, before: Shape) -> Shape:
    """The flow without the columns that `called` has added to the columns that were there `before`."""
    if shape.value.keys() == before.value.keys():
        return shape
    kept = {name: column(step.word, "value", name, type_) for name, type_ in before.value.items()}
    return context.add(Projection(kept), shape, replace(shape, value=dict(before.value)), step)


@dataclass(frozen=True)
class Calling(PythonOperation):
    """Calls a Python function for each row."""

    call: FunctionCall
    null_values: bool

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later, and the arguments if the result is."""
        if self.call.column not in output:
            return output
        return (output - {self.call.column}) | argument_columns(self.call.arguments)

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """All changes go on. Any call may fail."""
        return TableUse(may_fail=True, positive=positive)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """Nothing: the step that calls it says so."""
        return Description()

    def in_python(self, site: Site) -> PythonLayout:
        edge, call = site.input, self.call
        if call.column not in site.output.needed:
            return PythonLayout((), (site.onward,))
        arguments = tuple(edge.physical(each.as_column) for each in call.arguments)
        node = Call(edge.name, call.column, call.udf, arguments, self.null_values, site.at)
        value = (*edge.value, call.column)
        return PythonLayout((node,), (replace(edge, shape=site.output.shape, value=value),))
