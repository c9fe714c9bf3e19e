"""An edge between two operations, with the physical names of its columns at one point of the pipe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ....runtime.operators.declarations import Flow
from ....runtime.records.names import column_sql
from ...entries.stores import UNKNOWN_TYPE, columns_ddl
from ...language.expressions import Expression, Ref, Types
from ...language.judge import meta_name
from .shape import Shape

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
        return meta_name(ref) if ref.role == "meta" else column_sql(self.physical(ref))


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
