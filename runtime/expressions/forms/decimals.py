"""The operands of arithmetic that is done with decimals."""

from __future__ import annotations

from sqlglot import exp

from ..functions.decimals import type_of_literal, type_of_whole
from ..nodes import Constant, Node
from ..promotion import (
    DOUBLE,
    WHOLE,
    as_type,
    is_decimal,
    is_null,
    refuse_alike,
    refuse_folding,
    unproven,
    unproven_of,
)
from .form import Reader


def decimals(reader: Reader, tree: exp.Expr) -> tuple[Node, Node] | None:
    """The two operands as decimals, each of its own precision and scale; None if the operator is not of decimals."""
    left, right = reader.node(tree.this), reader.node(tree.expression)
    if not (is_decimal(left) or is_decimal(right)) or DOUBLE in (left.data_type, right.data_type):
        return None
    if not all(is_decimal(each) or each.data_type in WHOLE for each in (left, right)):
        unproven_of(tree, (left, right))
    refuse_folding((left, right), is_null)
    refuse_alike((left, right))
    if is_null(left) or is_null(right):
        unproven_of(tree, (left, right))
    return _decimal(tree.this, left), _decimal(tree.expression, right)


def _decimal(tree: exp.Expr, node: Node) -> Node:
    if is_decimal(node):
        return node
    if not isinstance(node, Constant):
        return as_type(node, type_of_whole(node.data_type))
    # Of a literal Spark takes as many digits as it has; of what it computes of literals, as many as its type has.
    bare = tree.unnest()
    data_type = type_of_literal(node.value)
    if data_type is None or not isinstance(bare.this if isinstance(bare, exp.Neg) else bare, exp.Literal):
        unproven("how many digits a number has beside a decimal is only known to Spark SQL")
    return as_type(node, data_type)
