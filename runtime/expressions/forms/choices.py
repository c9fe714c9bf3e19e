"""Forms that compute only one of several values."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ..kernels import greatest, least
from ..nodes import BOOLEAN, Call, Choice, Coalesce, Constant, Node
from ..promotion import DOUBLE, NULL, alike, is_compared, is_constant, unproven, unproven_of
from .form import Forms, Reader, form, predicate


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
    """A part of a function as a part of an operator, with its borders."""
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


FORMS: Forms = {
    exp.Case: form(_case, "this", "ifs", "default"),
    exp.If: form(_if, "this", "true", "false"),
    exp.Nvl2: form(_nvl2, "this", "true", "false"),
    exp.Nullif: form(_nullif, "this", "expression"),
    exp.Nanvl: form(_nanvl, "this", "expression"),
    exp.Greatest: form(_extreme, "this", "expressions", "ignore_nulls"),
    exp.Least: form(_extreme, "this", "expressions", "ignore_nulls"),
    exp.Coalesce: form(_coalesce, "this", "expressions"),
}
