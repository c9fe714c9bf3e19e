"""The forms of comparisons, boolean logic, conditional functions and casts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ....errors import HeadwaterError
from ...records.types import arrow_type, ddl
from ..functions.casts import booleans, doubles, long_numbers, whole_numbers
from ..kernels import as_decimal, as_whole, greatest, least
from ..misread import name_of
from ..nodes import (
    BOOLEAN,
    Call,
    Cast,
    Choice,
    Coalesce,
    Comparison,
    Constant,
    IsNull,
    Logic,
    Node,
    NullSafeEqual,
    OneOf,
    Parsed,
    Tried,
)
from ..promotion import (
    BIGINT,
    DOUBLE,
    NULL,
    STRING,
    WHOLE,
    alike,
    as_type,
    is_compared,
    is_constant,
    is_decimal,
    parts_of,
    refuse_alike,
    unproven,
    unproven_of,
)
from .form import Forms, Reader, both, predicate
from .times import cast_of

# Comparisons and boolean logic.

_COMPARISONS: Mapping[type[exp.Expr], Callable[..., Any]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}


def _comparison(reader: Reader, tree: exp.Expr) -> Node:
    return Comparison(_COMPARISONS[type(tree)], *_compared(reader, tree))


def _compared(reader: Reader, tree: exp.Expr) -> tuple[Node, Node]:
    left, right = both(reader, tree)
    if not is_compared(left.data_type):
        unproven_of(tree, (left, right))
    return left, right


def _null_safe(reader: Reader, tree: exp.NullSafeEQ) -> Node:
    left, right = _compared(reader, tree)
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
        unproven(f"what Spark SQL omits for a literal beside `{name_of(tree)}` is only known to it")
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


LOGIC_FORMS: Forms = {
    **dict.fromkeys(_COMPARISONS, _comparison),
    exp.NullSafeEQ: _null_safe,
    exp.Between: _between,
    exp.And: _logic,
    exp.Or: _logic,
    exp.Not: _negation,
    exp.Is: _is,
    "isnull": _is_null,
    "isnotnull": _is_not_null,
    exp.IsNan: _is_nan,
    exp.In: _one_of,
}


# Forms that choose one of several values, such as `case`.


def _case(reader: Reader, tree: exp.Case) -> Node:
    conditions, values = [], []
    for each in tree.args["ifs"]:
        condition = each.this
        if tree.this is not None:
            condition = exp.EQ(this=tree.this.copy(), expression=condition.copy())
        conditions.append(predicate(reader, condition))
        values.append(reader.node(each.args["true"]))
    default = tree.args.get("default")
    return _choice(tree, conditions, [*values, Constant(None, NULL) if default is None else reader.node(default)])


def _if(reader: Reader, tree: exp.If) -> Node:
    otherwise = tree.args.get("false")
    if otherwise is None:
        unproven("`if` without its third argument is only known to Spark SQL")
    values = [reader.node(tree.args["true"]), reader.node(otherwise)]
    return _choice(tree, [predicate(reader, tree.this)], values)


def _choice(tree: exp.Expr, conditions: list[Node], values: list[Node]) -> Node:
    if any(map(is_constant, conditions)):
        unproven("a condition that is written down as `true`, `false` or `null` is left to Spark SQL")
    if any(each.may_fail for each in conditions):
        unproven("whether Spark SQL asks for a condition that may fail is only known to it")
    *chosen, default = alike(tree, tuple(values))
    if not is_compared(default.data_type) and not pa.types.is_struct(default.data_type):
        unproven_of(tree, (default,))
    return Choice(tuple(zip(conditions, chosen, strict=True)), default, default.data_type)


def _coalesce(reader: Reader, tree: exp.Coalesce) -> Node:
    arguments = alike(tree, tuple(map(reader.node, (tree.this, *tree.expressions))))
    if not is_compared(arguments[0].data_type):
        unproven_of(tree, arguments)
    return Coalesce(arguments, arguments[0].data_type)


def _nvl2(reader: Reader, tree: exp.Nvl2) -> Node:
    asked = exp.Not(this=exp.Is(this=tree.this.copy(), expression=exp.Null()))
    return _choice(
        tree, [predicate(reader, asked)], [reader.node(tree.args["true"]), reader.node(tree.args.get("false"))]
    )


def _nullif(reader: Reader, tree: exp.Nullif) -> Node:
    value = reader.node(tree.this)
    asked = predicate(reader, exp.EQ(this=_bare(tree.this), expression=_bare(tree.expression)))
    return _choice(tree, [asked], [Constant(None, NULL), value])


def _bare(tree: exp.Expr) -> exp.Paren:
    """An argument of a function as an operand of an operator: in parentheses."""
    return exp.Paren(this=tree.copy())


def _nanvl(reader: Reader, tree: exp.Nanvl) -> Node:
    value, other = alike(tree, (reader.node(tree.this), reader.node(tree.expression)))
    if value.data_type != DOUBLE or value.may_fail or other.may_fail or is_constant(value):
        unproven_of(tree, (value, other))
    return Choice(((Call(pc.is_nan, (value,), BOOLEAN), other),), value, DOUBLE)


def _extreme(reader: Reader, tree: exp.Greatest | exp.Least) -> Node:
    arguments = alike(tree, tuple(map(reader.node, (tree.this, *tree.expressions))))
    if not is_compared(arguments[0].data_type) or any(each.may_fail for each in arguments) or len(arguments) < 2:
        unproven_of(tree, arguments)
    return Call(greatest if isinstance(tree, exp.Greatest) else least, arguments, arguments[0].data_type)


CHOICE_FORMS: Forms = {
    exp.Case: _case,
    exp.If: _if,
    exp.Nvl2: _nvl2,
    exp.Nullif: _nullif,
    exp.Nanvl: _nanvl,
    exp.Greatest: _extreme,
    exp.Least: _extreme,
    exp.Coalesce: _coalesce,
}


# Casts.

_PLAIN = 6
"""The maximum scale of a decimal that is cast to a string."""


def _cast(reader: Reader, tree: exp.Cast) -> Node:
    argument, wanted = reader.node(tree.this), _type_of(tree.args["to"])
    if argument.data_type == wanted:
        return argument
    timed = cast_of(argument, wanted)
    if timed is not None and tree.args.get("safe"):
        unproven("`try_cast` of dates and timestamps is only proven in Spark SQL")
    node = timed or _converted(argument, wanted)
    if node is None:
        written = tree.args["to"].sql("spark")
        unproven(f"a cast from {ddl(argument.data_type)} to {written} is only proven in Spark SQL")
    if not tree.args.get("safe"):
        return node
    if argument.may_fail:
        unproven("which errors `try_cast` catches is only known to Spark SQL")
    return Tried(node, node.data_type)


def _converted(argument: Node, wanted: pa.DataType) -> Node | None:
    """A cast to another type; None if it is not supported."""
    given = argument.data_type
    if is_decimal(argument) or pa.types.is_decimal128(wanted):
        return _decimal(argument, wanted)
    if given in WHOLE and wanted in WHOLE:
        return Cast(argument, wanted, fails=WHOLE.index(wanted) < WHOLE.index(given))
    if given in (*WHOLE, BOOLEAN) and wanted in (*WHOLE, DOUBLE, BOOLEAN, STRING):
        return Cast(argument, wanted)
    if given == DOUBLE and wanted == BIGINT:
        return Call(long_numbers, (argument,), BIGINT, fails=True)
    if given == DOUBLE and wanted in WHOLE:
        return Cast(argument, wanted, fails=True)
    if given == DOUBLE and wanted == BOOLEAN:
        return Cast(argument, wanted)
    if given != STRING or argument.may_fail:
        return None
    if wanted in WHOLE:
        return Parsed(partial(whole_numbers, data_type=wanted), argument, wanted)
    if wanted == DOUBLE:
        return Parsed(doubles, argument, DOUBLE)
    return Parsed(booleans, argument, BOOLEAN) if wanted == BOOLEAN else None


def _decimal(argument: Node, wanted: pa.DataType) -> Node | None:
    if pa.types.is_decimal128(wanted):
        known = argument.data_type in WHOLE or is_decimal(argument)
        return Call(partial(as_decimal, data_type=wanted), (argument,), wanted, fails=True) if known else None
    if wanted in WHOLE:
        return Call(partial(as_whole, data_type=wanted), (argument,), wanted, fails=True)
    if wanted == DOUBLE:
        return as_type(argument, DOUBLE)
    # With a larger scale, Arrow writes small numbers with an exponent. Spark does not.
    return Cast(argument, STRING) if wanted == STRING and argument.data_type.scale <= _PLAIN else None


def _type_of(tree: exp.Expr) -> pa.DataType:
    try:
        return arrow_type(tree.sql("spark"))
    except HeadwaterError:
        unproven(f"the type {tree.sql('spark')} is only known to Spark SQL")


CAST_FORMS: Forms = {
    # sqlglot parses Spark's `cast` as a TryCast. With `safe` it is a `try_cast`.
    exp.TryCast: _cast,
    exp.Cast: _cast,
}
