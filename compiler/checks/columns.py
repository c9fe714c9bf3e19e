"""Checks of the steps that look at one row: filter, select, with_columns, drop, explode, key_by, branch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..diagnostics import did_you_mean
from ..language.expressions import Expression, column
from ..language.model import BranchStep, ColumnsStep, DropStep, ExplodeStep, FilterStep, Step
from ..operations.base.shape import UNKNOWN, Rekey, Shape
from ..operations.branch import Branching
from ..operations.explode import Explosion
from ..operations.filter import Filter
from ..operations.key_by import Rekeying
from ..operations.projection import Projection
from ..reading.nodes import Scalar
from ..types import holds_map
from .context import FlowContext, scope_of


def check_filter(context: FlowContext, step: Step, action: FilterStep, shape: Shape) -> Shape:
    """`filter`: a boolean."""
    predicate = _boolean(context, action.predicate, shape)
    if predicate is None:
        return shape
    after = replace(shape, store=None, unsettled=shape.is_table)
    return context.add(Filter(predicate), shape, after, step)


def check_projection(context: FlowContext, step: Step, action: ColumnsStep, shape: Shape) -> Shape:
    """`select` and `with_columns`."""
    found = context.columns(action.columns, scope_of(shape))
    if action.kind == "with_columns":
        context.distinct([name for name, _ in action.columns], shape.value)
    adds = action.kind == "with_columns"
    first = action.columns[0][1]
    kept = {name: column(first, "value", name, type_) for name, type_ in shape.value.items()} if adds else {}
    return _project(context, step, action.kind, {**kept, **found}, shape, open_=shape.open and adds)


def check_drop(context: FlowContext, step: Step, action: DropStep, shape: Shape) -> Shape:
    """`drop`: value columns that are there."""
    dropped = set()
    for name in action.columns:
        if name.text in shape.value:
            dropped.add(name.text)
        elif shape.open:
            continue
        elif name.text in shape.key:
            message = f"'{name.text}' is a key column; only value columns can be dropped."
            context.report("HW403", name.position, message, "Change the key with `key_by`.")
        else:
            message = f"There is no column '{name.text}'."
            context.report("HW403", name.position, message, did_you_mean(name.text, shape.value))
    left = {name: type_ for name, type_ in shape.value.items() if name not in dropped}
    if not left and not shape.open and action.columns:
        context.report("HW518", step.word.position, "No value column is left.", "Keep one, or `select` a new one.")
        return UNKNOWN
    where = action.columns[0] if action.columns else step.word
    kept: dict[str, Expression | None] = {name: column(where, "value", name, type_) for name, type_ in left.items()}
    return _project(context, step, "drop", kept, shape, open_=shape.open)


def check_explode(context: FlowContext, step: Step, action: ExplodeStep, shape: Shape) -> Shape:
    """`explode`: an array."""
    array = context.expressions([action.array], scope_of(shape))[0]
    context.distinct([action.column], shape.value)
    element = None
    if array is not None and array.type is not None:
        if not array.type.startswith("array<"):
            message = f"'explode' needs an array; this is of type {array.type}."
            context.report("HW412", array.sql.position(0, len(array.sql.text)), message)
        else:
            element = array.type[len("array<") : -1]
    after = shape.with_value({**shape.value, action.column.text: element})
    if array is None:
        return after
    return context.add(Explosion(action.column.text, array), shape, after, step)


def check_key_by(context: FlowContext, step: Step, action: ColumnsStep, shape: Shape) -> Shape:
    """`key_by`: of a stream, or of a table on its way to an aggregate."""
    found = context.columns(action.columns, scope_of(shape))
    for expression in found.values():
        if expression is not None and expression.type is not None and holds_map(expression.type):
            position = expression.sql.position(0, len(expression.sql.text))
            context.report("HW412", position, f"A key cannot hold a map; this is of type {expression.type}.")
    rekey = Rekey(context.flow.name.text, step.name.text if step.name else None, step.word.position)
    after = replace(
        shape,
        key={name: expression.type if expression else None for name, expression in found.items()},
        windowed=False,
        rekey=rekey,
        regrouped=shape.is_table,
        store=None,
    )
    complete = _complete(found)
    return after if complete is None else context.add(Rekeying(complete), shape, after, step)


def check_branch(context: FlowContext, step: Step, action: BranchStep, shape: Shape) -> Shape:
    """`branch`: booleans; a case without one takes the rest, so it is the last."""
    cases: list[tuple[str, Expression | None]] = []
    for number, case in enumerate(action.cases):
        if case.when is None and number + 1 < len(action.cases):
            following = action.cases[number + 1].flow
            message = f"'{case.flow.text}' takes the rest, so '{following.text}' gets nothing."
            context.report("HW514", following.position, message, "Put the case without `when` last.")
            break
    for case in action.cases:
        predicate = _boolean(context, case.when, shape) if case.when is not None else None
        cases.append((case.flow.text, predicate))
        context.topology.shapes.setdefault(case.flow.text, shape)
    return context.add(Branching(tuple(cases), tuple(flow for flow, _ in cases)), shape, shape, step)


def _boolean(context: FlowContext, scalar: Scalar, shape: Shape) -> Expression | None:
    predicate = context.expressions([scalar], scope_of(shape))[0]
    if predicate is not None and predicate.type not in (None, "boolean"):
        position = predicate.sql.position(0, len(predicate.sql.text))
        context.report("HW412", position, f"This must be a boolean; it is of type {predicate.type}.")
        return None
    return predicate


def _project(
    context: FlowContext,
    step: Step,
    word: str,
    columns: Mapping[str, Expression | None],
    shape: Shape,
    open_: bool,
) -> Shape:
    value = {name: expression.type if expression else None for name, expression in columns.items()}
    after = replace(shape.with_value(value), open=open_)
    complete = _complete(columns)
    return after if complete is None else context.add(Projection(complete, word), shape, after, step)


def _complete(columns: Mapping[str, Expression | None]) -> dict[str, Expression] | None:
    complete = {name: expression for name, expression in columns.items() if expression is not None}
    return complete if len(complete) == len(columns) else None
