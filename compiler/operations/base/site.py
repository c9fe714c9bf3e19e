"""What an operation is given and returns when it is laid out in the pipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ....runtime.operators.declarations import Declaration, Emit
from ....runtime.topology import Store, Topic
from .edge import LiveEdge
from .shape import Shape

SqlKind = Literal["where", "select", "with_columns", "explode", "branch", "fork", "merge", "key_by"]


@dataclass(frozen=True)
class SqlStep:
    """One step in Spark SQL. `flow`: the edge it works on, None while the pipe is flat. `at`: `file:line`.

    | kind | fields |
    |---|---|
    | where | `condition` |
    | select, with_columns | `columns`: value column -> SQL; `key`: key columns whose physical name changes |
    | key_by | `key`: the new key columns -> SQL |
    | explode | `columns`: the one new value column -> SQL of the array; `key` as in select |
    | branch | `branches`: (edge, condition or None for the rest), in order; those not in `into` are read by nobody |
    | fork | `into` |
    | merge | `flows` -> the only name of `into` |

    `keep`: columns that pass through unchanged, in order (None: all that are not replaced); in a merge, branch or fork
    those of each edge in `into`. `table`: the edge holds changes of a table. `null_values`: columns are computed for
    null values too. SQL is as the user wrote it, but for qualifiers: it reads physical names, `_ts` (row time, ms) and
    `_now`.
    """

    kind: SqlKind
    flow: str | None
    condition: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    key: Mapping[str, str] = field(default_factory=dict)
    branches: tuple[tuple[str, str | None], ...] = ()
    flows: tuple[str, ...] = ()
    into: tuple[str, ...] = ()
    keep: tuple[str, ...] | None = None
    table: bool = False
    at: str = ""
    null_values: bool = False


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
    `needed`: the value columns of its first input that it or a later step needs. `tagged`: whether several edges are
    live here. `changes(positive, deletes)`, for an operation that makes a table: how it emits changes, and whether it
    emits the replaced rows too. `positive` are its value columns that are always above 0; `deletes` says whether rows
    can disappear.
    """

    inputs: tuple[LiveEdge, ...]
    lookups: tuple[LiveEdge, ...]
    needed: frozenset[str]
    outputs: tuple[Output, ...]
    at: str
    tagged: bool
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
    def flow(self) -> str | None:
        """The edge that a SQL step names; None in a flat pipe."""
        return self.input.name if self.tagged else None

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
        return edges, None if value == edge.value else (*edge.physical_key.values(), *value)


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
