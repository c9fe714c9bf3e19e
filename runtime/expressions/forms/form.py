"""What a form is; columns and literals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from ..misread import name_of
from ..nodes import BOOLEAN, Column, Constant, Node
from ..promotion import (
    BIGINT,
    DOUBLE,
    INT,
    NULL,
    STRING,
    alike,
    is_null,
    refuse_alike,
    refuse_folding,
    type_of_literal,
    unproven,
)

# A form of SQL, such as `+` or `length`: how it is read as a node, and which parts it may have.


class Reader(Protocol):
    """What a form reads its parts with. `columns`: the types of columns, by physical name."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]: ...  # noqa: D102

    def node(self, tree: exp.Expr | None) -> Node:
        """The node of a part. Raises UnprovenError, also if the part is not there."""


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


def named(read: Callable[[Reader, Any], Node], *many: int) -> Form:
    """A function that is read by its name. `many`: how many arguments it may have; nothing: it looks itself."""

    def counted(reader: Reader, tree: exp.Anonymous) -> Node:
        if many and len(tree.expressions) not in many:
            unproven(f"this form of `{name_of(tree)}` is only proven in Spark SQL")
        return read(reader, tree)

    return form(counted, "this", "expressions")


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
    return two(reader, tree, (tree.this, tree.expression))


def two(reader: Reader, tree: exp.Expr, parts: Sequence[exp.Expr]) -> tuple[Node, ...]:
    """The two arguments of a function, with one type. Raises UnprovenError."""
    nodes = alike(tree, tuple(map(reader.node, parts)))
    refuse_folding(nodes, is_null)
    refuse_alike(nodes)
    return nodes


# Columns and literals, and what is in parentheses.


def _paren(reader: Reader, tree: exp.Paren) -> Node:
    return reader.node(tree.this)


def _column(reader: Reader, tree: exp.Column) -> Node:
    name = tree.name
    if name not in reader.columns or not isinstance(tree.this, exp.Identifier):
        unproven(f"`{tree.sql('spark')}` is no column here")
    return Column(name, reader.columns[name])


def _literal(reader: Reader, tree: exp.Literal) -> Node:  # noqa: ARG001
    text: str = tree.this
    if tree.is_string:
        return Constant(text, STRING)
    if text.isdigit():
        number = int(text)
        if number > 2**63 - 1:
            unproven(f"the number {text} is only known to Spark SQL")
        return Constant(number, INT if number < 2**31 else BIGINT)
    if "e" in text.lower():
        return Constant(float(text), DOUBLE)
    data_type = type_of_literal(Decimal(text))
    if data_type is None:
        unproven(f"the number {text} is only known to Spark SQL")
    return Constant(Decimal(text), data_type)


def _boolean(reader: Reader, tree: exp.Boolean) -> Node:  # noqa: ARG001
    return Constant(bool(tree.this), BOOLEAN)


def _null(reader: Reader, tree: exp.Null) -> Node:  # noqa: ARG001
    return Constant(None, NULL)


LEAF_FORMS: Forms = {
    exp.Paren: form(_paren, "this"),
    exp.Column: form(_column, "this"),
    exp.Literal: form(_literal, "this", "is_string"),
    exp.Boolean: form(_boolean, "this"),
    exp.Null: form(_null),
}
