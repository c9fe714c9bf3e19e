"""Operations that compute columns, and call Python functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ....runtime.engine.operators.stateless import Call, Select
from ....runtime.engine.sql_step import SqlKind, SqlStep
from ...language.expressions import Expression, FunctionCall, column
from ..base.context import FlowContext, StepLocation
from ..base.operation import (
    Description,
    EitherOperation,
    Engine,
    Processor,
    PythonOperation,
    TableUse,
    columns_text,
    is_pure,
    may_fail,
)
from ..base.site import NOW, PythonLayout, Shape, Site, SqlLayout, argument_columns, column_types, columns_read

# New value columns: the operation of `select`, `with_columns` and `drop`, and a part of joins and aggregates.


@dataclass(frozen=True)
class Projection(EitherOperation):
    """Computes all value columns of the output.

    `word`: the keyword of the step, or "" for a projection added by the compiler. `null_values`: also compute columns
    for records with a null value, as if all its columns were null. A windowed aggregate counts these records.
    """

    columns: Mapping[str, Expression]
    word: str = ""
    null_values: bool = False

    has_effect = False
    null_keys = "passed"

    def engine(self, needed: frozenset[str]) -> Engine:
        """Renaming and selecting need no SQL."""
        return "either" if is_pure(self._wanted(needed)) else "sql"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns that the needed output columns read."""
        return (output & {NOW}) | columns_read(self._wanted(output).values())

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """All changes are passed on, unless a column fails."""
        onward = frozenset(name for name, e in self.columns.items() if _value_column(e) in positive)
        return TableUse(may_fail=may_fail(self.columns.values(), shape, positive), positive=onward)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """The step as written; nothing for a projection added by the compiler."""
        if not self.word:
            return Description()
        adds = self.word == "with_columns"
        columns = {name: e for name, e in self.columns.items() if not adds or e.sql.text != name}
        text = self.word if self.word == "drop" else f"{self.word} {columns_text(columns)}"
        return Description(text, (Processor("KTABLE-MAPVALUES" if of_table else "KSTREAM-MAPVALUES"),))

    def in_python(self, site: Site) -> PythonLayout:
        """A projection, or no operator if the input has just the needed columns."""
        edge, wanted = site.input, self._wanted(site.output.needed)
        out = replace(edge, shape=site.output.shape, value=tuple(wanted))
        keep = tuple(name for name, e in wanted.items() if _value_column(e) == name)
        if set(keep) == {*wanted} == {*edge.value}:
            return PythonLayout((), (out,))
        columns = {name: edge.physical(e.refs[0]) for name, e in wanted.items() if name not in keep}
        return PythonLayout((Select(edge.name, columns, keep, site.at),), (out,))

    def in_sql(self, site: Site) -> SqlLayout:
        """`with_columns` if the user wrote it and no column is dropped, otherwise `select`."""
        edge, needed = site.input, site.output.needed
        wanted = self._wanted(needed)
        now = (NOW,) if NOW in needed and NOW in edge.value else ()
        out = replace(edge, shape=site.output.shape, value=(*wanted, *now))
        unchanged = [name for name, e in wanted.items() if _value_column(e) == name]
        computed = {name: e.render(edge.sql) for name, e in wanted.items() if name not in unchanged}
        drops = self.word != "with_columns" or not {*edge.value} <= {*wanted, *now}
        kind: SqlKind = "select" if drops else "with_columns"
        step = SqlStep(
            kind,
            site.flows,
            columns=computed,
            types=column_types(out.shape.value, computed),
            keep=(*unchanged, *now) if drops else None,
            null_values=self.null_values and bool(computed),
            at=site.at,
        )
        return SqlLayout((step,), (out,))

    def _wanted(self, needed: frozenset[str]) -> dict[str, Expression]:
        return {name: expression for name, expression in self.columns.items() if name in needed}


def _value_column(expression: Expression) -> str | None:
    """The name, if the expression is just a value column; otherwise None."""
    plain = expression.plain
    return plain.name if plain is not None and plain.role == "value" else None


def with_arguments(context: FlowContext, step: StepLocation, shape: Shape, expressions: Sequence[Expression]) -> Shape:
    """The flow, with a new column for each expression that is not already a column."""
    computed = {e.as_column.name: e for e in expressions if e.as_column != e.plain}
    return with_computed(context, step, shape, computed, null_values=shape.window is not None)


def with_computed(
    context: FlowContext, step: StepLocation, shape: Shape, computed: Mapping[str, Expression], null_values: bool
) -> Shape:
    """The flow with additional computed columns. `null_values`: see `Projection`."""
    if not computed:
        return shape
    kept = {name: column(step.word, "value", name, type_) for name, type_ in shape.value.items()}
    added = {name: expression.type for name, expression in computed.items()}
    after = shape.with_value({**shape.value, **added})
    arguments = Projection({**kept, **computed}, null_values=null_values)
    return context.add(arguments, shape, after, step)


# Calls of Python functions in expressions. A call becomes an operation before its step, and its result a column.


def with_calls(
    context: FlowContext, step: StepLocation, shape: Shape, expressions: Iterable[Expression], null_values: bool = False
) -> Shape:
    """The flow with a value column for each call of a Python function, before a step that reads these expressions.

    `null_values`: the step also computes them for records with a null value.
    """
    calls = [call for expression in expressions for call in expression.calls]
    return add_calls(context, step, shape, calls, null_values)


def add_calls(
    context: FlowContext, step: StepLocation, shape: Shape, calls: Sequence[FunctionCall], null_values: bool = False
) -> Shape:
    """The flow with a value column for each of these calls. See `with_calls`."""
    if not calls:
        return shape
    arguments = [argument for call in calls for argument in call.arguments]
    shape = with_calls(context, step, shape, arguments, null_values)
    columns = {argument.as_column.name: argument for argument in arguments if argument.as_column != argument.plain}
    computed = {name: argument for name, argument in columns.items() if name not in shape.value}
    shape = with_computed(context, step, shape, computed, null_values)
    for call in calls:
        if call.column not in shape.value:
            after = shape.with_value({**shape.value, call.column: call.udf.returns})
            shape = context.add(Calling(call, null_values), shape, after, step)
    return shape


def without_calls(context: FlowContext, step: StepLocation, shape: Shape, before: Shape) -> Shape:
    """The flow without the columns that `with_calls` has added to the columns of `before`."""
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
        """The columns read later, and the arguments if the result is read."""
        if self.call.column not in output:
            return output
        return (output - {self.call.column}) | argument_columns(self.call.arguments)

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """All changes are passed on. Any call may fail."""
        return TableUse(may_fail=True, positive=positive)

    def in_python(self, site: Site) -> PythonLayout:
        edge, call = site.input, self.call
        if call.column not in site.output.needed:
            return PythonLayout((), (site.onward,))
        arguments = tuple(edge.physical(argument.as_column) for argument in call.arguments)
        node = Call(edge.name, call.column, call.udf, arguments, self.null_values, site.at)
        value = (*edge.value, call.column)
        return PythonLayout((node,), (replace(edge, shape=site.output.shape, value=value),))
