"""What an operation is given and returns when it is laid out in the pipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ....runtime.operators.declarations import Declaration, Emit
from ....runtime.stages.sql_step import SqlStep
from ....runtime.topology import Store, Topic
from .edge import LiveEdge
from .shape import Shape


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
