"""Type promotion by Spark's ANSI rules, constant folding, and the error for unsupported SQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from ...errors import HeadwaterError
from ..records.types import arrow_type, ddl
from .kernels import Batch, as_double
from .misread import name_of
from .nodes import BOOLEAN, Call, Cast, Column, Constant, Node, below
from .terms import MAX_DIGITS, UntypedError, exact_size, size, widest

# Decimals. Only results that fit into 38 digits for all possible values are supported. Spark never reduces the scale of
# those, and addition and multiplication cannot overflow.


def type_of_whole(data_type: pa.DataType) -> pa.DataType:
    """The decimal type for all integers of a type: decimal(10, 0) for int32."""
    return pa.decimal128(*size(ddl(data_type)))


def type_of_decimals(sign: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of `left sign right` for decimals, in Spark and in Arrow. None if too wide.

    Spark rounds quotients to 39 digits first. So only types with few enough digits are supported, for which this has
    no effect.
    """
    digits, scale = exact_size(sign, (left.precision, left.scale), (right.precision, right.scale))
    most = MAX_DIGITS - right.precision - 1 if sign == "/" else MAX_DIGITS
    return pa.decimal128(digits, scale) if digits <= most else None


# Spark's ANSI rules for the common type of operands. Combinations that are not supported raise UnprovenError.

INT, BIGINT, DOUBLE, STRING = pa.int32(), pa.int64(), pa.float64(), pa.string()
NULL = pa.null()
"""The type of the literal `null`, until it is promoted to the type of the other operands."""

WHOLE = (pa.int8(), pa.int16(), INT, BIGINT)
COMPARED = (*WHOLE, BOOLEAN, DOUBLE, STRING, pa.date32(), pa.timestamp("us", "UTC"))


class UnprovenError(HeadwaterError):
    """An expression is not supported here, so Spark must evaluate it. `reason`: the unsupported part."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def alike(tree: exp.Expr, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The operands of `tree`, cast to their common type by Spark's rules. Raises UnprovenError if they have none."""
    types = {each.data_type for each in nodes} - {NULL}
    widest = types.pop() if len(types) == 1 else _widest(types)
    if widest is None:
        unproven_of(tree, nodes)
    return tuple(as_type(each, widest) for each in nodes)


def _widest(types: set[pa.DataType]) -> pa.DataType | None:
    if not types or not all(map(is_number, types)):
        return None
    with suppress(UntypedError):
        return arrow_type(widest([ddl(each) for each in types]))
    return None


def as_type(node: Node, data_type: pa.DataType) -> Node:
    """A node cast to a wider type."""
    if node.data_type == data_type:
        return node
    if isinstance(node, Constant):
        value = float(node.value) if data_type == DOUBLE and node.value is not None else node.value
        return Constant(value, data_type)
    return Call(as_double, (node,), DOUBLE) if is_decimal(node) and data_type == DOUBLE else Cast(node, data_type)


def folded(node: Node) -> Node:
    """Constant folding, as in Spark's optimizer: a node that reads no column becomes a literal.

    Raises UnprovenError if the evaluation fails.
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
    return isinstance(node, Column) or any(map(_has_column, below(node)))


def is_constant(node: Node) -> bool:
    """Whether a node is a literal."""
    return isinstance(node, Constant)


def is_null(node: Node) -> bool:
    """Whether a node is the literal `null`."""
    return isinstance(node, Constant) and node.value is None


def is_decimal(node: Node) -> bool:
    """Whether a node has a decimal type."""
    return bool(pa.types.is_decimal128(node.data_type))


def is_number(data_type: pa.DataType) -> bool:
    """Whether a type is an integer, double or decimal type."""
    return data_type in (*WHOLE, DOUBLE) or pa.types.is_decimal128(data_type)


def is_compared(data_type: pa.DataType) -> bool:
    """Whether comparisons, `case` and `coalesce` support a type."""
    return data_type in COMPARED or pa.types.is_decimal128(data_type)


def refuse_folding(nodes: tuple[Node, ...], decides: Callable[[Node], bool]) -> None:
    """Raise UnprovenError if a literal operand decides the result, and another operand may fail.

    Spark's optimizer then removes the other operand, and its errors too.
    """
    if any(each.may_fail for each in nodes) and any(map(decides, nodes)):
        unproven("what Spark SQL omits if a literal decides is only known to Spark SQL")


def refuse_alike(nodes: tuple[Node, ...]) -> None:
    """Raise UnprovenError if an operand may fail and two operands may be equivalent for Spark's optimizer.

    The optimizer evaluates only one of two equivalent operands, or none, so errors may differ. It recognizes that
    `a > b` is `b < a` and `not a <= b`. So two operands with the same columns and literals count as equivalent.
    """
    if any(each.may_fail for each in nodes) and len({_reads(each) for each in nodes}) < len(nodes):
        unproven("what Spark SQL computes of two parts that are alike is only known to it")


def parts_of(node: Node, is_joint: Callable[[Node], bool]) -> tuple[Node, ...]:
    """The operands of a chain of operators: `a`, `b`, `c` of `a and b and c`. `is_joint`: whether a node is one."""
    if not is_joint(node):
        return (node,)
    return tuple(part for each in below(node) for part in parts_of(each, is_joint))


def _reads(node: Node) -> tuple[str, ...]:
    """The columns and literals below a node, sorted."""
    parts = below(node)
    return tuple(sorted(name for part in parts for name in _reads(part))) if parts else (repr(node),)


def unproven_of(tree: exp.Expr, nodes: tuple[Node, ...]) -> NoReturn:
    """Raise UnprovenError for an operator that does not support the types of its operands."""
    types = ", ".join(ddl(each.data_type) for each in nodes)
    unproven(f"`{name_of(tree)}` of {types} is only proven in Spark SQL")


def unproven(reason: str) -> NoReturn:
    """Raise UnprovenError with a reason."""
    raise UnprovenError(reason)
