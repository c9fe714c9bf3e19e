"""The type rules: types of expressions and aggregates, found without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp, tokenize
from sqlglot.errors import SqlglotError

from .misread import has_plus_in_front, is_bare_comparison, name_of, parse_expression
from .terms import LITERAL, LITERAL_NULL, WHOLE, Term, decimal, is_decimal, is_number, size, untyped
from .typed_forms import CALLS, OPERATORS, Form, Rule, Terms, named, no_rule
from .types import holds_map

# Types of aggregates over one expression.

_SUM_DIGITS, _AVERAGE_DIGITS = 10, 4
"""Digits that Spark adds to a decimal's."""


def _count(tree: exp.Expr, terms: Terms) -> str:  # noqa: ARG001
    return "bigint"


def _sum(tree: exp.Expr, terms: Terms) -> str:
    (term,) = terms
    if not is_number(term.type):
        no_rule(tree, terms)
    if is_decimal(term.type):
        digits, scale = size(term.type)
        return decimal(digits + _SUM_DIGITS, scale)
    return "bigint" if term.type in WHOLE else "double"


def _average(tree: exp.Expr, terms: Terms) -> str:
    (term,) = terms
    if not is_number(term.type):
        no_rule(tree, terms)
    if is_decimal(term.type):
        digits, scale = size(term.type)
        return decimal(digits + _AVERAGE_DIGITS, scale + _AVERAGE_DIGITS)
    return "double"


def _one(tree: exp.Expr, terms: Terms) -> str:
    if terms[0].type == "void":
        no_rule(tree, terms)
    return terms[0].type


def _ordered(tree: exp.Expr, terms: Terms) -> str:
    if holds_map(terms[0].type):
        no_rule(tree, terms)
    return _one(tree, terms)


def _list(tree: exp.Expr, terms: Terms) -> str:
    return f"array<{_one(tree, terms)}>"


def _of_column(rule: Rule, *settings: str) -> Form:
    return Form(rule, ("this",), frozenset(settings), of_constants=True)


AGGREGATES: Mapping[type[exp.Expr], Form] = {
    exp.Count: _of_column(_count, "big_int"),
    exp.Sum: _of_column(_sum),
    exp.Avg: _of_column(_average),
    **dict.fromkeys((exp.Min, exp.Max), _of_column(_ordered)),
    **dict.fromkeys((exp.First, exp.Last, exp.AnyValue), _of_column(_one)),
    exp.ArrayAgg: _of_column(_list, "nulls_excluded"),
    exp.ApproxDistinct: _of_column(lambda tree, terms: _ordered(tree, terms) and "bigint"),
}
"""Aggregates are typed one by one, outside of other expressions."""


# Types of SQL texts.

_IN_PARTS = "compute a part of it in an earlier `with_columns`"

_MAX_LEVELS = 60
"""The maximal depth of a tree. Every level is a recursive call."""


def type_of(sql: str, columns: Mapping[str, str]) -> str:
    """The canonical type of an expression or aggregate. Spark accepts it unchanged and gives it the same type.

    `columns`: the columns it reads, with their canonical types. Raises UntypedError.
    """
    if len({name.casefold() for name in columns}) < len(columns):
        untyped("only Spark knows which of two columns with the same name is meant", "rename one of them")
    tree = _parsed(sql)
    call = tree.this if isinstance(tree, exp.IgnoreNulls) else tree
    reader = _Reader(columns)
    term = reader.apply(call, AGGREGATES[type(call)]) if type(call) in AGGREGATES else reader.term(tree)
    if term.type == "void":
        untyped("the type of `null` is only known to Spark", LITERAL_NULL)
    return term.type


def _parsed(sql: str) -> exp.Expr:
    if "\\" in sql:
        untyped(
            "the meaning of a backslash is only known to Spark",
            "write `[.]` for an escaped dot of a pattern, or use a Python function",
        )
    try:
        if has_plus_in_front(tokenize(sql, read="spark")):
            untyped("a plus in front of a value is only known to Spark", "remove the plus")
        return parse_expression(sql)
    except SqlglotError:
        untyped("its syntax is only known to Spark")
    except RecursionError:
        untyped("it is nested very deeply", _IN_PARTS)


