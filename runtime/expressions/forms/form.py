"""A form of SQL, such as `+` or `length`: how it is read as a node, and which parts it may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from ..nodes import BOOLEAN, Node
from ..promotion import alike, is_null, name_of, refuse_alike, refuse_folding, unproven


class Reader(Protocol):
    """What a form reads its parts with. `columns`: the types of columns, by physical name."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]: ...  # noqa: D102

    def node(self, tree: exp.Expr) -> Node:
        """The node of a part. Raises UnprovenError."""


@dataclass(frozen=True)
class Form:
    """A form. `read` makes its node, or raises UnprovenError. A tree with parts beside `parts` is another form."""

    read: Callable[[Reader, Any], Node]
    parts: frozenset[str]


Forms = Mapping[type[exp.Expr] | str, Form]
"""Forms by the class that sqlglot has for them, or by the name of a function for which it has none."""


def form(read: Callable[[Reader, Any], Node], *parts: str) -> Form:
    """A form with these parts."""
    return Form(read, frozenset(parts))


def named(read: Callable[[Reader, Any], Node]) -> Form:
    """A function that sqlglot only knows by its name."""
    return form(read, "this", "expressions")


def arguments_of(reader: Reader, tree: exp.Anonymous, many: int) -> tuple[Node, ...]:
    """The arguments of a function that is read by its name. Raises UnprovenError if they are not so many."""
    if len(tree.expressions) != many:
        unproven(f"`{name_of(tree)}` with {len(tree.expressions)} arguments is only proven in Spark SQL")
    return tuple(map(reader.node, tree.expressions))


def predicate(reader: Reader, tree: exp.Expr) -> Node:
    """The node of a part that has to be a boolean."""
    node = reader.node(tree)
    if node.data_type != BOOLEAN:
        unproven(f"`{tree.sql('spark')}` is no boolean here")
    return node


def both(reader: Reader, tree: exp.Expr) -> tuple[Node, ...]:
    """The two sides of an operator, with one type."""
    nodes = alike(tree, (reader.node(tree.this), reader.node(tree.expression)))
    refuse_folding(nodes, is_null)
    refuse_alike(nodes)
    return nodes
