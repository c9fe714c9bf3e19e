"""Parses the text of an expression as Spark SQL, and maps its characters to positions in the YAML.

This module checks that a text is one expression of a limited size. `determinism` checks what it contains and calls,
`expressions` resolves its columns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from sqlglot import exp, parse_one
from sqlglot.dialects import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from ...runtime.expressions.misread import ExpressionSql
from ...runtime.records.names import SQL_WORDS
from ..diagnostics import Diagnostics, Position
from ..reading.source import ScalarNode

_SELECT = "SELECT "
_OPEN = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSE = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_KEYWORDS = """
in and or not when then else case between like ilike rlike regexp as is distinct from interval div values all escape
using by over on where select union end
"""
_WORDS_BEFORE_PARENTHESES = frozenset(_KEYWORDS.split())
_CHOICE = "Write `if(<condition>, <value>, <other value>)`."
_INSTEAD = {"&&": "Write `and`.", "===": "Write `=`.", "!==": "Write `<>`.", "=>": "Write `>=`.", "?": _CHOICE}
"""Hints for operators of other languages."""

_INCOMPLETE = "something is missing here"
_MISSING = {
    **{f"Expect{ending} {sign}": f"a '{sign}' is missing" for ending in ("ing", "ed") for sign in "()[]{}>"},
    "Expected END after CASE": "the `end` of a `case` is missing",
    "Expected AS after CAST": "`as` and a type are missing in a `cast`",
    "Expected TYPE after CAST": "a type is missing in a `cast`",
    "Expected type": "a type is missing behind `::`, or it is not a type of Spark",
    "Expected FROM or comma after EXTRACT": "`from` is missing in `extract`",
}
"""Error descriptions of sqlglot, and our text for them, without a full stop."""

_TOO_MANY = re.compile(r"provided arguments \((\d+)\) is greater than the maximum .*\((\d+)\)")
_LITERALS = frozenset({TokenType.NULL, TokenType.TRUE, TokenType.FALSE})
_BETWEEN_OPERANDS = "and or not like ilike rlike regexp between as any all distinct then else when interval if"
_OPERATORS = frozenset(_BETWEEN_OPERANDS.split())
"""Keywords between operands, or around them."""

_AT_OPERANDS = "not case when null true false current_timestamp current_date"
_BEGIN_OPERANDS = frozenset(_AT_OPERANDS.split())
_UNFINISHED = frozenset({"not", "case", "when"})
"""Those of them that are not an operand by themselves."""

_BEFORE_OPERANDS = frozenset(
    {TokenType.L_PAREN, TokenType.COMMA, TokenType.DOT, TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.EQ}
)

_BEHIND_OPERANDS = frozenset(
    {TokenType.GT, TokenType.LT, TokenType.GTE, TokenType.LTE, TokenType.EQ, TokenType.NEQ, TokenType.SLASH}
    | {TokenType.COMMA, TokenType.R_PAREN}
)
"""Signs that follow an operand."""

_QUANTIFIED = frozenset({"like", "ilike"})
"""After these words, `any`, `some` and `all` begin a list of patterns."""

_CACHE_SIZE = 1000
"""Texts in the caches of the parser: a check parses the same texts repeatedly."""

MAX_LEVELS = 300
"""The maximal depth of an expression. The schema limits its length.

Spark's parser rejects an expression, or overflows its stack, between 500 and 1,000 levels. The SQL that a step puts
around an expression needs some levels, too.
"""


@dataclass(frozen=True)
class Sql:
    """SQL on one line without comments. `offsets`: the index of each character in the scalar's text."""

    scalar: ScalarNode
    text: str
    offsets: tuple[int, ...]

    def position(self, start: int = 0, end: int | None = None) -> Position:
        """The position in the file of `text[start]`, or of `text[start:end]`."""
        if not self.offsets:
            return self.scalar.position
        if start >= len(self.offsets):
            start, end = len(self.offsets) - 1, None
        last = None if end is None else self.offsets[min(end, len(self.offsets)) - 1] + 1
        return self.scalar.position_at(self.offsets[start], last)

    def replaced(self, start: int, end: int, text: str) -> Sql:
        """With `text` in place of `[start, end)`.

        Characters of `text` get the offset of the first replaced character: in `a b` with the offsets 0, 1, 2,
        `replaced(2, 3, "xyz")` gives `a xyz` with the offsets 0, 1, 2, 2, 2.
        """
        offsets = (*self.offsets[:start], *(self.offsets[start : start + 1] * len(text)), *self.offsets[end:])
        return Sql(self.scalar, self.text[:start] + text + self.text[end:], offsets)

    def __getitem__(self, span: slice) -> Sql:
        """A part of the SQL, without surrounding blanks."""
        start, end, _ = span.indices(len(self.text))
        part = self.text[start:end]
        start += len(part) - len(part.lstrip())
        end = start + len(part.strip())
        return Sql(self.scalar, self.text[start:end], self.offsets[start:end])


