"""Shapes of rows, edges with their columns, and the layout of an operation in the pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ....runtime.engine.operators.operator import Emit, Flow, Operator
from ....runtime.engine.sql_step import SqlStep
from ....runtime.ir.topology import Store, Topic
from ....runtime.ir.windows import AnyWindow, JoinWindow
from ....runtime.records.names import column_sql
from ...diagnostics import Position
from ...entries import UNKNOWN_TYPE, columns_ddl
from ...language.expressions import Expression, Ref, Types
from ...language.type_checker import meta_sql

# Shapes: columns with their types, and properties of the key.

WINDOW_COLUMNS = {"window_start": "timestamp", "window_end": "timestamp"}


@dataclass(frozen=True)
class Rekey:
    """A change of a stream's key before its repartition topic: the flow and the step that changed it."""

    flow: str
    step: str | None
    position: Position


@dataclass(frozen=True)
class Windows:
    """The windows of a table's rows. `kept_ms`: how long a row is kept after its window's start or session's end."""

    window: AnyWindow
    kept_ms: int


@dataclass(frozen=True)
class Shape:
    """The shape of the rows between two steps.

    `key`, `value`: the columns with their types; a type is None if it is unknown. `windowed`: `key` includes
    `window_start` and `window_end`. `open`: some columns are unknown because of a reported error. `rekey`: set if
    records of the stream may not be in the partitions of their keys. `window`: set for a stream between `window` and
    `aggregate`. `unsettled`: a table after a filter, whose changes may delete rows that did not exist. `closes_ms`: how
    long after its end a window of the table is closed; None if unknown. `store`: the table's own store, or None.
    `dropped_windows`: the windows of a table without a store that is derived from one with a windowed store. `forgets`:
    rows of the windowed table leave its store some time after the rows they are made of have expired.
    """

    kind: Literal["stream", "table"] = "stream"
    key: Types = field(default_factory=dict)
    value: Types = field(default_factory=dict)
    partitions: int = 1
    windowed: bool = False
    rekey: Rekey | None = None
    window: AnyWindow | None = None
    closes_ms: int | None = None
    emit: Emit = "per_epoch"
    unsettled: bool = False
    store: Store | None = None
    open: bool = False
    dropped_windows: Windows | None = None
    forgets: bool = False

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return self.kind == "table"

    @property
    def plain_key(self) -> dict[str, str | None]:
        """The key's columns without those of the window."""
        return {name: type_ for name, type_ in self.key.items() if not (self.windowed and name in WINDOW_COLUMNS)}

    @property
    def known(self) -> bool:
        """Whether all columns and types are known."""
        return not self.open and None not in self.key.values() and None not in self.value.values()

    @property
    def windows(self) -> Windows | None:
        """The windows of a table's rows; None if unknown, as for a topic."""
        store = self.store
        if store is None or store.window is None or isinstance(store.window, JoinWindow) or store.kept_ms is None:
            return self.dropped_windows if store is None else None
        return Windows(store.window, store.kept_ms)

    def without_store(self) -> Shape:
        """A table derived from this one, without a store."""
        return replace(self, store=None, dropped_windows=self.windows)

    def with_value(self, value: Types) -> Shape:
        """The shape with other value columns. A table with other columns has no store."""
        return replace(self.without_store(), value=dict(value))


UNKNOWN = Shape(open=True)
"""The shape after an error."""


# Edges between two operations, with the physical names of their columns.

NOW = "_now"
"""The column with the planned time of the epoch, which a Python stage adds to rows for SQL."""


@dataclass(frozen=True)
class LiveEdge:
    """An edge: its name in the pipe, its shape, and the value columns it carries, in order."""

    name: str
    shape: Shape
    value: tuple[str, ...]

    @property
    def physical_key(self) -> dict[str, str]:
        """The physical names of the key columns, by their own names."""
        return {name: f"key.{name}" if name in self.value else name for name in self.shape.key}

    @property
    def flow(self) -> Flow:
        """The edge's columns, as declared in the graph."""
        types = {**self.shape.value, NOW: "timestamp"}
        return Flow(columns_ddl(self.shape.key), columns_ddl({name: types[name] for name in self.value}))

    def physical(self, ref: Ref) -> str:
        """The physical name of a key or value column."""
        return self.physical_key[ref.name] if ref.role == "key" else ref.name

    def sql(self, ref: Ref) -> str:
        """The SQL that reads the column."""
        return meta_sql(ref) if ref.role == "meta" else column_sql(self.physical(ref))


