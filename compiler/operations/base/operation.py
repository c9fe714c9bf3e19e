"""Operations: what the compiler knows about an action of the runtime on rows.

A step of the language becomes one or several operations. `topology` connects them. Members of an operation are
abstract unless they have a default that is right for all operations, so an incomplete one cannot be instantiated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...language.certain import cannot_fail
from ...language.expressions import Expression
from .site import PythonLayout, Shape, Site, SqlLayout

Engine = Literal["python", "sql", "either"]
"""Where an operation can run."""

NullKeys = Literal["kept", "dropped", "passed"]
"""The treatment of records with a null key. `passed`: the following operations decide."""


@dataclass(frozen=True)
class TableUse:
    """How an operation uses the changes of its input table.

    `sees`: the changes it needs: every single one, one per key and epoch, or every one with the replaced row, to
    regroup it. None: the changes are passed on. `filters`: some changes are not passed on. `may_fail`: an expression
    may fail. `positive`: the value columns of the output that are always above 0.
    """

    sees: Literal["each_update", "per_epoch", "repartition"] | None = None
    filters: bool = False
    may_fail: bool = False
    positive: frozenset[str] = frozenset()


EVERY_CHANGE = TableUse("each_update")


@dataclass(frozen=True)
class Processor:
    """A node in `describe`. `role`: its name in Kafka's StreamsBuilder."""

    role: str
    kind: Literal["source", "processor", "sink"] = "processor"
    topics: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()


@dataclass(frozen=True)
class Description:
    """An operation in `describe`.

    `text`: the step as the user wrote it, with rendered templates. `inputs`: the first nodes, as rows with one node per
    input. `sides`: nodes before the chain, one per edge. `chain`: nodes that follow one another. `fan`: nodes after the
    chain, one per output. `keeps`: stores added to the node before, filled with its rows.
    """

    text: str = ""
    chain: tuple[Processor, ...] = ()
    fan: tuple[Processor, ...] = ()
    sides: tuple[Processor, ...] = ()
    inputs: tuple[tuple[Processor, ...], ...] = ()
    keeps: tuple[str, ...] = ()


class Operation(ABC):
    """An operation: a frozen dataclass of one of the three kinds below."""

    @property
    @abstractmethod
    def has_effect(self) -> bool:
        """Whether it has an effect without a reader: it fills a store or writes a topic."""

    @property
    @abstractmethod
    def null_keys(self) -> NullKeys:
        """The treatment of records with a null key."""

    @abstractmethod
    def engine(self, needed: frozenset[str]) -> Engine:
        """Where it can run. `needed`: the value columns of its output that a later step reads."""

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The value columns of the input that it reads or passes on: all, as for a store or a function.

        `output`: the needed columns of its output, possibly with `NOW`. `offered`: all columns of the input.
        """
        return offered

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """How it uses the changes of a table of this shape: it needs every single one, if its input can be a table.

        `positive`: value columns that are always above 0.
        """
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """The operation in `describe`: nothing, as for a part of another one.

        `of_table`: its input is a table. `lookups`: the tables in which it looks up rows; both sides of a join that
        either side triggers.
        """
        return Description()


class PythonOperation(Operation):
    """An operation that runs in Python only, because it needs state, topics or order."""

    def engine(self, needed: frozenset[str]) -> Engine:
        """See `Operation`."""
        return "python"

    @abstractmethod
    def in_python(self, site: Site) -> PythonLayout:
        """Its operators."""


class Splitting(PythonOperation):
    """An operation that may split its flow into others.

    `into`: the names of these flows, with one output each; empty if it does not split. `shapes`: of the outputs.
    """

    into: tuple[str, ...]
    shapes: tuple[Shape, ...]


class SqlOperation(Operation):
    """An operation that runs in Spark SQL only, because it computes expressions."""

    def engine(self, needed: frozenset[str]) -> Engine:
        """See `Operation`."""
        return "sql"

    @abstractmethod
    def in_sql(self, site: Site) -> SqlLayout:
        """Its SQL steps."""


class EitherOperation(Operation):
    """An operation that can run in both engines, or in one depending on the needed columns."""

    def engine(self, needed: frozenset[str]) -> Engine:
        """See `Operation`."""
        return "either"

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
        """Whether changes of the table give results, too. They then come on a second edge."""

    @abstractmethod
    def looks_at(self) -> str:
        """The table's name."""

    @abstractmethod
    def needs_of_table(self, output: frozenset[str]) -> frozenset[str]:
        """The value columns of the table that it reads. `output`: the needed columns of its output."""


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
    """The names of the tables' stores."""
    return tuple(shape.store.name for shape in shapes if shape.store is not None)
