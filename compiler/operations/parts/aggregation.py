"""Operations of aggregations: grouping, aggregator classes, and closing windows."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....runtime.engine.operators.aggregations import Aggregate, AggregateSessions, AggregateSliding, AggregateWith
from ....runtime.engine.operators.operator import Emit, Operator, Side
from ....runtime.engine.operators.tables import FinalResults, Materialize
from ....runtime.ir.functions import PythonFunction
from ....runtime.ir.topology import Agg, Store, StoreType
from ....runtime.ir.windows import AnyWindow, SessionWindow, SlidingWindow
from ...entries import scalar
from ...language.expressions import Expression
from ...reading.source import MappingNode, ScalarNode
from ..base.context import FlowContext, StepLocation
from ..base.operation import Description, Processor, PythonOperation, TableUse
from ..base.site import NOW, WINDOW_COLUMNS, PythonLayout, Shape, Site, argument_columns

# The operations of an `aggregate` step, besides projections.


@dataclass(frozen=True)
class AggregateArgument:
    """An aggregate with its input column, without a physical name; None for `count(*)`."""

    aggregate: Agg
    column: Expression | None = None


@dataclass(frozen=True)
class Aggregation(PythonOperation):
    """Aggregates by key, or by key and window.

    `store`: without its `aggregates`, which the layout adds with column names. `final`: only final rows are emitted,
    when their windows close.
    """

    store: Store
    arguments: tuple[AggregateArgument, ...]
    of: Side
    final: bool = False

    has_effect = True
    null_keys = "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The input columns of the aggregates."""
        return argument_columns(argument.column for argument in self.arguments if argument.column is not None)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-AGGREGATE" if of_table else "KSTREAM-AGGREGATE"
        text = f"aggregate into {self.store.name}{', emit on_close' if self.final else ''}"
        return Description(text, (Processor(role, stores=(self.store.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        edge = site.input
        aggregates = tuple(
            replace(argument.aggregate, column=edge.physical(argument.column.as_column))
            if argument.column
            else argument.aggregate
            for argument in self.arguments
        )
        store = replace(self.store, aggregates=aggregates)
        site.declare(store)
        emit, old = site.changes(self._counts(), self.of == "table")
        node: Operator
        match store.window:
            case SessionWindow():
                node = AggregateSessions(edge.name, store, emit, old, self.final, site.at)
            case SlidingWindow():
                node = AggregateSliding(edge.name, store, emit, old, site.at)
            case _:
                node = Aggregate(edge.name, store, emit, old, self.of, site.at)
        return PythonLayout((node,), (site.whole,))

    def _counts(self) -> frozenset[str]:
        """The results of `count(*)`. They are positive, because a group without rows has no result."""
        aggregates = (argument.aggregate for argument in self.arguments if argument.column is None)
        return frozenset(aggregate.name for aggregate in aggregates if aggregate.function == "count")


@dataclass(frozen=True)
class Materialization(PythonOperation):
    """Stores the value columns computed from aggregates, beside the aggregates."""

    store: Store

    has_effect = True
    null_keys = "passed"

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """All changes are passed on."""
        return TableUse(positive=positive)

    def in_python(self, site: Site) -> PythonLayout:
        store = site.declared.stores[self.store.name]
        return PythonLayout((Materialize(site.input.name, store, site.at),), (site.onward,))


# `aggregate` with a class of the project.


def aggregator(context: FlowContext, name: ScalarNode, shape: Shape) -> PythonFunction | None:
    """The class of this name, if it has the methods for an input of this shape; otherwise reports a missing one."""
    function = context.functions.find(name)
    if function is None:
        return None
    kind = function.loaded
    if kind is None:  # modules are not imported
        return function.function
    if not inspect.isclass(kind):
        message = f"`aggregate` needs a class; '{name.text}' is of type {type(kind).__name__}."
        hint = "Write a class with `initial(self)` and `add(self, state, key, value)`."
        context.report("HW530", name.position, message, hint)
        return None
    methods: dict[str, tuple[str, ...]] = {"initial": (), "add": ("state", "key", "value")}
    if shape.is_table:
        methods["subtract"] = ("state", "key", "value")
    if isinstance(shape.window, SessionWindow):
        methods["merge"] = ("first", "second")
    fits = context.functions.fits(name, kind, (), "`aggregate` creates an object of its class")
    for method, arguments in methods.items():
        fits = _has_method(context, name, kind, method, arguments) and fits
    return function.function if fits else None


def _has_method(context: FlowContext, name: ScalarNode, kind: type, method: str, arguments: Sequence[str]) -> bool:
    """Whether a class has a method that can be called with these arguments; otherwise reports it."""
    function: Any = getattr(kind, method, None)
    if function is None:
        why = {"subtract": " for the old rows of a table", "merge": " to merge sessions"}.get(method, "")
        message = f"The class '{name.text}' has no method '{method}', which `aggregate` calls{why}."
        context.report("HW530", name.position, message, f"Add `{method}({', '.join(('self', *arguments))})`.")
        return False
    bound = inspect.ismethod(function) or isinstance(inspect.getattr_static(kind, method), staticmethod)
    given = arguments if bound else ("self", *arguments)
    return context.functions.fits(name, function, given, f"`aggregate` calls '{method}'")


@dataclass(frozen=True)
class AggregatingWith(PythonOperation):
    """Aggregates the values of a group by a class of the project. `final`: only final rows are emitted."""

    store: Store
    function: PythonFunction
    of: Side
    final: bool

    has_effect = True
    null_keys = "dropped"

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-AGGREGATE" if of_table else "KSTREAM-AGGREGATE"
        text = f"aggregate by {self.function.name}"
        return Description(text, (Processor(role, stores=(self.store.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        site.declare(self.store)
        emit, old = site.changes(frozenset(), True)
        headers = self.final and self.store.type == "session"
        node = AggregateWith(site.input.name, self.store, self.function, emit, old, self.of, headers, site.at)
        return PythonLayout((node,), (site.whole,))


# Stores and tables of groups, for `aggregate` and `reduce`.


def grouped_shape(shape: Shape, value: Mapping[str, str | None], emit: Emit) -> Shape:
    """The shape of the table of groups of a stream or table of this shape. `value`: its columns."""
    return replace(
        shape,
        kind="table",
        key={**shape.plain_key, **WINDOW_COLUMNS} if shape.window else dict(shape.key),
        value=value,
        windowed=shape.windowed or shape.window is not None,
        closes_ms=shape.window.suppressed_ms if shape.window else shape.closes_ms,
        rekey=None,
        window=None,
        emit=emit,
    )


def group_store(context: FlowContext, named: ScalarNode | None, shape: Shape, value: Mapping[str, str | None]) -> Store:
    """The store of the groups' rows: the named one, or one named after the flow."""
    type_ = _store_type(shape.window)
    key = shape.plain_key if shape.window else shape.key
    store, model = context.store(named, type_, key, value, shape)
    if shape.window is None:
        return store
    window = shape.window
    covered = {SessionWindow: "gap", SlidingWindow: "twice the difference"}.get(type(window), "window")
    retention = context.retention(model, window.kept_ms, f"{covered} and grace")
    return replace(store, window=window, retention_ms=retention)


def _store_type(window: AnyWindow | None) -> StoreType:
    if window is None:
        return "key_value"
    return "session" if isinstance(window, SessionWindow) else "window"


# `emit: on_close`: a windowed table emits each row once, when its window closes.


def on_close(node: MappingNode) -> ScalarNode | None:
    """The value of `emit: on_close` in a step; None if `emit` is missing or has another value."""
    emit = scalar(node, "emit")
    return emit if emit is not None and emit.text == "on_close" else None


def check_on_close(context: FlowContext, on_close: ScalarNode | None, shape: Shape) -> bool:
    """Whether the input has windows, if the step has `emit: on_close`; otherwise reports it."""
    if on_close is None or shape.window is not None or shape.open:
        return True
    message = "Only windows close, and this aggregate has no windows."
    hint = "Put a `window` step right before it, or remove `emit`."
    context.report("HW521", on_close.position, message, hint)
    return False


def final_results(table: Shape, on_close: ScalarNode | None) -> Shape:
    """The output of an aggregate: the table or, with `emit: on_close`, a stream of its final rows."""
    return table if on_close is None else replace(table, kind="stream", store=None)


def add_on_close(
    context: FlowContext, store: Store, on_close: ScalarNode | None, table: Shape, step: StepLocation
) -> Shape:
    """The output of an aggregate, after adding the operation that makes the stream of final rows."""
    return table if on_close is None else context.add(Closing(store), table, final_results(table, on_close), step)


@dataclass(frozen=True)
class Closing(PythonOperation):
    """Turns a windowed table into a stream of its final rows."""

    store: Store

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later."""
        return output - {NOW}

    def in_python(self, site: Site) -> PythonLayout:
        store = site.declared.stores[self.store.name]
        return PythonLayout((FinalResults(site.input.name, store, site.at),), (site.onward,))
