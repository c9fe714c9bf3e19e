"""Types of expressions and aggregates that are known without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp, tokenize
from sqlglot.errors import SqlglotError

from ...runtime.expressions.misread import has_plus_in_front, is_bare_comparison, name_of, parse_expression
from ..types import holds_map
from .proven_calls import CALLS, OPERATORS, Form, Rule, Terms, named, refuse
from .proven_types import WHOLE, Term, decimal, is_decimal, is_number, size, unproven

# The types of aggregates, each over one expression.

_MORE_FOR_A_SUM, _MORE_FOR_AN_AVERAGE = 10, 4
"""Digits that Spark adds to those of decimals."""


def _counted(tree: exp.Expr, terms: Terms) -> str:  # noqa: ARG001
    return "bigint"


def _sum(tree: exp.Expr, terms: Terms) -> str:
    (term,) = terms
    if not is_number(term.type):
        refuse(tree, terms)
    if is_decimal(term.type):
        digits, scale = size(term.type)
        return decimal(digits + _MORE_FOR_A_SUM, scale)
    return "bigint" if term.type in WHOLE else "double"


def _average(tree: exp.Expr, terms: Terms) -> str:
    (term,) = terms
    if not is_number(term.type):
        refuse(tree, terms)
    if is_decimal(term.type):
        digits, scale = size(term.type)
        return decimal(digits + _MORE_FOR_AN_AVERAGE, scale + _MORE_FOR_AN_AVERAGE)
    return "double"


def _one(tree: exp.Expr, terms: Terms) -> str:
    if terms[0].type == "void":
        refuse(tree, terms)
    return terms[0].type


def _ordered(tree: exp.Expr, terms: Terms) -> str:
    if holds_map(terms[0].type):
        refuse(tree, terms)
    return _one(tree, terms)


def _list(tree: exp.Expr, terms: Terms) -> str:
    return f"array<{_one(tree, terms)}>"


def _of_column(rule: Rule, *settings: str) -> Form:
    return Form(rule, ("this",), frozenset(settings), of_constants=True)


AGGREGATES: Mapping[type[exp.Expr], Form] = {
    exp.Count: _of_column(_counted, "big_int"),
    exp.Sum: _of_column(_sum),
    exp.Avg: _of_column(_average),
    **dict.fromkeys((exp.Min, exp.Max), _of_column(_ordered)),
    **dict.fromkeys((exp.First, exp.Last, exp.AnyValue), _of_column(_one)),
    exp.ArrayAgg: _of_column(_list, "nulls_excluded"),
    exp.ApproxDistinct: _of_column(lambda tree, terms: _ordered(tree, terms) and "bigint"),
}
"""They stand alone: the compiler asks for the type of each by itself."""


# Reads SQL for its type, or says why only Spark knows it.

_MOST_LEVELS = 60
"""How deeply a tree may be nested: each level is a call of a function."""


def type_of(sql: str, columns: Mapping[str, str]) -> str:
    """The canonical type of an expression or of an aggregate, which Spark takes as it is and gives the same type.

    `columns`: those that it reads, and their canonical types. Raises UnprovenTypeError.
    """
    if len({name.casefold() for name in columns}) < len(columns):
        unproven("which of two columns of a name is meant is only known to Spark")
    tree = _parsed(sql)
    call = tree.this if isinstance(tree, exp.IgnoreNulls) else tree
    reader = _Reader(columns)
    found = reader.formed(call, AGGREGATES[type(call)]) if type(call) in AGGREGATES else reader.term(tree)
    if found.type == "void":
        unproven("the type of `null` is only known to Spark")
    return found.type


def _parsed(sql: str) -> exp.Expr:
    if "\\" in sql:
        unproven("what a backslash stands for is only known to Spark")
    try:
        if has_plus_in_front(tokenize(sql, read="spark")):
            unproven("a plus in front of a value is only known to Spark")
        return parse_expression(sql)
    except SqlglotError:
        unproven("its syntax is only known to Spark")
    except RecursionError:
        unproven("it is nested very deeply")


@dataclass
class _Reader:
    columns: Mapping[str, str]
    level: int = 0

    def term(self, tree: exp.Expr) -> Term:
        self.level += 1
        if self.level > _MOST_LEVELS:
            unproven("it is nested very deeply")
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
                return self.formed(tree, Form(named, ("expressions",), frozenset({"this"})))
        form = OPERATORS.get(type(tree)) or CALLS.get(type(tree))
        if form is None:
            unproven(f"the type of `{name_of(tree)}` is only known to Spark")
        return self.formed(tree, form)

    def formed(self, tree: exp.Expr, form: Form) -> Term:
        """What a tree of a known form comes to."""
        if not set(_given(tree)) <= {*form.parts, *form.settings}:
            unproven(f"this form of `{name_of(tree)}` is only known to Spark")
        if is_bare_comparison(tree):
            unproven("the order of comparisons without parentheses is only known to Spark")
        terms = [self._part(each) for each in _parts(tree, form)]
        constant = all(each.constant for each in terms)
        if constant and not form.of_constants:
            unproven(f"what `{name_of(tree)}` of literals comes to is only known to Spark")
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
            unproven(f"`{tree.sql('spark')}` is only known to Spark")
        return Term(type_)


def _given(tree: exp.Expr) -> Iterator[str]:
    """The names of the arguments that a tree has."""
    return (name for name, value in tree.args.items() if value not in (None, False, [], ""))


def _parts(tree: exp.Expr, form: Form) -> Iterator[exp.Expr]:
    """The expressions in a tree. Of a `case` first all conditions, then all results."""
    for name in form.parts:
        value = tree.args.get(name)
        listed = value if isinstance(value, list) else [value] if value is not None else []
        if name == "ifs":
            yield from (each.this for each in listed)
            yield from (each.args["true"] for each in listed)
        else:
            yield from (each.expression if isinstance(each, exp.PropertyEQ) else each for each in listed)


def _literal(tree: exp.Expr) -> Term:
    text = str(tree.this)
    if tree.args.get("is_string"):
        return Term("string", constant=True, text=text)
    whole, point, fraction = text.partition(".")
    if not (whole.isdecimal() and whole.isascii() and (fraction.isdecimal() or not point)):
        unproven(f"the type of `{text}` is only known to Spark")
    if point:
        digits = len(whole.lstrip("0")) + len(fraction)
        if digits > 38:
            unproven(f"the type of `{text}` is only known to Spark")
        return Term(f"decimal({digits},{len(fraction)})", constant=True)
    number = int(text)
    if number >= 2**63:
        unproven(f"the type of `{text}` is only known to Spark")
    return Term("int" if number < 2**31 else "bigint", constant=True, text=text)


_ONLY_NEGATIVE = frozenset({2**31, 2**63})
"""Numbers that have a place in a type only with a minus in front, which is then a part of the literal."""


def _negated(tree: exp.Expr, term: Term, type_: str) -> Term:
    if term.constant and (not isinstance(tree.this, exp.Literal) or (term.text and int(term.text) in _ONLY_NEGATIVE)):
        unproven(f"the type of `{tree.sql('spark')}` is only known to Spark")
    return Term(type_, term.constant, term.text)
