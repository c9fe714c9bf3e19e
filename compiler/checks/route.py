"""Checks of a `route`: the expression that chooses one of several topics for each record of a flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..diagnostics import did_you_mean
from ..language.certain import results
from ..language.expressions import Expression
from ..operations.base.context import CheckedRoute, FlowContext, StepLocation, scope_of
from ..operations.base.site import Shape
from ..operations.parts.projection import with_calls, with_computed
from ..reading.source import ScalarNode


def check_route(
    context: FlowContext, route: ScalarNode, topics: Sequence[ScalarNode], shape: Shape
) -> CheckedRoute | None:
    """A route, if the flow is a stream and the expression a string; otherwise None, which is reported.

    `shape`: of the end of the flow. Its constant results must be among the topics.
    """
    if shape.is_table and not shape.open:
        message = "`route` is for streams; this is a table, and a row that changes its topic would stay in the old one."
        context.report("HW501", route.position, message, "Put `to_stream` at the end of the steps.")
        return None
    (by,) = context.expressions([route], scope_of(shape))
    if by is None:
        return None
    if by.type not in (None, "string"):
        message = f"`route` must give the name of a topic, a string; this is of type {by.type}."
        context.report("HW412", by.position, message)
        return None
    _check_results(context, by, topics)
    step = StepLocation(route, None)
    computing = replace(context, operations=[])
    by = replace(by, named=_free_name(shape))
    # As in Kafka Streams, the route of a record with a null value is computed, too.
    ready = with_calls(computing, step, shape, [by], null_values=True)
    if by.as_column != by.plain:
        with_computed(computing, step, ready, {by.as_column.name: by}, null_values=True)
    return CheckedRoute(by, tuple(computing.operations))


def _free_name(shape: Shape) -> str:
    """The name of the column with the topic's name: `topic`, behind underscores if the flow has such a column."""
    taken = {name.casefold() for name in (*shape.key, *shape.value)}
    name = "topic"
    while name in taken:
        name = f"_{name}"
    return name


def _check_results(context: FlowContext, by: Expression, topics: Sequence[ScalarNode]) -> None:
    """Report constant results that are not among the topics, and topics that are never a result."""
    names = [topic.text for topic in topics]
    possible = results(by)
    for constant in possible.constants:
        if constant.text not in names:
            message = f"The result '{constant.text}' is not among the topics of this route."
            hint = did_you_mean(constant.text, names) or "Add it to `topics`."
            context.report("HW522", by.sql.position(constant.start, constant.end), message, hint)
    given = {constant.text for constant in possible.constants}
    if possible.complete and given <= set(names):
        for topic in topics:
            if topic.text not in given:
                message = f"`route` never gives '{topic.text}', so this topic stays empty."
                context.report("HW523", topic.position, message, "Add it to `route`, or remove it from `topics`.")
