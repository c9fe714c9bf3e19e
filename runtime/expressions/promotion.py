"""Types that both sides are promoted to, and quotients of decimals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, NoReturn, cast

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ...errors import HeadwaterError
from ..records.arrays import to_numpy
from ..records.types import ddl
from .kernels import Batch, Value, either, of_arguments, within, without
from .misread import name_of
from .nodes import BOOLEAN, Call, Cast, Column, Constant, Node

# Decimals: Spark's rules for the precision and scale of what is computed, and the kernels that differ from Arrow's.
#
# Only where the result has a place in 38 digits whatever the values are: there Spark changes no scale, and adding and
# multiplying cannot overflow.

_MOST_DIGITS = 38
_UP = "half_towards_infinity"
_OF_WHOLE = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}


def decimal_type(digits: int, scale: int) -> pa.DataType | None:
    """The type with so many digits, `scale` of them behind the point; None if there is none."""
    return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else None


def type_of_literal(value: Decimal | int) -> pa.DataType | None:
    """The narrowest type that a literal has a place in."""
    _, digits, exponent = Decimal(value).as_tuple()
    scale = -int(exponent)
    return decimal_type(max(len(digits), scale), scale)


def type_of_whole(data_type: pa.DataType) -> pa.DataType:
    """The type with a place for all whole numbers of a type."""
    return pa.decimal128(_OF_WHOLE[data_type], 0)


def wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type with a place for all values of two."""
    scale = max(left.scale, right.scale)
    return decimal_type(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def type_of_sum(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of `+` and `-`, which is also Arrow's."""
    both = wider(left, right)
    return None if both is None else decimal_type(both.precision + 1, both.scale)


def type_of_product(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of `*`, which is also Arrow's."""
    return decimal_type(left.precision + right.precision + 1, left.scale + right.scale)


def type_of_quotient(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of `/`. Spark rounds to 39 digits first: so only with digits enough that this changes nothing."""
    scale = max(6, left.scale + right.precision + 1)
    digits = left.precision - left.scale + right.scale + scale
    return decimal_type(digits, scale) if digits + right.precision < _MOST_DIGITS else None


def quotient(left: pa.Array, right: pa.Array, result: pa.DataType) -> Value:
    """`/`, which fails where the divisor is 0 and nothing is null; halves are rounded away from 0."""
    zero = to_numpy(pc.fill_null(pc.equal(right, pa.scalar(Decimal(0), right.type)), False))
    failed = within(zero, to_numpy(left.is_valid()))
    divisor = pc.cast(without(right, zero), pa.decimal256(right.type.precision, right.type.scale))
    # Arrow gives the scale of the dividend and the digits of the divisor: one more than is wanted, cut off.
    scale = result.scale - right.type.precision + right.type.scale
    digits = left.type.precision - left.type.scale + scale
    exact = pc.divide(pc.cast(left, pa.decimal256(digits, scale)), divisor)
    return Value(without(pc.cast(pc.round(exact, result.scale, round_mode=_UP), result), failed), failed)


def as_decimal(data: pa.Array | pa.Scalar, data_type: pa.DataType) -> Any:
    """Whole numbers or decimals as another type, halves rounded away from 0. ArrowInvalid: too many digits."""
    if not pa.types.is_decimal(data.type):
        data = pc.cast(data, pa.decimal256(20 + data_type.scale, data_type.scale))
    wide = pc.cast(data, pa.decimal256(76 - _MOST_DIGITS + data.type.scale, data.type.scale))
    if data_type.scale < data.type.scale:
        wide = pc.round(wide, data_type.scale, round_mode=_UP)
    return pc.cast(wide, data_type)


def as_whole(data: pa.Array | pa.Scalar, data_type: pa.DataType) -> Any:
    """Decimals as whole numbers, cut off. Raises ArrowInvalid for those that are too large."""
    # Arrow takes no decimal for a whole number that has no digit in front of the point.
    wide = pc.cast(data, pa.decimal256(2 * _MOST_DIGITS, data.type.scale))
    return pc.cast(pc.trunc(wide), data_type)


def as_double(data: pa.Array | pa.Scalar) -> Any:
    """Decimals as the doubles nearest to them."""
    return pc.cast(pc.cast(data, pa.string()), pa.float64())


# The types of Spark's ANSI rules: which type the operands of an operator get, and where only Spark knows.

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
        unproven("what Spark SQL omits if a literal decides is only known to Spark SQL")


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


# The node of a division of decimals.


@dataclass(frozen=True)
class Quotient:
    """`/` of decimals, which fails where the divisor is 0."""

    left: Node
    right: Node
    data_type: pa.DataType
    may_fail: bool = True

    def of(self, batch: Batch) -> Value:
        """See `Node`. Spark computes the divisor first."""
        right, left = self.right.of(batch), self.left.of(batch)
        found = quotient(left.array(batch.rows), right.array(batch.rows), self.data_type)
        return Value(found.data, either(of_arguments([right, left], batch.rows), found.failed))
