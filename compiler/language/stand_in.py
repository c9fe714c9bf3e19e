"""A stand-in for Spark's analyzer, for a plan that must not start Spark.

It knows what follows from the form of an expression alone: conditions, casts, literals, counts, sums, arithmetic of
numbers. Whatever else has a type that says it is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

from ...runtime.expressions.misread import parse_expression
from ...runtime.records.names import UNKNOWN, UNKNOWN_ARRAY, UNKNOWN_NUMBER
from ...runtime.records.types import TypeSyntaxError, split_columns
from ..types import canonical
from .judge import Request, Verdict

_BOOLEAN = (sql.Predicate, sql.Connector, sql.Not)
_ARITHMETIC = (sql.Add, sql.Sub, sql.Mul)
_NUMBER = (*_ARITHMETIC, sql.Div, sql.Mod, sql.Neg, sql.Sum, sql.Avg, sql.Round)
_SAME = (sql.Min, sql.Max, sql.First, sql.Last, sql.Abs)
"""Functions whose result has the type of what they read."""

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_WIDER = (*_WHOLE, "float", "double")
"""Numbers, each after those that it takes in; decimals have rules of their own."""


class Unjudged:
    """Gives each expression a type without Spark: the one that Spark gives it, or one of UNKNOWN_TYPES."""

    def analyze(self, requests: Sequence[Request]) -> Sequence[Verdict]:
        """See `Analyzer`."""
        return [_verdict(*request) for request in requests]


def _verdict(text: str, columns: str) -> str:
    try:
        tree = parse_expression(text).unnest()
        known = dict(split_columns(columns))
    except (SqlglotError, TypeSyntaxError):
        return UNKNOWN
    found = _type(tree, known)
    if found is not None:
        return found
    if isinstance(tree, sql.Array):
        return UNKNOWN_ARRAY
    return UNKNOWN_NUMBER if isinstance(tree, _NUMBER) else UNKNOWN


def _type(node: sql.Expression, columns: Mapping[str, str]) -> str | None:
    """The type of an expression, if its form says it."""
    node = node.unnest()
    match node:
        case sql.Column():
            return columns.get(".".join(part.name for part in node.parts))
        case sql.Boolean():
            return "boolean"
        case sql.Literal():
            return "string" if node.is_string else ("int" if node.is_int and int(node.this) < 2**31 else None)
        case sql.Cast():
            return _cast(node)
        case sql.Count() | sql.ApproxDistinct():
            return "bigint"
        case sql.Coalesce():
            options = {_type(option, columns) for option in (node.this, *node.expressions)}
            return options.pop() if len(options) == 1 else None
        case sql.Array():
            elements = {_type(element, columns) for element in node.expressions}
            return f"array<{elements.pop()}>" if len(elements) == 1 and None not in elements else None
    if isinstance(node, _BOOLEAN):
        return "boolean"
    if isinstance(node, _SAME):
        return _type(node.this, columns)
    if isinstance(node, (sql.Sum, sql.Avg)):
        read = _type(node.this, columns)
        if read not in _WIDER:
            return None
        return "bigint" if isinstance(node, sql.Sum) and read in _WHOLE else "double"
    if isinstance(node, (*_ARITHMETIC, sql.Div)):
        sides = [_type(side, columns) for side in (node.left, node.right)]
        if any(side not in _WIDER for side in sides):
            return None
        return "double" if isinstance(node, sql.Div) else max(filter(None, sides), key=_WIDER.index)
    return None


def _cast(node: sql.Cast) -> str | None:
    try:
        return canonical(node.to.sql("spark").lower())
    except ValueError:
        return None
