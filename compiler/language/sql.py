"""The text of an expression: parsed as Spark SQL, with a way back from each character to its place in the YAML.

Owns what an expression may be at all (one value of one row, no queries) and which functions it may call. Knows no
columns; see `expressions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp, parse_one
from sqlglot.dialects import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from ..diagnostics import Diagnostics, Position, did_you_mean
from ..reading.nodes import Scalar
from .functions import (
    AGGREGATES,
    FORBIDDEN,
    GENERATORS,
    SCALAR_FUNCTIONS,
    SPARK_AGGREGATES,
    WINDOW_FUNCTIONS,
    WORDS_WITHOUT_PARENTHESES,
)

_SELECT = "SELECT "
_KEYWORDS = """
in and or not when then else case between like ilike rlike regexp as is distinct from interval div values all escape
using by over on where select union end
"""
_WORDS_BEFORE_PARENTHESES = frozenset(_KEYWORDS.split())
_QUANTIFIED = frozenset({"like", "ilike"})
"""Behind these, `any`, `some` and `all` begin a list of patterns."""


@dataclass(frozen=True)
class Sql:
    """SQL on one line without comments. `offsets`: for each character its place in the scalar's text."""

    scalar: Scalar
    text: str
    offsets: tuple[int, ...]

    def position(self, start: int = 0, end: int | None = None) -> Position:
        """The place of `text[start]`, or of `text[start:end]`."""
        if not self.offsets:
            return self.scalar.position
        if start >= len(self.offsets):
            start, end = len(self.offsets) - 1, None
        last = None if end is None else self.offsets[min(end, len(self.offsets)) - 1] + 1
        return self.scalar.position_at(self.offsets[start], last)

    def replaced(self, start: int, end: int, text: str) -> Sql:
        """With `text` in the place of `[start, end)`, all of which is shown where the first character of that was."""
        offsets = (*self.offsets[:start], *(self.offsets[start : start + 1] * len(text)), *self.offsets[end:])
        return Sql(self.scalar, self.text[:start] + text + self.text[end:], offsets)

    def __getitem__(self, span: slice) -> Sql:
        """A part of it, without blanks around."""
        start, end, _ = span.indices(len(self.text))
        part = self.text[start:end]
        start += len(part) - len(part.lstrip())
        end = start + len(part.strip())
        return Sql(self.scalar, self.text[start:end], self.offsets[start:end])


@dataclass(frozen=True)
class Parsed:
    """An expression's text, tokens and tree. Offsets of `tree` nodes are those of `sql.text` plus `SHIFT`."""

    sql: Sql
    tokens: tuple[Token, ...]
    tree: exp.Expression


SHIFT = len(_SELECT)


@dataclass(frozen=True)
class Call:
    """A function's name where it is called: `text[start:end]`; `index` is the name's token."""

    name: str
    index: int
    start: int
    end: int


def parse(scalar: Scalar, diagnostics: Diagnostics) -> Parsed | None:
    """The expression in a scalar, or None after a diagnostic."""
    if scalar.broken:
        return None
    try:
        sql = _tidy(scalar)
    except TokenError:
        _syntax_error(Sql(scalar, "", ()), scalar.position, "A quote is not closed", diagnostics)
        return None
    return parse_sql(sql, diagnostics)


def parse_sql(sql: Sql, diagnostics: Diagnostics) -> Parsed | None:
    """The expression in an SQL text, or None after a diagnostic."""
    try:
        tokens = tuple(_tokenize(sql.text))
        tree = parse_one(_SELECT + sql.text, dialect="spark") if sql.text else None
    except RecursionError:
        _syntax_error(sql, sql.position(0, len(sql.text)), "It is nested too deeply", diagnostics)
        return None
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        # sqlglot gives the column of the last character of the word at which it stopped, counted from 1.
        end = max(int(detail.get("col") or 0) - SHIFT, 1)
        start = max(end - len(str(detail.get("highlight") or " ")), 0)
        description = str(detail.get("description") or "")
        if "Unexpected token" in description:
            description = f"'{detail.get('highlight')}' is not expected here"
        _syntax_error(sql, sql.position(start, max(end, start + 1)), description, diagnostics)
        return None
    found = _single(tree)
    if found is None:
        stray = next((node for node in tree.find_all(exp.Alias, exp.From)), None) if tree is not None else None
        position, what = sql.position(0, len(sql.text)), "This is not one expression"
        if isinstance(stray, exp.Alias):
            position, what = _of(sql, stray.args["alias"]), "There is a word too many"
        _syntax_error(sql, position, what, diagnostics)
        return None
    return Parsed(sql, tokens, found)


def calls(parsed: Parsed) -> Iterator[Call]:
    """The functions that an expression calls, in the order of the text. In backticks, any name is a function's."""
    tokens = parsed.tokens
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


