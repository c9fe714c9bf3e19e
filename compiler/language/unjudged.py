"""What is certainly wrong with the types of an expression, found without Spark, for `parse`.

Only columns and literals that stand beside one another are looked at: `revenue >= 'lots'`, `coalesce(category, 0)`,
`cast('abc' as int)`. Whatever is found here Spark's analyzer finds too, with the same message; it finds more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ...runtime.records.cast_texts import never_casts, silent_cast, uncast
from ..diagnostics import Diagnostics, Position
from ..types import canonical
from .expressions import Expression, Scope
from .sql import SHIFT, Parsed, parse_sql

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod)
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_TAKEN = frozenset({"boolean", "date", "timestamp", "timestamp_ntz"})


@dataclass(frozen=True)
class Mistake:
    """A finding as the judge reports it."""

    code: str
    position: Position
    message: str
    hint: str


@dataclass(frozen=True)
class _Leaf:
    """A column or a literal: its type, its place in the SQL, and the text of a literal of type string."""

    type: str
    start: int
    end: int
    text: str | None = None


def certain_mistakes(expression: Expression, scope: Scope) -> list[Mistake]:
    """The mistakes of an expression that can be seen without Spark, in the order of the text."""
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
            group = _beside(node)
            if group:
                yield from self._mixed(group, isinstance(node, exp.Add))

    def _cast(self, node: exp.Cast) -> Iterator[Mistake]:
        leaf = self._leaf(node.this)
        try:
            type_ = canonical(node.to.sql("spark"))
        except ValueError:
            return
        if leaf is not None and leaf.text is not None and never_casts(leaf.text, type_):
            yield self._uncast(leaf, type_)

    def _mixed(self, group: Sequence[exp.Expression | None], added: bool) -> Iterator[Mistake]:
        leaves = [leaf for node in group if (leaf := self._leaf(node)) is not None]
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
        """A text literal. sqlglot does not keep its place: it is that of the one token with this text."""
        found = [token for token in self.parsed.tokens if token.text == node.name]
        if len({token.token_type for token in found}) != 1 or len(found) != 1:
            return None
        return _Leaf("string", found[0].start, found[0].end + 1, node.name)

    def _column(self, node: exp.Column) -> _Leaf | None:
        starts = [part.meta["start"] - SHIFT for part in node.parts if "start" in part.meta]
        ends = [part.meta["end"] + 1 - SHIFT for part in node.parts if "end" in part.meta]
        end, type_ = self.columns.get(min(starts, default=-1), (-1, None))
        if type_ is None or end != max(ends, default=0):  # a field of a struct is not looked into
            return None
        return _Leaf(type_, min(starts), end)


def _beside(node: exp.Expression) -> list[exp.Expression | None]:
    """The parts of an expression that Spark gives one type."""
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
    """The type that Spark casts texts to beside values of these types; None where it depends on more."""
    if types and all(type_ in _WHOLE for type_ in types):
        return "bigint"
    if types and all(type_ in _WHOLE | {"float", "double"} or type_.startswith("decimal") for type_ in types):
        return "double"
    return types[0] if len(set(types)) == 1 and types[0] in _TAKEN else None
