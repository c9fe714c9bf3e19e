"""The interface of forms, helpers for them, and the forms of columns and literals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from ...records.types import arrow_type, ddl
from ..kernels import Value
from ..nodes import BOOLEAN, Constant, Function, Node
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


Read = Callable[[Reader, Any], Node]
"""Converts a tree to a node, or raises UnprovenError."""

Forms = Mapping[type[exp.Expr] | str, Read]
"""Forms by the class of sqlglot's tree, or by the name of a function that is parsed as `exp.Anonymous`."""


def arguments_of(reader: Reader, tree: exp.Anonymous) -> tuple[Node, ...]:
    """The arguments of a function by name. Raises UnprovenError."""
    return tuple(map(reader.node, tree.expressions))


def typed(reader: Reader, tree: exp.Anonymous) -> tuple[tuple[Node, ...], pa.DataType]:
    """The arguments of a function by name, and the type of its result, by the rules of `typed_functions`.

    Raises UnprovenError if these have no type for the arguments, or if one is the literal `null`.
    """
    arguments = arguments_of(reader, tree)
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


def call(function: Callable[..., Value], fails: bool = False) -> Read:
    """The form of a function by name: a call of `function`, which `fails` for some rows."""

    def read(reader: Reader, tree: exp.Anonymous) -> Node:
        return Function(function, *typed(reader, tree), fails)

    return read


def operand(reader: Reader, tree: exp.Expr, part: exp.Expr, *types: pa.DataType) -> Node:
    """The node of an operand of `tree`. Raises UnprovenError if it has none of the types."""
    node = reader.node(part)
    if node.data_type not in types:
        unproven_of(tree, (node,))
    return node


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
    exp.Paren: _paren,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
}
