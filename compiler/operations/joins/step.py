"""The step `join`, and lookups in tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ....runtime.ir.declarations import How, TableHow
from ...entries import Reader, entries, mapping, pairs, scalar
from ...language.expressions import Expression
from ...reading.source import MappingNode, Node
from ..base.context import CheckedTable, FlowContext, References, Rejection, Step, StepAction
from ..base.site import UNKNOWN, Shape
from ..parts.joins import GlobalTableJoin, TableJoin
from ..parts.projection import called, with_arguments
from .columns import (
    WrittenJoin,
    added,
    co_partitioned,
    compute,
    forgotten_at_some_time,
    joined_table,
    looked_up_by,
    planned,
)
from .streams import StreamJoinStep
from .tables import EXPIRED, FOREIGN_KEY_STORES, check_foreign_key, check_tables

# A stream's records look up rows in a table by their key, or in a global table by any expression.


def check_lookup(context: FlowContext, step: Step, join: WrittenJoin, shape: Shape) -> Shape:
    """Require a table with the stream's key and number of partitions, or a global table with the keys in `by`."""
    table = context.topology.tables.get(join.table.text)
    side = joined_table(context, join)
    columns = added(context, join, shape, side)
    if join.how == "outer":
        _report_outer(context, join)
    if side.windowed and side.forgets:
        context.report("HW525", join.table.position, *forgotten_at_some_time(join.table.text))
        return UNKNOWN
    if table is not None and table.global_table is not None:
        by = _by(context, join, shape, side)
    else:
        by = None
        if join.by_position is not None and not side.open:
            message = f"'{join.table.text}' is not global: it is joined by the stream's key."
            hint = "Change the key with `key_by`, or make the table global."
            context.report("HW513", join.by_position, message, hint)
        elif not shape.open and not side.open:
            if not context.has_key(step, shape):
                return UNKNOWN
            shape = context.rekeyed(shape, step, side.partitions)
            co_partitioned(context, join, shape, side)
    return _looked_up(context, step, join, shape, side, table, by, columns)


def _report_outer(context: FlowContext, join: WrittenJoin) -> None:
    message = f"An outer join has rows of '{join.table.text}' alone; of a stream, only its records give results."
    hint = "Write `left`; or put `to_table` before the join, for a row of each key."
    context.report("HW525", join.how_position, message, hint)


def _by(context: FlowContext, join: WrittenJoin, shape: Shape, side: Shape) -> dict[str, Expression]:
    """The expression to look up for each key column of a global table."""
    if join.by is None:
        if not side.open:
            keys = ", ".join(side.key)
            message = f"'{join.table.text}' is a global table: `by` says what is looked up ({keys})."
            context.report("HW513", join.table.position, message, "Write `by:` with an expression for each key column.")
        return {}
    return looked_up_by(context, join, shape, side) or {}


def _looked_up(
    context: FlowContext,
    step: Step,
    join: WrittenJoin,
    shape: Shape,
    side: Shape,
    table: CheckedTable | None,
    by: Mapping[str, Expression] | None,
    columns: Mapping[str, Expression | None],
) -> Shape:
    """Add the operations of a lookup: arguments to look up, the lookup, and expressions over the rows found."""
    plan = planned(join, shape, side, columns)
    if not plan.complete:
        return plan.after
    found = plan.found
    how: How = "inner" if join.how == "inner" else "left"
    if table is not None and table.global_table is not None:
        looked_up = list((by or {}).values())
        ready = with_arguments(context, step, called(context, step, shape, looked_up), looked_up)
        found = ready.with_value({**ready.value, **found.value})
        context.add(GlobalTableJoin(table.global_table, how, by or {}, plan.values), ready, found, step)
    else:
        context.add(TableJoin(join.table.text, how, plan.values), shape, found, step)
    compute(context, step, join, plan, found)
    return plan.after


# `join`, as it is read: which of the joins it is follows from what is written and from what the flow is.

_COLUMN = re.compile(r"((key|value)\.)?\w+")
"""An expression that is a column of the flow, and has not to be computed."""

_HOW: Mapping[str, TableHow] = {"inner": "inner", "left": "left", "outer": "outer"}


@dataclass(frozen=True)
class JoinStep(StepAction):
    """`join:` with a table or a global table; with a stream it is another kind."""

    join: WrittenJoin

    kinds = (StreamJoinStep,)
    passes_tombstones = False

    @classmethod
    def read(cls, node: Node, reader: Reader) -> StepAction | None:
        if not isinstance(node, MappingNode):
            return None
        if "stream" in node:
            return StreamJoinStep.read(node, reader)
        table = scalar(node, "table")
        if table is None:
            return None
        by, how = mapping(node, "by"), scalar(node, "type")
        return cls(
            WrittenJoin(
                table,
                "inner" if how is None else _HOW[how.text],
                table.position if how is None else how.position,
                None if by is None else tuple(entries(by)),
                None if by is None else node.key_position("by"),
                reader.columns(pairs(node, "values")) if "values" in node else None,
            )
        )

    def references(self) -> References:
        return References(tables=(self.join.table,))

    def foreign_key_stores(self, stored: bool, expires: bool) -> tuple[str, ...]:
        """The ends of the names of the stores of a join by a foreign key.

        `stored`: whether its input is in a store. `expires`: whether the rows of its input do.
        """
        given = stored and all(_COLUMN.fullmatch(sql.text) for _, sql in self.join.by or ())
        return (*FOREIGN_KEY_STORES[given:], *((EXPIRED,) if expires else ()))

    def rejection(self, word: str, shape: Shape) -> Rejection | None:
        return None

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Check the kind of join that it is for such a flow."""
        if shape.is_table:
            kind = check_tables if self.join.by is None else check_foreign_key
            return kind(context, step, self.join, shape)
        return check_lookup(context, step, self.join, shape)
