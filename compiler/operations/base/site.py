"""Where an operation stands, and what its edges carry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ....runtime.engine.sql_step import SqlStep
from ....runtime.ir.declarations import Declaration, Emit, Flow
from ....runtime.ir.topology import Store, Topic
from ....runtime.ir.windows import AnyWindow, JoinWindow
from ....runtime.records.names import column_sql
from ...diagnostics import Position
from ...entries import UNKNOWN_TYPE, columns_ddl
from ...language.expressions import Expression, Ref, Types
from ...language.type_checker import meta_sql

# The shape of the rows between two steps: columns with their types, and what is known about the key.

WINDOW_COLUMNS = {"window_start": "timestamp", "window_end": "timestamp"}


@dataclass(frozen=True)
class Rekey:
    """A change of a stream's key that no repartition topic has followed yet: the flow and the step that made it."""

    flow: str
    step: str | None
    position: Position


@dataclass(frozen=True)
class Windows:
    """The windows of a table's rows. `kept_ms`: for how long a row is found after its window's start; sessions: end."""

    window: AnyWindow
    kept_ms: int


@dataclass(frozen=True)
class Shape:
    """The shape of the rows between two steps.

    If `windowed`, `key` includes `window_start` and `window_end`. A type is None if it is unknown. With `open` some
    columns are unknown, because of an error that has been reported. `rekey`: not all records of the stream are in the
    partitions of their keys. `window`: set for a stream between `window` and `aggregate`. `unsettled`: a table after a
    filter, whose changes may delete rows that did not exist. `closes_ms`: how long after its end a window of the table
    is closed, None where nobody says. `store`: the table's own store; None if it has none. `dropped_windows`: those of
    a table that was made of one with a windowed store. `forgets`: of a table with windows, that its rows leave its
    store some time after those have expired that they are made of.
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
        """The windows of a table's rows; None where nobody says, as of a topic."""
        store = self.store
        if store is None or store.window is None or isinstance(store.window, JoinWindow) or store.kept_ms is None:
            return self.dropped_windows if store is None else None
        return Windows(store.window, store.kept_ms)

    def without_store(self) -> Shape:
        """The same table, made of the one with the store."""
        return replace(self, store=None, dropped_windows=self.windows)

    def with_value(self, value: Types) -> Shape:
        """The same with other value columns. A table has no store of its own then."""
        return replace(self.without_store(), value=dict(value))


UNKNOWN = Shape(open=True)
"""The shape after an error."""


# An edge between two operations, with the physical names of its columns at one point of the pipe.

NOW = "_now"
"""The column with the epoch's planned time, which each Python stage can add to the rows that it gives to SQL."""


@dataclass(frozen=True)
class LiveEdge:
    """An edge with its name in the pipe, its shape, and the value columns that it carries, in order."""

    name: str
    shape: Shape
    value: tuple[str, ...]

    @property
    def physical_key(self) -> dict[str, str]:
        """The physical names of the key columns, by their own names."""
        return {name: f"key.{name}" if name in self.value else name for name in self.shape.key}

    @property
    def flow(self) -> Flow:
        """The edge's columns as the graph declares them."""
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
    """The types of columns of a shape: of its value, or its key."""
    return {name: shape[name] or UNKNOWN_TYPE for name in columns}


def argument_columns(expressions: Iterable[Expression]) -> frozenset[str]:
    """The value columns that hold the arguments of an operator in Python."""
    return frozenset(e.as_column.name for e in expressions if e.as_column.role == "value")


# What an operation is given and returns when it is laid out in the pipe.


@dataclass(frozen=True)
class Output:
    """An output of an operation: its shape, and the value columns that a later step needs."""

    needed: frozenset[str]
    shape: Shape


@dataclass
class Declared:
    """The final declarations of a topology's stores and topics, by name."""

    stores: dict[str, Store] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """What an operation is given when it is laid out.

    `inputs`: the edges that it reads. `lookups`: the tables in which it looks up rows, as they are at this point.
    `needed`: the value columns of its first input that it or a later step needs. `changes(positive, deletes)`, for an
    operation that makes a table: how it emits changes, and whether it emits the replaced rows too. `positive` are its
    value columns that are always above 0; `deletes` says whether rows can disappear.
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
        """The input with the output's shape, for an operation that does not change the value columns."""
        return replace(self.input, shape=self.output.shape)

    @property
    def flows(self) -> tuple[str, ...]:
        """The names of the edges that it reads."""
        return tuple(edge.name for edge in self.inputs)

    def copies(self, into: Sequence[str]) -> tuple[tuple[LiveEdge, ...], tuple[str, ...] | None]:
        """The input under several names with the columns that any of them needs, and the columns kept (None: all).

        A value column that shares its name with a key column stays, so that physical names do not change here.
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

    nodes: tuple[Declaration, ...]
    edges: tuple[LiveEdge, ...]


@dataclass(frozen=True)
class SqlLayout:
    """An operation in Spark SQL: its steps, and an edge for each output."""

    steps: tuple[SqlStep, ...]
    edges: tuple[LiveEdge, ...]
