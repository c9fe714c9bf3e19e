"""What is certain of an expression without Spark: type mistakes, constant results, and that it cannot fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokens import TokenType

from ...runtime.expressions.terms import OPAQUE, WHOLE, Term, is_number
from ...runtime.expressions.typed import read, read_tree
from ...runtime.expressions.typed_functions import form_of
from ...runtime.records.cast_texts import never_casts, silent_cast, uncast
from ..diagnostics import Diagnostics, Position
from .expressions import Expression, Ref, Scope
from .sql import SHIFT, Parsed, parse_sql


def cannot_fail(expression: Expression, type_of: Callable[[Ref], str | None], positive: Collection[str] = ()) -> bool:
    """Whether an expression cannot fail for any row. `positive`: names of value columns that are always above 0."""
    names = {ref: f"c{number}" for number, ref in enumerate(expression.refs)}
    columns = {name: type_of(ref) for ref, name in names.items()}
    not_zero = [name for ref, name in names.items() if ref.role == "value" and ref.name in positive]
    return read(expression.render(names.__getitem__), columns, not_zero).safe


# Certain type mistakes of untyped expressions, for `parse`: `revenue >= 'lots'`, `coalesce(category, 0)`,
# `cast('abc' as int)`. Only columns and literals that are operands of the same operator or function are checked.
# Spark's analyzer finds these mistakes and others, with the same messages.

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
    start: int = 0
    end: int = 0
    text: str | None = None


def certain_mistakes(expression: Expression, scope: Scope) -> list[Mistake]:
    """Type mistakes of an expression, in the order of the text."""
    parsed = parse_sql(expression.sql, Diagnostics())
    if parsed is None:
        return []
    finder = _Finder(parsed, {(ref.start, ref.end): scope.type_of(ref) for ref in expression.refs})
    return sorted(dict.fromkeys(finder.mistakes()), key=lambda mistake: mistake.position)


@dataclass(frozen=True)
class _Finder:
    parsed: Parsed
    columns: dict[tuple[int, int], str | None]

    def mistakes(self) -> Iterator[Mistake]:
        for term in read_tree(self.parsed.tree, self._column).walk():
            if isinstance(term.tree, exp.Cast) and not term.tree.args.get("safe"):  # `safe` is `try_cast`
                leaf = self._leaf(term.parts[0])
                if leaf is not None and leaf.text is not None and never_casts(leaf.text, term.type):
                    yield self._uncast(leaf, term.type)
            elif term.tree is not None and (form := form_of(term.tree)) is not None and form.together is not None:
                yield from self._mixed(form.together(term.tree, term.parts), isinstance(term.tree, exp.Add))

    def _mixed(self, operands: Sequence[Term], added: bool) -> Iterator[Mistake]:
        """Strings that Spark would cast to the type of the other operands. `added`: they are operands of `+`."""
        leaves = [leaf for term in operands if (leaf := self._leaf(term)) is not None]
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

    def _leaf(self, term: Term) -> _Leaf | None:
        match term.tree:
            case exp.Neg(this=exp.Literal(is_string=False)):
                return _Leaf(term.parts[0].type)
            case exp.Literal(is_string=True):
                return self._text(term.tree)
            case exp.Literal() | exp.Boolean():
                return _Leaf(term.type)
            case exp.Column() if term.type != OPAQUE:
                return _Leaf(term.type, *_span(term.tree))
        return None

    def _text(self, node: exp.Literal) -> _Leaf | None:
        """A string literal. sqlglot does not keep its span, so it is found by its text if only one token has it."""
        tokens = [token for token in self.parsed.tokens if token.text == node.name]
        if len(tokens) != 1:
            return None
        return _Leaf("string", tokens[0].start, tokens[0].end + 1, node.name)

    def _column(self, tree: exp.Column) -> Term:
        return Term(self.columns.get(_span(tree)) or OPAQUE, tree=tree)


def _span(column: exp.Column) -> tuple[int, int]:
    starts = [part.meta["start"] - SHIFT for part in column.parts if "start" in part.meta]
    ends = [part.meta["end"] + 1 - SHIFT for part in column.parts if "end" in part.meta]
    return min(starts, default=-1), max(ends, default=-1)


def _common(types: Sequence[str]) -> str | None:
    """The type that Spark casts strings to beside values of these types; None where it depends on more."""
    if types and all(map(is_number, types)):
        return "bigint" if all(type_ in WHOLE for type_ in types) else "double"
    return types[0] if len(set(types)) == 1 and types[0] in _CAST_FROM_STRINGS else None


# Constant results of an expression of strings: of `if(x > 9, 'a', name)` the text 'a', beside others.


@dataclass(frozen=True)
class Constant:
    """A constant result: its text, and its span in the SQL."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Results:
    """The constant results of an expression, in the order of the text. `complete`: it has no others but null."""

    constants: tuple[Constant, ...]
    complete: bool


def results(expression: Expression) -> Results:
    """The results of an expression that are string literals, also in the branches of a `case`."""
    parsed = parse_sql(expression.sql, Diagnostics())
    leaves = [] if parsed is None else list(_results(parsed.tree))
    texts = [leaf.name for leaf in leaves if isinstance(leaf, exp.Literal) and leaf.is_string]
    others = [leaf for leaf in leaves if not isinstance(leaf, exp.Null)]
    constants = [_constant(parsed, text) for text in dict.fromkeys(texts)] if parsed is not None else []
    return Results(tuple(constants), parsed is not None and len(others) == len(texts))


def _results(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of an expression that can be its result."""
    match tree:
        case exp.Paren():
            parts = [tree.this]
        case exp.Case():
            parts = [*(choice.args["true"] for choice in tree.args["ifs"]), tree.args.get("default")]
        case exp.If():
            parts = [tree.args["true"], tree.args.get("false")]
        case exp.Coalesce():
            parts = [tree.this, *tree.expressions]
        case _:
            yield tree
            return
    for part in parts:
        if part is not None:
            yield from _results(part)


def _constant(parsed: Parsed, text: str) -> Constant:
    """The constant with its span. If the text has it several times, the one behind `then` or `else`, or else the last.

    sqlglot does not keep the span of a literal.
    """
    found = [n for n, token in enumerate(parsed.tokens) if token.token_type is TokenType.STRING and token.text == text]
    chosen = (n for n in found if n and parsed.tokens[n - 1].token_type in (TokenType.THEN, TokenType.ELSE))
    token = parsed.tokens[next(chosen, found[-1])]
    return Constant(text, token.start, token.end + 1)
