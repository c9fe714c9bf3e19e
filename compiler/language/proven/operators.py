"""The types of operators, choices and casts."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ....runtime.expressions.misread import name_of
from ...types import canonical
from .forms import Form, Terms, common, compared, refuse
from .numbers import calculated, is_number
from .terms import unproven
from .times import TIMES, is_written_out

_WORDS: Mapping[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
}


def _calculation(tree: exp.Expr, terms: Terms) -> str:
    left, right = terms
    if not is_number(left.type) or not is_number(right.type):
        refuse(tree, terms)
    return calculated(_WORDS[type(tree)], left, right)


def _negative(tree: exp.Expr, terms: Terms) -> str:
    (term,) = terms
    if not is_number(term.type):
        refuse(tree, terms)
    return term.type


def _comparison(tree: exp.Expr, terms: Terms) -> str:
    compared(tree, terms)
    return "boolean"


def _logic(tree: exp.Expr, terms: Terms) -> str:
    if any(each.type not in ("boolean", "void") for each in terms):
        refuse(tree, terms)
    return "boolean"


def _is(tree: exp.Expr, terms: Terms) -> str:
    """`x is null`, of any type; `x is true` of booleans."""
    asked = tree.args["expression"]
    if not isinstance(asked, exp.Null) and not (isinstance(asked, exp.Boolean) and terms[0].type == "boolean"):
        refuse(tree, terms)
    return "boolean"


def _case(tree: exp.Expr, terms: Terms) -> str:
    """`case [value] when ... then ... [else ...] end`."""
    count = len(tree.args["ifs"])
    value = terms[: 1 if tree.args.get("this") else 0]
    rest = terms[len(value) :]
    conditions, results = rest[:count], rest[count:]
    for condition in conditions:
        if value:
            compared(tree, [*value, condition])
        elif condition.type != "boolean":
            refuse(tree, [condition])
    return common(tree, results)


def _if(tree: exp.Expr, terms: Terms) -> str:
    condition, *results = terms
    if condition.type != "boolean" or len(results) != 2:
        refuse(tree, terms)
    return common(tree, results)


def _joined(tree: exp.Expr, terms: Terms) -> str:
    """Texts, and other values beside a text, which become texts."""
    types = {each.type for each in terms}
    if "string" not in types or not all(each == "boolean" or each in _WRITTEN or is_number(each) for each in types):
        refuse(tree, terms)
    return "string"


_WRITTEN = frozenset({"string", *TIMES})


_NUMBERS_ALSO_FROM = frozenset({"boolean", "string"})
_CASTS: Mapping[str, frozenset[str]] = {
    "boolean": frozenset({"string"}),
    "date": frozenset({"string", "timestamp", "timestamp_ntz"}),
    "timestamp": frozenset({"string", "date", "timestamp_ntz"}),
    "timestamp_ntz": frozenset({"string", "date", "timestamp"}),
    "string": frozenset({"boolean", *TIMES}),
}
"""A type, and the types that become it besides numbers."""


def _cast(tree: exp.Expr, terms: Terms) -> str:
    (term,) = terms
    try:
        wanted = canonical(tree.args["to"].sql("spark"))
    except ValueError:
        unproven("the type of a cast is only known to Spark")
    if term.constant and not is_written_out(term.text, wanted):
        unproven("what a cast of literals comes to is only known to Spark")
    if not term.constant and not _is_cast(term.type, wanted):
        unproven(f"`{name_of(tree)}` of {term.type} to {wanted} is only known to Spark")
    return wanted


def _is_cast(given: str, wanted: str) -> bool:
    if is_number(given):
        return is_number(wanted) or wanted in ("boolean", "string")
    return given == wanted or given in (_NUMBERS_ALSO_FROM if is_number(wanted) else _CASTS.get(wanted, ()))


_BOTH = ("this", "expression")
_CALCULATION = Form(_calculation, _BOTH, frozenset({"safe", "typed"}))
_COMPARISON = Form(_comparison, _BOTH)
_LOGIC = Form(_logic, _BOTH)
_CAST = Form(_cast, ("this",), frozenset({"to", "safe"}), of_constants=True)

OPERATORS: Mapping[type[exp.Expr], Form] = {
    **dict.fromkeys(_WORDS, _CALCULATION),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ), _COMPARISON),
    **dict.fromkeys((exp.And, exp.Or), _LOGIC),
    **dict.fromkeys((exp.Cast, exp.TryCast), _CAST),
    exp.Not: Form(_logic, ("this",)),
    exp.Neg: Form(_negative, ("this",), of_constants=True),
    exp.Between: Form(_comparison, ("this", "low", "high")),
    exp.In: Form(_comparison, ("this", "expressions")),
    exp.Is: Form(_is, ("this",), frozenset({"expression"})),
    exp.Case: Form(_case, ("this", "ifs", "default")),
    exp.If: Form(_if, ("this", "true", "false")),
    exp.Coalesce: Form(common, ("this", "expressions")),
    exp.Nullif: Form(lambda tree, terms: compared(tree, terms) and terms[0].type, _BOTH),
    exp.DPipe: Form(_joined, _BOTH, frozenset({"safe"})),
    # Also a text with a quote in it, which sqlglot reads as two texts.
    exp.Concat: Form(_joined, ("expressions",), frozenset({"safe", "coalesce"}), of_constants=True),
}
