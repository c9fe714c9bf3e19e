"""A stream's records look up rows in a table by their key, or in a global table by any expression."""

from __future__ import annotations

from collections.abc import Mapping

from ....runtime.operators.declarations import How
from ...language.expressions import Expression
from ..base.checked import CheckedTable
from ..base.context import FlowContext
from ..base.shape import UNKNOWN, Shape
from ..base.step import Step
from ..parts.calls import called
from ..parts.lookups import GlobalTableJoin, TableJoin
from ..parts.projection import with_arguments
from .by import looked_up_by
from .columns import WrittenJoin, added, co_partitioned, compute, joined_table, planned
from .windows import forgotten_at_some_time


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