@dataclass(frozen=True)
class Parsed:
    """An expression's text, tokens and tree. Offsets in `tree` are those of `sql.text` plus `SHIFT`."""

    sql: Sql
    tokens: tuple[Token, ...]
    tree: exp.Expression


SHIFT = len(_SELECT)
"""An expression is parsed behind `SELECT `, so offsets in its tree are greater by this."""


@dataclass(frozen=True)
class Call:
    """The name of a called function: `text[start:end]`. `index`: the token of the name."""

    name: str
    index: int
    start: int
    end: int


def parse(scalar: ScalarNode, diagnostics: Diagnostics, udfs: Collection[str] = ()) -> Parsed | None:
    """The expression in a scalar; None, with a diagnostic, if it does not parse. `udfs`: see `parse_sql`."""
    if scalar.broken:
        return None
    try:
        sql = _tidy(scalar)
    except TokenError:
        _syntax_error(Sql(scalar, "", ()), scalar.position, "A quote is not closed", diagnostics)
        return None
    return parse_sql(sql, diagnostics, udfs)


def parse_sql(sql: Sql, diagnostics: Diagnostics, udfs: Collection[str] = ()) -> Parsed | None:
    """The expression in an SQL text; None, with a diagnostic, if it does not parse.

    `udfs`: names of functions of the project, which the tree has under other names.
    """
    try:
        tokens = _tokenize(sql.text)
        text = _unnamed(sql.text, tokens, udfs)
        tree = read(_SELECT + text) if text else None
    except RecursionError:
        _too_large(sql.position(0, len(sql.text)), "too many levels of parentheses, calls or conditions", diagnostics)
        return None
    except ParseError as error:
        _not_parsed(sql, tokens, error, diagnostics)
        return None
    expression = _single(tree)
    if expression is None:
        _not_single(sql, tokens, tree, diagnostics)
        return None
    keyword = _column_without_backticks(tokens, expression)
    if keyword is not None:
        position = sql.position(keyword.start, keyword.end + 1)
        description = f"'{keyword.text}' is a keyword of SQL"
        _syntax_error(sql, position, description, diagnostics, _backticks(keyword.text))
        return None
    levels = _levels(expression)
    if levels > MAX_LEVELS:
        _too_large(sql.position(0, len(sql.text)), f"{levels:,} levels, and may have {MAX_LEVELS}", diagnostics)
        return None
    return Parsed(sql, tokens, expression)


def _not_parsed(sql: Sql, tokens: Sequence[Token], error: ParseError, diagnostics: Diagnostics) -> None:
    """Report where sqlglot stopped, with our own text, because its messages name classes and tokens of sqlglot."""
    detail = error.errors[0] if error.errors else {}
    # sqlglot gives the column of the last character of the word at which it stopped, counted from 1.
    end = max(int(detail.get("col") or 0) - SHIFT, 1)
    stopped = str(detail.get("highlight") or "")
    start = max(end - len(stopped or " "), 0)
    description = str(detail.get("description") or "")
    what = _MISSING.get(description)
    if counts := _TOO_MANY.search(description):
        what = f"the function has {counts[1]} arguments and takes at most {counts[2]}"
    elif what is None:
        what = f"'{stopped}' is not expected here" if stopped and "Required keyword" not in description else _INCOMPLETE
    word = _keyword_as_column(tokens, end)
    hint = _INSTEAD.get(stopped) or (None if word is None else _backticks(word))
    _syntax_error(sql, sql.position(start, max(end, start + 1)), what, diagnostics, hint)