def check(parsed: Parsed, diagnostics: Diagnostics, aggregates: bool = False) -> bool:
    """Whether an expression is one of one row with functions that are allowed; else reports why not.

    `aggregates`: whether it may hold aggregates.
    """
    before = len(diagnostics)
    if not _check_form(parsed, diagnostics):
        return False
    for call in calls(parsed):
        _check_call(parsed, call, diagnostics, aggregates)
    tokens = parsed.tokens
    for index, token in enumerate(tokens):
        word = token.text.lower()
        called = index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.L_PAREN
        dotted = index > 0 and tokens[index - 1].token_type is TokenType.DOT
        if (
            word in WORDS_WITHOUT_PARENTHESES
            and not called
            and not dotted
            and token.token_type is not TokenType.IDENTIFIER
        ):
            message = f"'{word}' is not deterministic."
            diagnostics.add("HW406", parsed.sql.position(token.start, token.end + 1), message, FORBIDDEN.get(word))
    return len(diagnostics) == before


def _tidy(scalar: Scalar) -> Sql:
    """Without comments, blanks as one, so that it stands in one line of generated code."""
    raw = scalar.text
    text: list[str] = []
    offsets: list[int] = []
    last = 0
    for token in _tokenize(raw):
        if text and token.start < last:
            continue  # `10L` comes as `10`, `::` and `bigint`, each with the place of all three
        if text and token.start > last:
            text.append(" ")
            offsets.append(last)
        text.append(raw[token.start : token.end + 1])
        offsets.extend(range(token.start, token.end + 1))
        last = token.end + 1
    return Sql(scalar, "".join(text), tuple(offsets))


def _tokenize(text: str) -> list[Token]:
    tokens: list[Token] = Dialect.get_or_raise("spark").tokenize(text)
    return tokens


def _single(tree: exp.Expression | None) -> exp.Expression | None:
    """The one expression of `SELECT <expression>`; None when there is more or less."""
    if not isinstance(tree, exp.Select):
        return None
    others = [value for name, value in tree.args.items() if value and name not in ("expressions", "kind", "hint")]
    if others or len(tree.expressions) != 1 or isinstance(tree.expressions[0], exp.Alias):
        return None
    found: exp.Expression = tree.expressions[0]
    return found


def _syntax_error(sql: Sql, position: Position, description: str, diagnostics: Diagnostics) -> None:
    if sql.scalar.cut_by_comment is not None:
        message = "The expression ends where YAML sees a comment: at ' #'."
        diagnostics.add("HW402", sql.scalar.cut_by_comment, message, "Put the whole expression in quotes.")
        return
    what = description.rstrip(".") if description and "<class" not in description else "Something is missing here"
    diagnostics.add("HW401", position, f"The expression does not parse: {what[:1].lower()}{what[1:]}.")


def _check_form(parsed: Parsed, diagnostics: Diagnostics) -> bool:
    for node in parsed.tree.walk():
        what = None
        if isinstance(node, exp.Query):
            what = "A query"
        elif isinstance(node, exp.Window):
            what = "A window function"
        elif isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            what = "A star"
        elif isinstance(node, (exp.Placeholder, exp.Parameter)):
            what = "A parameter"
        if what is not None:
            position = _of(parsed.sql, node)
            diagnostics.add("HW407", position, f"{what} cannot stand in an expression.", _WAYS.get(what))
            return False
    return True


_WAYS = {
    "A query": "Use a `join` step to look up rows of a table.",
    "A window function": "Use `window` and `aggregate` steps.",
    "A star": "Name the columns.",
}


def _check_call(parsed: Parsed, call: Call, diagnostics: Diagnostics, aggregates: bool) -> None:
    position = parsed.sql.position(call.start, call.end)
    name = call.name
    if name == "current_timestamp":
        return
    if name == "unix_timestamp" and parsed.tokens[call.index + 2].token_type is TokenType.R_PAREN:
        diagnostics.add("HW406", position, "'unix_timestamp()' is not deterministic.", FORBIDDEN["unix_timestamp()"])
    elif name in FORBIDDEN:
        diagnostics.add("HW406", position, f"'{name}' is not deterministic.", FORBIDDEN[name])
    elif name in GENERATORS:
        diagnostics.add("HW407", position, f"'{name}' makes several rows.", "Use the `explode` step.")
    elif name in WINDOW_FUNCTIONS:
        message = f"'{name}' is a window function."
        diagnostics.add("HW407", position, message, "Use `window` and `aggregate` steps.")
    elif name in SPARK_AGGREGATES:
        if not aggregates:
            diagnostics.add("HW408", position, f"'{name}' is an aggregate.", "Use it in an `aggregate` step.")
        elif name not in AGGREGATES:
            message = f"The aggregate '{name}' is not supported."
            diagnostics.add("HW409", position, message, f"There are {', '.join(sorted(AGGREGATES))}.")
    elif name not in SCALAR_FUNCTIONS:
        known = SCALAR_FUNCTIONS | AGGREGATES.keys()
        diagnostics.add("HW405", position, f"There is no function '{name}'.", did_you_mean(name, known))


def _of(sql: Sql, node: exp.Expression) -> Position:
    """The place of a node: from its first to its last word that knows where it is."""
    spans = [inner.meta for inner in node.walk() if inner.meta.get("start") is not None]
    if not spans:
        return sql.position(0, len(sql.text))
    start = min(int(meta["start"]) for meta in spans) - SHIFT
    end = max(int(meta["end"]) for meta in spans) + 1 - SHIFT
    return sql.position(max(start, 0), max(end, 1))
