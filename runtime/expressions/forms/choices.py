"""Forms that compute only one of several values."""

from __future__ import annotations

from sqlglot import exp

from ..nodes import Choice, Coalesce, Constant, Node
from ..promotion import COMPARED, NULL, alike, is_constant, unproven, unproven_of
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
    if default.data_type not in COMPARED:
        unproven_of(tree, (default,))
    return Choice(tuple(zip(conditions, chosen, strict=True)), default, default.data_type)


def _coalesce(reader: Reader, tree: exp.Coalesce) -> Node:
    arguments = alike(tree, tuple(map(reader.node, (tree.this, *tree.expressions))))
    if arguments[0].data_type not in COMPARED:
        unproven_of(tree, arguments)
    return Coalesce(arguments, arguments[0].data_type)


FORMS: Forms = {
    exp.Case: form(_case, "this", "ifs", "default"),
    exp.If: form(_if, "this", "true", "false"),
    exp.Coalesce: form(_coalesce, "this", "expressions"),
}