def _keyword_as_column(tokens: Sequence[Token], end: int) -> str | None:
    """The last keyword up to the offset `end` that was probably meant as a column's name, or None.

    `from` may be meant as a column anywhere, `and` only where an operand begins. `not`, which itself begins an operand,
    is meant as a column behind a dot, and before a sign that cannot begin an operand.
    """
    result = None
    for before, token, after in zip((None, *tokens), tokens, (*tokens[1:], None), strict=False):
        word = token.text.lower()
        if token.start > end or token.token_type is TokenType.IDENTIFIER:
            continue
        operand = before is None or before.token_type in _BEFORE_OPERANDS or before.text.lower() in _KEYWORDS.split()
        dotted = before is not None and before.token_type is TokenType.DOT
        ended = after is not None and after.token_type in _BEHIND_OPERANDS and word in _UNFINISHED
        if (
            word in SQL_WORDS
            and (operand or word not in _OPERATORS)
            and (word not in _BEGIN_OPERANDS or dotted or ended)
        ):
            result = token.text
    return result


def _column_without_backticks(tokens: Sequence[Token], tree: exp.Expression) -> Token | None:
    """A keyword that Spark reads as a column, and sqlglot as a literal or interval: `value.null`, `interval * 2`."""
    literal = next(
        (
            token
            for before, token in pairwise(tokens)
            if before.token_type is TokenType.DOT and token.token_type in _LITERALS
        ),
        None,
    )
    without_unit = any(interval.args.get("unit") is None for interval in tree.find_all(exp.Interval))
    return literal or next((token for token in tokens if without_unit and token.token_type is TokenType.INTERVAL), None)


def _backticks(word: str) -> str:
    return f"Put a column of that name in backticks: `{word}`."


def _unnamed(text: str, tokens: Sequence[Token], udfs: Collection[str]) -> str:
    """The text with `_` for the letters of the project's functions, whose names may be keywords of sqlglot.

    `percent(x)` and `match(x)` would not parse, because other dialects use these words.
    """
    for call in called(tokens) if udfs else ():
        if call.name in udfs:
            text = text[: call.start] + "_" * (call.end - call.start) + text[call.end :]
    return text


def may_be_called(name: str) -> bool:
    """Whether a name before parentheses is a function, not a keyword such as `in`."""
    try:
        return [call.name for call in called(_tokenize(f"{name}(x)"))] == [name.lower()]
    except TokenError:
        return False


def calls(parsed: Parsed) -> Iterator[Call]:
    """The functions that an expression calls, in the order of the text. A name in backticks is always a function."""
    return called(parsed.tokens)


def called(tokens: Sequence[Token]) -> Iterator[Call]:
    """The functions that are called in tokens, in their order."""
    for index, token in enumerate(tokens[:-1]):
        if tokens[index + 1].token_type is not TokenType.L_PAREN:
            continue
        word = token.text.lower()
        before = tokens[index - 1] if index else None
        behind = before.text.lower() if before is not None else ""
        typed = before is not None and (before.token_type is TokenType.DCOLON or behind == "as")
        clause = word == "filter" and before is not None and before.token_type is TokenType.R_PAREN
        patterns = word in ("any", "some") and behind in _QUANTIFIED
        plain = word.isidentifier() and word not in _WORDS_BEFORE_PARENTHESES and not (typed or clause or patterns)
        if plain or token.token_type is TokenType.IDENTIFIER:
            yield Call(word, index, token.start, token.end + 1)


def _levels(tree: exp.Expression) -> int:
    """The depth of a tree. A chain of `and`, or of `or`, counts as one level, as in Spark's parser."""
    deepest = 0
    left: list[tuple[exp.Expression, int]] = [(tree, 1)]
    while left:
        node, level = left.pop()
        deepest = max(deepest, level)
        chained = isinstance(node, exp.And | exp.Or)
        left += [(child, level + (not chained or type(child) is not type(node))) for child in node.iter_expressions()]
    return deepest


def _too_large(position: Position, what: str, diagnostics: Diagnostics) -> None:
    diagnostics.add("HW420", position, f"This expression has {what}.", "Compute parts of it in steps before this one.")


