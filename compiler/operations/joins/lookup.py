"""`join`: a stream's records look up rows in a table by their key, or in a global table by any expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from ....runtime.operators.declarations import How
from ...diagnostics import Position, did_you_mean
from ...language.expressions import Expression, Scope, column
from ...language.node_values import entries, mapping, pairs, scalar, text
from ...language.reader import Pairs, Reader
from ...reading.nodes import Mapping as MappingNode
from ...reading.nodes import Node, Scalar
from ..base.checked import CheckedTable
from ..base.context import FlowContext, scope_of
from ..base.shape import UNKNOWN, Shape
from ..base.step import References, Refusal, Step, StepAction
from ..parts.lookups import GlobalTableJoin, TableJoin
from ..parts.projection import Projection, with_arguments


@dataclass(frozen=True)
class JoinStep(StepAction):
    """`join:` with a table or a global table. `values` and `by` are None if omitted."""

    table: Scalar
    how: How
    by: Pairs | None
    by_position: Position | None
    values: Pairs | None

    passes_tombstones = False

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        if not isinstance(node, MappingNode):
            return None
        if "stream" in node:
            reader.later(node.key_position("stream"), "The join of two streams is")
            return None
        table = scalar(node, "table")
        if table is None:
            return None
        by = mapping(node, "by")
        return cls(
            table,
            "left" if text(node, "type", "inner") == "left" else "inner",
            None if by is None else tuple(entries(by)),
            None if by is None else node.key_position("by"),
            reader.columns(pairs(node, "values")) if "values" in node else None,
        )

    def references(self) -> References:
        return References(tables=(self.table,))

    def refusal(self, word: str, shape: Shape) -> Refusal | None:
        if not shape.is_table:
            return None
        message = "The join of two tables is not there yet; 'join' of a table is reserved for it."
        return Refusal("HW502", message, "Put `to_stream` before it.")

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require a table with the stream's key and number of partitions, or a global table with the keys in `by`."""
        table = context.topology.tables.get(self.table.text)
        side = self._side(context)
        scope = Scope(
            shape.key,
            shape.value,
            table=self.table.text,
            table_key=side.key,
            table_value=side.value,
            open=shape.open or side.open,
        )
        added = _added(context, self, shape, side, scope)
        if table is not None and table.global_table is not None:
            by = _by(context, self, shape, side)
        else:
            by = None
            if self.by_position is not None and not side.open:
                message = f"'{self.table.text}' is not global: it is joined by the stream's key."
                hint = "Change the key with `key_by`, or make the table global."
                context.report("HW513", self.by_position, message, hint)
            elif not shape.open and not side.open:
                if not context.has_key(step, shape):
                    return UNKNOWN
                shape = context.rekeyed(shape, step, side.partitions)
                _co_partitioned(context, self, shape, side)
        return _joined(context, step, self, shape, side, table, by, added)

    def _side(self, context: FlowContext) -> Shape:
        """The shape of the table; UNKNOWN if there is none."""
        side = context.topology.shapes.get(self.table.text)
        if side is None:
            known = [*context.topology.tables, *(n for n, s in context.topology.shapes.items() if s.is_table)]
            if self.table.text not in context.topology.names and context.topology.complete:
                message = f"There is no table '{self.table.text}'."
                context.report("HW303", self.table.position, message, did_you_mean(self.table.text, known))
            return UNKNOWN
        if not side.is_table and not side.open:
            message = f"'{self.table.text}' is a stream; a join looks up rows of a table."
            context.report("HW303", self.table.position, message, "Make it a table with `to_table`.")
            return UNKNOWN
        return side


def _added(
    context: FlowContext, action: JoinStep, shape: Shape, side: Shape, scope: Scope
) -> dict[str, Expression | None]:
    """The columns that the join adds."""
    if action.values is not None:
        context.distinct([name for name, _ in action.values], shape.value)
        return context.columns(action.values, scope)
    # Without `values` all columns of the table are added, which must not hide one of the flow.
    for name in side.value:
        if name in shape.value:
            message = f"Both the flow and the table '{action.table.text}' have a column '{name}'."
            context.report("HW516", action.table.position, message, "List the columns to add under `values`.")
    return {name: column(action.table, "table", name, type_) for name, type_ in side.value.items()}


