"""Certain type mistakes of untyped expressions, found without Spark, for `parse`.

Checks only columns and literals that are operands of the same operator or function: `revenue >= 'lots'`,
`coalesce(category, 0)`, `cast('abc' as int)`. Spark's analyzer finds these and others, with the same messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ...runtime.expressions.types import canonical
from ...runtime.records.cast_texts import never_casts, silent_cast, uncast
from ..diagnostics import Diagnostics, Position
from .expressions import Expression, Scope
from .sql import SHIFT, Parsed, parse_sql

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod)
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_CAST_FROM_STRINGS = frozenset({"boolean", "date", "timestamp", "timestamp_ntz"})


@dataclass(frozen=True)
class Mistake:
    """A mistake, as the type checker reports it."""

    code: str
    position: Position
    message: str
    hint: str


@dataclass(frozen=True)
class _Leaf:
    """A column or a literal: its type, its span in the SQL, and the text of a string literal."""

    type: str
    start: int
    end: int
    text: str | None = None


def certain_mistakes(expression: Expression, scope: Scope) -> list[Mistake]:
    """Type mistakes of an expression, in the order of the text."""
    parsed = parse_sql(expression.sql, Diagnostics())
    if parsed is None:
        return []
    finder = _Finder(parsed, {ref.start: (ref.end, scope.type_of(ref)) for ref in expression.refs})
    return sorted(dict.fromkeys(finder.mistakes()), key=lambda mistake: mistake.position)


@dataclass(frozen=True)
class _Finder:
    parsed: Parsed
    columns: dict[int, tuple[int, str | None]]

    def mistakes(self) -> Iterator[Mistake]:
        for node in self.parsed.tree.walk():
            if isinstance(node, exp.Cast) and not node.args.get("safe"):  # `safe` is `try_cast`
                yield from self._cast(node)
            operands = _operands(node)
            if operands:
                yield from self._mixed(operands, isinstance(node, exp.Add))

    def _cast(self, node: exp.Cast) -> Iterator[Mistake]:
        leaf = self._leaf(node.this)
        try:
            type_ = canonical(node.to.sql("spark"))
        except ValueError:
            return
        if leaf is not None and leaf.text is not None and never_casts(leaf.text, type_):
            yield self._uncast(leaf, type_)

    def _mixed(self, operands: Sequence[exp.Expression | None], added: bool) -> Iterator[Mistake]:
        """Strings that Spark would cast to the type of the other operands. `added`: they are operands of `+`."""
        leaves = [leaf for node in operands if (leaf := self._leaf(node)) is not None]
        wanted = _common([leaf.type for leaf in leaves if leaf.type != "string"])
        for leaf in leaves:
            if wanted is None or leaf.type != "string":
                continue
            if leaf.text is None:
                message, hint = silent_cast(self.parsed.sql.text[leaf.start : leaf.end], "string", wanted, added=added)
                yield Mistake("HW414", self.parsed.sql.position(leaf.start, leaf.end), message, hint)
            elif never_casts(leaf.text, wanted):
                yield self._uncast(leaf, wanted)

    def _uncast(self, leaf: _Leaf, type_: str) -> Mistake:
        message, hint = uncast(self.parsed.sql.text[leaf.start : leaf.end], type_)
        return Mistake("HW415", self.parsed.sql.position(leaf.start, leaf.end), message, hint)

    def _leaf(self, node: exp.Expression | None) -> _Leaf | None:
        match node:
            case exp.Paren():
                return self._leaf(node.this)
            case exp.Neg(this=exp.Literal(is_string=False)):
                return self._leaf(node.this)
            case exp.Boolean():
                return _Leaf("boolean", 0, 0)
            case exp.Literal(is_string=False):
                return _Leaf("bigint" if node.name.isdigit() else "double", 0, 0)
            case exp.Literal():
                return self._text(node)
            case exp.Column():
                return self._column(node)
        return None

    def _text(self, node: exp.Literal) -> _Leaf | None:
        """A string literal. sqlglot does not keep its span, so it is found by its text if only one token has it."""
        tokens = [token for token in self.parsed.tokens if token.text == node.name]
        if len(tokens) != 1:
            return None
        return _Leaf("string", tokens[0].start, tokens[0].end + 1, node.name)

    def _column(self, node: exp.Column) -> _Leaf | None:
        starts = [part.meta["start"] - SHIFT for part in node.parts if "start" in part.meta]
        ends = [part.meta["end"] + 1 - SHIFT for part in node.parts if "end" in part.meta]
        end, type_ = self.columns.get(min(starts, default=-1), (-1, None))
        if type_ is None or end != max(ends, default=0):  # a field of a struct
            return None
        return _Leaf(type_, min(starts), end)


def _operands(node: exp.Expression) -> list[exp.Expression | None]:
    """The operands that Spark casts to one type; empty for other expressions."""
    match node:
        case exp.Between():
            return [node.this, node.args.get("low"), node.args.get("high")]
        case exp.In():
            return [node.this, *node.expressions]
        case exp.Coalesce():
            return [node.this, *node.expressions]
        case exp.If() if not isinstance(node.parent, exp.Case):
            return [node.args.get("true"), node.args.get("false")]
        case exp.Case():
            return [*(branch.args.get("true") for branch in node.args["ifs"]), node.args.get("default")]
        case exp.Binary() if isinstance(node, (*_COMPARISONS, *_ARITHMETIC)):
            return [node.this, node.expression]
    return []


def _common(types: Sequence[str]) -> str | None:
    """The type that Spark casts strings to beside values of these types; None where it depends on more."""
    if types and all(type_ in _WHOLE for type_ in types):
        return "bigint"
    if types and all(type_ in _WHOLE | {"float", "double"} or type_.startswith("decimal") for type_ in types):
        return "double"
    return types[0] if len(set(types)) == 1 and types[0] in _CAST_FROM_STRINGS else None
