"""The interface of forms, helpers for them, and the forms of columns and literals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from ...records.types import arrow_type, ddl
from ..kernels import Value
from ..misread import name_of
from ..nodes import BOOLEAN, Column, Constant, Function, Node
from ..promotion import (
    NULL,
    STRING,
    alike,
    is_constant,
    is_null,
    refuse_alike,
    refuse_folding,
    unproven,
    unproven_of,
)
from ..terms import OPAQUE, Term, UntypedError, type_of_number
from ..typed_functions import form_of

# A form is an operator or function of SQL, such as `+` or `length`. It converts a syntax tree of sqlglot to a node.


class Reader(Protocol):
    """Converts the operands of a form. `columns`: physical name -> type."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]: ...  # noqa: D102

    def node(self, tree: exp.Expr | None) -> Node:
        """The node of an operand. Raises UnprovenError, also if it is missing."""


@dataclass(frozen=True)
class Form:
    """A form. `read`: converts the tree to a node, or raises UnprovenError.

    `parts`: the arguments of sqlglot's tree that the form supports. A tree with any other argument set is rejected.
    """

    read: Callable[[Reader, Any], Node]
    parts: frozenset[str]


Forms = Mapping[type[exp.Expr] | str, Form]
"""Forms by the class of sqlglot's tree, or by the name of a function that is parsed as `exp.Anonymous`."""


def form(read: Callable[[Reader, Any], Node], *parts: str) -> Form:
    """A form that supports these arguments of the tree."""
    return Form(read, frozenset(parts))


def named(read: Callable[[Reader, Any], Node], *many: int) -> Form:
    """The form of a function by name. `many`: the allowed numbers of arguments; if empty, `read` checks them."""

    def counted(reader: Reader, tree: exp.Anonymous) -> Node:
        if many and len(tree.expressions) not in many:
            unproven(f"this form of `{name_of(tree)}` is only proven in Spark SQL")
        return read(reader, tree)

    return form(counted, "this", "expressions")


def arguments_of(reader: Reader, tree: exp.Anonymous, many: int) -> tuple[Node, ...]:
    """The arguments of a function by name. Raises UnprovenError if there are not `many`."""
    if len(tree.expressions) != many:
        unproven(f"`{name_of(tree)}` with {len(tree.expressions)} arguments is only proven in Spark SQL")
    return tuple(map(reader.node, tree.expressions))


def typed(reader: Reader, tree: exp.Anonymous) -> tuple[tuple[Node, ...], pa.DataType]:
    """The arguments of a function by name, and the type of its result, by the rules of `typed_functions`.

    Raises UnprovenError if these have no type for the arguments, or if one is the literal `null`.
    """
    arguments = tuple(map(reader.node, tree.expressions))
    known = form_of(tree)
    if known is None or any(map(is_null, arguments)):
        unproven_of(tree, arguments)
    terms = [Term(ddl(each.data_type), is_constant(each), _text_of(each)) for each in arguments]
    try:
        return arguments, arrow_type(known.rule(tree, terms))
    except UntypedError:
        unproven_of(tree, arguments)


def _text_of(node: Node) -> str | None:
    return node.value if isinstance(node, Constant) and node.data_type == STRING else None


def call(function: Callable[..., Value], fails: bool = False) -> Form:
    """The form of a function by name: a call of `function`, which `fails` for some rows."""

    def read(reader: Reader, tree: exp.Anonymous) -> Node:
        return Function(function, *typed(reader, tree), fails)

    return form(read, "this", "expressions")


def predicate(reader: Reader, tree: exp.Expr) -> Node:
    """The node of a boolean operand. Raises UnprovenError for any other type."""
    node = reader.node(tree)
    if node.data_type != BOOLEAN:
        unproven(f"`{tree.sql('spark')}` is no boolean here")
    return node


def both(reader: Reader, tree: exp.Expr) -> tuple[Node, ...]:
    """The two operands of an operator, cast to their common type. Raises UnprovenError."""
    return two(reader, tree, (tree.this, tree.expression))


def two(reader: Reader, tree: exp.Expr, parts: Sequence[exp.Expr]) -> tuple[Node, ...]:
    """Two operands, cast to their common type. Raises UnprovenError."""
    nodes = alike(tree, tuple(map(reader.node, parts)))
    refuse_folding(nodes, is_null)
    refuse_alike(nodes)
    return nodes


# Columns, literals and parentheses.


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
    type_ = type_of_number(text)
    if type_ == OPAQUE:
        unproven(f"the number {text} is only known to Spark SQL")
    value = _VALUES.get(type_, Decimal)(text)
    return Constant(value, arrow_type(type_))


_VALUES: Mapping[str, Callable[[str], int | float | Decimal]] = {"int": int, "bigint": int, "double": float}


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
