"""`aggregate`: combines the rows of a key, or of a key and window, into one row.

It becomes three kinds of operations: its arguments, the aggregation, and expressions over the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from ...runtime.engine.operators.operator import Emit
from ...runtime.expressions.types import canonical
from ...runtime.ir.topology import Agg, Store
from ..entries import Pairs, Reader, pairs, scalar
from ..language.aggregates import AggregateCall, AggregateValue, WrittenCall, read_aggregate
from ..language.expressions import Expression, Scope, distinct_names
from ..language.udfs import typed_calls, with_results
from ..reading.source import MappingNode, Node, ScalarNode
from .base.context import FlowContext, References, Step, StepAction, scope_of
from .base.site import UNKNOWN, Rekey, Shape
from .parts.aggregation import (
    AggregateArgument,
    AggregatingWith,
    Aggregation,
    Materialization,
    add_on_close,
    aggregator,
    check_on_close,
    final_results,
    group_store,
    grouped_shape,
    on_close,
)
from .parts.projection import Projection, add_calls, with_arguments


@dataclass(frozen=True)
class AggregateStep(StepAction):
    """`aggregate:`, by the key, and by window behind a `window` step."""

    store: ScalarNode | None
    emit: Emit
    values: Pairs
    on_close: ScalarNode | None = None
    function: ScalarNode | None = None

    accepts_tables = True

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        if not isinstance(node, MappingNode):
            return None
        values = reader.columns(pairs(node, "values"))
        if not values:
            return None
        return cls(scalar(node, "store"), reader.emit(node), values, on_close(node), scalar(node, "function"))

    def references(self) -> References:
        return References(stores=(self.store,) if self.store is not None else (), stores_result=True)

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require a key and supported aggregates. On a table, the aggregates must be able to subtract a row."""
        if self.function is not None:
            return self._by_class(context, step, shape, self.function)
        scope = replace(scope_of(shape), udfs=context.udfs)
        context.distinct([name for name, _ in self.values])
        values = [read_aggregate(name, sql, scope, context.diagnostics) for name, sql in self.values]
        valid = [value for value in values if value is not None]
        function_calls = [call for value in valid for call in value.functions]
        functions = typed_calls(function_calls, scope, context.checker, context.diagnostics)
        scope = with_results(scope, function_calls)
        if shape.is_table:
            _check_subtracts(context, valid)
        has_key = shape.open or context.has_key(step, shape)
        calls, types, types_as_written = _typed_aggregates(context, valid, scope)
        result_scope = Scope(shape.key, {}, aggregates=types_as_written, open=shape.open)
        results = context.checker.types([(value.written, result_scope) for value in valid])
        value_types: dict[str, str | None] = {name.text: None for name, _ in self.values}
        value_types |= {value.name.text: type_ for value, type_ in zip(valid, results, strict=True)}
        after = self._after(shape, value_types)
        if not check_on_close(context, self.on_close, shape):
            return UNKNOWN
        if len(valid) < len(values) or functions is None or not has_key or shape.open:
            return final_results(after, self.on_close)
        shape = _grouped(context, step, shape)
        store = group_store(context, self.store, shape, value_types)
        shape = add_calls(context, step, shape, functions, null_values=shape.window is not None)
        after = replace(after, partitions=shape.partitions)
        table = _aggregated(context, step, shape, after, store, valid, calls, types, self.on_close is not None)
        return add_on_close(context, store, self.on_close, table, step)

    def _by_class(self, context: FlowContext, step: Step, shape: Shape, name: ScalarNode) -> Shape:
        """Check an `aggregate` with a class of the project. Its state has the columns of `values`."""
        context.distinct([column for column, _ in self.values])
        function = aggregator(context, name, shape)
        has_key = shape.open or context.has_key(step, shape)
        value = {column.text: _type(written) for column, written in self.values}
        after = self._after(shape, value)
        if not check_on_close(context, self.on_close, shape):
            return UNKNOWN
        if function is None or not has_key or shape.open or None in value.values():
            return final_results(after, self.on_close)
        shape = _grouped(context, step, shape)
        store = group_store(context, self.store, shape, value)
        after = replace(after, partitions=shape.partitions, store=store)
        operation = AggregatingWith(store, function, "table" if shape.is_table else "stream", self.on_close is not None)
        return add_on_close(context, store, self.on_close, context.add(operation, shape, after, step), step)

    def _after(self, shape: Shape, value: Mapping[str, str | None]) -> Shape:
        """The resulting table."""
        return grouped_shape(shape, value, self.emit)


def _type(written: ScalarNode) -> str | None:
    """The canonical declared type; None if it is wrong, which has been reported."""
    try:
        return canonical(written.text)
    except ValueError:
        return None


def _grouped(context: FlowContext, step: Step, shape: Shape) -> Shape:
    """The input in the partitions of its keys. A table always goes through a repartition topic.

    A change of the table removes a row from its old group and adds it to the new one. If both are the same group, the
    sink of the topic makes one update of it.
    """
    if not shape.is_table or shape.rekey is not None:
        return context.rekeyed(shape, step)
    rekey = Rekey(context.name.text, step.name.text if step.name else None, step.word.position)
    return context.repartition(shape, step, rekey, shape.partitions)


def _check_subtracts(context: FlowContext, values: Sequence[AggregateValue]) -> None:
    for call in (call for value in values for call in value.calls if not call.function.subtracts):
        message = f"'{call.written.word}' cannot subtract the old row when a row of a table changes."
        hint = "Use count, count_if, sum or avg; or put `to_stream` before."
        context.report("HW511", call.written.whole.position, message, hint)


