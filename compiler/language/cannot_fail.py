"""Finds expressions that cannot fail for any row.

A table may collapse its changes before an expression only if the expression cannot fail. Otherwise the end of an epoch
would decide whether a value in between stops the run. Expressions not listed here count as failing. The list has the
usual parts of expressions over aggregates: ratios, comparisons and defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlglot import exp

from ...runtime.expressions.types import NUMBERS
from .expressions import Expression, Ref
from .sql import read

_BROAD = frozenset({"float", "double"})
_OPAQUE = "?"
"""The type of an expression that cannot fail, if its type is unknown."""


def cannot_fail(expression: Expression, type_of: Callable[[Ref], str | None], positive: Collection[str] = ()) -> bool:
    """Whether an expression cannot fail for any row. `positive`: names of value columns that are always above 0."""
    refs = {f"c{number}": ref for number, ref in enumerate(expression.refs)}
    names = {ref: name for name, ref in refs.items()}
    # Parsed as a SELECT, as in `parse_sql`: sqlglot may read a bare call as a statement with that name.
    query = read("SELECT " + expression.render(lambda ref: names[ref]))
    return _SafeTypes(refs, type_of, positive).type(query.expressions[0]) is not None


class _SafeTypes:
    """The types of nodes that cannot fail, by Spark's rules."""

    def __init__(self, refs: dict[str, Ref], type_of: Callable[[Ref], str | None], positive: Collection[str]) -> None:
        self._refs = refs
        self._type_of = type_of
        self._positive = positive

    def type(self, node: exp.Expression | None) -> str | None:
        """The type; None if the node may fail."""
        match node:
            case exp.Paren():
                return self.type(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Literal():
                return _literal(node)
            case exp.Boolean():
                return "boolean"
            case exp.Null():
                return "void"
            case exp.Add() | exp.Sub() | exp.Mul():
                return self._arithmetic(node)
            case exp.Div():
                return self._arithmetic(node, widens=True) if self._never_zero(node.expression) else None
            case exp.EQ() | exp.NEQ() | exp.NullSafeEQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
                return self._comparison(node.left, node.right)
            case exp.And() | exp.Or():
                return "boolean" if self._all(node.left, node.right) == "boolean" else None
            case exp.Not():
                return "boolean" if self.type(node.this) == "boolean" else None
            case exp.Is():
                safe = self.type(node.this) is not None and isinstance(node.expression, exp.Null)
                return "boolean" if safe else None
            case exp.Nullif():
                return self.type(node.this) if self._comparison(node.this, node.expression) else None
            case exp.Coalesce():
                return self._all(node.this, *node.expressions)
            case exp.If():
                condition = self.type(node.this) == "boolean"
                return self._all(node.args["true"], node.args.get("false") or exp.Null()) if condition else None
            case exp.Round():
                return "double" if self.type(node.this) in _BROAD and _is_small(node.args.get("decimals")) else None
        return None

    def _column(self, node: exp.Column) -> str | None:
        if node.table in self._refs:
            return _OPAQUE  # a field of a struct, such as the value of `max_by`
        ref = self._refs.get(node.name)
        return None if ref is None else self._type_of(ref) or _OPAQUE

    def _arithmetic(self, node: exp.Binary, widens: bool = False) -> str | None:
        """Calculations of doubles, which do not overflow. `widens`: the operation casts whole numbers to doubles."""
        types = {self.type(node.left), self.type(node.right)}
        if types & _BROAD and all(type_ is not None and _is_number(type_) for type_ in types):
            return "double"
        return "double" if widens and types <= NUMBERS else None

    def _never_zero(self, node: exp.Expression) -> bool:
        match node:
            case exp.Paren():
                return self._never_zero(node.this)
            case exp.Literal():
                return not node.is_string and float(node.this) != 0
            case exp.Nullif():
                zero = isinstance(node.expression, exp.Literal) and node.expression.this == "0"
                return zero and self.type(node.this) in NUMBERS
            case exp.Column():
                ref = self._refs.get(node.name)
                return not node.table and ref is not None and ref.role == "value" and ref.name in self._positive
        return False

    def _comparison(self, one: exp.Expression, other: exp.Expression) -> str | None:
        left, right = self.type(one), self.type(other)
        same = left == right and left not in (None, _OPAQUE)
        return "boolean" if same or {left, right} <= NUMBERS else None

    def _all(self, *nodes: exp.Expression) -> str | None:
        """The common type of nodes that are not null; None if they differ, because Spark would cast, which may fail."""
        types = {self.type(node) for node in nodes} - {"void"}
        return types.pop() if len(types) == 1 else None


def _is_number(type_: str) -> bool:
    return type_ in NUMBERS or type_.startswith("decimal")


def _literal(node: exp.Literal) -> str:
    if node.is_string:
        return "string"
    text = str(node.this)
    if text.isdigit():
        return "int" if int(text) < 2**31 else "bigint" if int(text) < 2**63 else "decimal"
    return "double" if "e" in text.lower() else "decimal"


def _is_small(digits: exp.Expression | None) -> bool:
    return digits is None or (isinstance(digits, exp.Literal) and digits.this in ("0", "1", "2", "3", "4", "5", "6"))
