"""The types of aggregates, each over one expression."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ...types import holds_map
from .forms import Form, Rule, Terms, refuse
from .numbers import WHOLE, decimal, is_decimal, is_number, size

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
