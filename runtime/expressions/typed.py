"""The reader of SQL: what is known of an expression without Spark and without Arrow.

It reads an expression once, as a tree of `Term`s, by the table of operators and functions in `typed_forms`. The type
checker asks for types, plans for those that do not depend on what only Spark knows, tables for expressions that cannot
fail, and `parse` for certain mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp, tokenize
from sqlglot.errors import SqlglotError

from .misread import has_plus_in_front, is_bare_comparison, name_of, parse_expression
from .terms import (
    LITERAL,
    LITERAL_NULL,
    OPAQUE,
    USE_OTHERS,
    WHOLE,
    Term,
    UntypedError,
    decimal,
    is_decimal,
    is_number,
    size,
    type_of_number,
    untyped,
)
from .typed_forms import Form, Rule, Terms, no_rule, target
from .typed_functions import ByNameSql, form_of
from .types import holds_map

_IN_PARTS = "compute a part of it in an earlier `with_columns`"

_MAX_LEVELS = 60
"""The maximal depth of a tree. Every level is a recursive call."""


def type_of(sql: str, columns: Mapping[str, str]) -> str:
    """The canonical type of an expression or aggregate. Spark accepts it unchanged and gives it the same type.

    `columns`: the columns it reads, with their canonical types. Raises UntypedError.
    """
    term = read(sql, columns)
    if term.doubt is not None:
        raise term.doubt
    if term.type == "void":
        untyped("the type of `null` is only known to Spark", LITERAL_NULL)
    return term.type


def read(sql: str, columns: Mapping[str, str | None], not_zero: Collection[str] = ()) -> Term:
    """What is known of an expression or aggregate.

    `columns`: the columns it reads, with their canonical types; None if unknown. `not_zero`: columns of numbers
    without 0 and null.
    """
    doubt = _doubt_of_names(columns)
    try:
        doubt = doubt or _doubt_of_text(sql)
        tree = parse_expression(sql, ByNameSql)
    except SqlglotError:
        return Term(OPAQUE, doubt=doubt or UntypedError("its syntax is only known to Spark", USE_OTHERS))
    except RecursionError:
        return Term(OPAQUE, doubt=doubt or _too_deep())

    def column(tree: exp.Column) -> Term:
        names = [part.name for part in tree.parts if isinstance(part, exp.Identifier)]
        whole = len(names) == 1 == len(tree.parts)
        type_ = columns.get(names[0]) if whole else None
        return Term(
            type_ or OPAQUE,
            tree=tree,
            safe=len(tree.parts) <= 2 and names[:1] != [] and names[0] in columns,
            not_zero=whole and names[0] in not_zero,
            doubt=None if type_ else _only_spark(f"`{tree.sql('spark')}` is"),
        )

    term = read_tree(tree, column)
    return replace(term, doubt=doubt or term.doubt)


def read_tree(tree: exp.Expr, column: Callable[[exp.Column], Term]) -> Term:
    """What is known of a parsed expression or aggregate. `column`: of a column in it."""
    reader = _Reader(column)
    call = tree.this if isinstance(tree, exp.IgnoreNulls) else tree
    return reader.apply(call, AGGREGATES[type(call)]) if type(call) in AGGREGATES else reader.term(tree)


def _doubt_of_names(columns: Collection[str]) -> UntypedError | None:
    if len({name.casefold() for name in columns}) == len(columns):
        return None
    return UntypedError("only Spark knows which of two columns with the same name is meant", "rename one of them")


def _doubt_of_text(sql: str) -> UntypedError | None:
    if "\\" in sql:
        instead = "write `[.]` for an escaped dot of a pattern, or use a Python function"
        return UntypedError("the meaning of a backslash is only known to Spark", instead)
    if has_plus_in_front(tokenize(sql, read="spark")):
        return UntypedError("a plus in front of a value is only known to Spark", "remove the plus")
    return None


def _too_deep() -> UntypedError:
    return UntypedError("it is nested very deeply", _IN_PARTS)


def _only_spark(what: str, instead: str = USE_OTHERS) -> UntypedError:
    return UntypedError(f"{what} only known to Spark", instead)


@dataclass
class _Reader:
    column: Callable[[exp.Column], Term]
    level: int = 0

    def term(self, tree: exp.Expr) -> Term:
        self.level += 1
        try:
            return self._term(tree) if self.level <= _MAX_LEVELS else Term(OPAQUE, tree=tree, doubt=_too_deep())
        finally:
            self.level -= 1

    def _term(self, tree: exp.Expr) -> Term:
        match tree:
            case exp.Paren():
                return self.term(tree.this)
            case exp.Column():
                return self.column(tree)
            case exp.Literal():
                return _literal(tree)
            case exp.Boolean():
                return Term("boolean", constant=True, tree=tree, safe=True)
            case exp.Null():
                return Term("void", constant=True, tree=tree, safe=True)
        form = form_of(tree)
        if form is not None:
            return self.apply(tree, form)
        type_ = "boolean" if isinstance(tree, exp.Predicate | exp.Connector | exp.Not) else OPAQUE
        parts = tuple(map(self.term, tree.iter_expressions()))
        return Term(type_, tree=tree, parts=parts, doubt=_only_spark(f"the type of `{name_of(tree)}` is"))

    def apply(self, tree: exp.Expr, form: Form) -> Term:
        """The term of a tree, by the rule of its form."""
        fits = form.fits(tree)
        terms = tuple(
            Term("bigint", constant=True) if isinstance(part, exp.Star) else self.term(part)  # of `count(*)`
            for part in _parts(tree, form)
        )
        constant = all(term.constant for term in terms)
        type_ = target(tree) if isinstance(tree, exp.Cast) else form.always
        doubt = _doubt_of_form(tree, form, terms, fits=fits)
        if fits and all(term.type != OPAQUE for term in terms):
            try:
                type_ = form.rule(tree, terms)
            except UntypedError as error:
                doubt = doubt or error
        safe = fits and all(term.safe for term in terms) and form.safe is not None and form.safe(tree, terms)
        text = None
        if isinstance(tree, exp.Neg):
            text = terms[0].text
            if _is_another_literal(tree, terms[0]):
                type_, doubt = OPAQUE, doubt or _only_spark(f"the type of `{tree.sql('spark')}` is")
        return Term(type_, constant, text, tree, terms, safe, doubt=doubt)


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


def _doubt_of_form(tree: exp.Expr, form: Form, terms: tuple[Term, ...], *, fits: bool) -> UntypedError | None:
    if not fits:
        return _only_spark(f"this form of `{name_of(tree)}` is")
    if is_bare_comparison(tree):
        return _only_spark("the order of comparisons without parentheses is", "add parentheses")
    inner = next((term.doubt for term in terms if term.doubt is not None), None)
    if inner is None and not form.of_constants and all(term.constant for term in terms):
        return _only_spark(f"the result of `{name_of(tree)}` of literals is", LITERAL)
    return inner


def _literal(tree: exp.Literal) -> Term:
    text = str(tree.this)
    if tree.is_string:
        return Term("string", constant=True, text=text, tree=tree, safe=True)
    type_ = type_of_number(text)
    doubt = _only_spark(f"the type of `{text}` is") if type_ in (OPAQUE, "double") else None
    whole = text if text.isdecimal() else None
    return Term(type_, True, whole, tree, safe=True, not_zero=type_ != OPAQUE and float(text) != 0, doubt=doubt)


_ONLY_NEGATIVE = frozenset({str(2**31), str(2**63)})
"""Numbers that fit a type only with a minus in front, which Spark reads as a part of the literal."""


def _is_another_literal(tree: exp.Neg, term: Term) -> bool:
    """Whether a negative constant is not just a literal with the type of the number behind the minus."""
    return term.constant and (not isinstance(tree.this, exp.Literal) or (term.text or "").lstrip("0") in _ONLY_NEGATIVE)


# Types of aggregates over one expression.


def _added(digits: int, scale: int, whole: str) -> Rule:
    """The rule of sums and averages. `digits`, `scale`: what Spark adds to those of a decimal. `whole`: of integers."""

    def rule(tree: exp.Expr, terms: Terms) -> str:
        (term,) = terms
        if not is_number(term.type):
            no_rule(tree, terms)
        if is_decimal(term.type):
            before, behind = size(term.type)
            return decimal(before + digits, behind + scale)
        return whole if term.type in WHOLE else "double"

    return rule


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


def _of_column(rule: Rule, *settings: str, always: str = OPAQUE) -> Form:
    return Form(rule, ("this",), frozenset(settings), of_constants=True, always=always)


AGGREGATES: Mapping[type[exp.Expr], Form] = {
    exp.Count: _of_column(lambda _tree, _terms: "bigint", "big_int", always="bigint"),
    exp.Sum: _of_column(_added(10, 0, "bigint")),
    exp.Avg: _of_column(_added(4, 4, "double")),
    **dict.fromkeys((exp.Min, exp.Max), _of_column(_ordered)),
    **dict.fromkeys((exp.First, exp.Last, exp.AnyValue), _of_column(_one)),
    exp.ArrayAgg: _of_column(_list, "nulls_excluded"),
    exp.ApproxDistinct: _of_column(lambda tree, terms: _ordered(tree, terms) and "bigint", always="bigint"),
}
"""Aggregates are typed one by one, outside of other expressions."""