def _typed_aggregates(
    context: FlowContext, values: Sequence[AggregateValue], scope: Scope
) -> tuple[dict[str, AggregateCall], dict[str, str | None], dict[str, str | None]]:
    """The aggregates of a step by their SQL, with typed arguments.

    Also returns the types of their results, by their SQL and by their SQL as written.
    """
    typed = [_with_columns(context, call, scope) for value in values for call in value.calls]
    # Before Spark's analyzer, which would cast strings to numbers, and would not name the column in its message.
    rejected = {call.name for call in typed if not _accepts(context, call)}
    calls = {call.name: call for call in typed}
    accepted = {name: call for name, call in calls.items() if name not in rejected}
    results: dict[str, str | None] = dict.fromkeys(calls)
    results |= zip(accepted, context.checker.types([(call.whole, scope) for call in accepted.values()]), strict=True)
    arguments = {name: call.argument for name, call in calls.items() if call.argument and results[name] is not None}
    types = context.checker.types([(argument, scope) for argument in arguments.values()])
    for (name, argument), type_ in zip(arguments.items(), types, strict=True):
        calls[name] = replace(calls[name], argument=argument.typed(type_))
    return calls, results, {call.written.whole.sql.text: _result_type(call, results[call.name]) for call in typed}


def _with_columns(context: FlowContext, call: AggregateCall, scope: Scope) -> AggregateCall:
    types = context.checker.types([(column, scope) for column in call.written.columns])
    columns = tuple(column.typed(type_) for column, type_ in zip(call.written.columns, types, strict=True))
    return replace(call, written=replace(call.written, columns=columns))


def _accepts(context: FlowContext, call: AggregateCall) -> bool:
    """Whether all columns of an aggregate have types that it accepts; otherwise reports the others."""
    written = call.written
    for column in written.columns:
        if column.type is None or written.function.accepts(column.type):
            continue
        message = f"'{written.word}' takes {_TAKES[written.function.takes]}; this has type {column.type}."
        context.report("HW413", column.position, message, _cast(written, column))
    return all(column.type is not None and written.function.accepts(column.type) for column in written.columns)


_TAKES = {
    "numbers": "numbers",
    "booleans": "booleans",
    "ordered": "values with an order, not maps",
    "any": "any value",
}


def _cast(written: WrittenCall, column: Expression) -> str | None:
    """A hint with the cast that Spark would make implicitly."""
    to = {"numbers": "double", "booleans": "boolean"}.get(written.function.takes)
    castable = ("string", "timestamp") if to == "double" else ("string",)
    if to is None or column.type not in castable:
        return None
    seconds = ", seconds since 1970" if column.type == "timestamp" else ""
    return (
        f"Spark would cast it implicitly. Write the cast: `{written.word}(cast({column.sql.text} as {to}))`{seconds}."
    )


def _result_type(call: AggregateCall, type_: str | None) -> str | None:
    """The type of an aggregate as written: for `min_by` and `max_by` the type of the first column, not of the pair."""
    return call.written.columns[0].type if type_ is not None and call.written.function.columns > 1 else type_


def _aggregated(
    context: FlowContext,
    step: Step,
    shape: Shape,
    after: Shape,
    store: Store,
    values: Sequence[AggregateValue],
    calls: Mapping[str, AggregateCall],
    types: Mapping[str, str | None],
    final: bool,
) -> Shape:
    """Add the operations of an aggregate: its arguments, the aggregation, and expressions over its results.

    `final`: only final rows are emitted, when their windows close.
    """
    inputs = _inputs(calls.values())
    ready = with_arguments(context, step, shape, list(inputs.values()))
    names: dict[str, str] = {}
    for value in values:
        plain = value.result.plain
        # A value that is just one aggregate needs no projection: the aggregate gets the name of the value.
        if plain is not None and plain.role == "aggregate":
            names.setdefault(plain.name, value.name.text)
    names = distinct_names(calls) | names
    arguments = tuple(
        AggregateArgument(
            Agg(
                names[name],
                call.function.name,
                of=call.argument.type if call.argument else None,
                type=types[name] or "string",
                options=call.options,
                written="" if call.written.whole.sql.text == name else call.written.whole.sql.text,
            ),
            inputs[call.argument.sql.text] if call.argument else None,
        )
        for name, call in calls.items()
    )
    operation = Aggregation(store, arguments, "table" if shape.is_table else "stream", final)
    aggregated = replace(after, value={names[name]: types[name] for name in calls}, store=store)
    is_complete = list(aggregated.value) == list(after.value) or (
        aggregated.value.keys() == after.value.keys() and all(value.result.plain for value in values)
    )
    if is_complete:
        return context.add(operation, ready, replace(after, store=store), step)
    context.add(operation, ready, aggregated, step)
    results = {
        value.name.text: _over_results(value.result.typed(after.value[value.name.text]), names) for value in values
    }
    projected = context.add(Projection(results), aggregated, replace(after, store=None), step)
    return context.add(Materialization(store), projected, replace(after, store=store), step)


def _inputs(calls: Iterable[AggregateCall]) -> dict[str, Expression]:
    """The arguments of aggregates by their SQL, with column names that differ for Spark SQL."""
    arguments = {call.argument.sql.text: call.argument for call in calls if call.argument}
    return {
        text: arguments[text] if name == text else replace(arguments[text], named=name)
        for text, name in distinct_names(arguments).items()
    }


def _over_results(result: Expression, names: Mapping[str, str]) -> Expression:
    refs = tuple(
        replace(ref, role="value", name=names[ref.name]) if ref.role == "aggregate" else ref for ref in result.refs
    )
    return replace(result, refs=refs)
