"""The interface of all operators of Python stages, and the columns of the edges between operators.

The compiler creates operators, and generated code contains them as class and fields. They are frozen data without Arrow
and without I/O. Only `run` imports array code (`engine/execution`), so the compiler starts without it. Edges are named
by flow or table. All column names are physical: a value column has its own name; a key column has its name, or
`key.<name>` while the edge has a value column of that name. `at`: the step's location in the YAML.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ...ir.functions import PythonFunction, Udf
from ...ir.topology import CODE_OF, GlobalTable, StepText, Store, Topic
from ...records.names import quote

if TYPE_CHECKING:
    from ..execution.node import Edges, TaskEpoch

Place = int | str
"""The location of a step: a line of the topology's file, as in generated code, or `file:line`, made by the pipe."""

Emit = Literal["each_update", "per_epoch"]
"""`emit` in the YAML. `each_update`: every change. `per_epoch`: one change for each key and epoch, from the row at the
start of the epoch to the row at its end."""

Side = Literal["stream", "table"]
"""The input of an operator: records of a stream, or changes of a table."""

OldRows = Literal["stored", "derived"]
"""The source of the replaced rows in changes: the operator's store, or the replaced rows in its input."""

Releases = Literal["at once", "later", "unmatched later"]
"""When rows are released: with their record, with a later record, or with a later record if they found no match."""


# The columns of edges.


@dataclass(frozen=True)
class Flow:
    """The columns of an edge: key and value as Spark SQL DDL. Only columns that a later step needs.

    Names are unique in a batch: a key column that shares its name with a value column is stored as `key.<name>`. A
    windowed key's `window_start` and `window_end` (timestamp) are part of `key`. `value` may include `_now timestamp`,
    the epoch's planned time.
    """

    key: str
    value: str


Inputs = frozenset[tuple[str, str]] | None
"""The lineage of a column: pairs of a topic and its column (`key.<name>`, `value.<name>`). None if unknown."""

NO_INPUTS: Inputs = frozenset()

OWN = ("_now", "_ts")
"""Names in expressions that are no columns: the planned time of the epoch, and the timestamp of the record."""


def union(parts: Iterable[Inputs]) -> Inputs:
    """The union of inputs. None if any are unknown."""
    inputs: set[tuple[str, str]] = set()
    for part in parts:
        if part is None:
            return None
        inputs |= part
    return frozenset(inputs)


@dataclass(frozen=True)
class Column:
    """A column of an edge: its type in Spark SQL, and its lineage.

    Columns that only decide whether or where a record exists are no inputs: those in a condition, the key of a join,
    the times of a window.
    """

    type: str
    inputs: Inputs = NO_INPUTS

    def with_inputs(self, inputs: Inputs) -> Column:
        """A column of the same type with these inputs."""
        return Column(self.type, inputs)


def columns_of(text: str) -> dict[str, Column]:
    """The columns of a DDL list, without inputs. Raises TypeSyntaxError."""
    from ...records.types import split_columns

    return {name: Column(data_type) for name, data_type in split_columns(text)}


def column_of(data_type: str, inputs: Inputs = NO_INPUTS) -> Column:
    """A column of a type, in any notation of Spark SQL. Raises TypeSyntaxError."""
    from ...records.types import arrow_type, ddl

    return Column(ddl(arrow_type(data_type)), inputs)


