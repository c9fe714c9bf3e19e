"""The types of Spark's ANSI rules: which type the operands of an operator get, and where only Spark knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import reduce
from typing import Any, NoReturn, cast

import pyarrow as pa
from sqlglot import exp

from ...errors import HeadwaterError
from ..records.types import ddl
from .functions.decimals import as_double, type_of_whole, wider
from .misread import name_of
from .nodes import BOOLEAN, Call, Cast, Column, Constant, Node
from .values import Batch

INT, BIGINT, DOUBLE, STRING = pa.int32(), pa.int64(), pa.float64(), pa.string()
NULL = pa.null()
"""The type of the literal `null`, before what is beside it gives it another one."""

WHOLE = (pa.int8(), pa.int16(), INT, BIGINT)
COMPARED = (*WHOLE, BOOLEAN, DOUBLE, STRING, pa.date32(), pa.timestamp("us", "UTC"))


class UnprovenError(HeadwaterError):
    """It is not proven of an expression that it can be computed here as Spark SQL does. `reason`: what of it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def alike(tree: exp.Expr, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The operands of a tree with the type that Spark gives to all of them. Raises UnprovenError."""
    types = {each.data_type for each in nodes} - {NULL}
    widest = types.pop() if len(types) == 1 else _widest(types)
    if widest is None:
        unproven_of(tree, nodes)
    return tuple(as_type(each, widest) for each in nodes)


def _widest(types: set[pa.DataType]) -> pa.DataType | None:
    if not types or not all(map(is_number, types)):
        return None
    if DOUBLE in types:
        return DOUBLE
    if types <= set(WHOLE):
        return max(types, key=WHOLE.index)
    return reduce(_wider, (type_of_whole(each) if each in WHOLE else each for each in types))


def _wider(left: pa.DataType | None, right: pa.DataType) -> pa.DataType | None:
    return None if left is None else wider(left, right)


def as_type(node: Node, data_type: pa.DataType) -> Node:
    """A node as a wider type."""
    if node.data_type == data_type:
        return node
    if isinstance(node, Constant):
        value = float(node.value) if data_type == DOUBLE and node.value is not None else node.value
        return Constant(value, data_type)
    return Call(as_double, (node,), DOUBLE) if is_decimal(node) and data_type == DOUBLE else Cast(node, data_type)


def folded(node: Node) -> Node:
    """A node that reads no column as the literal that it comes to, as Spark's optimizer sees it too.

    Raises UnprovenError if that is an error.
    """
    if is_constant(node) or _has_column(node):
        return node
    value = node.of(Batch({}, 1))
    if value.failed is not None:
        unproven("what Spark SQL does with an error of literals alone is only known to it")
    try:
        return Constant(value.array(1)[0].as_py(), node.data_type)
    except (OverflowError, ValueError):
        unproven("a literal of a time that Python does not have is only known to Spark SQL")


def _has_column(node: Node) -> bool:
    return isinstance(node, Column) or any(map(_has_column, _below(node)))


def is_constant(node: Node) -> bool:
    """Whether it is a literal."""
    return isinstance(node, Constant)


def is_null(node: Node) -> bool:
    """Whether it is the literal `null`."""
    return isinstance(node, Constant) and node.value is None


def is_decimal(node: Node) -> bool:
    """Whether it is a decimal."""
    return bool(pa.types.is_decimal128(node.data_type))


def is_number(data_type: pa.DataType) -> bool:
    """Whether it is a type of numbers."""
    return data_type in (*WHOLE, DOUBLE) or pa.types.is_decimal128(data_type)


def is_compared(data_type: pa.DataType) -> bool:
    """Whether values of a type are compared, and chosen from, as in Spark."""
    return data_type in COMPARED or pa.types.is_decimal128(data_type)


def refuse_folding(nodes: tuple[Node, ...], decides: Callable[[Node], bool]) -> None:
    """Refuse an operand that decides the whole before a row is seen: Spark then leaves out the errors of the others."""
    if any(each.may_fail for each in nodes) and any(map(decides, nodes)):
        unproven("what Spark SQL leaves out where a literal decides is only known to Spark SQL")


def refuse_alike(nodes: tuple[Node, ...]) -> None:
    """Refuse operands that Spark may find to be the same: it then computes one of them, or none, errors and all.

    It knows that `a > b` is `b < a` and `not a <= b`. So those that read the same columns and literals are refused.
    """
    if any(each.may_fail for each in nodes) and len({_reads(each) for each in nodes}) < len(nodes):
        unproven("what Spark SQL computes of two parts that are alike is only known to it")


def parts_of(node: Node, is_joint: Callable[[Node], bool]) -> tuple[Node, ...]:
    """The parts that operators of some kind put together in a node."""
    if not is_joint(node):
        return (node,)
    return tuple(part for each in _below(node) for part in parts_of(each, is_joint))


def _reads(node: Node) -> tuple[str, ...]:
    """The columns and literals in a node, sorted."""
    below = _below(node)
    return tuple(sorted(name for each in below for name in _reads(each))) if below else (repr(node),)


def _below(value: Any) -> tuple[Node, ...]:
    """The nodes right below a node, also those in its tuples."""
    found: list[Node] = []
    for part in value if isinstance(value, tuple) else vars(value).values():
        if isinstance(part, tuple):
            found += _below(part)
        elif is_dataclass(part):
            found.append(cast(Node, part))
    return tuple(found)


def unproven_of(tree: exp.Expr, nodes: tuple[Node, ...]) -> NoReturn:
    """Raise UnprovenError for an operator of operands with these types."""
    types = ", ".join(ddl(each.data_type) for each in nodes)
    unproven(f"`{name_of(tree)}` of {types} is only proven in Spark SQL")


def unproven(reason: str) -> NoReturn:
    """Raise UnprovenError."""
    raise UnprovenError(reason)