def closing(tokens: Sequence[Token], opening: int) -> int:
    """The index of the bracket that closes the one at `opening`."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += (tokens[index].token_type in _OPEN) - (tokens[index].token_type in _CLOSE)
        if depth == 0:
            return index
    raise AssertionError("the expression has been parsed, so its parentheses match")


def arguments(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """The tokens between commas that are outside of inner parentheses."""
    spans: list[list[Token]] = [[]] if tokens else []
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if token.token_type is TokenType.COMMA and depth == 0:
            spans.append([])
        else:
            spans[-1].append(token)
    return [span for span in spans if span]


def _tidy(scalar: ScalarNode) -> Sql:
    """The text on one line, without comments and with single blanks, as in generated code."""
    raw = scalar.text
    text: list[str] = []
    offsets: list[int] = []
    last = 0
    for token in _tokenize(raw):
        if text and token.start < last:
            continue  # sqlglot reads `10L` as `10`, `::` and `bigint`, all three with the span of `10L`
        if text and token.start > last:
            text.append(" ")
            offsets.append(last)
        text.append(raw[token.start : token.end + 1])
        offsets.extend(range(token.start, token.end + 1))
        last = token.end + 1
    return Sql(scalar, "".join(text), tuple(offsets))


@lru_cache(maxsize=_CACHE_SIZE)
def read(text: str) -> exp.Expr:
    """The tree of a text in Spark SQL. It is cached and shared: do not change it. Raises ParseError."""
    return parse_one(text, dialect=ExpressionSql)


@lru_cache(maxsize=_CACHE_SIZE)
def _tokenize(text: str) -> tuple[Token, ...]:
    return tuple(Dialect.get_or_raise("spark").tokenize(text))


def _single(tree: exp.Expression | None) -> exp.Expression | None:
    """The expression of `SELECT <expression>`; None if the text has several expressions or none."""
    if not isinstance(tree, exp.Select):
        return None
    others = [value for name, value in tree.args.items() if value and name not in ("expressions", "kind", "hint")]
    if others or len(tree.expressions) != 1 or isinstance(tree.expressions[0], exp.Alias):
        return None
    expression: exp.Expression = tree.expressions[0]
    return expression


def _not_single(sql: Sql, tokens: Sequence[Token], tree: exp.Expression | None, diagnostics: Diagnostics) -> None:
    """Report why a text is not one expression: a name, a word too many or several values."""
    stray = next((node for node in tree.find_all(exp.Alias, exp.From)), None) if tree is not None else None
    mark = next((token for token in tokens if token.token_type is TokenType.PLACEHOLDER), None)
    if mark is not None:
        _syntax_error(sql, sql.position(mark.start, mark.end + 1), "'?' is not expected here", diagnostics, _CHOICE)
        return
    if not isinstance(stray, exp.Alias):
        _syntax_error(sql, sql.position(0, len(sql.text)), "This is not one expression", diagnostics)
        return
    position = position_of(sql, stray.args["alias"])
    named = next((index for index, token in enumerate(tokens) if token.token_type is TokenType.ALIAS), None)
    if named is None or stray.parent is not tree:
        _syntax_error(sql, position, "There is a word too many", diagnostics)
        return
    position = sql.position(tokens[named].start, len(sql.text))
    message = f"'{sql.text[tokens[named].start :]}' names the expression, which is not allowed here."
    value = sql.text[: tokens[named].start].strip()
    hint = f"Write the name as the key in front: `{stray.alias}: {value}`."
    diagnostics.add("HW407", position, message, hint)


def _syntax_error(
    sql: Sql, position: Position, description: str, diagnostics: Diagnostics, hint: str | None = None
) -> None:
    if sql.scalar.cut_by_comment is not None:
        message = "The expression ends at ' #', where YAML begins a comment."
        diagnostics.add("HW402", sql.scalar.cut_by_comment, message, "Put the whole expression in quotes.")
        return
    diagnostics.add(
        "HW401", position, f"The expression does not parse: {description[:1].lower()}{description[1:]}.", hint
    )


def position_of(sql: Sql, node: exp.Expression) -> Position:
    """The position of a node in the file, from its first to its last token with a known offset."""
    spans = [inner.meta for inner in node.walk() if inner.meta.get("start") is not None]
    if not spans:
        return sql.position(0, len(sql.text))
    start = min(int(meta["start"]) for meta in spans) - SHIFT
    end = max(int(meta["end"]) for meta in spans) + 1 - SHIFT
    return sql.position(max(start, 0), max(end, 1))
