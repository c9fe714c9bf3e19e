"""Checks of one flow: what it reads, which step its input allows, what it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...runtime.topology import Topic
from ..language.model import (
    Action,
    AggregateStep,
    BranchStep,
    ColumnsStep,
    DropStep,
    ExplodeStep,
    FilterStep,
    JoinStep,
    LaterStep,
    RepartitionStep,
    Step,
    TopicModel,
    ToStreamStep,
    ToTableStep,
    WindowStep,
)
from ..language.stores import columns_ddl
from ..operations.base.checked import CheckedFlow
from ..operations.base.shape import UNKNOWN, Rekey, Shape
from .aggregate import check_aggregate
from .columns import check_branch, check_drop, check_explode, check_filter, check_key_by, check_projection
from .context import FlowContext
from .joins import check_join
from .state import check_repartition, check_to_stream, check_to_table

_STREAM_ONLY = (ExplodeStep, RepartitionStep, WindowStep, ToTableStep, BranchStep)


def check_flow(
    context: FlowContext, sources: Sequence[tuple[str, Shape]] | None, topic: TopicModel | None, refused: bool
) -> CheckedFlow:
    """Check a flow against the shapes of its sources (None: not known).

    `topic`: the declared topic that it writes, None where there is none. `refused`: its `to` has been reported.
    """
    flow = context.flow
    before = _merged(context, sources) if sources is not None else UNKNOWN
    if sources is not None and len(sources) == 1:
        context.source = sources[0][0]
    shape = context.settled(_steps(context, before), at=f"{flow.name.position.file}:{flow.name.position.line}")
    to = None
    if flow.to is not None and not refused:
        to = _sink(context, shape, topic)
    context.topology.shapes[flow.name.text] = shape
    position = flow.name.position
    return CheckedFlow(
        flow.name.text,
        tuple(name for name, _ in sources or ()),
        tuple(context.operations),
        before,
        shape,
        to,
        f"{position.file}:{position.line}",
        f"{flow.to.position.file}:{flow.to.position.line}" if flow.to else "",
    )


def _merged(context: FlowContext, sources: Sequence[tuple[str, Shape]]) -> Shape:
    """The shape of what a flow reads; of several sources they must be streams of equal columns."""
    (_, first), rest = sources[0], sources[1:]
    if not rest:
        return first
    scalars = {scalar.text: scalar for scalar in context.flow.sources}
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
                message = f"'{name}' and '{sources[0][0]}' have the columns of their keys in another order."
                hint = "The order settles the partition: give both the same key with `key_by`."
                context.report("HW512", scalars[name].position, message, hint)
                differs = True
    if differs:
        return UNKNOWN
    partitions = max(shape.partitions for _, shape in sources)
    rekey = next((shape.rekey for _, shape in sources if shape.rekey), None)
    if any(shape.partitions != partitions for _, shape in sources):
        rekey = rekey or Rekey(context.flow.name.text, None, context.flow.sources[0].position)
    if rekey is not None:
        rekey = replace(rekey, flow=context.flow.name.text, step=None)
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
            return f"'{name}' is of type {mine[name]} in one, {theirs[name]} in the other"
    return None


def _steps(context: FlowContext, shape: Shape) -> Shape:
    steps = context.flow.steps
    for number, step in enumerate(steps):
        following = steps[number + 1] if number + 1 < len(steps) else None
        shape = _step(context, step, following, shape)
        if isinstance(step.action, BranchStep) and following is not None:
            message = "After a `branch` the flow has gone on as other flows."
            hint = f"Put this step into a flow that reads one of them, such as '{step.action.cases[0].flow.text}'."
            context.report("HW514", following.word.position, message, hint)
            return UNKNOWN
    return shape


def _step(context: FlowContext, step: Step, following: Step | None, shape: Shape) -> Shape:
    action = step.action
    if action is None or isinstance(action, LaterStep) or context.too_much(step):
        return UNKNOWN
    if not _allowed(context, step, shape):
        return UNKNOWN
    if not _passes_tombstones(action):
        shape = context.settled(shape, step)
    match action:
        case FilterStep():
            return check_filter(context, step, action, shape)
        case ColumnsStep(kind="key_by"):
            if shape.is_table and not (following and isinstance(following.action, AggregateStep)):
                message = "A table can be re-keyed only to be aggregated."
                hint = "Put `aggregate` right behind `key_by`, or `to_stream` before it."
                context.report("HW501", step.word.position, message, hint)
                return UNKNOWN
            return check_key_by(context, step, action, shape)
        case ColumnsStep():
            return check_projection(context, step, action, shape)
        case DropStep():
            return check_drop(context, step, action, shape)
        case ExplodeStep():
            return check_explode(context, step, action, shape)
        case RepartitionStep():
            return check_repartition(context, step, action, shape)
        case JoinStep():
            return check_join(context, step, action, shape)
        case WindowStep():
            return _window(context, step, action, following, shape)
        case AggregateStep():
            return check_aggregate(context, step, action, shape)
        case ToTableStep():
            return check_to_table(context, step, action, shape)
        case ToStreamStep():
            return check_to_stream(context, step, shape)
        case BranchStep():
            return check_branch(context, step, action, shape)


def _passes_tombstones(action: Action) -> bool:
    """Whether a step does no harm with deletions of rows that were not there."""
    return isinstance(action, (FilterStep, DropStep)) or (isinstance(action, ColumnsStep) and action.kind != "key_by")


def _allowed(context: FlowContext, step: Step, shape: Shape) -> bool:
    """Whether the step may have a stream, or a table, as its input."""
    if shape.open:
        return True
    word, position = step.word.text, step.word.position
    if shape.is_table and isinstance(step.action, _STREAM_ONLY):
        if isinstance(step.action, ToTableStep):
            context.report("HW501", position, "'to_table' is for streams; this is a table already.", "Remove it.")
        else:
            message = f"'{word}' is for streams; this is a table."
            context.report("HW501", position, message, "Put `to_stream` before it.")
        return False
    if shape.is_table and isinstance(step.action, JoinStep):
        message = "The join of two tables is not there yet; 'join' of a table is reserved for it."
        context.report("HW502", position, message, "Put `to_stream` before it.")
        return False
    if not shape.is_table and isinstance(step.action, ToStreamStep):
        context.report("HW501", position, "'to_stream' is for tables; this is a stream already.", "Remove it.")
        return False
    return True


def _window(context: FlowContext, step: Step, action: WindowStep, following: Step | None, shape: Shape) -> Shape:
    if following is None or not isinstance(following.action, (AggregateStep, LaterStep, type(None))):
        what = "nothing" if following is None else f"'{following.word.text}'"
        message = f"A 'window' must be followed by an 'aggregate', not by {what}."
        context.report("HW505", step.word.position, message, "Put steps on single records before the window.")
        return UNKNOWN
    if shape.windowed:
        message = "The key of this stream has a window already."
        context.report("HW501", step.word.position, message, "Put `key_by` with the columns to group by before it.")
        return UNKNOWN
    return replace(shape, window=action)


def _sink(context: FlowContext, shape: Shape, topic: TopicModel | None) -> Topic | None:
    """The topic that a flow writes; where it is declared, the two are compared."""
    to = context.flow.to
    assert to is not None
    if context.operations and not shape.open and isinstance(context.flow.steps[-1].action, BranchStep):
        message = "After a `branch` there is nothing left to write."
        context.report("HW514", to.position, message, "Write the flows of the branch, through flows that read them.")
        return None
    if topic is not None:
        _compare(context, shape, topic)
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
    """A topic of `topics/` as the runtime declares it."""
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
    )


def _compare(context: FlowContext, shape: Shape, topic: TopicModel) -> None:
    """Report each difference between a declared topic and what the flow yields."""
    to, name = context.flow.to, topic.name.text
    assert to is not None
    if shape.open:
        return
    if shape.windowed != topic.windowed:
        windowed, plain = f"topic '{name}'", "flow"
        if shape.windowed:
            windowed, plain = plain, windowed
        way = "Declare `windowed: true`." if shape.windowed else "Remove `windowed`, or aggregate in windows."
        context.report(
            "HW510", to.position, f"The key of the {windowed} has a window, that of the {plain} has none.", way
        )
    where = f"in {topic.name.position.file}"
    for side, yielded, declared in (("key", shape.plain_key, topic.key), ("value", shape.value, topic.value)):
        for column, type_ in yielded.items():
            if column not in declared:
                message = f"The flow yields the {side} column '{column}', which the topic '{name}' lacks."
                context.report("HW510", to.position, message, f"Add it {where}, or leave it out with `select`.")
                continue
            expected = declared[column].type
            if type_ and expected and type_ != expected:
                what = f"The {side} column '{column}' of the topic '{name}'"
                message = f"{what} is of type {expected}; the flow yields {type_}."
                context.report("HW510", to.position, message, f"Change the type {where}, or `cast` in the flow.")
        for column in declared:
            if column not in yielded:
                message = f"The topic '{name}' has the {side} column '{column}', which the flow does not yield."
                context.report("HW510", to.position, message, f"Remove it {where}, or add it to the flow.")
