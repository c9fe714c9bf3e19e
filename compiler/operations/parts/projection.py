"""New value columns: the operation of `select`, `with_columns` and `drop`, and a part of joins and aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....runtime.operators.declarations import Select
from ....runtime.stages.sql_step import SqlKind, SqlStep
from ...language.expressions import Expression, column
from ..base.context import FlowContext, StepPlace
from ..base.edge import NOW, column_types, columns_read
from ..base.operation import (
    Description,
    EitherOperation,
    Engine,
    Processor,
    TableUse,
    columns_text,
    is_pure,
    may_fail,
)
from ..base.shape import Shape
from ..base.site import PythonLayout, Site, SqlLayout


@dataclass(frozen=True)
class Projection(EitherOperation):
    """All value columns of the output. `word`: that of the step, or "" for a projection that the compiler adds.

    `null_values`: compute them for records with a null value too, whose columns are all null. A windowed aggregate
    counts such records like others.
    """

    columns: Mapping[str, Expression]
    word: str = ""
    null_values: bool = False

    has_effect = False
    null_keys = "passed"

    def engine(self, needed: frozenset[str]) -> Engine:
        """Columns that are only renamed or selected need no SQL."""
        return "either" if is_pure(self._wanted(needed)) else "sql"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns that the needed output columns read."""
        return (output & {NOW}) | columns_read(self._wanted(output).values())

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """All changes go on, unless a column fails."""
        onward = frozenset(name for name, e in self.columns.items() if _value_column(e) in positive)
        return TableUse(may_fail=may_fail(self.columns.values(), shape, positive), positive=onward)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """What the step says; nothing for a projection that the compiler has added."""
        if not self.word:
            return Description()
        adds = self.word == "with_columns"
        columns = {name: e for name, e in self.columns.items() if not adds or e.sql.text != name}
        text = self.word if self.word == "drop" else f"{self.word} {columns_text(columns)}"
        return Description(text, (Processor("KTABLE-MAPVALUES" if of_table else "KSTREAM-MAPVALUES"),))

    def in_python(self, site: Site) -> PythonLayout:
        """A projection, or nothing if the columns are already as needed."""
        edge, wanted = site.input, self._wanted(site.output.needed)
        out = replace(edge, shape=site.output.shape, value=tuple(wanted))
        keep = tuple(name for name, e in wanted.items() if _value_column(e) == name)
        if set(keep) == {*wanted} == {*edge.value}:
            return PythonLayout((), (out,))
        columns = {name: edge.physical(e.refs[0]) for name, e in wanted.items() if name not in keep}
        return PythonLayout((Select(edge.name, columns, keep, site.at),), (out,))

    def in_sql(self, site: Site) -> SqlLayout:
        """`with_columns` if the user wrote that and no column is dropped, otherwise `select`."""
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
    """The name, if the expression is exactly one value column; otherwise None."""
    plain = expression.plain
    return plain.name if plain is not None and plain.role == "value" else None


def with_arguments(context: FlowContext, step: StepPlace, shape: Shape, expressions: Sequence[Expression]) -> Shape:
    """The flow with a column for each expression that is not a column yet."""
    computed = {e.as_column.name: e for e in expressions if e.as_column != e.plain}
    return with_computed(context, step, shape, computed, null_values=shape.window is not None)


def with_computed(
    context: FlowContext, step: StepPlace, shape: Shape, computed: Mapping[str, Expression], null_values: bool
) -> Shape:
    """The flow with more columns. `null_values`: see `Projection`."""
    if not computed:
        return shape
    kept = {name: column(step.word, "value", name, type_) for name, type_ in shape.value.items()}
    added = {name: expression.type for name, expression in computed.items()}
    after = shape.with_value({**shape.value, **added})
    arguments = Projection({**kept, **computed}, null_values=null_values)
    return context.add(arguments, shape, after, step)
