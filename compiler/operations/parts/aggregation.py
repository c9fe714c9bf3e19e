"""Parts of aggregations: grouping, aggregators, windows that close."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....runtime.environment import duration_text
from ....runtime.ir.declarations import (
    Aggregate,
    AggregateSessions,
    AggregateSliding,
    AggregateWith,
    Declaration,
    Emit,
    FinalResults,
    Materialize,
    Side,
)
from ....runtime.ir.functions import PythonFunction
from ....runtime.ir.topology import Agg, Store, StoreType
from ....runtime.ir.windows import AnyWindow, SessionWindow, SlidingWindow
from ...entries import scalar
from ...language.expressions import Expression
from ...reading.source import MappingNode, ScalarNode
from ..base.context import FlowContext, StepPlace
from ..base.operation import EVERY_CHANGE, Description, Processor, PythonOperation, TableUse
from ..base.site import NOW, WINDOW_COLUMNS, PythonLayout, Shape, Site, argument_columns

# The operations of an `aggregate` step besides projections: the aggregation, and storing the columns computed after
# it.


@dataclass(frozen=True)
class AggregateArgument:
    """An aggregate with the input column that it reads, which has no physical name yet."""

    aggregate: Agg
    column: Expression | None = None


@dataclass(frozen=True)
class Aggregation(PythonOperation):
    """Aggregates by key, or by key and window.

    `store` has no `aggregates` yet; the layout adds them with column names. `final`: whether only the rows go on whose
    windows have closed.
    """

    store: Store
    arguments: tuple[AggregateArgument, ...]
    of: Side
    final: bool = False

    has_effect = True
    null_keys = "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns that the aggregates read."""
        return argument_columns(argument.column for argument in self.arguments if argument.column is not None)

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """A table's changes arrive here through a repartition topic."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-AGGREGATE" if of_table else "KSTREAM-AGGREGATE"
        text = f"aggregate into {self.store.name}{', emit on_close' if self.final else ''}"
        return Description(text, (Processor(role, stores=(self.store.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        edge, shape = site.input, site.output.shape
        aggregates = tuple(
            replace(each.aggregate, column=edge.physical(each.column.as_column)) if each.column else each.aggregate
            for each in self.arguments
        )
        store = replace(self.store, aggregates=aggregates)
        site.declared.stores[store.name] = store
        emit, old = site.changes(self._counts(), self.of == "table")
        node: Declaration
        match store.window:
            case SessionWindow():
                node = AggregateSessions(edge.name, store, emit, old, self.final, site.at)
            case SlidingWindow():
                node = AggregateSliding(edge.name, store, emit, old, site.at)
            case _:
                node = Aggregate(edge.name, store, emit, old, self.of, site.at)
        return PythonLayout((node,), (replace(edge, shape=shape, value=tuple(shape.value)),))

    def _counts(self) -> frozenset[str]:
        """The results of `count(*)`, which are positive because a group without rows has no row."""
        aggregates = (argument.aggregate for argument in self.arguments if argument.column is None)
        return frozenset(aggregate.name for aggregate in aggregates if aggregate.function == "count")


@dataclass(frozen=True)
class Materialization(PythonOperation):
    """Stores the value columns that expressions over aggregates make, beside the aggregates."""

    store: Store

    has_effect = True
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """A store has all columns."""
        return offered

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """All changes go on as they are."""
        return TableUse(positive=positive)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """Nothing: it belongs to the aggregation."""
        return Description()

    def in_python(self, site: Site) -> PythonLayout:
        store = site.declared.stores[self.store.name]
        return PythonLayout((Materialize(site.input.name, store, site.at),), (site.onward,))


# `aggregate` with a class of the project: its check, and the operation that it becomes.


def aggregator(context: FlowContext, name: ScalarNode, shape: Shape) -> PythonFunction | None:
    """The class of this name, if it has the methods for an input of this shape; otherwise reports what is missing."""
    found = context.functions.find(name)
    if found is None:
        return None
    made = found.loaded
    if made is None:  # nothing is imported
        return found.function
    if not inspect.isclass(made):
        message = f"`aggregate` makes an object of a class; '{name.text}' is of type {type(made).__name__}."
        hint = "Write a class with `initial(self)` and `add(self, state, key, value)`."
        context.report("HW530", name.position, message, hint)
        return None
    wanted: dict[str, tuple[str, ...]] = {"initial": (), "add": ("state", "key", "value")}
    if shape.is_table:
        wanted["subtract"] = ("state", "key", "value")
    if isinstance(shape.window, SessionWindow):
        wanted["merge"] = ("first", "second")
    fits = context.functions.fits(name, made, (), "`aggregate` makes an object of its class")
    for method, arguments in wanted.items():
        fits = _has(context, name, made, method, arguments) and fits
    return found.function if fits else None


def _has(context: FlowContext, name: ScalarNode, made: type, method: str, arguments: Sequence[str]) -> bool:
    """Whether a class has a method that can be called with these arguments; otherwise reports it."""
    found: Any = getattr(made, method, None)
    if found is None:
        why = {"subtract": " for the old rows of a table", "merge": " for sessions that become one"}.get(method, "")
        message = f"The class '{name.text}' has no method '{method}', which `aggregate` calls{why}."
        context.report("HW530", name.position, message, f"Add `{method}({', '.join(('self', *arguments))})`.")
        return False
    bound = inspect.ismethod(found) or isinstance(inspect.getattr_static(made, method), staticmethod)
    given = arguments if bound else ("self", *arguments)
    return context.functions.fits(name, found, given, f"`aggregate` calls '{method}'")


@dataclass(frozen=True)
class AggregatingWith(PythonOperation):
    """Aggregates the values of each group by a class. `final`: whether only final rows go on."""

    store: Store
    function: PythonFunction
    of: Side
    final: bool

    has_effect = True
    null_keys = "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """A class gets all columns."""
        return offered

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """A table's changes arrive here through a repartition topic."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-AGGREGATE" if of_table else "KSTREAM-AGGREGATE"
        text = f"aggregate by {self.function.name}"
        return Description(text, (Processor(role, stores=(self.store.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        edge, shape = site.input, site.output.shape
        site.declared.stores[self.store.name] = self.store
        emit, old = site.changes(frozenset(), True)
        headers = self.final and self.store.type == "session"
        node = AggregateWith(edge.name, self.store, self.function, emit, old, self.of, headers, site.at)
        return PythonLayout((node,), (replace(edge, shape=shape, value=tuple(shape.value)),))


# What steps that make one row of each group have in common: the store, and the table behind them.


def behind_group(shape: Shape, value: Mapping[str, str | None], emit: Emit) -> Shape:
    """The table of the groups of a stream or table of this shape. `value`: its columns."""
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
    """The store of the rows of groups: the one of this name, or one named after the flow."""
    type_ = _store_type(shape.window)
    key = shape.plain_key if shape.window else shape.key
    store, model = context.store(named, type_, key, value, shape)
    if shape.window is None:
        return store
    window = shape.window
    needed = window.kept_ms
    retention = model.retention_ms if model else None
    if model is not None and model.retention is not None and retention is not None and retention < needed:
        what = {SessionWindow: "gap", SlidingWindow: "twice the difference"}.get(type(window), "window")
        message = f"The retention of '{model.name.text}' ({model.retention.text}) is shorter than {what} and grace."
        hint = f"Set it to {duration_text(needed)} at least, or leave it out."
        context.report("HW507", model.retention.position, message, hint)
    return replace(store, window=window, retention_ms=retention)


def _store_type(window: AnyWindow | None) -> StoreType:
    if window is None:
        return "key_value"
    return "session" if isinstance(window, SessionWindow) else "window"


# The operation of `emit: on_close`: of a windowed table, each row once, when its window closes.


def on_close(node: MappingNode) -> ScalarNode | None:
    """The `emit: on_close` of a step; None if it has another `emit`, or none."""
    emit = scalar(node, "emit")
    return emit if emit is not None and emit.text == "on_close" else None


def closes(context: FlowContext, asked: ScalarNode | None, shape: Shape) -> bool:
    """Whether rows of this input have windows that close, if that is asked for; otherwise reports it."""
    if asked is None or shape.window is not None or shape.open:
        return True
    message = "Only windows close, and this aggregate has none."
    hint = "Put a `window` step right before it, or leave `emit` out."
    context.report("HW521", asked.position, message, hint)
    return False


def final(table: Shape, asked: ScalarNode | None) -> Shape:
    """What the steps behind it read: the table or, where it is asked for, a stream of its final rows."""
    return table if asked is None else replace(table, kind="stream", store=None)


def closed(context: FlowContext, store: Store, asked: ScalarNode | None, table: Shape, step: StepPlace) -> Shape:
    """The same, with the operation that makes that stream."""
    return table if asked is None else context.add(Closing(store), table, final(table, asked), step)


@dataclass(frozen=True)
class Closing(PythonOperation):
    """Turns a windowed table into a stream of its final rows."""

    store: Store

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later."""
        return output - {NOW}

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """It knows by the updates which record closes a window."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """Nothing: it belongs to the aggregation."""
        return Description()

    def in_python(self, site: Site) -> PythonLayout:
        store = site.declared.stores[self.store.name]
        return PythonLayout((FinalResults(site.input.name, store, site.at),), (site.onward,))
