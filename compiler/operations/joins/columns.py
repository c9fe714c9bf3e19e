"""Columns, keys and windows of joins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ....runtime.environment import duration_text
from ....runtime.ir.declarations import TableHow
from ....runtime.ir.windows import SessionWindow, SlidingWindow
from ...diagnostics import Position, did_you_mean
from ...entries import Pairs
from ...language.expressions import Expression, OtherSide, Scope, column
from ...reading.source import ScalarNode
from ..base.context import FlowContext, Step, complete, scope_of
from ..base.site import UNKNOWN, Shape, Windows
from ..parts.projection import Projection, called

# Which tables with windows can be joined: those of which two rows can have the same key and the same window.

_PLAIN = (
    "Make a plain table of it first: `to_stream`, `key_by` with the key and `window_start` under another name, "
    "`to_table`."
)


_FORGETS = (
    "is joined by a foreign key in windows: when its expired rows leave it depends on when answers come, and so would "
    "what finds them."
)


def windows_apart(shape: Shape, side: Shape, table: str, by_foreign_key: bool) -> tuple[str, str] | None:
    """Why the tables cannot be joined, and the way out; None if they can be, or have no windows. `side`: the other one.

    In Kafka Streams any two windowed keys have the same type. But it finds a row in a time window by the start alone,
    and so would join windows of different length as if they were one.
    """
    if not shape.windowed and not side.windowed:
        return None
    for each, what in ((shape, "The flow"), (side, f"The table '{table}'")):
        if each.windowed and each.forgets:
            return f"{what} {_FORGETS}", f"Put this join before that one. Or: {_PLAIN[0].lower()}{_PLAIN[1:]}"
    if by_foreign_key:
        # Windows of the flow go with its keys; those of the table would have to be asked for.
        why = "whose rows are forgotten after a while: who refers to them would not be told."
        return (f"The table '{table}' has windows, {why}", _PLAIN) if side.windowed else None
    if shape.windowed != side.windowed:
        what = "The flow" if shape.windowed else f"The table '{table}'"
        return f"{what} has windows, which are part of its key; the other table's rows have a key alone.", _PLAIN
    mine, theirs = shape.windows, side.windows
    if _measure(mine) == _measure(theirs):
        return None
    message = f"The flow has {_text(mine)}, the table '{table}' {_text(theirs)}: their rows have no window in common."
    return message, "Give both tables windows of one kind and length; grace and advance may differ."


def forgotten_at_some_time(table: str) -> tuple[str, str]:
    """Why a stream does not look up rows of a table that `forgets` some, and the way out."""
    return f"The table '{table}' {_FORGETS}", _PLAIN


def joined_windows(shape: Shape, side: Shape) -> Windows | None:
    """The windows of the rows of a join: kept as long as the rows of the side that keeps them longer."""
    if shape.windows is None or side.windows is None:
        return None
    return max((shape.windows, side.windows), key=lambda windows: windows.kept_ms)


def joined_closing(shape: Shape, side: Shape) -> int | None:
    """How long after its end a window of the join is closed on both sides (ms), None where nobody says."""
    if shape.closes_ms is None or side.closes_ms is None:
        return None
    return max(shape.closes_ms, side.closes_ms)


def _measure(windows: Windows | None) -> tuple[type, int]:
    """What two tables must have in common. Sessions that are equal can be there whatever the gaps."""
    window = None if windows is None else windows.window
    if window is None or isinstance(window, SessionWindow):
        return type(window), 0
    return type(window), window.length_ms


def _text(windows: Windows | None) -> str:
    if windows is None:
        return "windows of which nobody says what they are"
    if isinstance(windows.window, SessionWindow):
        return "sessions"
    kind = "sliding windows" if isinstance(windows.window, SlidingWindow) else "windows"
    return f"{kind} of {duration_text(windows.window.length_ms)}"


# What joins have in common: the table or stream that is joined, the columns that it adds, and its partitions.


@dataclass(frozen=True)
class WrittenJoin:
    """`join:` with a table, as it is written. `by` and `values` are None if omitted.

    `other`: what is joined. For a stream, `table` is its name.
    """

    table: ScalarNode
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


# `by` of a join: an expression over the flow's columns for each key column of the table.


def looked_up_by(context: FlowContext, join: WrittenJoin, shape: Shape, side: Shape) -> dict[str, Expression] | None:
    """The expression for each key column of the table, in the order of its key; None if an error was reported."""
    if join.by is None:
        return None
    found = context.columns(join.by, replace(scope_of(shape), unseen=join.table.text))
    for name, _ in join.by:
        if name.text not in side.key and not side.open:
            message = f"'{name.text}' is not a key column of the table '{join.table.text}'."
            hint = did_you_mean(name.text, side.key) or f"Its key is {', '.join(side.key)}."
            context.report("HW513", name.position, message, hint)
    missing = [name for name in side.key if name not in found]
    if missing and join.by_position is not None and all(name in side.key for name in found):
        message = f"`by` lacks the key column '{missing[0]}' of the table '{join.table.text}'."
        context.report("HW513", join.by_position, message)
    wrong = False
    for key, expression in found.items():
        expected = side.key.get(key)
        if expression is not None and expected and expression.type and expected != expression.type:
            wrong = True
            message = f"The table's key column '{key}' is of type {expected}, this is of type {expression.type}."
            context.report("HW412", expression.position, message, f"Cast it: `cast(... as {expected})`.")
    known = complete(found)
    if known is None or wrong or found.keys() != side.key.keys():
        return None
    return {name: known[name] for name in side.key}