def columns_read(expressions: Iterable[Expression]) -> frozenset[str]:
    """The value columns that SQL expressions read, possibly with `NOW`."""
    refs = [ref for expression in expressions for ref in expression.refs]
    return frozenset(ref.name for ref in refs if ref.role == "value" or ref.name == NOW)


def column_types(shape: Types, columns: Iterable[str]) -> dict[str, str]:
    """The types of columns. `shape`: the types of a shape's value or key."""
    return {name: shape[name] or UNKNOWN_TYPE for name in columns}


def argument_columns(expressions: Iterable[Expression]) -> frozenset[str]:
    """The value columns with the arguments of an operator in Python."""
    return frozenset(e.as_column.name for e in expressions if e.as_column.role == "value")


# The layout of an operation in the pipe.


@dataclass(frozen=True)
class Output:
    """An output of an operation: its shape, and the value columns needed by later steps."""

    needed: frozenset[str]
    shape: Shape


@dataclass
class Declared:
    """The final declarations of a topology's stores and topics, by name."""

    stores: dict[str, Store] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """The surroundings of an operation in the pipe.

    `inputs`: its input edges. `lookups`: the tables in which it looks up rows. `needed`: the value columns of its first
    input needed by the operation or later steps. `changes(positive, deletes)`, for an operation that makes a table: how
    it emits changes, and whether it also emits the replaced rows. `positive`: its value columns that are always above
    0. `deletes`: rows can be deleted.
    """

    inputs: tuple[LiveEdge, ...]
    lookups: tuple[LiveEdge, ...]
    needed: frozenset[str]
    outputs: tuple[Output, ...]
    at: str
    declared: Declared
    changes: Callable[[frozenset[str], bool], tuple[Emit, bool]]

    @property
    def input(self) -> LiveEdge:
        """The only or first input."""
        return self.inputs[0]

    @property
    def output(self) -> Output:
        """The only or first output."""
        return self.outputs[0]

    @property
    def onward(self) -> LiveEdge:
        """The input with the output's shape, for an operation that keeps the value columns."""
        return replace(self.input, shape=self.output.shape)

    @property
    def whole(self) -> LiveEdge:
        """The input with the output's shape, for an operation that emits all of its value columns."""
        return replace(self.input, shape=self.output.shape, value=tuple(self.output.shape.value))

    def declare(self, *stores: Store) -> None:
        """Declare stores of the topology."""
        self.declared.stores.update({store.name: store for store in stores})

    def store_of(self, edge: LiveEdge) -> Store:
        """The declared store of a table's edge. The checks have given one to each table that a join reads."""
        assert edge.shape.store is not None, f"{edge.name} has been given a store"
        return self.declared.stores[edge.shape.store.name]

    @property
    def flows(self) -> tuple[str, ...]:
        """The names of the input edges."""
        return tuple(edge.name for edge in self.inputs)

    def copies(self, into: Sequence[str]) -> tuple[tuple[LiveEdge, ...], tuple[str, ...] | None]:
        """The input under several names, with the columns that any of them needs, and the kept columns (None: all).

        A value column with the name of a key column is kept, because dropping it would change physical names.
        """
        edge = self.input
        needed = frozenset[str]().union(*(output.needed for output in self.outputs), edge.shape.key)
        value = tuple(name for name in edge.value if name in needed)
        edges = tuple(
            replace(edge, name=name, shape=output.shape, value=value)
            for name, output in zip(into, self.outputs, strict=True)
        )
        return edges, None if value == edge.value else value


@dataclass(frozen=True)
class PythonLayout:
    """An operation in a Python stage: its operators, and an edge for each output."""

    nodes: tuple[Operator, ...]
    edges: tuple[LiveEdge, ...]


@dataclass(frozen=True)
class SqlLayout:
    """An operation in Spark SQL: its steps, and an edge for each output."""

    steps: tuple[SqlStep, ...]
    edges: tuple[LiveEdge, ...]