@dataclass(frozen=True)
class EdgeColumns:
    """The columns of an edge, key and value, by their own names."""

    key: Mapping[str, Column] = field(default_factory=dict)
    value: Mapping[str, Column] = field(default_factory=dict)

    @classmethod
    def from_flow(cls, flow: Flow) -> EdgeColumns:
        """The columns without inputs."""
        return cls(columns_of(flow.key), columns_of(flow.value))

    @cached_property
    def flow(self) -> Flow:
        """The columns as DDL."""
        sides = (", ".join(f"{quote(name)} {column.type}" for name, column in side.items()) for side in self.sides)
        return Flow(*sides)

    @property
    def sides(self) -> tuple[Mapping[str, Column], Mapping[str, Column]]:
        """Key and value."""
        return self.key, self.value

    @property
    def physical(self) -> dict[str, Column]:
        """The columns by their physical names, key first."""
        return {self.physical_key(name): column for name, column in self.key.items()} | dict(self.value)

    def physical_key(self, name: str) -> str:
        """The physical name of a key column."""
        return f"key.{name}" if name in self.value else name

    def at(self, name: str) -> Column:
        """The column with a physical name."""
        return self.physical[name]

    def with_inputs(self, inputs: Inputs) -> EdgeColumns:
        """Columns of the same types, with the same inputs for all."""
        return EdgeColumns(*({name: each.with_inputs(inputs) for name, each in side.items()} for side in self.sides))

    @classmethod
    def merged(cls, edges: Sequence[EdgeColumns]) -> EdgeColumns:
        """The columns of several edges (at least one) with equal columns."""
        first, *others = edges
        if not others:
            return first

        def both(name: str, column: Column, sides: Sequence[Mapping[str, Column]]) -> Column:
            return column.with_inputs(union([column.inputs, *(side[name].inputs for side in sides)]))

        return cls(
            {name: both(name, column, [edge.key for edge in others]) for name, column in first.key.items()},
            {name: both(name, column, [edge.value for edge in others]) for name, column in first.value.items()},
        )

    def of_python(self) -> Inputs:
        """The inputs of a column that Python computes: all columns, because it is unknown which ones the code reads."""
        return union(column.inputs for side in self.sides for column in side.values())


class Lineage(Protocol):
    """The lineage of columns of topics and of expressions."""

    def topic(self, topic: Topic) -> EdgeColumns:
        """The columns of a topic's records."""

    def expression(self, sql: str, edge: EdgeColumns) -> Inputs:
        """The inputs of an expression over the columns of an edge."""


class Untraced:
    """A Lineage without inputs, for callers that need only types."""

    def topic(self, topic: Topic) -> EdgeColumns:
        """The columns of a topic's records, without inputs."""
        return topic_columns(topic)

    def expression(self, sql: str, edge: EdgeColumns) -> Inputs:
        """No inputs."""
        return NO_INPUTS


UNTRACED = Untraced()


def topic_columns(topic: Topic) -> EdgeColumns:
    """The columns of a topic's records, without inputs."""
    from ...records.schema import key_columns, value_columns
    from ...records.types import ddl

    key, value = (
        {name: Column(ddl(kind)) for name, kind in side.items()} for side in (key_columns(topic), value_columns(topic))
    )
    return EdgeColumns(key, value)


# Operators and their common interface.


