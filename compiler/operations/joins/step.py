"""The step `join`, and lookups in tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ....runtime.engine.operators.joins import How, TableHow
from ...entries import Reader, entries, mapping, pairs, scalar
from ...language.expressions import Expression
from ...reading.source import MappingNode, Node
from ..base.context import CheckedTable, FlowContext, References, Step, StepAction
from ..base.site import UNKNOWN, Shape
from ..parts.joins import GlobalTableJoin, TableJoin
from ..parts.projection import with_arguments, with_calls
from .columns import (
    WrittenJoin,
    added_columns,
    check_co_partitioned,
    compute,
    joined_table,
    lookup_error,
    lookup_keys,
    plan_columns,
)
from .streams import StreamJoinStep
from .tables import EXPIRED, FOREIGN_KEY_STORES, check_foreign_key, check_tables

# Records of a stream look up rows in a table by their key, or in a global table by any expression.


def check_lookup(context: FlowContext, step: Step, join: WrittenJoin, shape: Shape) -> Shape:
    """Require a table with the key and number of partitions of the stream, or a global table and its key in `by`."""
    table = context.topology.tables.get(join.table.text)
    side = joined_table(context, join)
    columns = added_columns(context, join, shape, side)
    if join.how == "outer":
        _report_outer(context, join)
    if side.windowed and side.forgets:
        context.report("HW525", join.table.position, *lookup_error(join.table.text))
        return UNKNOWN
    if table is not None and table.global_table is not None:
        by = _by(context, join, shape, side)
    else:
        by = None
        if join.by_position is not None and not side.open:
            message = f"'{join.table.text}' is not global, so it is joined by the stream's key."
            hint = "Change the key with `key_by`, or make the table global."
            context.report("HW513", join.by_position, message, hint)
        elif not shape.open and not side.open:
            if not context.has_key(step, shape):
                return UNKNOWN
            shape = context.rekeyed(shape, step, side.partitions)
            check_co_partitioned(context, join, shape, side)
    return _looked_up(context, step, join, shape, side, table, by, columns)


def _report_outer(context: FlowContext, join: WrittenJoin) -> None:
    message = f"A join of a stream has results for its records only, so not for rows of '{join.table.text}' alone."
    hint = "Write `left`; or put `to_table` before the join."
    context.report("HW525", join.how_position, message, hint)


def _by(context: FlowContext, join: WrittenJoin, shape: Shape, side: Shape) -> dict[str, Expression]:
    """The expression to look up for each key column of a global table."""
    if join.by is None:
        if not side.open:
            keys = ", ".join(side.key)
            message = f"'{join.table.text}' is a global table: its join needs `by`, with its key ({keys})."
            context.report("HW513", join.table.position, message, "Write `by:` with an expression for each key column.")
        return {}
    return lookup_keys(context, join, shape, side) or {}


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
    """Add the operations of a lookup: its arguments, the lookup, and expressions over the joined rows."""
    plan = plan_columns(join, shape, side, columns)
    if not plan.complete:
        return plan.after
    joined = plan.joined
    how: How = "inner" if join.how == "inner" else "left"
    if table is not None and table.global_table is not None:
        keys = list((by or {}).values())
        ready = with_arguments(context, step, with_calls(context, step, shape, keys), keys)
        joined = ready.with_value({**ready.value, **joined.value})
        context.add(GlobalTableJoin(table.global_table, how, by or {}, plan.values), ready, joined, step)
    else:
        context.add(TableJoin(join.table.text, how, plan.values), shape, joined, step)
    compute(context, step, join, plan, joined)
    return plan.after


# `join`. The kind of join depends on its keys in the YAML, and on whether the flow is a stream or a table.

_COLUMN = re.compile(r"((key|value)\.)?\w+")
"""An expression that is just a column of the flow."""

_HOW: Mapping[str, TableHow] = {"inner": "inner", "left": "left", "outer": "outer"}


@dataclass(frozen=True)
class JoinStep(StepAction):
    """`join:` with a table or a global table."""

    join: WrittenJoin

    kinds = (StreamJoinStep,)
    accepts_tables = True

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
        """The endings of the names of the stores of a join by a foreign key.

        `stored`: its input is in a store. `expires`: the rows of its input expire.
        """
        has_rows = stored and all(_COLUMN.fullmatch(sql.text) for _, sql in self.join.by or ())
        return (*FOREIGN_KEY_STORES[has_rows:], *((EXPIRED,) if expires else ()))

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Check it as a join of two tables, or as a lookup of a stream."""
        if shape.is_table:
            kind = check_tables if self.join.by is None else check_foreign_key
            return kind(context, step, self.join, shape)
        return check_lookup(context, step, self.join, shape)
