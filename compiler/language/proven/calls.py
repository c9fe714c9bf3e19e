"""The types of functions of one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from ....runtime.records.names import quote
from .columns_of_texts import columns_type, field_type
from .forms import Form, Rule, Terms, common, compared, refuse
from .numbers import WHOLE, is_number
from .terms import unproven

Takes = frozenset[str]

_TEXT: Takes = frozenset({"string"})
_COUNT: Takes = frozenset({"int"})
_WHOLE: Takes = frozenset(WHOLE)
_PLAIN: Takes = frozenset({*WHOLE, "float", "double"})
_DAYS: Takes = frozenset({"date", "timestamp"})
_MOMENTS: Takes = frozenset({"timestamp"})


def _of(result: str, *takes: Takes, least: int | None = None) -> Rule:
    """A function whose arguments have these types. `least`: how many there are at least; otherwise all."""

    def rule(tree: exp.Expr, terms: Terms) -> str:
        few = len(terms) < (len(takes) if least is None else least)
        if few or len(terms) > len(takes) or any(x.type not in taken for x, taken in zip(terms, takes, strict=False)):
            refuse(tree, terms)
        return result

    return rule


def _like_argument(accepts: Callable[[str], bool]) -> Rule:
    def rule(tree: exp.Expr, terms: Terms) -> str:
        if not accepts(terms[0].type):
            refuse(tree, terms)
        return terms[0].type

    return rule


def _rounded(tree: exp.Expr, terms: Terms) -> str:
    """`round(x)` and `round(x, 2)`."""
    value, *places = terms
    if value.type not in _PLAIN or any(not each.constant or each.type != "int" for each in places):
        refuse(tree, terms)
    return value.type


def _truncated(tree: exp.Expr, terms: Terms) -> str:
    """`date_trunc('day', t)`."""
    if not isinstance(tree.args["unit"], exp.Var):
        refuse(tree, terms)
    return _of("timestamp", _MOMENTS)(tree, terms)


def _greatest(tree: exp.Expr, terms: Terms) -> str:
    if len(terms) < 2:
        refuse(tree, terms)
    return compared(tree, terms)


def _array(tree: exp.Expr, terms: Terms) -> str:
    if not terms:
        refuse(tree, terms)
    return f"array<{common(tree, terms)}>"


def _size(tree: exp.Expr, terms: Terms) -> str:
    if not terms[0].type.startswith(("array<", "map<")):
        refuse(tree, terms)
    return "int"


def _contains(tree: exp.Expr, terms: Terms) -> str:
    held, sought = terms
    if held.type != f"array<{sought.type}>" or sought.type not in (*WHOLE, "string"):
        refuse(tree, terms)
    return "boolean"


def _struct(tree: exp.Expr, terms: Terms) -> str:
    """`named_struct('a', x, 'b', y)`."""
    names = [each.this.name if isinstance(each, exp.PropertyEQ) else "" for each in tree.expressions]
    if not names or any(not name or quote(name) != name for name in names) or any(x.type == "void" for x in terms):
        refuse(tree, terms)
    return f"struct<{','.join(f'{name}:{term.type}' for name, term in zip(names, terms, strict=True))}>"


def _from_json(tree: exp.Expr, terms: Terms) -> str:
    """`from_json(s, 'a int')`."""
    text, columns = terms
    if text.type != "string" or text.constant or columns.text is None:
        refuse(tree, terms)
    return columns_type(columns.text or "")


def _field(tree: exp.Expr, terms: Terms) -> str:
    """`from_json(s, 'a int').a`."""
    if not isinstance(tree.expression, exp.Identifier):
        refuse(tree, terms)
    return field_type(terms[0].type, tree.expression.name)


_ONE = ("this",)
_TWO = ("this", "expression")

CALLS: Mapping[type[exp.Expr], Form] = {
    **dict.fromkeys((exp.Upper, exp.Lower, exp.Reverse), Form(_of("string", _TEXT), _ONE)),
    exp.Trim: Form(_of("string", _TEXT), _ONE, frozenset({"position"})),
    exp.Length: Form(_of("int", _TEXT), _ONE),
    **dict.fromkeys((exp.Left, exp.Right), Form(_of("string", _TEXT, _COUNT), _TWO)),
    exp.Substring: Form(_of("string", _TEXT, _COUNT, _COUNT, least=2), ("this", "start", "length")),
    exp.Repeat: Form(_of("string", _TEXT, _COUNT), ("this", "times")),
    exp.Replace: Form(_of("string", _TEXT, _TEXT, _TEXT), ("this", "expression", "replacement")),
    exp.RegexpSplit: Form(_of("array<string>", _TEXT, _TEXT), _TWO),
    exp.StrPosition: Form(_of("int", _TEXT, _TEXT), ("this", "substr")),
    exp.ConcatWs: Form(
        lambda tree, terms: _of("string", *[_TEXT] * len(terms))(tree, terms),
        ("expressions",),
        frozenset({"safe", "coalesce", "flatten"}),
    ),
    **dict.fromkeys((exp.StartsWith, exp.EndsWith, exp.Contains), Form(_of("boolean", _TEXT, _TEXT), _TWO)),
    **dict.fromkeys((exp.Like, exp.RegexpLike), Form(_of("boolean", _TEXT, _TEXT), _TWO, frozenset({"negate"}))),
    exp.Abs: Form(_like_argument(is_number), _ONE),
    exp.Round: Form(_rounded, ("this", "decimals")),
    **dict.fromkeys((exp.Ceil, exp.Floor), Form(_of("bigint", _PLAIN), _ONE)),
    **dict.fromkeys((exp.Sqrt, exp.Ln, exp.Exp), Form(_of("double", _PLAIN), _ONE)),
    exp.Pow: Form(_of("double", _PLAIN, _PLAIN), _TWO),
    **dict.fromkeys((exp.Greatest, exp.Least), Form(_greatest, ("this", "expressions"), frozenset({"ignore_nulls"}))),
    **dict.fromkeys(
        (exp.Year, exp.Quarter, exp.Month, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.WeekOfYear),
        Form(_of("int", _DAYS), _ONE),
    ),
    **dict.fromkeys((exp.Hour, exp.Minute, exp.Second), Form(_of("int", _MOMENTS), _ONE)),
    exp.TsOrDsToDate: Form(_of("date", _DAYS), _ONE, frozenset({"safe"})),
    exp.DateDiff: Form(_of("int", _DAYS, _DAYS), _TWO),
    exp.TimestampTrunc: Form(_truncated, _ONE, frozenset({"unit"})),
    **dict.fromkeys((exp.UnixSeconds, exp.UnixMillis, exp.UnixMicros), Form(_of("bigint", _MOMENTS), _ONE)),
    exp.UnixDate: Form(_of("int", frozenset({"date"})), _ONE),
    exp.Array: Form(_array, ("expressions",)),
    exp.ArraySize: Form(_size, _ONE),
    exp.ArrayContains: Form(_contains, _TWO),
    exp.Struct: Form(_struct, ("expressions",)),
    exp.FromJson: Form(_from_json, _TWO),
    exp.Dot: Form(_field, _ONE, frozenset({"expression"})),
}

_NAMED: Mapping[str, Rule] = {
    **dict.fromkeys(("timestamp_millis", "timestamp_micros", "timestamp_seconds"), _of("timestamp", _WHOLE)),
    **dict.fromkeys(("isnull", "isnotnull"), lambda tree, terms: "boolean" if len(terms) == 1 else refuse(tree, terms)),
}
"""Functions that sqlglot knows by no class of their own."""


def named(tree: exp.Anonymous, terms: Terms) -> str:
    """The type of a function that is only known by its name."""
    rule = _NAMED.get(str(tree.name).lower())
    if rule is None or not isinstance(tree.this, str):
        unproven(f"the type of `{str(tree.name).lower()}` is only known to Spark")
    return rule(tree, terms)
