"""What joins have in common: the table or stream that is joined, the columns that it adds, and its partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ....runtime.operators.declarations import TableHow
from ...diagnostics import Position, did_you_mean
from ...entries.reader import Pairs
from ...language.expressions import Expression, OtherSide, Scope, column
from ...reading.nodes import Scalar
from ..base.context import FlowContext
from ..base.shape import UNKNOWN, Shape
from ..base.step import Step
from ..parts.calls import called
from ..parts.projection import Projection
from .windows import windows_apart


@dataclass(frozen=True)
class WrittenJoin:
    """`join:` with a table, as it is written. `by` and `values` are None if omitted.

    `other`: what is joined. For a stream, `table` is its name.
    """

    table: Scalar
    how: TableHow
    how_position: Position
    by: Pairs | None
    by_position: Position | None
    values: Pairs | None
    other: OtherSide = "table"


def joined_table(context: FlowContext, join: WrittenJoin) -> Shape:
    """The shape of the table; UNKNOWN if there is none."""
    side = context.topology.shapes.get(join.table.text)
    if side is None:
        known = [*context.topology.tables, *(n for n, s in context.topology.shapes.items() if s.is_table)]
        if join.table.text not in context.topology.names and context.topology.complete:
            message = f"There is no table '{join.table.text}'."
            hint = did_you_mean(join.table.text, known) or "Declare it under `tables:`, with its topic."
            context.report("HW303", join.table.position, message, hint)
        return UNKNOWN
    if not side.is_table and not side.open:
        message = f"'{join.table.text}' is a stream; a join looks up rows of a table."
        context.report("HW303", join.table.position, message, "Make it a table with `to_table`.")
        return UNKNOWN
    return side


def refused(context: FlowContext, join: WrittenJoin, shape: Shape, side: Shape) -> bool:
    """Whether two tables cannot be joined, because of what one of them is; which is reported."""
    name = join.table.text
    table = context.topology.tables.get(name)
    if table is not None and table.global_table is not None:
        message = f"'{name}' is a global table, whose changes do not reach the tables that are joined."
        key = "its key" if join.by is None else "a foreign key"
        hint = f"Leave `global` out, so that it is joined by {key}; or put `to_stream` before the join."
        context.report("HW525", join.table.position, message, hint)
        return True
    problem = windows_apart(shape, side, name, join.by is not None)
    if problem is not None:
        context.report("HW525", join.table.position, *problem)
    return problem is not None


def added(context: FlowContext, join: WrittenJoin, shape: Shape, side: Shape) -> dict[str, Expression | None]:
    """The columns that the join adds, as expressions over both rows."""
    scope = Scope(
        shape.key,
        shape.value,
        table=join.table.text,
        table_key=side.key,
        table_value=side.value,
        open=shape.open or side.open,
        joins=join.other,
    )
    if join.values is not None:
        context.distinct([name for name, _ in join.values], shape.value)
        return context.columns(join.values, scope)
    # Without `values` all columns of the table are added, which must not hide one of the flow.
    for name in side.value:
        if name in shape.value:
            message = f"Both the flow and the {join.other} '{join.table.text}' have a column '{name}'."
            context.report("HW516", join.table.position, message, "List the columns to add under `values`.")
    return {name: column(join.table, "table", name, type_) for name, type_ in side.value.items()}


def co_partitioned(context: FlowContext, join: WrittenJoin, shape: Shape, side: Shape) -> None:
    """Report a flow and a table of which equal keys are not in partitions of the same number."""
    other, position = f"the {join.other} '{join.table.text}'", join.table.position
    if shape.partitions != side.partitions:
        message = f"The flow has {shape.partitions} partitions, {other} {side.partitions}."
        step = f"`repartition` with `partitions: {side.partitions}`"
        way = ", or make the table global" if join.other == "table" else ""
        hint = (
            f"Put `to_stream`, {step} and `to_table` before the join."
            if shape.is_table
            else f"Put {step} before the join{way}."
        )
        context.report("HW503", position, message, hint)
    mine, theirs = list(shape.key.values()), list(side.key.values())
    if None in mine or None in theirs:
        return
    if mine != theirs:
        message = f"The flow's key is ({_signature(shape)}), that of {other} ({_signature(side)})."
        way = "`to_stream`, `key_by` and `to_table`" if shape.is_table else "`key_by`"
        hint = f"Give the flow the {join.other}'s key types with {way}."
        if side.windowed and not shape.windowed and join.other == "table":
            hint = (
                "A window is a part of that key. Join the last row of each key instead: a flow that reads "
                f"'{join.table.text}', with `to_stream`, `key_by` without the window and `to_table`."
            )
        context.report("HW503", position, message, hint)


def _signature(shape: Shape) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in shape.key.items())


@dataclass(frozen=True)
class Plan:
    """How the columns of a join come about.

    `values`: those that the operator takes from the table, new column -> column of the table. `found`: the shape behind
    it. `computed`: expressions over the rows found, whose operands are among `values` as `<table>.<column>`. `after`:
    the shape behind them. `complete`: whether there are no errors, so that the join can be laid out.
    """

    values: Mapping[str, str]
    found: Shape
    computed: Mapping[str, Expression]
    after: Shape
    complete: bool


def planned(join: WrittenJoin, shape: Shape, side: Shape, columns: Mapping[str, Expression | None]) -> Plan:
    """The plan for the columns that a join adds. `shape`: the flow's; `side`: the table's."""
    final = {**shape.value, **{name: expression.type if expression else None for name, expression in columns.items()}}
    after = replace(shape.with_value(final), open=shape.open or side.open)
    complete = {name: expression for name, expression in columns.items() if expression is not None}
    plain = {name: ref.name for name, e in complete.items() if (ref := e.plain) and ref.role == "table"}
    computed = {name: expression for name, expression in complete.items() if name not in plain}
    lookups = {
        f"{join.table.text}.{ref.name}": ref.name
        for expression in computed.values()
        for ref in expression.reads
        if ref.role == "table"
    }
    # A computed value may read a column of the flow that a plain one replaces, so then all go through the projection.
    if computed and any(name in shape.value for name in plain):
        lookups |= {f"{join.table.text}.{old}": old for old in plain.values()}
        computed, plain = complete, {}
    values = {**plain, **lookups}
    found = shape.with_value({**shape.value, **{name: side.value.get(old) for name, old in values.items()}})
    return Plan(values, found, computed, after, len(complete) == len(columns) and not after.open)


def compute(context: FlowContext, step: Step, join: WrittenJoin, plan: Plan, found: Shape) -> None:
    """Add the projection with the computed columns, if there are any or if columns have to go. `found`: its input."""
    if plan.computed or found.value.keys() != plan.after.value.keys():
        result = {name: column(join.table, "value", name, type_) for name, type_ in plan.after.value.items()}
        of_table = {name: _of_flow(expression, join.table.text) for name, expression in plan.computed.items()}
        ready = called(context, step, found, of_table.values())
        context.add(Projection({**result, **of_table}), ready, plan.after, step)


def _of_flow(expression: Expression, table: str) -> Expression:
    """The expression, reading the columns that the join has added to the flow in place of the table's."""
    return expression.referring(
        lambda ref: replace(ref, role="value", name=f"{table}.{ref.name}") if ref.role == "table" else ref
    )