@dataclass(frozen=True)
class Touched:
    """The records that an operator touches: it stores, writes or counts something, so they can no longer be skipped.

    These are the records on the edges `before` when it starts, those on the edges `after` when it ends, and those that
    it drops from the edges `dropped`.
    """

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class Node(ABC):
    """A part of a Python stage: an operator, or a step in SQL that tasks compute themselves."""

    @property
    @abstractmethod
    def at(self) -> Place:
        """The location of its step in the YAML."""

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """The input edges."""

    @property
    @abstractmethod
    def makes(self) -> tuple[str, ...]:
        """The output edges. An edge that it changes is both input and output."""

    @property
    @abstractmethod
    def touches(self) -> Touched:
        """The records that it touches."""

    @property
    @abstractmethod
    def is_stateful(self) -> bool:
        """Whether its result for a record depends on earlier records."""

    @abstractmethod
    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Take rows from `edges`, and put the resulting rows there."""


class Operator(Node):
    """A declared operator. Its stores, global tables and functions are fields of the dataclass.

    The defaults are those of an operator that only transforms rows: it fills no store, reads and writes no topic, and
    releases its rows at once. `Stores` has those of an operator that stores its input.
    """

    @property
    def touches(self) -> Touched:
        """Nothing."""
        return Touched()

    @abstractmethod
    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """The columns of the output edges. `edges`: at least the input edges."""

    @property
    @abstractmethod
    def text(self) -> str:
        """Its description for plans. Empty if it follows from other steps, or from its stores."""

    @property
    def topics_read(self) -> tuple[Topic, ...]:
        """The topics that it reads as a source. Topics of global tables are not included."""
        return ()

    @property
    def topics_written(self) -> tuple[Topic, ...]:
        """The topics that it writes, including a dead-letter topic."""
        return ()

    @property
    def fills(self) -> tuple[Store, ...]:
        """The stores that it writes. It is the filler of a store unless an earlier operator is."""
        return ()

    @property
    def old_rows(self) -> OldRows:
        """The source of the replaced rows in its output."""
        return "derived"

    @property
    def releases(self) -> Releases:
        """When its rows are released."""
        return "at once"

    @property
    def needs_all(self) -> bool:
        """Whether no record of its input `flow` may be skipped, because other records depend on it."""
        return False

    @property
    def stores(self) -> tuple[Store, ...]:
        """The stores in its fields, without duplicates."""
        return tuple({value.name: value for value in self._values if isinstance(value, Store)}.values())

    @property
    def global_tables(self) -> tuple[GlobalTable, ...]:
        """The global tables in its fields."""
        return tuple(value for value in self._values if isinstance(value, GlobalTable))

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        """The project's functions that it calls."""
        calls = (value.function if isinstance(value, Udf) else value for value in self._values)
        return tuple(value for value in calls if isinstance(value, PythonFunction))

    @property
    def is_stateful(self) -> bool:
        """Whether it has a store."""
        return bool(self.stores)

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """(Name, value) of settings that are in neither `text` nor a store, for users. Includes digests of its code."""
        return tuple((f"{CODE_OF}{function.name}", function.digest) for function in self.functions)

    def texts(self) -> Iterator[StepText]:
        """Its `text`, once for each edge in `text_edges`."""
        if self.text:
            yield from (StepText(flow_of(edge), self.text, str(self.at)) for edge in self.text_edges)

    @property
    def text_edges(self) -> tuple[str, ...]:
        """The edges of the flows to which `text` belongs."""
        return self.reads[:1]

    @property
    def _values(self) -> Iterator[Any]:
        for declared in fields(self):  # type: ignore[arg-type]  # every operator is a dataclass
            value = getattr(self, declared.name)
            yield from value if isinstance(value, tuple) else (value,)


# Properties that several operators share.


class OnFlow(Operator):
    """An operator that changes the edge `flow`. It reads and makes no other edge, unless its class says so."""

    flow: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The one edge."""
        return (self.flow,)

    @property
    def makes(self) -> tuple[str, ...]:
        """The same edge."""
        return (self.flow,)


class SameColumns(OnFlow):
    """An operator that keeps the columns of its edge."""

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """The same columns."""
        return {self.flow: edges[self.flow]}


class Stores(OnFlow):
    """An operator that stores its input."""

    @property
    def fills(self) -> tuple[Store, ...]:
        """All of its stores."""
        return self.stores

    @property
    def touches(self) -> Touched:
        """All its input."""
        return Touched(before=self.reads)


JOINING_EDGES = ("rows", "asking", "asked", "answers", "last_answers")
"""The suffixes of a foreign-key join's own edges, after the name of its flow: the left rows, their subscriptions, the
input of the other table's side, the responses, and the keys of expired rows that get no more responses."""


def flow_of(edge: str) -> str:
    """The flow of an edge: without the suffix of a foreign-key join, otherwise the name of the edge."""
    return edge.partition(".")[0] if edge.rpartition(".")[2] in JOINING_EDGES else edge


def fork_texts(flow: str, into: Iterable[str]) -> Iterator[StepText]:
    """The texts `from flow ...` of the flows that read a forked flow. The flow itself needs no text."""
    names = dict.fromkeys(map(flow_of, into))
    return (StepText(name, f"from flow {flow}") for name in names if name != flow)


def columns_text(columns: Mapping[str, str]) -> str:
    """New columns and their expressions, as text for users."""
    return ", ".join(name if name == sql else f"{name}: {sql}" for name, sql in columns.items())
