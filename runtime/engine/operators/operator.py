"""What every operator of a Python stage declares and answers, and the columns of the edges between operators.

The compiler makes operators, and generated code contains them as class and fields. They are frozen data without Arrow
and without I/O: `run` alone imports array code (`engine/execution`), so that the compiler starts without it. Edges are
named by flow or table. All column names are physical: a value column has its own name; a key column has its name, or
`key.<name>` while the edge has a value column of that name. `at`: the step's place in the YAML.
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
"""A line of the topology's file, as in generated code, or `file:line`, which the pipe makes from it."""

Emit = Literal["each_update", "per_epoch"]
"""`emit` in the YAML. `each_update`: every change. `per_epoch`: one for each key and epoch, from start to end of it."""

Side = Literal["stream", "table"]
"""What an operator reads: records, or changes of a table."""

OldRows = Literal["stored", "derived"]
"""Where the replaced rows of a change come from: the operator's store has them, or they follow from those it reads."""

Releases = Literal["at once", "later", "unmatched later"]
"""When rows come out: with their record; with a later one; or with a later one if they found no match."""


# The columns of edges.


@dataclass(frozen=True)
class Flow:
    """The columns of an edge: key and value as Spark SQL DDL, only those that a later step needs.

    Names are unique in a batch: a key column that shares its name with a value column is stored as `key.<name>`. A
    windowed key's `window_start` and `window_end` (timestamp) are part of `key`. `value` may include `_now timestamp`,
    the epoch's planned time.
    """

    key: str
    value: str


Inputs = frozenset[tuple[str, str]] | None
"""Topics and columns of theirs (`key.<name>`, `value.<name>`) whose values enter a column; None if unknown."""

NO_INPUTS: Inputs = frozenset()

OWN = ("_now", "_ts")
"""What expressions may read beside columns: the planned time of the epoch, and the timestamp of the record."""


def union(parts: Iterable[Inputs]) -> Inputs:
    """All inputs together; None if some are unknown."""
    inputs: set[tuple[str, str]] = set()
    for part in parts:
        if part is None:
            return None
        inputs |= part
    return frozenset(inputs)


@dataclass(frozen=True)
class Column:
    """A column of an edge: its type in Spark SQL, and its lineage.

    What only decides whether a record is there, or where, is no input: a condition, the key of a join, the times of a
    window.
    """

    type: str
    inputs: Inputs = NO_INPUTS

    def with_inputs(self, inputs: Inputs) -> Column:
        """A column of the same type."""
        return Column(self.type, inputs)


def columns_of(text: str) -> dict[str, Column]:
    """The columns of a DDL list, without inputs. Raises TypeSyntaxError."""
    from ...records.types import split_columns

    return {name: Column(data_type) for name, data_type in split_columns(text)}


def column_of(data_type: str, inputs: Inputs = NO_INPUTS) -> Column:
    """A column of a type, which may be written in any form that Spark SQL takes. Raises TypeSyntaxError."""
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
        """What enters a column that Python computes: which columns it reads is unknown, so all of them."""
        return union(column.inputs for side in self.sides for column in side.values())


class Lineage(Protocol):
    """Where the columns of topics and of expressions come from."""

    def topic(self, topic: Topic) -> EdgeColumns:
        """The columns of a topic's records."""

    def expression(self, sql: str, edge: EdgeColumns) -> Inputs:
        """What enters the result of an expression over the columns of an edge."""


class Untraced:
    """A Lineage for those who only ask for types."""

    def topic(self, topic: Topic) -> EdgeColumns:
        """The columns of a topic's records, without inputs."""
        return topic_columns(topic)

    def expression(self, sql: str, edge: EdgeColumns) -> Inputs:
        """None of the inputs."""
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


# What stages run.


