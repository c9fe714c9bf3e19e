"""The functions of SQL over one row: their arguments and their types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from sqlglot import exp

from ..records.names import quote
from .misread import ExpressionParser, ExpressionSql
from .terms import OPAQUE, WHOLE, columns_type, field_type, is_number
from .typed_forms import BROAD, OPERATORS, Form, Rule, Terms, common, compared, no_rule, only_spark
from .types import inner_types

Takes = frozenset[str]
"""The types that an argument may have."""

_TEXT: Takes = frozenset({"string"})
_COUNT: Takes = frozenset({"int"})
_UP_TO_INT: Takes = frozenset({"tinyint", "smallint", "int"})
_WHOLE: Takes = frozenset(WHOLE)
_PLAIN: Takes = frozenset({*WHOLE, "float", "double"})
_DOUBLE: Takes = frozenset({"double"})
_BROAD: Takes = frozenset({"float", "double"})
_DATE: Takes = frozenset({"date"})
_DAYS: Takes = frozenset({"date", "timestamp"})
_MOMENTS: Takes = frozenset({"timestamp"})

_ONE = ("this",)
_TWO = ("this", "expression")
_NAMED = ("expressions",)
"""The operands of a function that is read by its name: all arguments as they are written."""


def _call(
    result: str,
    *takes: Takes,
    parts: tuple[str, ...] = _NAMED,
    settings: tuple[str, ...] = ("this",),
    least: int | None = None,
) -> Form:
    """A function with arguments of these types. `least`: the minimal number of arguments; default all."""

    fewest = len(takes) if least is None else least

    def rule(tree: exp.Expr, terms: Terms) -> str:
        few = len(terms) < fewest
        if few or len(terms) > len(takes) or any(x.type not in taken for x, taken in zip(terms, takes, strict=False)):
            no_rule(tree, terms)
        return result

    count = range(fewest, len(takes) + 1) if parts is _NAMED else None
    return Form(rule, parts, frozenset(settings), always=result, count=count)


def _by_name(rule: Rule, least: int, most: int | None = None, always: str = OPAQUE) -> Form:
    """A function that is read by its name. `least`, `most`: the number of arguments."""
    return Form(rule, _NAMED, frozenset({"this"}), always=always, count=range(least, (most or least) + 1))


def _like_argument(accepts: Callable[[str], bool]) -> Rule:
    def rule(tree: exp.Expr, terms: Terms) -> str:
        if not accepts(terms[0].type):
            no_rule(tree, terms)
        return terms[0].type

    return rule


def _rounded(tree: exp.Expr, terms: Terms) -> str:
    """`round(x)` and `round(x, 2)`."""
    value, *digits = terms
    if value.type not in _PLAIN or any(not term.constant or term.type != "int" for term in digits):
        no_rule(tree, terms)
    return value.type


def _truncated(takes: Takes, place: int) -> Rule:
    """`date_trunc('day', t)` and `trunc(d, 'month')`. `place`: of the unit."""

    def rule(tree: exp.Expr, terms: Terms) -> str:
        if terms[place].text is None or terms[1 - place].type not in takes:
            no_rule(tree, terms)
        return "timestamp" if place == 0 else "date"

    return rule


def _safe_round(_tree: exp.Expr, terms: Terms) -> bool:
    return terms[0].type in BROAD and all(term.text in ("0", "1", "2", "3", "4", "5", "6") for term in terms[1:])


def _nvl2(tree: exp.Expr, terms: Terms) -> str:
    return common(tree, terms[1:]) if len(terms) == 3 else no_rule(tree, terms)


def _greatest(tree: exp.Expr, terms: Terms) -> str:
    if len(terms) < 2:
        no_rule(tree, terms)
    return compared(tree, terms)


def _array(tree: exp.Expr, terms: Terms) -> str:
    if not terms:
        no_rule(tree, terms)
    return f"array<{common(tree, terms)}>"


def _size(*kinds: str) -> Form:
    def rule(tree: exp.Expr, terms: Terms) -> str:
        return "int" if terms[0].type.startswith(kinds) else no_rule(tree, terms)

    return _by_name(rule, 1, always="int")


def _contains(tree: exp.Expr, terms: Terms) -> str:
    array, element = terms
    if array.type != f"array<{element.type}>" or element.type not in (*WHOLE, "string"):
        no_rule(tree, terms)
    return "boolean"


def _has_key(tree: exp.Expr, terms: Terms) -> str:
    of_key(tree, terms)
    return "boolean"


def of_key(tree: exp.Expr, terms: Terms) -> str:
    """The type of the values of a map with keys of the type of the second term."""
    data, key = terms
    if not data.type.startswith("map<") or inner_types(data.type)[0] != key.type or key.type not in (*WHOLE, "string"):
        no_rule(tree, terms)
    return inner_types(data.type)[1]


def element(tree: exp.Expr, terms: Terms) -> str:
    """The type of an element of an array, at a position or an index."""
    data, place = terms
    if not data.type.startswith("array<") or place.type not in _UP_TO_INT:
        no_rule(tree, terms)
    return inner_types(data.type)[0]


def _element_at(tree: exp.Expr, terms: Terms) -> str:
    if len(terms) != 2:
        no_rule(tree, terms)
    return element(tree, terms) if terms[0].type.startswith("array<") else of_key(tree, terms)


def _extreme(tree: exp.Expr, terms: Terms) -> str:
    type_ = terms[0].type
    if not type_.startswith("array<") or inner_types(type_)[0] not in (*WHOLE, "date", "timestamp"):
        no_rule(tree, terms)
    return inner_types(type_)[0]


def _slice(tree: exp.Expr, terms: Terms) -> str:
    if not terms[0].type.startswith("array<") or {term.type for term in terms[1:]} != {"int"}:
        no_rule(tree, terms)
    return terms[0].type


def _of_map(place: int) -> Rule:
    def rule(tree: exp.Expr, terms: Terms) -> str:
        if not terms[0].type.startswith("map<"):
            no_rule(tree, terms)
        return f"array<{inner_types(terms[0].type)[place]}>"

    return rule


def _pmod(tree: exp.Expr, terms: Terms) -> str:
    if any(term.type not in _PLAIN for term in terms):
        no_rule(tree, terms)
    return common(tree, terms)


def _struct(tree: exp.Expr, terms: Terms) -> str:
    """`named_struct('a', x, 'b', y)`."""
    names = [field.this.name if isinstance(field, exp.PropertyEQ) else "" for field in tree.expressions]
    if not names or any(not name or quote(name) != name for name in names) or any(x.type == "void" for x in terms):
        no_rule(tree, terms)
    return f"struct<{','.join(f'{name}:{term.type}' for name, term in zip(names, terms, strict=True))}>"


def _from_json(tree: exp.Expr, terms: Terms) -> str:
    """`from_json(s, 'a int')`."""
    text, columns = terms
    if text.type != "string" or text.constant or columns.text is None:
        no_rule(tree, terms)
    return columns_type(columns.text or "")


def _field(tree: exp.Expr, terms: Terms) -> str:
    """`from_json(s, 'a int').a`."""
    if not isinstance(tree.expression, exp.Identifier):
        no_rule(tree, terms)
    return field_type(terms[0].type, tree.expression.name)


CALLS: Mapping[type[exp.Expr] | str, Form] = {
    **dict.fromkeys((exp.Upper, exp.Lower, exp.Reverse), _call("string", _TEXT, parts=_ONE)),
    exp.Trim: _call("string", _TEXT, _TEXT, least=1, parts=_TWO, settings=("position",)),
    "btrim": _call("string", _TEXT, _TEXT, least=1),
    exp.Length: _call("int", _TEXT, parts=_ONE),
    **dict.fromkeys((exp.Left, exp.Right), _call("string", _TEXT, _COUNT, parts=_TWO)),
    exp.Substring: _call("string", _TEXT, _COUNT, _COUNT, least=2, parts=("this", "start", "length")),
    exp.Repeat: _call("string", _TEXT, _COUNT, parts=("this", "times")),
    exp.Replace: _call("string", _TEXT, _TEXT, _TEXT, parts=("this", "expression", "replacement")),
    exp.Pad: _call(
        "string", _TEXT, _COUNT, _TEXT, least=2, parts=("this", "expression", "fill_pattern"), settings=("is_left",)
    ),
    exp.SplitPart: _call("string", _TEXT, _TEXT, _COUNT, parts=("this", "delimiter", "part_index")),
    exp.SubstringIndex: _call("string", _TEXT, _TEXT, _COUNT, parts=("this", "delimiter", "count")),
    "split": _call("array<string>", _TEXT, _TEXT),
    exp.StrPosition: _call("int", _TEXT, _TEXT, parts=("this", "substr")),
    exp.ConcatWs: Form(
        lambda tree, terms: "string" if {term.type for term in terms} == {"string"} else no_rule(tree, terms),
        _NAMED,
        frozenset({"safe", "coalesce", "flatten"}),
    ),
    **dict.fromkeys((exp.StartsWith, exp.EndsWith, exp.Contains), _call("boolean", _TEXT, _TEXT, parts=_TWO)),
    **dict.fromkeys((exp.Like, exp.RegexpLike), _call("boolean", _TEXT, _TEXT, parts=_TWO, settings=("negate",))),
    exp.Abs: Form(_like_argument(is_number), _ONE),
    "positive": _by_name(_like_argument(_PLAIN.__contains__), 1),
    exp.Round: Form(_rounded, ("this", "decimals"), safe=_safe_round),
    "bround": _by_name(_rounded, 1, 2),
    **dict.fromkeys((exp.Ceil, exp.Floor), _call("bigint", _PLAIN, parts=_ONE)),
    **dict.fromkeys((exp.Sqrt, exp.Ln, exp.Exp, exp.Sign), _call("double", _PLAIN, parts=_ONE)),
    exp.Pow: _call("double", _PLAIN, _PLAIN, parts=_TWO),
    "pmod": _by_name(_pmod, 2),
    **dict.fromkeys((exp.Greatest, exp.Least), Form(_greatest, ("this", "expressions"), frozenset({"ignore_nulls"}))),
    **dict.fromkeys(("isnull", "isnotnull"), _by_name(lambda _tree, _terms: "boolean", 1, always="boolean")),
    exp.IsNan: _call("boolean", _BROAD, parts=_ONE),
    exp.Nanvl: _call("double", _DOUBLE, _DOUBLE, parts=_TWO),
    exp.Nvl2: Form(_nvl2, ("this", "true", "false")),
    **dict.fromkeys((exp.SafeAdd, exp.SafeSubtract, exp.SafeMultiply, exp.SafeDivide), Form(only_spark, _TWO)),
    **dict.fromkeys(
        ("year", "quarter", "month", "day", "dayofmonth", "dayofweek", "weekday", "dayofyear", "weekofyear"),
        _call("int", _DAYS),
    ),
    **dict.fromkeys(("hour", "minute", "second"), _call("int", _MOMENTS)),
    "to_date": _call("date", _DAYS),
    "last_day": _call("date", _DAYS),
    **dict.fromkeys(("date_add", "dateadd", "date_sub"), _call("date", _DATE, _UP_TO_INT)),
    "add_months": _call("date", _DAYS, _UP_TO_INT),
    **dict.fromkeys(("datediff", "date_diff"), _call("int", _DAYS, _DAYS)),
    "make_date": _call("date", _UP_TO_INT, _UP_TO_INT, _UP_TO_INT),
    "unix_date": _call("int", _DATE),
    "date_from_unix_date": _call("date", _UP_TO_INT),
    "trunc": _by_name(_truncated(_DAYS, 1), 2, always="date"),
    "date_trunc": _by_name(_truncated(_DAYS, 0), 2, always="timestamp"),
    **dict.fromkeys(
        ("unix_seconds", "unix_millis", "unix_micros", "unix_timestamp", "to_unix_timestamp"),
        _call("bigint", _MOMENTS),
    ),
    **dict.fromkeys(("timestamp_millis", "timestamp_micros", "timestamp_seconds"), _call("timestamp", _WHOLE)),
    # Spark rejects some patterns and fields.
    "date_format": _by_name(only_spark, 2, always="string"),
    "from_unixtime": _by_name(only_spark, 1, 2, always="string"),
    **dict.fromkeys(("date_part", "datepart"), _by_name(only_spark, 2)),
    exp.Extract: Form(only_spark, _TWO),
    exp.Array: Form(_array, _NAMED),
    exp.Bracket: Form(_element_at, ("this", "expressions")),
    **dict.fromkeys(("size", "cardinality"), _size("array<", "map<")),
    "array_size": _size("array<"),
    "get": _by_name(element, 2),
    **dict.fromkeys(("element_at", "try_element_at"), _by_name(_element_at, 2)),
    **dict.fromkeys(("array_max", "array_min"), _by_name(_extreme, 1)),
    "slice": _by_name(_slice, 3),
    "array_join": _call("string", frozenset({"array<string>"}), _TEXT),
    "array_contains": _by_name(_contains, 2, always="boolean"),
    "map_contains_key": _by_name(_has_key, 2, always="boolean"),
    "map_keys": _by_name(_of_map(0), 1),
    "map_values": _by_name(_of_map(1), 1),
    exp.Struct: Form(_struct, _NAMED),
    exp.FromJson: Form(_from_json, _TWO),
    exp.Dot: Form(_field, _ONE, frozenset({"expression"})),
}
"""Functions, by sqlglot's class or by their name. `ByNameSql` reads the latter with the arguments of the text, because
sqlglot's classes have them in another order or form.
"""

_UNKNOWN = Form(only_spark, _NAMED, frozenset({"this"}))


class _ByNameParser(ExpressionParser):
    FUNCTIONS: ClassVar = {name: read for name, read in ExpressionParser.FUNCTIONS.items() if name.lower() not in CALLS}


class ByNameSql(ExpressionSql):
    """The Spark dialect, which reads functions that `CALLS` lists by name as `exp.Anonymous`."""

    Parser = _ByNameParser


def form_of(tree: exp.Expr) -> Form | None:
    """The form of an operator or function; None if it is not known here."""
    if isinstance(tree, exp.Anonymous):
        return CALLS.get(tree.this.lower(), _UNKNOWN) if isinstance(tree.this, str) else _UNKNOWN
    return OPERATORS.get(type(tree)) or CALLS.get(type(tree))
