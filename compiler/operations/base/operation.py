"""What an operation is: one thing that the runtime does with rows, with everything that the compiler must know about
it.

A step of the language becomes one or several operations. Every part of an operation is abstract, so an operation that
lacks a part cannot be made. `topology` connects operations and asks for their parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...language.cannot_fail import cannot_fail
from ...language.expressions import Expression
from .site import PythonLayout, Shape, Site, SqlLayout

Engine = Literal["python", "sql", "either"]
"""Where an operation can run."""

NullKeys = Literal["kept", "dropped", "passed"]
"""What happens to records without a key. `passed`: the operations after this one decide."""


@dataclass(frozen=True)
class TableUse:
    """What an operation does with the changes of the table that it reads.

    `sees`: how the changes end here: every change by itself, one for each key and epoch, or every change with the row
    that it replaces, to regroup it. None: the changes go on. `filters`: whether some changes go no further. `may_fail`:
    whether an expression may fail. `positive`: the value columns of the output that are always above 0.
    """

    sees: Literal["each_update", "per_epoch", "repartition"] | None = None
    filters: bool = False
    may_fail: bool = False
    positive: frozenset[str] = frozenset()


EVERY_CHANGE = TableUse("each_update")
"""For an operation that needs every change by itself, and for one that never has a table as input."""


@dataclass(frozen=True)
class Processor:
    """A node in `describe`. `role`: its name in Kafka's builder."""

    role: str
    kind: Literal["source", "processor", "sink"] = "processor"
    topics: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()


@dataclass(frozen=True)
class Description:
    """An operation in `describe`. `text`: the step as the user wrote it, with rendered templates.

    `inputs`: its first nodes, row by row, each row with a node for each input; or none. `chain`: its nodes, each after
    the one before. `fan`: nodes after the last one, one for each output; or none. `sides`: nodes before the chain, one
    for each edge that it reads; or none. `keeps`: stores of the node before, which it fills with that node's rows.
    """

    text: str = ""
    chain: tuple[Processor, ...] = ()
    fan: tuple[Processor, ...] = ()
    sides: tuple[Processor, ...] = ()
    inputs: tuple[tuple[Processor, ...], ...] = ()
    keeps: tuple[str, ...] = ()


class Operation(ABC):
    """What all operations have. Each is one of the three kinds below, and a frozen dataclass."""

    @property
    @abstractmethod
    def has_effect(self) -> bool:
        """Whether it has an effect even if nobody reads its output: it fills a store or writes a topic."""

    @property
    @abstractmethod
    def null_keys(self) -> NullKeys:
        """What it does with records without a key."""

    @abstractmethod
    def engine(self, needed: frozenset[str]) -> Engine:
        """Where it can run. `needed`: the value columns of its output that a later step reads."""

    @abstractmethod
    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The value columns of an input that it reads or passes on.

        `output`: those columns of its output that are needed, possibly with `NOW`. `offered`: all columns of the input.
        """

    @abstractmethod
    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """What it does with changes of a table of this shape. `positive`: value columns that are always above 0."""

    @abstractmethod
    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """What `describe` shows.

        `of_table`: whether its input is a table. `lookups`: the tables in which it looks up rows; of a join that either
        side triggers, both sides.
        """


class PythonOperation(Operation):
    """An operation that only Python can run: it needs state, topics or order."""

    def engine(self, needed: frozenset[str]) -> Engine:
        """See `Operation`."""
        return "python"

    @abstractmethod
    def in_python(self, site: Site) -> PythonLayout:
        """Its operators."""


class Splitting(PythonOperation):
    """An operation that may end its flow, which goes on as others: `into`, one output for each; empty if it does not.

    `shapes`: of the outputs.
    """

    into: tuple[str, ...]
    shapes: tuple[Shape, ...]


class SqlOperation(Operation):
    """An operation that only Spark SQL can run: it computes expressions."""

    def engine(self, needed: frozenset[str]) -> Engine:
        """See `Operation`."""
        return "sql"

    @abstractmethod
    def in_sql(self, site: Site) -> SqlLayout:
        """Its SQL steps."""


class EitherOperation(Operation):
    """An operation that can run in both, possibly depending on the columns that are needed."""

    @abstractmethod
    def in_python(self, site: Site) -> PythonLayout:
        """Its operators."""

    @abstractmethod
    def in_sql(self, site: Site) -> SqlLayout:
        """Its SQL steps."""


class Lookup(PythonOperation):
    """An operation that looks up rows in a table of the same topology, which must come before it."""

    @property
    @abstractmethod
    def triggered(self) -> bool:
        """Whether changes of the table give results, too. It then reads them on an edge of its own."""

    @abstractmethod
    def looks_at(self) -> str:
        """The table's name."""

    @abstractmethod
    def needs_of_table(self, output: frozenset[str]) -> frozenset[str]:
        """The value columns of the table that it reads. `output`: the columns of its output that are needed."""


def may_fail(expressions: Iterable[Expression], shape: Shape, positive: frozenset[str]) -> bool:
    """Whether an expression over the rows of a table may fail for some row."""
    types = {"value": shape.value, "key": shape.key}

    return not all(cannot_fail(e, lambda ref: types.get(ref.role, {}).get(ref.name), positive) for e in expressions)


def is_pure(columns: Mapping[str, Expression]) -> bool:
    """Whether columns are only renamed or selected, which Arrow does without copying."""
    return all(e.plain is not None and e.plain.role in ("key", "value") for e in columns.values())


def columns_text(columns: Mapping[str, Expression]) -> str:
    """Columns with their expressions, for `describe`."""
    texts = {name: expression.sql.text for name, expression in columns.items()}
    return ", ".join(name if name == text else f"{name}: {text}" for name, text in texts.items())


def store_names(shapes: Sequence[Shape]) -> tuple[str, ...]:
    """The stores of tables that have one."""
    return tuple(shape.store.name for shape in shapes if shape.store is not None)
