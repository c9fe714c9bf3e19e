"""Checks of flows: their sources, their steps, and the topics they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...runtime.ir.topology import Topic
from ...runtime.records.names import UNKNOWN_TYPES
from ..diagnostics import Diagnostics, Position
from ..entries import TopicModel, columns_ddl
from ..model.project import FlowModel, ProjectModel
from ..model.resolve import Resolution
from ..operations.aggregate import AggregateStep
from ..operations.base.context import CheckedFlow, CheckedRoute, CheckedTopology, FlowContext, Repartition, Step
from ..operations.base.site import UNKNOWN, Rekey, Shape
from ..operations.joins.streams import StreamJoinStep
from ..operations.parts.tables import Settling
from ..operations.reduce import ReduceStep
from ..operations.to_table import ToTableStep
from ..reading.source import ScalarNode
from .route import check_route


def check_flow(
    context: FlowContext,
    flow: FlowModel,
    sources: Sequence[tuple[str, Shape]] | None,
    topics: Mapping[str, TopicModel],
    invalid_sink: bool,
) -> CheckedFlow:
    """Check a flow against the shapes of its sources (None: unknown).

    `topics`: the declared topics. `invalid_sink`: an error of its `to` was already reported.
    """
    before = _merged(context, flow, sources) if sources is not None else UNKNOWN
    if sources is not None and len(sources) == 1:
        context.source = sources[0][0]
    at = flow.name.position.line_text
    shape = _settled(context, _steps(context, flow, before), at=at)
    to: tuple[Topic, ...] = ()
    route: CheckedRoute | None = None
    if flow.to and not invalid_sink and _may_write(context, flow, shape):
        sinks = [_sink(context, name, shape, topics.get(name.text)) for name in flow.to]
        to = tuple(sink for sink in sinks if sink is not None)
        route = check_route(context, flow.route, flow.to, shape) if flow.route is not None else None
    written = flow.route or next(iter(flow.to), None)
    context.topology.shapes[flow.name.text] = shape
    _check_skipping(context, flow)
    return CheckedFlow(
        flow.name.text,
        tuple(name for name, _ in sources or ()),
        tuple(context.operations),
        before,
        shape,
        to,
        at,
        written.position.line_text if written else "",
        None if flow.start is None or flow.start.text == "earliest" else flow.start.text,
        route,
    )


def _check_skipping(context: FlowContext, flow: FlowModel) -> None:
    """Report `on_error` of a flow that gets changes of a regrouped table or of a join by a foreign key."""
    regrouped = any(source.text in context.topology.regrouped for source in flow.reads)
    what = "a regrouped table"
    for placed in context.operations:
        if isinstance(placed.operation, Repartition):
            regrouped = placed.before.is_table
            what = "a regrouped table" if placed.operation.edge is None else "a join by a foreign key"
    if regrouped:
        context.topology.regrouped.add(flow.name.text)
        if flow.on_error_at is not None and flow.on_error != "fail":
            message = f"The flow '{flow.name.text}' gets changes of {what}, which cannot be skipped."
            hint = "Remove `on_error` here; set it for the flow or the topic before the table."
            context.report("HW720", flow.on_error_at.position, message, hint)


def _merged(context: FlowContext, flow: FlowModel, sources: Sequence[tuple[str, Shape]]) -> Shape:
    """The shape of a flow's input. Several sources must be streams with equal columns."""
    (_, first), rest = sources[0], sources[1:]
    if not rest:
        return first
    scalars = {scalar.text: scalar for scalar in flow.sources}
    for name, shape in sources:
        if shape.is_table:
            message = f"'{name}' is a table; only streams can be merged."
            context.report("HW501", scalars[name].position, message, "Read it through a flow with `to_stream`.")
            return UNKNOWN
    if any(shape.open for _, shape in sources):
        return UNKNOWN
    differs = False
    for name, shape in rest:
        for side, mine, theirs in (("key", first.key, shape.key), ("value", first.value, shape.value)):
            what = _difference(mine, theirs)
            if what is not None:
                message = f"'{name}' and '{sources[0][0]}' differ in the {side}: {what}."
                context.report("HW512", scalars[name].position, message, "Give both the same columns with `select`.")
                differs = True
            elif side == "key" and list(mine) != list(theirs):
                message = f"'{name}' and '{sources[0][0]}' have their key columns in a different order."
                hint = "The order determines the partition: give both the same key with `key_by`."
                context.report("HW512", scalars[name].position, message, hint)
                differs = True
    if differs:
        return UNKNOWN
    partitions = max(shape.partitions for _, shape in sources)
    rekey = next((shape.rekey for _, shape in sources if shape.rekey), None)
    if any(shape.partitions != partitions for _, shape in sources):
        rekey = rekey or Rekey(flow.name.text, None, flow.sources[0].position)
    if rekey is not None:
        rekey = replace(rekey, flow=flow.name.text, step=None)
    types = {
        name: type_ or next((shape.value[name] for _, shape in rest if shape.value[name]), None)
        for name, type_ in first.value.items()
    }
    return replace(first, value=types, partitions=partitions, rekey=rekey)


