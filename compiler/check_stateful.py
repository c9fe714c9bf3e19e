"""Checks of the steps that keep state or need records in their partitions: join, aggregate, to_table, repartition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..runtime.topology import Agg, Store, Window
from .aggregates import AggregateCall, AggregateValue, read_aggregate
from .check_context import FlowContext, scope_of
from .diagnostics import did_you_mean
from .expressions import Expression, Scope, column
from .model import AggregateStep, JoinStep, RepartitionStep, Step, ToTableStep
from .operations import (
    UNKNOWN,
    WINDOW_COLUMNS,
    AggregateArgument,
    Aggregation,
    CheckedTable,
    GlobalTableJoin,
    Materialization,
    Projection,
    Rekey,
    Shape,
    Streaming,
    TableJoin,
    Tabling,
)


def check_repartition(context: FlowContext, step: Step, action: RepartitionStep, shape: Shape) -> Shape:
    """`repartition`: at once, whether the key has changed or not."""
    if shape.open or not _has_key(context, step, shape):
        return replace(shape, rekey=None)
    own = step.name.text if step.name else None
    cause = shape.rekey if shape.rekey and shape.rekey.flow == context.flow.name.text and own is None else None
    rekey = cause or Rekey(context.flow.name.text, own, step.word.position)
    return context.repartition(shape, step, rekey, action.partitions or shape.partitions)


def check_to_table(context: FlowContext, step: Step, action: ToTableStep, shape: Shape) -> Shape:
    """`to_table`: the last row of each key."""
    if shape.open or not _has_key(context, step, shape):
        return replace(shape, kind="table", rekey=None)
    shape = context.rekeyed(shape, step)
    store, _ = context.store(action.store, "key_value", shape.key, shape.value, shape)
    after = replace(shape, kind="table", emit=action.emit, store=store)
    return context.add(Tabling(store), shape, after, step)


def check_to_stream(context: FlowContext, step: Step, shape: Shape) -> Shape:
    """`to_stream`: each update a record."""
    return context.add(Streaming(), shape, replace(shape, kind="stream", store=None), step)


def check_join(context: FlowContext, step: Step, action: JoinStep, shape: Shape) -> Shape:
    """`join` of a stream with a table or a global table."""
    table = context.topology.tables.get(action.table.text)
    side = context.topology.shapes.get(action.table.text)
    if side is None:
        known = [*context.topology.tables, *(n for n, s in context.topology.shapes.items() if s.is_table)]
        model = context.topology.model
        if action.table.text not in model.tables and action.table.text not in model.flows:
            message = f"There is no table '{action.table.text}'."
            context.report("HW303", action.table.position, message, did_you_mean(action.table.text, known))
        side = UNKNOWN
    elif not side.is_table and not side.open:
        message = f"'{action.table.text}' is a stream; a join looks up rows of a table."
        context.report("HW303", action.table.position, message, "Make it a table with `to_table`.")
        side = UNKNOWN
    scope = Scope(
        shape.key,
        shape.value,
        table=action.table.text,
        table_key=side.key,
        table_value=side.value,
        open=shape.open or side.open,
    )
    added = _added(context, action, shape, side, scope)
    if table is not None and table.global_table is not None:
        by = _by(context, action, shape, side)
    else:
        by = None
        if action.by_position is not None and not side.open:
            message = f"'{action.table.text}' is not global: it is joined by the stream's key."
            hint = "Change the key with `key_by`, or make the table global."
            context.report("HW513", action.by_position, message, hint)
        elif not shape.open and not side.open:
            if not _has_key(context, step, shape):
                return UNKNOWN
            shape = context.rekeyed(shape, step, side.partitions)
            _co_partitioned(context, action, shape, side)
    return _joined(context, step, action, shape, side, table, by, added)


def check_aggregate(context: FlowContext, step: Step, action: AggregateStep, shape: Shape) -> Shape:
    """`aggregate` by key, and by window if a `window` step stands before."""
    scope = scope_of(shape)
    context.distinct([name for name, _ in action.values])
    values = [read_aggregate(name, scalar, scope, context.diagnostics) for name, scalar in action.values]
    found = [value for value in values if value is not None]
    if shape.is_table:
        for call in (call for value in found for call in value.calls if not call.function.subtracts):
            message = f"'{call.function.name}' cannot take back the old row when a row of a table changes."
            hint = "Of a table there are count, sum and avg; or put `to_stream` before."
            context.report("HW511", call.whole.sql.position(0, len(call.name)), message, hint)
    has_key = shape.open or _has_key(context, step, shape)
    calls, types = _judged(context, found, scope)
    result_scope = Scope(shape.key, {}, aggregates=types, open=shape.open)
    results = context.judge.types([(value.result, result_scope) for value in found])
    value_types: dict[str, str | None] = {name.text: None for name, _ in action.values}
    value_types |= {value.name.text: type_ for value, type_ in zip(found, results, strict=True)}
    key = {**shape.plain_key, **WINDOW_COLUMNS} if shape.window else dict(shape.key)
    after = replace(
        shape,
        kind="table",
        key=key,
        value=value_types,
        windowed=shape.windowed or shape.window is not None,
        rekey=None,
        regrouped=False,
        window=None,
        emit=action.emit,
    )
    if len(found) < len(values) or not has_key or shape.open:
        return after
    shape = context.rekeyed(shape, step)
    store = _aggregate_store(context, action, shape, value_types)
    return _aggregated(context, step, shape, replace(after, partitions=shape.partitions), store, found, calls, types)


def _has_key(context: FlowContext, step: Step, shape: Shape) -> bool:
    if shape.key:
        return True
    message = f"'{step.word.text}' works by the key, and '{context.flow.name.text}' has none here."
    context.report("HW504", step.word.position, message, "Put a `key_by` step before it.")
    return False


def _added(
    context: FlowContext, action: JoinStep, shape: Shape, side: Shape, scope: Scope
) -> dict[str, Expression | None]:
    """The columns that a join adds."""
    if action.values is not None:
        context.distinct([name for name, _ in action.values], shape.value)
        return context.columns(action.values, scope)
    for name in side.value:
        if name in shape.value:
            message = f"Both the flow and the table '{action.table.text}' have a column '{name}'."
            context.report("HW516", action.table.position, message, "List the columns to add under `values`.")
    return {name: column(action.table, "table", name, type_) for name, type_ in side.value.items()}


def _by(context: FlowContext, action: JoinStep, shape: Shape, side: Shape) -> dict[str, Expression]:
    """For each key column of a global table what is looked up."""
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
            position = expression.sql.position(0, len(expression.sql.text))
            context.report("HW412", position, message, f"Cast it: `cast(... as {expected})`.")
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
    """The operations of a join: what is looked up, the lookup, expressions over what was found."""
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
        ready = _with_arguments(context, step, shape, list((by or {}).values()))
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
    """The expression with the columns of a joined table as the columns that the join has put into the flow."""
    refs = tuple(
        replace(ref, role="value", name=f"{table}.{ref.name}") if ref.role == "table" else ref
        for ref in expression.refs
    )
    return replace(expression, refs=refs)


def _with_arguments(context: FlowContext, step: Step, shape: Shape, expressions: Sequence[Expression]) -> Shape:
    """The flow with each expression that is not a column already as one named by its SQL."""
    computed = {e.sql.text: e for e in expressions if e.as_column != e.plain}
    if not computed:
        return shape
    where = step.word
    kept = {name: column(where, "value", name, type_) for name, type_ in shape.value.items()}
    after = replace(
        shape, value={**shape.value, **{name: expression.type for name, expression in computed.items()}}, store=None
    )
    return context.add(Projection({**kept, **computed}), shape, after, step)


def _judged(
    context: FlowContext, values: Sequence[AggregateValue], scope: Scope
) -> tuple[dict[str, AggregateCall], dict[str, str | None]]:
    """The aggregates of a step by their SQL, arguments typed, and the types of their results."""
    calls = {call.name: call for value in values for call in value.calls}
    whole = dict(zip(calls, context.judge.types([(call.whole, scope) for call in calls.values()]), strict=True))
    asked = {name: call.argument for name, call in calls.items() if call.argument and whole[name] is not None}
    types = dict(zip(asked, context.judge.types([(argument, scope) for argument in asked.values()]), strict=True))
    for name, argument in asked.items():
        calls[name] = replace(calls[name], argument=argument.typed(types[name]))
    return calls, whole


def _aggregate_store(
    context: FlowContext, action: AggregateStep, shape: Shape, value: Mapping[str, str | None]
) -> Store:
    type_ = "window" if shape.window else "key_value"
    key = shape.plain_key if shape.window else shape.key
    store, model = context.store(action.store, type_, key, value, shape)
    if shape.window is None:
        return store
    window = shape.window
    needed = window.size_ms + window.grace_ms
    retention = model.retention_ms if model and model.retention_ms is not None else needed
    if retention < needed and model is not None and model.retention is not None:
        message = f"The retention of '{model.name.text}' ({model.retention.text}) is shorter than window and grace."
        hint = f"Set it to {_duration(needed)} at least, or leave it out."
        context.report("HW507", model.retention.position, message, hint)
    return replace(store, window=Window(window.size_ms, window.advance_ms, window.grace_ms), retention_ms=retention)


def _duration(milliseconds: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def _aggregated(
    context: FlowContext,
    step: Step,
    shape: Shape,
    after: Shape,
    store: Store,
    values: Sequence[AggregateValue],
    calls: Mapping[str, AggregateCall],
    types: Mapping[str, str | None],
) -> Shape:
    """The operations of an aggregate: its arguments, the aggregation, expressions over its results."""
    ready = _with_arguments(context, step, shape, [call.argument for call in calls.values() if call.argument])
    names = {name: name for name in calls}
    for value in values:
        plain = value.result.plain
        if plain is not None and plain.role == "aggregate" and names[plain.name] == plain.name:
            names[plain.name] = value.name.text
    arguments = tuple(
        AggregateArgument(
            Agg(
                names[name],
                call.function.name,
                of=call.argument.type if call.argument else None,
                type=types[name] or "string",
                options=call.options,
            ),
            call.argument,
        )
        for name, call in calls.items()
    )
    clock = step.name.text if step.name else store.name
    operation = Aggregation(store, arguments, "table" if shape.is_table else "stream", clock)
    aggregated = replace(after, value={names[name]: types[name] for name in calls}, store=store)
    done = list(aggregated.value) == list(after.value) or (
        aggregated.value.keys() == after.value.keys() and all(v.result.plain for v in values)
    )
    if done:
        return context.add(operation, ready, replace(after, store=store), step)
    context.add(operation, ready, aggregated, step)
    results = {value.name.text: _over_results(value.result, names) for value in values}
    projected = context.add(Projection(results), aggregated, replace(after, store=None), step)
    return context.add(Materialization(store), projected, replace(after, store=store), step)


def _over_results(result: Expression, names: Mapping[str, str]) -> Expression:
    refs = tuple(
        replace(ref, role="value", name=names[ref.name]) if ref.role == "aggregate" else ref for ref in result.refs
    )
    return replace(result, refs=refs)
