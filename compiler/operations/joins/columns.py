"""Columns, keys and windows of joins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ....runtime.engine.operators.joins import TableHow
from ....runtime.environment import duration_text
from ....runtime.ir.windows import SessionWindow, SlidingWindow
from ...diagnostics import Position, did_you_mean
from ...entries import Pairs
from ...language.expressions import Expression, OtherSide, Scope, column
from ...reading.source import ScalarNode
from ..base.context import FlowContext, Step, complete, scope_of
from ..base.site import UNKNOWN, Shape, Windows
from ..parts.projection import Projection, with_calls

# Joins of tables with windows: rows match if their keys and their windows are equal.

_WITHOUT_WINDOWS = (
    "Make it a table without windows first: `to_stream`, `key_by` with the key and `window_start` under another name, "
    "`to_table`."
)

_FORGETS = (
    "is the result of a join by a foreign key in windows. Its expired rows leave it when the last responses have come, "
    "so the result of this join would depend on that time."
)


def windows_mismatch(shape: Shape, side: Shape, table: str, by_foreign_key: bool) -> tuple[str, str] | None:
    """The message and hint if the windows of two tables do not match, otherwise None. `side`: the table to join.

    Kafka Streams joins windows of different lengths, because any two windowed keys have the same type there, and a row
    is looked up by its window's start alone.
    """
    if not shape.windowed and not side.windowed:
        return None
    hint = _WITHOUT_WINDOWS
    for joined, what in ((shape, "The flow"), (side, f"The table '{table}'")):
        if joined.windowed and joined.forgets:
            return f"{what} {_FORGETS}", f"Put this join before that one. Or: {hint[0].lower()}{hint[1:]}"
    if by_foreign_key:
        # Windows of the flow are part of its keys. Windows of the table would have to be part of the foreign key.
        message = f"The table '{table}' has windows, so its rows expire; rows that refer to them would not change."
        return (message, hint) if side.windowed else None
    if shape.windowed != side.windowed:
        what = "The flow" if shape.windowed else f"The table '{table}'"
        return f"{what} has windows, which are part of its key; the other table has no windows.", hint
    mine, theirs = shape.windows, side.windows
    if _kind_and_length(mine) == _kind_and_length(theirs):
        return None
    message = f"The flow has {_text(mine)}, the table '{table}' {_text(theirs)}: their rows cannot have equal windows."
    return message, "Give both tables the same kind and length of windows; grace and advance may differ."


def lookup_error(table: str) -> tuple[str, str]:
    """The message and hint for a stream that looks up rows in a table that `forgets` rows."""
    return f"The table '{table}' {_FORGETS}", _WITHOUT_WINDOWS


def joined_windows(shape: Shape, side: Shape) -> Windows | None:
    """The windows of joined rows, with the longer retention of the two sides."""
    if shape.windows is None or side.windows is None:
        return None
    return max((shape.windows, side.windows), key=lambda windows: windows.kept_ms)


def joined_closing(shape: Shape, side: Shape) -> int | None:
    """How long after its end a window is closed on both sides (ms); None if unknown."""
    if shape.closes_ms is None or side.closes_ms is None:
        return None
    return max(shape.closes_ms, side.closes_ms)


def _kind_and_length(windows: Windows | None) -> tuple[type, int]:
    """The kind of windows, and their length in ms; 0 for sessions, which can be equal with different gaps."""
    window = None if windows is None else windows.window
    if window is None or isinstance(window, SessionWindow):
        return type(window), 0
    return type(window), window.length_ms


def _text(windows: Windows | None) -> str:
    if windows is None:
        return "windows of unknown kind"
    if isinstance(windows.window, SessionWindow):
        return "sessions"
    kind = "sliding windows" if isinstance(windows.window, SlidingWindow) else "windows"
    return f"{kind} of {duration_text(windows.window.length_ms)}"


# All joins: the joined table or stream, the added columns, and partitions.


@dataclass(frozen=True)
class WrittenJoin:
    """`join:`, as in the YAML.

    `table`: the name of the joined table or stream. `other`: which of the two it is. `by`, `values`: None if omitted.
    """

    table: ScalarNode
    how: TableHow
    how_position: Position
    by: Pairs | None
    by_position: Position | None
    values: Pairs | None
    other: OtherSide = "table"


def joined_table(context: FlowContext, join: WrittenJoin) -> Shape:
    """The shape of the table; UNKNOWN after a reported error."""
    side = context.topology.shapes.get(join.table.text)
    if side is None:
        shapes = context.topology.shapes.items()
        tables = [*context.topology.tables, *(name for name, shape in shapes if shape.is_table)]
        if join.table.text not in context.topology.names and context.topology.complete:
            message = f"There is no table '{join.table.text}'."
            hint = did_you_mean(join.table.text, tables) or "Declare it under `tables:`, with its topic."
            context.report("HW303", join.table.position, message, hint)
        return UNKNOWN
    if not side.is_table and not side.open:
        message = f"'{join.table.text}' is a stream; a join looks up rows of a table."
        context.report("HW303", join.table.position, message, "Make it a table with `to_table`.")
        return UNKNOWN
    return side


def is_rejected(context: FlowContext, join: WrittenJoin, shape: Shape, side: Shape) -> bool:
    """Whether two tables cannot be joined, because one is global or their windows do not match; reports it."""
    name = join.table.text
    table = context.topology.tables.get(name)
    if table is not None and table.global_table is not None:
        message = f"'{name}' is a global table; its changes cannot change a join of tables."
        key = "its key" if join.by is None else "a foreign key"
        hint = f"Remove `global` to join it by {key}; or put `to_stream` before the join."
        context.report("HW525", join.table.position, message, hint)
        return True
    mismatch = windows_mismatch(shape, side, name, join.by is not None)
    if mismatch is not None:
        context.report("HW525", join.table.position, *mismatch)
    return mismatch is not None


def added_columns(context: FlowContext, join: WrittenJoin, shape: Shape, side: Shape) -> dict[str, Expression | None]:
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
    # Without `values` all columns of the table are added. They must not replace columns of the flow.
    for name in side.value:
        if name in shape.value:
            message = f"Both the flow and the {join.other} '{join.table.text}' have a column '{name}'."
            context.report("HW516", join.table.position, message, "List the columns to add under `values`.")
    return {name: column(join.table, "table", name, type_) for name, type_ in side.value.items()}


def check_co_partitioned(context: FlowContext, join: WrittenJoin, shape: Shape, side: Shape) -> None:
    """Report a flow and a table that are not co-partitioned: with other numbers of partitions, or types of keys."""
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
                "A window is part of that key. Join the last row of each key instead: a flow that reads "
                f"'{join.table.text}', with `to_stream`, `key_by` without the window and `to_table`."
            )
        context.report("HW503", position, message, hint)


def _signature(shape: Shape) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in shape.key.items())


@dataclass(frozen=True)
class Plan:
    """The columns of a join.

    `values`: the columns that the operator copies from the table, new column -> column of the table. `joined`: the
    shape after the operator. `computed`: expressions over the joined rows; their operands are among `values`, as
    `<table>.<column>`. `after`: the shape after `computed`. `complete`: no errors were reported.
    """

    values: Mapping[str, str]
    joined: Shape
    computed: Mapping[str, Expression]
    after: Shape
    complete: bool


def plan_columns(join: WrittenJoin, shape: Shape, side: Shape, columns: Mapping[str, Expression | None]) -> Plan:
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
    # An expression may read a column of the flow that a copied one would replace. The projection then copies, too.
    if computed and any(name in shape.value for name in plain):
        lookups |= {f"{join.table.text}.{old}": old for old in plain.values()}
        computed, plain = complete, {}
    values = {**plain, **lookups}
    joined = shape.with_value({**shape.value, **{name: side.value.get(old) for name, old in values.items()}})
    return Plan(values, joined, computed, after, len(complete) == len(columns) and not after.open)


def compute(context: FlowContext, step: Step, join: WrittenJoin, plan: Plan, joined: Shape) -> None:
    """Add the projection behind a join, if columns are computed or dropped. `joined`: its input."""
    if plan.computed or joined.value.keys() != plan.after.value.keys():
        result = {name: column(join.table, "value", name, type_) for name, type_ in plan.after.value.items()}
        computed = {name: _over_joined(expression, join.table.text) for name, expression in plan.computed.items()}
        ready = with_calls(context, step, joined, computed.values())
        context.add(Projection({**result, **computed}), ready, plan.after, step)


def _over_joined(expression: Expression, table: str) -> Expression:
    """The expression over the joined row: columns of the table become value columns `<table>.<column>`."""
    return expression.referring(
        lambda ref: replace(ref, role="value", name=f"{table}.{ref.name}") if ref.role == "table" else ref
    )


# `by` of a join.


def lookup_keys(context: FlowContext, join: WrittenJoin, shape: Shape, side: Shape) -> dict[str, Expression] | None:
    """The expressions in `by` over the flow's columns, one per key column of the table, in the order of its key.

    None without `by`, and after a reported error.
    """
    if join.by is None:
        return None
    keys = context.columns(join.by, replace(scope_of(shape), unseen=join.table.text))
    for name, _ in join.by:
        if name.text not in side.key and not side.open:
            message = f"'{name.text}' is not a key column of the table '{join.table.text}'."
            hint = did_you_mean(name.text, side.key) or f"Its key is {', '.join(side.key)}."
            context.report("HW513", name.position, message, hint)
    missing = [name for name in side.key if name not in keys]
    if missing and join.by_position is not None and all(name in side.key for name in keys):
        message = f"`by` is missing the key column '{missing[0]}' of the table '{join.table.text}'."
        context.report("HW513", join.by_position, message)
    wrong = False
    for key, expression in keys.items():
        expected = side.key.get(key)
        if expression is not None and expected and expression.type and expected != expression.type:
            wrong = True
            message = f"The table's key column '{key}' has type {expected}, this has type {expression.type}."
            context.report("HW412", expression.position, message, f"Cast it: `cast(... as {expected})`.")
    valid = complete(keys)
    if valid is None or wrong or keys.keys() != side.key.keys():
        return None
    return {name: valid[name] for name in side.key}
