"""Arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow.compute as pc
from sqlglot import exp

from ..nodes import Call, Constant, Division, Node
from ..promotion import (
    BIGINT,
    DECIMAL,
    DOUBLE,
    INT,
    WHOLE,
    alike,
    as_type,
    is_constant,
    is_decimal,
    is_null,
    parts_of,
    unproven,
    unproven_of,
)
from .form import Forms, Reader, both, form

_ONLY_NEGATIVE = frozenset(str(2**bits) for bits in (7, 15, 31, 63))
"""Numbers that have a place in a type only with a minus in front, which is then a part of the literal."""

_Kernels = tuple[Callable[..., Any], Callable[..., Any]]
"""The kernel for doubles, and the one for whole numbers, which may overflow."""

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
    if isinstance(argument, Constant) and is_decimal(argument) and not argument.value.startswith("-"):
        if not float(argument.value):
            unproven("what sign the decimal -0.0 has is only known to Spark SQL")
        return Constant(f"-{argument.value}", DECIMAL)
    return _arithmetic(tree, (pc.negate, pc.negate_checked), (argument,))


def _absolute(reader: Reader, tree: exp.Abs) -> Node:
    return _arithmetic(tree, (pc.abs, pc.abs_checked), (reader.node(tree.this),))


def _calculation(reader: Reader, tree: exp.Expr) -> Node:
    return _arithmetic(tree, _CALCULATIONS[type(tree)], both(reader, tree))


def _arithmetic(tree: exp.Expr, kernels: _Kernels, arguments: tuple[Node, ...]) -> Node:
    plain, checked = kernels
    data_type = arguments[0].data_type
    if data_type == DOUBLE:
        return Call(plain, arguments, data_type)
    if data_type not in WHOLE:
        unproven_of(tree, arguments)
    node = Call(checked, arguments, data_type, checked=True)
    parts = parts_of(node, lambda each: isinstance(each, Call) and each.kernel is checked)
    if len(parts) > 2 and len([each for each in parts if is_constant(each)]) > 1:
        unproven("Spark SQL may calculate with two literals first, and so without an overflow")
    return node


def _division(reader: Reader, tree: exp.Div) -> Node:
    left, right = reader.node(tree.this), reader.node(tree.expression)
    if not all(each.data_type in (*WHOLE, DOUBLE) or is_decimal(each) for each in (left, right)):
        unproven_of(tree, (left, right))
    if is_null(left) or is_null(right):
        unproven_of(tree, (left, right))
    if is_decimal(left) or is_decimal(right):
        left, right = alike(tree, (left, right))
    return Division("/", as_type(left, DOUBLE), as_type(right, DOUBLE), DOUBLE)


def _whole_division(reader: Reader, tree: exp.IntDiv) -> Node:
    left, right = reader.node(tree.this), reader.node(tree.expression)
    if left.data_type not in WHOLE or right.data_type not in WHOLE or is_null(left) or is_null(right):
        unproven_of(tree, (left, right))
    return Division("div", as_type(left, BIGINT), as_type(right, BIGINT), BIGINT)


def _remainder(reader: Reader, tree: exp.Mod) -> Node:
    left, right = both(reader, tree)
    if left.data_type not in (*WHOLE, DOUBLE) or is_null(left) or is_null(right):
        unproven_of(tree, (left, right))
    return Division("%", left, right, left.data_type)


FORMS: Forms = {
    exp.Neg: form(_negative, "this"),
    exp.Abs: form(_absolute, "this"),
    **dict.fromkeys(_CALCULATIONS, form(_calculation, "this", "expression")),
    exp.Div: form(_division, "this", "expression", "safe"),
    exp.IntDiv: form(_whole_division, "this", "expression"),
    exp.Mod: form(_remainder, "this", "expression"),
}
