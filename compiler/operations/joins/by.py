"""`by` of a join: an expression over the flow's columns for each key column of the table."""

from __future__ import annotations

from dataclasses import replace

from ...diagnostics import did_you_mean
from ...language.expressions import Expression
from ..base.context import FlowContext, complete, scope_of
from ..base.shape import Shape
from .columns import WrittenJoin


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