def _by(context: FlowContext, action: JoinStep, shape: Shape, side: Shape) -> dict[str, Expression]:
    """The expression to look up for each key column of a global table."""
    if action.by is None:
        if not side.open:
            keys = ", ".join(side.key)
            message = f"'{action.table.text}' is a global table: `by` says what is looked up ({keys})."
            context.report(
                "HW513", action.table.position, message, "Write `by:` with an expression for each key column."
            )
        return {}
    found = context.columns(action.by, scope_of(shape))
    for name, _ in action.by:
        if name.text not in side.key and not side.open:
            message = f"'{name.text}' is not a key column of the table '{action.table.text}'."
            hint = did_you_mean(name.text, side.key) or f"Its key is {', '.join(side.key)}."
            context.report("HW513", name.position, message, hint)
    missing = [name for name in side.key if name not in found]
    if missing and action.by_position is not None and all(name in side.key for name in found):
        message = f"`by` lacks the key column '{missing[0]}' of the table '{action.table.text}'."
        context.report("HW513", action.by_position, message)
    for key, expression in found.items():
        expected = side.key.get(key)
        if expression is not None and expected and expression.type and expected != expression.type:
            message = f"The table's key column '{key}' is of type {expected}, this is of type {expression.type}."
            context.report("HW412", expression.position, message, f"Cast it: `cast(... as {expected})`.")
    return {name: expression for name, expression in found.items() if expression is not None}


def _co_partitioned(context: FlowContext, action: JoinStep, shape: Shape, side: Shape) -> None:
    table, position = action.table.text, action.table.position
    if shape.partitions != side.partitions:
        message = f"The flow has {shape.partitions} partitions, the table '{table}' {side.partitions}."
        hint = f"Put `repartition` with `partitions: {side.partitions}` before the join, or make the table global."
        context.report("HW503", position, message, hint)
    mine, theirs = list(shape.key.values()), list(side.key.values())
    if None in mine or None in theirs:
        return
    if mine != theirs:
        message = f"The flow's key is ({_signature(shape)}), that of the table '{table}' ({_signature(side)})."
        context.report("HW503", position, message, "Give the flow the table's key types with `key_by`.")


def _signature(shape: Shape) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in shape.key.items())


def _joined(
    context: FlowContext,
    step: Step,
    action: JoinStep,
    shape: Shape,
    side: Shape,
    table: CheckedTable | None,
    by: Mapping[str, Expression] | None,
    added: Mapping[str, Expression | None],
) -> Shape:
    """Add the operations of a join: arguments to look up, the lookup, and expressions over the rows found."""
    final = {**shape.value, **{name: expression.type if expression else None for name, expression in added.items()}}
    after = replace(shape.with_value(final), open=shape.open or side.open)
    complete = {name: expression for name, expression in added.items() if expression is not None}
    if len(complete) < len(added) or side.open or shape.open:
        return after
    plain = {name: ref.name for name, e in complete.items() if (ref := e.plain) and ref.role == "table"}
    computed = {name: expression for name, expression in complete.items() if name not in plain}
    lookups = {
        f"{action.table.text}.{ref.name}": ref.name
        for expression in computed.values()
        for ref in expression.refs
        if ref.role == "table"
    }
    # A computed value may read a column of the flow that a plain one replaces, so then all go through the projection.
    if computed and any(name in shape.value for name in plain):
        lookups |= {f"{action.table.text}.{old}": old for old in plain.values()}
        computed, plain = complete, {}
    values = {**plain, **lookups}
    looked_up = shape.with_value({**shape.value, **{name: side.value.get(old) for name, old in values.items()}})
    if table is not None and table.global_table is not None:
        ready = with_arguments(context, step, shape, list((by or {}).values()))
        looked_up = ready.with_value({**ready.value, **looked_up.value})
        context.add(GlobalTableJoin(table.global_table, action.how, by or {}, values), ready, looked_up, step)
    else:
        context.add(TableJoin(action.table.text, action.how, values), shape, looked_up, step)
    if computed or looked_up.value.keys() != after.value.keys():
        where = action.table
        result = {name: column(where, "value", name, type_) for name, type_ in after.value.items()}
        table_columns = {name: _of_flow(expression, action.table.text) for name, expression in computed.items()}
        context.add(Projection({**result, **table_columns}), looked_up, after, step)
    return after


def _of_flow(expression: Expression, table: str) -> Expression:
    """The expression, reading the columns that the join has added to the flow in place of the table's."""
    refs = tuple(
        replace(ref, role="value", name=f"{table}.{ref.name}") if ref.role == "table" else ref
        for ref in expression.refs
    )
    return replace(expression, refs=refs)
