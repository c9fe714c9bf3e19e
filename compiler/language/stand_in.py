"""A stand-in for Spark's analyzer, for plans, which must not start Spark.

It types conditions, casts, literals, counts, sums and arithmetic of numbers. All other expressions get one of
UNKNOWN_TYPES.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

from ...runtime.expressions.misread import parse_expression
from ...runtime.expressions.types import canonical
from ...runtime.records.names import UNKNOWN, UNKNOWN_ARRAY, UNKNOWN_NUMBER
from ...runtime.records.types import TypeSyntaxError, split_columns
from .type_checker import Request, Verdict

_BOOLEAN = (sql.Predicate, sql.Connector, sql.Not)
_ARITHMETIC = (sql.Add, sql.Sub, sql.Mul)
_NUMBER = (*_ARITHMETIC, sql.Div, sql.Mod, sql.Neg, sql.Sum, sql.Avg, sql.Round)
_SAME = (sql.Min, sql.Max, sql.First, sql.Last, sql.Abs)
"""Functions with the type of their argument."""

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_WIDER = (*_WHOLE, "float", "double")
"""Types of numbers, from the narrowest to the widest, without decimals, which have rules of their own."""


class UntypedAnalyzer:
    """Types expressions without Spark: with Spark's type, or with one of UNKNOWN_TYPES."""

    def analyze(self, requests: Sequence[Request]) -> Sequence[Verdict]:
        """See `Analyzer`."""
        return [_verdict(*request) for request in requests]


def _verdict(text: str, columns: str) -> str:
    try:
        tree = parse_expression(text).unnest()
        types = dict(split_columns(columns))
    except (SqlglotError, TypeSyntaxError):
        return UNKNOWN
    type_ = _type(tree, types)
    if type_ is not None:
        return type_
    if isinstance(tree, sql.Array):
        return UNKNOWN_ARRAY
    return UNKNOWN_NUMBER if isinstance(tree, _NUMBER) else UNKNOWN


def _type(node: sql.Expression, columns: Mapping[str, str]) -> str | None:
    """The type of an expression, if a rule gives it."""
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
        argument = _type(node.this, columns)
        if argument not in _WIDER:
            return None
        return "bigint" if isinstance(node, sql.Sum) and argument in _WHOLE else "double"
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