@dataclass(frozen=True)
class Touched:
    """Of which records an operator keeps, writes or counts something, so that they cannot be skipped any more.

    Of those on the edges `before` it runs, of those on the edges `after`, and of those that it drops from the edges
    `dropped`.
    """

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class Node(ABC):
    """A part of a Python stage: an operator, or a step in SQL that tasks compute themselves."""

    @property
    @abstractmethod
    def at(self) -> Place:
        """The place of its step in the YAML."""

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """The edges that it reads."""

    @property
    @abstractmethod
    def makes(self) -> tuple[str, ...]:
        """The edges that it makes. An edge that it changes is in both."""

    @property
    @abstractmethod
    def touches(self) -> Touched:
        """Which records it touches."""

    @property
    @abstractmethod
    def is_stateful(self) -> bool:
        """Whether what it does with a record depends on records before it."""

    @abstractmethod
    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Take rows from `edges`, and put the resulting rows there."""


class Operator(Node):
    """A declared operator. Its stores, global tables and functions are its fields; it answers everything else.

    A class inherits answers only from a base that it names for that (`OneEdge`, `SameColumns`, `Transforms`, `Stores`).
    """

    @abstractmethod
    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """The columns of the edges that it makes. `edges`: at least those that it reads."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What it does, for plans; empty if that follows from other steps, or from its stores."""

    @property
    @abstractmethod
    def topics_read(self) -> tuple[Topic, ...]:
        """The topics whose records it takes. Those of global tables are no sources."""

    @property
    @abstractmethod
    def topics_written(self) -> tuple[Topic, ...]:
        """The topics that it writes, and a dead-letter topic."""

    @property
    @abstractmethod
    def fills(self) -> tuple[Store, ...]:
        """Of its stores those whose rows it writes: it is their filler, unless an operator before it is."""

    @property
    @abstractmethod
    def old_rows(self) -> OldRows:
        """Where the replaced rows that it gives come from."""

    @property
    @abstractmethod
    def releases(self) -> Releases:
        """When its rows come out."""

    @property
    @abstractmethod
    def needs_all(self) -> bool:
        """Whether no record that reaches it on `flow` may be skipped, as others depend on it."""

    @property
    def stores(self) -> tuple[Store, ...]:
        """Its stores, as its fields name them."""
        return tuple({value.name: value for value in self._values if isinstance(value, Store)}.values())

    @property
    def global_tables(self) -> tuple[GlobalTable, ...]:
        """The global tables that it looks at."""
        return tuple(value for value in self._values if isinstance(value, GlobalTable))

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        """The functions of the project that it calls."""
        calls = (value.function if isinstance(value, Udf) else value for value in self._values)
        return tuple(value for value in calls if isinstance(value, PythonFunction))

    @property
    def is_stateful(self) -> bool:
        """Whether it has a store."""
        return bool(self.stores)

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """Name and value of settings that neither `text` nor a store tells, for people; and which code it runs."""
        return tuple((f"{CODE_OF}{function.name}", function.digest) for function in self.functions)

    def texts(self) -> Iterator[StepText]:
        """Its `text` at each edge for which people know it."""
        if self.text:
            yield from (StepText(flow_of(edge), self.text, str(self.at)) for edge in self.text_edges)

    @property
    def text_edges(self) -> tuple[str, ...]:
        """The edges of the flows that `text` belongs to."""
        return self.reads[:1]

    @property
    def _values(self) -> Iterator[Any]:
        for declared in fields(self):  # type: ignore[arg-type]  # every operator is a dataclass
            value = getattr(self, declared.name)
            yield from value if isinstance(value, tuple) else (value,)


# Answers that several operators have in common.


class OneEdge(Operator):
    """Changes the edge `flow`, and reads no other."""

    flow: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The one edge."""
        return (self.flow,)

    @property
    def makes(self) -> tuple[str, ...]:
        """The same edge."""
        return (self.flow,)


class SameColumns(OneEdge):
    """Leaves the columns of its edge as they are."""

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """The same columns."""
        return {self.flow: edges[self.flow]}


class Transforms(Operator):
    """Makes rows of rows: it writes no topic, fills no store, and rows come out with their record."""

    topics_read = ()
    topics_written = ()
    fills = ()
    old_rows = "derived"
    needs_all = False

    @property
    def touches(self) -> Touched:
        """Nothing."""
        return Touched()

    @property
    def releases(self) -> Releases:
        """With their record."""
        return "at once"


class Stores(Operator):
    """Keeps what reaches it in its stores."""

    topics_read = ()
    topics_written = ()

    @property
    def fills(self) -> tuple[Store, ...]:
        """All of its stores."""
        return self.stores

    @property
    def touches(self) -> Touched:
        """All that reaches it."""
        return Touched(before=self.reads)


JOINING_EDGES = ("rows", "asking", "asked", "answers", "last_answers")
"""The ends of the names of a join's own edges, behind that of its flow: the rows that are joined, their subscriptions,
what the other table's side gets, what comes back, and the keys of expired rows to which no more answers will come."""


def flow_of(edge: str) -> str:
    """The flow of an edge of a join by a foreign key; other edges have their own names."""
    return edge.partition(".")[0] if edge.rpartition(".")[2] in JOINING_EDGES else edge


def fork_texts(flow: str, into: Iterable[str]) -> Iterator[StepText]:
    """What several flows read. Where a flow has one reader, the steps of both are those of one flow."""
    names = dict.fromkeys(map(flow_of, into))
    return (StepText(name, f"from flow {flow}") for name in names if name != flow)


def columns_text(columns: Mapping[str, str]) -> str:
    """New columns and what they are made of, for people."""
    return ", ".join(name if name == sql else f"{name}: {sql}" for name, sql in columns.items())
