"""What an operation is: one thing that the runtime does with rows, and all that the compiler must know of it.

A step of the language becomes one operation or several. Every part of an operation is abstract: one that lacks a part
cannot be made. How operations are connected, and in which order their parts are asked for, is `topology`'s business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...language.certain import cannot_fail
from ...language.expressions import Expression
from .shape import Shape
from .site import PythonLayout, Site, SqlLayout

Engine = Literal["python", "sql", "either"]
"""Where an operation can run."""

NullKeys = Literal["kept", "dropped", "passed"]
"""What happens to records without a key: `passed` leaves it to the operations behind."""


@dataclass(frozen=True)
class TableUse:
    """What an operation does with the changes of a table before it.

    `sees`: where their way ends here: every change, one for each key and epoch, or every change with the row before
    it, to regroup it; None where they go on. `filters`: whether some go no further. `may_fail`: whether an expression
    may fail. `positive`: the value columns behind it that are never 0 nor less.
    """

    sees: Literal["each", "per_epoch", "repartition"] | None = None
    filters: bool = False
    may_fail: bool = False
    positive: frozenset[str] = frozenset()


EVERY_CHANGE = TableUse("each")
"""Of an operation that takes every change by itself, and of one that has no table before it."""


@dataclass(frozen=True)
class Processor:
    """A node in `describe`. `role`: what Kafka's builder calls it."""

    role: str
    kind: Literal["source", "processor", "sink"] = "processor"
    topics: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()


@dataclass(frozen=True)
class Description:
    """An operation in `describe`. `text`: the step as the user wrote it, with what its templates gave.

    `chain`: its nodes, each behind the one before. `fan`: those behind the last, one for each output; or none.
    """

    text: str = ""
    chain: tuple[Processor, ...] = ()
    fan: tuple[Processor, ...] = ()


class Operation(ABC):
    """What all operations have; each is one of the three kinds below. Operations are frozen dataclasses."""

    @property
    @abstractmethod
    def has_effect(self) -> bool:
        """Whether something remains of it where nobody reads what it makes: a store, a topic."""

    @property
    @abstractmethod
    def null_keys(self) -> NullKeys:
        """What it does with records without a key."""

    @abstractmethod
    def engine(self, needed: frozenset[str]) -> Engine:
        """Where it can run; `needed`: the value columns of its output that some later step reads."""

    @abstractmethod
    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The value columns of an input that it reads or passes on.

        `output`: those that are needed of what it makes, maybe with `NOW`; `offered`: all that the input has.
        """

    @abstractmethod
    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """What it does with a table's changes of this shape; `positive`: value columns that are never 0 nor less."""

    @abstractmethod
    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """What `describe` says. `of_table`: whether its input is a table; `lookups`: the tables that it looks at."""


class PythonOperation(Operation):
    """An operation that only Python can run: it needs state, topics or order."""

    def engine(self, needed: frozenset[str]) -> Engine:
        """See `Operation`."""
        return "python"

    @abstractmethod
    def in_python(self, site: Site) -> PythonLayout:
        """Its operators."""


class SqlOperation(Operation):
    """An operation that only Spark SQL can run: it computes expressions."""

    def engine(self, needed: frozenset[str]) -> Engine:
        """See `Operation`."""
        return "sql"

    @abstractmethod
    def in_sql(self, site: Site) -> SqlLayout:
        """Its SQL steps."""


class EitherOperation(Operation):
    """An operation that can run in both, maybe depending on what is needed of it."""

    @abstractmethod
    def in_python(self, site: Site) -> PythonLayout:
        """Its operators."""

    @abstractmethod
    def in_sql(self, site: Site) -> SqlLayout:
        """Its SQL steps."""


class Lookup(PythonOperation):
    """An operation that looks rows up in a table of the same topology, which must have been brought there first."""

    @abstractmethod
    def looks_at(self) -> str:
        """The table's name."""

    @abstractmethod
    def needs_of_table(self, output: frozenset[str]) -> frozenset[str]:
        """The table's value columns that it reads; `output`: those that are needed of what it makes."""


def may_fail(expressions: Iterable[Expression], shape: Shape, positive: frozenset[str]) -> bool:
    """Whether an expression over the rows of a table may fail for some row."""
    types = {"value": shape.value, "key": shape.key}

    return not all(cannot_fail(e, lambda ref: types.get(ref.role, {}).get(ref.name), positive) for e in expressions)


def is_pure(columns: Mapping[str, Expression]) -> bool:
    """Whether columns are only renamed or selected, which Arrow does for nothing."""
    return all(e.plain is not None and e.plain.role in ("key", "value") for e in columns.values())


def columns_text(columns: Mapping[str, Expression]) -> str:
    """Columns with what they are, for `describe`."""
    texts = {name: expression.sql.text for name, expression in columns.items()}
    return ", ".join(name if name == text else f"{name}: {text}" for name, text in texts.items())


def store_names(shapes: Sequence[Shape]) -> tuple[str, ...]:
    """The stores of tables that have one."""
    return tuple(shape.store.name for shape in shapes if shape.store is not None)
