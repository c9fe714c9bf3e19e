"""The types of Spark's ANSI rules: which type the operands of an operator get, and where only Spark knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, NoReturn, cast

import pyarrow as pa
from sqlglot import exp

from ...errors import HeadwaterError
from ..records.types import ddl
from .nodes import BOOLEAN, Cast, Constant, Node

INT, BIGINT, DOUBLE, STRING = pa.int32(), pa.int64(), pa.float64(), pa.string()
NULL, DECIMAL = pa.null(), pa.decimal128(38, 18)
"""The types of the literals `null`, and of one with a point, before what is beside them gives them another one."""

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
    decimals = any(map(is_decimal, nodes))
    types -= {DECIMAL} if decimals else set()
    if len(types) > 1 and types <= {*WHOLE, DOUBLE}:
        widest = DOUBLE if DOUBLE in types else max(types, key=WHOLE.index)
    elif len(types) == 1:
        (widest,) = types
    else:
        unproven_of(tree, nodes)
    if decimals and widest != DOUBLE:
        unproven("a decimal beside no double is only proven in Spark SQL")
    return tuple(as_type(each, widest) for each in nodes)


def as_type(node: Node, data_type: pa.DataType) -> Node:
    """A node as a wider type."""
    if node.data_type == data_type:
        return node
    if isinstance(node, Constant):
        value = float(node.value) if data_type == DOUBLE and node.value is not None else node.value
        return Constant(value, data_type)
    return Cast(node, data_type)


def is_constant(node: Node) -> bool:
    """Whether it is a literal."""
    return isinstance(node, Constant)


def is_null(node: Node) -> bool:
    """Whether it is the literal `null`."""
    return isinstance(node, Constant) and node.value is None


def is_decimal(node: Node) -> bool:
    """Whether it is a literal with a point."""
    return isinstance(node, Constant) and node.data_type == DECIMAL


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


def name_of(tree: exp.Expr) -> str:
    """What an operator or a function is called in a reason."""
    if isinstance(tree, exp.Anonymous):
        name: str = tree.name
        return name.lower()
    if isinstance(tree, exp.TryCast):
        return "try_cast" if tree.args.get("safe") else "cast"
    return type(tree).__name__.lower()


def unproven_of(tree: exp.Expr, nodes: tuple[Node, ...]) -> NoReturn:
    """Raise UnprovenError for an operator of operands with these types."""
    types = ", ".join(_type_name(each) for each in nodes)
    unproven(f"`{name_of(tree)}` of {types} is only proven in Spark SQL")


def unproven(reason: str) -> NoReturn:
    """Raise UnprovenError."""
    raise UnprovenError(reason)


def _type_name(node: Node) -> str:
    return "decimal" if is_decimal(node) else ddl(node.data_type)