def _difference(mine: object, theirs: object) -> str | None:
    assert isinstance(mine, dict)
    assert isinstance(theirs, dict)
    for name in [*mine, *theirs]:
        if name not in mine or name not in theirs:
            return f"only one has '{name}'"
        if mine[name] and theirs[name] and mine[name] != theirs[name]:
            return f"'{name}' has type {mine[name]} in one, {theirs[name]} in the other"
    return None


def _steps(context: FlowContext, flow: FlowModel, shape: Shape) -> Shape:
    for number, step in enumerate(flow.steps):
        following = flow.steps[number + 1] if number + 1 < len(flow.steps) else None
        shape = _step(context, step, following, shape)
        flows = _made(step)
        if flows and following is not None:
            message = f"A `{step.word.text}` ends its flow, so it cannot have a step behind it."
            hint = f"Put this step into a flow that reads one of the new flows, such as '{flows[0]}'."
            context.report("HW514", following.word.position, message, hint)
            return UNKNOWN
    return shape


def _made(step: Step) -> list[str]:
    """The flows that a step makes. Its own flow ends with such a step."""
    return [] if step.action is None else [flow.text for flow in step.action.references().flows]


def _step(context: FlowContext, step: Step, following: Step | None, shape: Shape) -> Shape:
    action = step.action
    if action is None or context.too_much(step):
        return UNKNOWN
    rejection = None if shape.open else action.rejection(step.word.text, shape)
    if rejection is not None:
        context.report(rejection.code, step.word.position, rejection.message, rejection.hint)
        return UNKNOWN
    if not action.passes_tombstones:
        shape = _settled(context, shape, step)
    stores = set(context.topology.default_stores)
    after = action.check(context, step, shape, following)
    if context.topology.default_stores - stores and not action.references().stores_result:
        raise AssertionError(f"`{step.word.text}` has a store: its `references()` must say `stores_result`")
    return after


def _settled(context: FlowContext, shape: Shape, step: Step | None = None, at: str = "") -> Shape:
    """The shape after removing deletions of rows that did not exist, if the table has any."""
    if not shape.unsettled:
        return shape
    return context.add(Settling(), shape, replace(shape, unsettled=False), step, at)


def _may_write(context: FlowContext, flow: FlowModel, shape: Shape) -> bool:
    """Whether a flow may write topics: its last step must not end it."""
    last = flow.steps[-1] if flow.steps else None
    if context.operations and not shape.open and last is not None and _made(last):
        message = f"A `{last.word.text}` ends its flow, so the flow cannot write a topic."
        hint = f"Write the flows of the {last.word.text}, through flows that read them."
        context.report("HW514", flow.to[0].position, message, hint)
        return False
    return True


def _sink(context: FlowContext, to: ScalarNode, shape: Shape, topic: TopicModel | None) -> Topic | None:
    """A topic that a flow writes. If it is declared, the declaration must match the flow."""
    if topic is not None:
        _compare(context, to, shape, topic)
        return declared_topic(topic, context.topology.application)
    if shape.open:
        return None
    return Topic(
        to.text,
        shape.partitions,
        columns_ddl(shape.plain_key),
        columns_ddl(shape.value),
        windowed=shape.windowed,
        writer=context.topology.application,
    )


def declared_topic(topic: TopicModel, writer: str | None) -> Topic:
    """A topic of `topics/`, as a declaration of the runtime. It has `readers` only if records may be deleted."""
    deletes = "compact" in topic.cleanup or topic.retention_ms is not None
    return Topic(
        topic.name.text,
        topic.partitions,
        columns_ddl({name: column.type for name, column in topic.key.items()}),
        columns_ddl({name: column.type for name, column in topic.value.items()}),
        windowed=topic.windowed,
        writer=writer,
        cleanup=topic.cleanup,
        retention_ms=topic.retention_ms,
        on_error=topic.on_error,
        timestamp=topic.timestamp.text if topic.timestamp is not None else None,
        readers=topic.readers if deletes else (),
    )


