"""The forms of arithmetic, bitwise operators and functions of numbers, including decimals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ..kernels import ceiled, floored, roots, rounded, rounded_to_even, signs
from ..misread import name_of
from ..nodes import Call, Constant, Division, Node, Quotient, Tried
from ..promotion import (
    BIGINT,
    DOUBLE,
    INT,
    WHOLE,
    as_type,
    is_constant,
    is_decimal,
    is_null,
    is_number,
    parts_of,
    refuse_alike,
    refuse_folding,
    type_of_decimals,
    type_of_whole,
    unproven,
    unproven_of,
)
from .form import Forms, Reader, both, operand, two

# The operands of decimal arithmetic.


def decimals(reader: Reader, tree: exp.Expr) -> tuple[Node, Node] | None:
    """The two operands as decimals, with their own precision and scale; None if this is no decimal arithmetic.

    It is decimal arithmetic if one operand is a decimal and none is a double. Raises UnprovenError.
    """
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
    # For an integer literal Spark uses the digits of the literal. For an expression of literals it uses those of the
    # type.
    bare = tree.unnest()
    if node.value is None or not isinstance(bare.this if isinstance(bare, exp.Neg) else bare, exp.Literal):
        unproven("how many digits a number has beside a decimal is only known to Spark SQL")
    return as_type(node, pa.decimal128(len(str(abs(node.value))), 0))


# Arithmetic.

_ONLY_NEGATIVE = frozenset(str(2**bits) for bits in (7, 15, 31, 63))
"""Literals that fit into a type only if the minus before them belongs to the literal, such as -2147483648."""

_MOST_EXACT = 34
"""The maximum precision of a decimal that Spark negates exactly. Spark rounds decimals with more digits."""

_Kernels = tuple[Callable[..., Any], Callable[..., Any]]
"""The kernel for doubles, and the checked kernel for integers."""

_CALCULATIONS: Mapping[type[exp.Expr], _Kernels] = {
    exp.Add: (pc.add, pc.add_checked),
    exp.Sub: (pc.subtract, pc.subtract_checked),
    exp.Mul: (pc.multiply, pc.multiply_checked),
}


def _negative(reader: Reader, tree: exp.Neg) -> Node:
    written = tree.this.this if isinstance(tree.this, exp.Cast) else tree.this
    if isinstance(written, exp.Literal) and written.this in _ONLY_NEGATIVE:
        unproven(f"the type of -{written.this} is only known to Spark SQL")
    argument = reader.node(tree.this)
    if isinstance(argument, Constant) and argument.data_type in (INT, BIGINT, DOUBLE):
        return Constant(-argument.value, argument.data_type)
    if is_decimal(argument):
        _refuse_rounding(tree, argument)
    if isinstance(argument, Constant) and is_decimal(argument) and argument.value is not None:
        if not argument.value:
            unproven("what sign the decimal -0.0 has is only known to Spark SQL")
        return Constant(-argument.value, argument.data_type)
    return _arithmetic(tree, (pc.negate, pc.negate_checked), (argument,))


def _absolute(reader: Reader, tree: exp.Abs) -> Node:
    argument = reader.node(tree.this)
    if is_decimal(argument):
        _refuse_rounding(tree, argument)
    return _arithmetic(tree, (pc.abs, pc.abs_checked), (argument,))


def _refuse_rounding(tree: exp.Expr, argument: Node) -> None:
    if argument.data_type.precision > _MOST_EXACT:
        unproven(f"`{name_of(tree)}` of a decimal with more than {_MOST_EXACT} digits is rounded by Spark SQL")


def _calculation(reader: Reader, tree: exp.Expr) -> Node:
    operands = decimals(reader, tree)
    if operands is None:
        return _arithmetic(tree, _CALCULATIONS[type(tree)], both(reader, tree))
    sign = "*" if isinstance(tree, exp.Mul) else "+"
    data_type = type_of_decimals(sign, *(each.data_type for each in operands))
    if data_type is None:
        unproven_of(tree, operands)
    return Call(_CALCULATIONS[type(tree)][0], operands, data_type)


def _arithmetic(tree: exp.Expr, kernels: _Kernels, arguments: tuple[Node, ...]) -> Node:
    plain, checked = kernels
    data_type = arguments[0].data_type
    if data_type == DOUBLE or is_decimal(arguments[0]):
        return Call(plain, arguments, data_type)
    if data_type not in WHOLE:
        unproven_of(tree, arguments)
    node = Call(checked, arguments, data_type, fails=True)
    parts = parts_of(node, lambda each: isinstance(each, Call) and each.kernel is checked)
    if len(parts) > 2 and len([each for each in parts if is_constant(each)]) > 1:
        unproven("Spark SQL may calculate with two literals first, and so without an overflow")
    return node


def _division(reader: Reader, tree: exp.Div) -> Node:
    operands = decimals(reader, tree)
    if operands is not None:
        quotient = type_of_decimals("/", *(each.data_type for each in operands))
        if quotient is None:
            unproven_of(tree, operands)
        return Quotient(*operands, quotient)
    left, right = reader.node(tree.this), reader.node(tree.expression)
    if not is_number(left.data_type) or not is_number(right.data_type) or is_null(left) or is_null(right):
        unproven_of(tree, (left, right))
    return Division("/", as_type(left, DOUBLE), as_type(right, DOUBLE), DOUBLE)


def _whole_division(reader: Reader, tree: exp.IntDiv) -> Node:
    left, right = reader.node(tree.this), reader.node(tree.expression)
    if left.data_type not in WHOLE or right.data_type not in WHOLE or is_null(left) or is_null(right):
        unproven_of(tree, (left, right))
    return Division("div", as_type(left, BIGINT), as_type(right, BIGINT), BIGINT)


def _remainder(reader: Reader, tree: exp.Mod | exp.Anonymous) -> Node:
    """`%`, and `pmod`, which is read by its name."""
    left, right = two(reader, tree, tree.expressions or (tree.this, tree.expression))
    if left.data_type not in (*WHOLE, DOUBLE) or is_null(left) or is_null(right):
        unproven_of(tree, (left, right))
    return Division("%" if isinstance(tree, exp.Mod) else "pmod", left, right, left.data_type)


def _bits(reader: Reader, tree: exp.Expr) -> Node:
    left, right = both(reader, tree)
    if left.data_type not in WHOLE or left.may_fail or right.may_fail or is_null(left) or is_null(right):
        unproven_of(tree, (left, right))
    return Call(_BITS[type(tree)], (left, right), left.data_type)


def _inverted_bits(reader: Reader, tree: exp.BitwiseNot) -> Node:
    argument = operand(reader, tree, tree.this, *WHOLE)
    return Call(pc.bit_wise_not, (argument,), argument.data_type)


def _to_whole(reader: Reader, tree: exp.Floor | exp.Ceil) -> Node:
    argument = operand(reader, tree, tree.this, *WHOLE, DOUBLE)
    if argument.data_type in WHOLE:
        return as_type(argument, BIGINT)
    return Call(floored if isinstance(tree, exp.Floor) else ceiled, (argument,), BIGINT, fails=True)


def _round(reader: Reader, tree: exp.Round) -> Node:
    return _rounded(reader, tree, tree.this, tree.args.get("decimals"), rounded)


def _bround(reader: Reader, tree: exp.Anonymous) -> Node:
    number, *places = tree.expressions
    return _rounded(reader, tree, number, places[0] if places else None, rounded_to_even)


def _rounded(
    reader: Reader, tree: exp.Expr, number: exp.Expr, places: exp.Expr | None, kernel: Callable[..., Any]
) -> Node:
    argument, to = reader.node(number), None if places is None else reader.node(places)
    if not (to is None or (isinstance(to, Constant) and to.data_type == INT)):
        unproven_of(tree, (argument, to))
    digits = 0 if to is None else to.value
    if argument.data_type in WHOLE and digits is not None and digits >= 0:
        return argument
    if argument.data_type != DOUBLE or digits != 0:
        unproven(f"`{name_of(tree)}` is only proven to whole numbers, as digits of doubles differ by version of Java")
    return Call(kernel, (argument,), DOUBLE)


def _of_double(kernel: Callable[..., Any], reader: Reader, tree: exp.Expr) -> Node:
    argument = operand(reader, tree, tree.this, *WHOLE, DOUBLE)
    return Call(kernel, (as_type(argument, DOUBLE),), DOUBLE)


def _positive(reader: Reader, tree: exp.Anonymous) -> Node:
    return operand(reader, tree, tree.expressions[0], *WHOLE, DOUBLE)


def _tried(read: Callable[[Reader, Any], Node], as_read: type[exp.Expr], reader: Reader, tree: exp.Expr) -> Node:
    arguments = (reader.node(tree.this), reader.node(tree.expression))
    if any(each.may_fail for each in arguments):
        unproven(f"which errors `{name_of(tree)}` catches is only known to Spark SQL")
    tried = read(reader, as_read(this=tree.this.copy(), expression=tree.expression.copy()))
    return Tried(tried, tried.data_type)


_BITS: Mapping[type[exp.Expr], Callable[..., Any]] = {
    exp.BitwiseAnd: pc.bit_wise_and,
    exp.BitwiseOr: pc.bit_wise_or,
    exp.BitwiseXor: pc.bit_wise_xor,
}

NUMBER_FORMS: Forms = {
    exp.Neg: _negative,
    exp.Abs: _absolute,
    **dict.fromkeys(_CALCULATIONS, _calculation),
    exp.Div: _division,
    exp.IntDiv: _whole_division,
    exp.Mod: _remainder,
    "pmod": _remainder,
    exp.Negative: _negative,
    "positive": _positive,
    **dict.fromkeys(_BITS, _bits),
    exp.BitwiseNot: _inverted_bits,
    exp.Floor: _to_whole,
    exp.Ceil: _to_whole,
    exp.Round: _round,
    "bround": _bround,
    exp.Sign: partial(_of_double, signs),
    exp.Sqrt: partial(_of_double, roots),
    exp.SafeAdd: partial(_tried, _calculation, exp.Add),
    exp.SafeSubtract: partial(_tried, _calculation, exp.Sub),
    exp.SafeMultiply: partial(_tried, _calculation, exp.Mul),
    exp.SafeDivide: partial(_tried, _division, exp.Div),
}