@dataclass
class _Reader:
    columns: Mapping[str, str]
    level: int = 0

    def term(self, tree: exp.Expr) -> Term:
        self.level += 1
        if self.level > _MAX_LEVELS:
            untyped("it is nested very deeply", _IN_PARTS)
        try:
            return self._term(tree)
        finally:
            self.level -= 1

    def _term(self, tree: exp.Expr) -> Term:
        match tree:
            case exp.Paren() if set(_given(tree)) <= {"this"}:
                return self.term(tree.this)
            case exp.Column():
                return self._column(tree)
            case exp.Literal():
                return _literal(tree)
            case exp.Boolean():
                return Term("boolean", constant=True)
            case exp.Null():
                return Term("void", constant=True)
            case exp.Anonymous():
                return self.apply(tree, Form(named, ("expressions",), frozenset({"this"})))
        form = OPERATORS.get(type(tree)) or CALLS.get(type(tree))
        if form is None:
            untyped(f"the type of `{name_of(tree)}` is only known to Spark")
        return self.apply(tree, form)

    def apply(self, tree: exp.Expr, form: Form) -> Term:
        """The term of a tree, by the rule of its form."""
        if not set(_given(tree)) <= {*form.parts, *form.settings}:
            untyped(f"this form of `{name_of(tree)}` is only known to Spark")
        if is_bare_comparison(tree):
            untyped("the order of comparisons without parentheses is only known to Spark", "add parentheses")
        terms = [self._part(part) for part in _parts(tree, form)]
        constant = all(term.constant for term in terms)
        if constant and not form.of_constants:
            untyped(f"the result of `{name_of(tree)}` of literals is only known to Spark", LITERAL)
        type_ = form.rule(tree, terms)
        if isinstance(tree, exp.Neg):
            return _negated(tree, terms[0], type_)
        return Term(type_, constant)

    def _part(self, tree: exp.Expr) -> Term:
        if isinstance(tree, exp.Star):  # of `count(*)`
            return Term("bigint", constant=True)
        return self.term(tree)

    def _column(self, tree: exp.Expr) -> Term:
        names = [part.name for part in tree.parts if isinstance(part, exp.Identifier)]
        type_ = self.columns.get(names[0]) if len(names) == 1 == len(tree.parts) else None
        if type_ is None:
            untyped(f"`{tree.sql('spark')}` is only known to Spark")
        return Term(type_)


def _given(tree: exp.Expr) -> Iterator[str]:
    """The names of the arguments set in a tree."""
    return (name for name, value in tree.args.items() if value not in (None, False, [], ""))


def _parts(tree: exp.Expr, form: Form) -> Iterator[exp.Expr]:
    """The operands in a tree. Of a `case` first all conditions, then all results."""
    for name in form.parts:
        value = tree.args.get(name)
        values = value if isinstance(value, list) else [value] if value is not None else []
        if name == "ifs":
            yield from (branch.this for branch in values)
            yield from (branch.args["true"] for branch in values)
        else:
            yield from (part.expression if isinstance(part, exp.PropertyEQ) else part for part in values)


def _literal(tree: exp.Expr) -> Term:
    text = str(tree.this)
    if tree.args.get("is_string"):
        return Term("string", constant=True, text=text)
    whole, point, fraction = text.partition(".")
    if not (whole.isdecimal() and whole.isascii() and (fraction.isdecimal() or not point)):
        untyped(f"the type of `{text}` is only known to Spark")
    if point:
        digits = len(whole.lstrip("0")) + len(fraction)
        if digits > 38:
            untyped(f"the type of `{text}` is only known to Spark")
        return Term(f"decimal({digits},{len(fraction)})", constant=True)
    number = int(text)
    if number >= 2**63:
        untyped(f"the type of `{text}` is only known to Spark")
    return Term("int" if number < 2**31 else "bigint", constant=True, text=text)


_ONLY_NEGATIVE = frozenset({2**31, 2**63})
"""Numbers that fit a type only with a minus in front, which Spark reads as a part of the literal."""


def _negated(tree: exp.Expr, term: Term, type_: str) -> Term:
    if term.constant and (not isinstance(tree.this, exp.Literal) or (term.text and int(term.text) in _ONLY_NEGATIVE)):
        untyped(f"the type of `{tree.sql('spark')}` is only known to Spark")
    return Term(type_, term.constant, term.text)
