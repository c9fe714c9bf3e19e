"""Comparisons, and what is made of booleans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow.compute as pc
from sqlglot import exp

from ..misread import name_of
from ..nodes import BOOLEAN, Call, Coalesce, Comparison, Constant, IsNull, Logic, Node, NullSafeEqual, OneOf
from ..promotion import (
    DOUBLE,
    NULL,
    alike,
    is_compared,
    is_constant,
    parts_of,
    refuse_alike,
    unproven,
    unproven_of,
)
from .form import Forms, Reader, both, form, named, predicate

_COMPARISONS: Mapping[type[exp.Expr], Callable[..., Any]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}


def _comparison(reader: Reader, tree: exp.Expr) -> Node:
    left, right = both(reader, tree)
    if not is_compared(left.data_type):
        unproven_of(tree, (left, right))
    return Comparison(_COMPARISONS[type(tree)], left, right)


def _null_safe(reader: Reader, tree: exp.NullSafeEQ) -> Node:
    left, right = both(reader, tree)
    if not is_compared(left.data_type):
        unproven_of(tree, (left, right))
    if left.may_fail or right.may_fail:
        unproven(f"what `{name_of(tree)}` does with errors is only known to Spark SQL")
    return NullSafeEqual(left, right)


def _between(reader: Reader, tree: exp.Between) -> Node:
    if reader.node(tree.this).may_fail:
        unproven("when Spark SQL computes the value for `between` is only known to it")
    low = exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
    high = exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())
    return Logic("and", reader.node(low), reader.node(high))


def _logic(reader: Reader, tree: exp.And | exp.Or) -> Node:
    left, right = predicate(reader, tree.this), predicate(reader, tree.expression)
    if is_constant(left) or is_constant(right):
        unproven(f"what Spark SQL leaves out for a literal beside `{name_of(tree)}` is only known to it")
    refuse_alike((*parts_of(left, _is_logic), *parts_of(right, _is_logic)))
    return Logic("and" if isinstance(tree, exp.And) else "or", left, right)


def _is_logic(node: Node) -> bool:
    return isinstance(node, Logic) or (isinstance(node, Call) and node.kernel is pc.invert)


def _negation(reader: Reader, tree: exp.Not) -> Node:
    return Call(pc.invert, (predicate(reader, tree.this),), BOOLEAN)


def _is(reader: Reader, tree: exp.Is) -> Node:
    if isinstance(tree.expression, exp.Boolean):
        argument = predicate(reader, tree.this)
        if argument.may_fail:
            unproven("what `is true` does with errors is only known to Spark SQL")
        return NullSafeEqual(argument, Constant(bool(tree.expression.this), BOOLEAN))
    if not isinstance(tree.expression, exp.Null):
        unproven(f"`{tree.sql('spark')}` is only proven in Spark SQL")
    return _null(reader, tree.this)


def _null(reader: Reader, tree: exp.Expr) -> Node:
    argument = reader.node(tree)
    if argument.may_fail:
        unproven("what `is null` does with errors is only known to Spark SQL")
    return IsNull(argument)


def _is_null(reader: Reader, tree: exp.Anonymous) -> Node:
    (argument,) = tree.expressions
    return _null(reader, argument)


def _is_not_null(reader: Reader, tree: exp.Anonymous) -> Node:
    return Call(pc.invert, (_is_null(reader, tree),), BOOLEAN)


def _is_nan(reader: Reader, tree: exp.IsNan) -> Node:
    argument = reader.node(tree.this)
    if argument.data_type != DOUBLE or argument.may_fail:
        unproven_of(tree, (argument,))
    return Coalesce((Call(pc.is_nan, (argument,), BOOLEAN), Constant(False, BOOLEAN)), BOOLEAN)


def _one_of(reader: Reader, tree: exp.In) -> Node:
    listed = [reader.node(each) for each in tree.expressions]
    constants = [each for each in listed if isinstance(each, Constant)]
    given = [each for each in constants if each.data_type != NULL]
    if not given or len(constants) < len(listed):
        unproven("`in` is only proven for a list of literals")
    argument, *values = alike(tree, (reader.node(tree.this), *given))
    if not is_compared(argument.data_type) or argument.data_type == DOUBLE:
        unproven_of(tree, (argument,))
    of_all = [each.value for each in values if isinstance(each, Constant)]
    return OneOf(argument, tuple(of_all), has_null=len(given) < len(listed))


FORMS: Forms = {
    **dict.fromkeys(_COMPARISONS, form(_comparison, "this", "expression")),
    exp.NullSafeEQ: form(_null_safe, "this", "expression"),
    exp.Between: form(_between, "this", "low", "high"),
    exp.And: form(_logic, "this", "expression"),
    exp.Or: form(_logic, "this", "expression"),
    exp.Not: form(_negation, "this"),
    exp.Is: form(_is, "this", "expression"),
    "isnull": named(_is_null, 1),
    "isnotnull": named(_is_not_null, 1),
    exp.IsNan: form(_is_nan, "this"),
    exp.In: form(_one_of, "this", "expressions"),
}