def _compare(context: FlowContext, to: ScalarNode, shape: Shape, topic: TopicModel) -> None:
    """Report the differences between a declared topic and the flow that writes it."""
    name = topic.name.text
    if shape.open:
        return
    if shape.windowed != topic.windowed:
        windowed, plain = f"topic '{name}'", "flow"
        if shape.windowed:
            windowed, plain = plain, windowed
        way = "Declare `windowed: true`." if shape.windowed else "Remove `windowed`, or aggregate in windows."
        context.report(
            "HW510", to.position, f"The key of the {windowed} has a window, the key of the {plain} has none.", way
        )
    where = f"in {topic.name.position.file}"
    for side, yielded, declared in (("key", shape.plain_key, topic.key), ("value", shape.value, topic.value)):
        for column, type_ in yielded.items():
            if column not in declared:
                message = f"The flow has the {side} column '{column}', which the topic '{name}' does not declare."
                context.report("HW510", to.position, message, f"Add it {where}, or remove it with `select`.")
                continue
            expected = declared[column].type
            if type_ and expected and type_ != expected and type_ not in UNKNOWN_TYPES:
                what = f"The {side} column '{column}' of the topic '{name}'"
                message = f"{what} has type {expected}; in the flow it has type {type_}."
                context.report("HW510", to.position, message, f"Change the type {where}, or `cast` in the flow.")
        for column in declared:
            if column not in yielded:
                message = f"The topic '{name}' declares the {side} column '{column}', which the flow does not have."
                context.report("HW510", to.position, message, f"Remove it {where}, or add it to the flow.")


# Aggregates and joins of collapsed changes.
#
# A topic written from a table with `emit: per_epoch` has one change per key and epoch. Read as a table, its result does
# not depend on where epochs end. Read as a stream it does, because the number of records depends on the epochs.

Read = tuple[str, str, str]
"""A source of a flow: its topology (empty for a topic), its kind and its name."""


def check_collapsed(
    model: ProjectModel, resolution: Resolution, checked: Mapping[str, CheckedTopology], diagnostics: Diagnostics
) -> None:
    """Warn of aggregates and joins of streams that take collapsed changes of a table for records."""
    collapsed: dict[Read, str] = {}  # -> the topic that is written from a table
    for topology, name in resolution.order:
        flow, checked_flow = model.topologies[topology].flows[name], checked[topology].flows.get(name)
        if checked_flow is None:
            continue
        sources = resolution.names[topology].sources.get(name) or ()
        origin = _origin(topology, sources, collapsed)
        _check_joined(flow, topology, collapsed, diagnostics)
        if origin is not None:
            origin = _through(flow, origin, diagnostics)
        if origin is not None:
            made = (scalar.text for references in flow.references for scalar in references.flows)
            for flow_name in (name, *made):
                collapsed[topology, "flow", flow_name] = origin
        for to in flow.to:
            if checked_flow.after.is_table and checked_flow.after.emit == "per_epoch":
                collapsed["", "topic", to.text] = to.text
            elif origin is not None:
                collapsed["", "topic", to.text] = origin


def _origin(topology: str, sources: Sequence[tuple[str, str]], collapsed: Mapping[Read, str]) -> str | None:
    reads = (("" if kind == "topic" else topology, kind, name) for kind, name in sources)
    return next((collapsed[read] for read in reads if read in collapsed), None)


def _through(flow: FlowModel, origin: str, diagnostics: Diagnostics) -> str | None:
    """The topic `origin`, if the flow passes on its records as a stream; otherwise None."""
    for step in flow.steps:
        if isinstance(step.action, ToTableStep):
            return None
        if isinstance(step.action, AggregateStep | ReduceStep | StreamJoinStep):
            _warn(step.word.position, origin, diagnostics)
            return None
    return origin


def _check_joined(flow: FlowModel, topology: str, collapsed: Mapping[Read, str], diagnostics: Diagnostics) -> None:
    """Warn of joined streams that have collapsed changes."""
    for step in flow.steps:
        if isinstance(step.action, StreamJoinStep):
            stream = step.action.join.table
            for read in ((topology, "flow", stream.text), ("", "topic", stream.text)):
                if read in collapsed:
                    _warn(stream.position, collapsed[read], diagnostics)


def _warn(position: Position, topic: str, diagnostics: Diagnostics) -> None:
    message = (
        f"The topic '{topic}' is written from a table, with one change per key and epoch. Here each change counts as a "
        "record, so the result depends on where epochs end."
    )
    hint = f"Read '{topic}' as an entry of `tables:`, or write `emit: each_update` at the step that makes the table."
    diagnostics.add("HW520", position, message, hint)
