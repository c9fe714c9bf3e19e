"""Turns SQL into nodes, or raises UnprovenError with the reason why Spark must evaluate it.

An expression that is accepted here has the values and the failing rows of Spark SQL, for all possible rows. Types
follow Spark's ANSI rules. Of two number types, the narrower is cast to the wider. `/` divides doubles or decimals. A
literal with a decimal point is a decimal, and is cast to double next to a double. An expression that needs any other
implicit cast is left to Spark.

`forms` defines the supported operators and functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from sqlglot import exp, tokenize
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import TokenType

from .forms import FORMS
from .misread import (
    COMPARING,
    has_plus_in_front,
    is_bare_comparison,
    name_of,
    parse_expression,
)
from .nodes import BOOLEAN, Constant, Node
from .promotion import NULL, folded, unproven
from .typed_functions import ByNameSql, form_of

_MOST_LEVELS = 60
"""The maximum depth of a tree. Evaluation needs at least one nested Python call per level."""

_COMPARING = (*COMPARING, exp.Escape)

_OF_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
"""Spark SQL gives each of them its own precedence. sqlglot gives all three the same one, from left to right."""


def node_of(sql: str, columns: Mapping[str, pa.DataType], data_type: pa.DataType) -> Node:
    """The nodes of an expression.

    `columns`: physical name -> type. `data_type`: the type of the expression according to Spark. Raises UnprovenError.
    """
    if "\\" in sql:
        unproven("what a backslash stands for is only known to Spark SQL")
    try:
        tokens = tokenize(sql, read="spark")
        tree = parse_expression(sql, ByNameSql)
    except (ParseError, TokenError):
        unproven("its syntax is only known to Spark SQL")
    except RecursionError:
        unproven("it is nested very deeply")
    if (TokenType.STRING, TokenType.STRING) in pairwise(token.token_type for token in tokens):
        unproven("a quote in a text is only known to Spark SQL")
    if has_plus_in_front(tokens):
        unproven("a plus in front of an operand is only known to Spark SQL")
    node = _Reader(columns).node(tree)
    if isinstance(node, Constant) and node.data_type == NULL:
        unproven(f"the type of `{sql}` is only known to Spark SQL")
    if node.data_type != data_type:
        unproven(f"Spark gives `{sql}` another type than it has here")
    return node


def predicate_of(sql: str, columns: Mapping[str, pa.DataType]) -> Node:
    """The nodes of a boolean expression. Raises UnprovenError."""
    return node_of(sql, columns, BOOLEAN)


@dataclass
class _Reader:
    columns: Mapping[str, pa.DataType]
    level: int = 0

    def node(self, tree: exp.Expr | None) -> Node:
        if tree is None:
            unproven("a function without all its arguments is only known to Spark SQL")
        self.level += 1
        if self.level > _MOST_LEVELS:
            unproven("it is nested very deeply")
        try:
            return self._read(tree)
        finally:
            self.level -= 1

    def _read(self, tree: exp.Expr) -> Node:
        read = FORMS.get(tree.name.lower() if isinstance(tree, exp.Anonymous) else type(tree))
        if read is None:
            unproven(f"`{name_of(tree)}` is only proven in Spark SQL")
        known = form_of(tree)
        if known is not None and not known.fits(tree):
            unproven(f"this form of `{name_of(tree)}` is only proven in Spark SQL")
        _refuse_bare(tree)
        return folded(read(self, tree))


def _refuse_bare(tree: exp.Expr) -> None:
    if isinstance(tree, _OF_BITS) and any(isinstance(each, _OF_BITS) for each in tree.iter_expressions()):
        unproven("the order of operators of bits without parentheses is only known to Spark SQL")
    if not isinstance(tree, exp.Escape) and is_bare_comparison(tree, _COMPARING):
        unproven("the order of comparisons without parentheses is only known to Spark SQL")
