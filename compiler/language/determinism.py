"""Checks that expressions are deterministic: the same record always gives the same value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from ...runtime.expressions.types import of_others
from ...runtime.records.cast_texts import WRITE_OUT, never_casts, takes_the_clock, uncast
from ..diagnostics import Diagnostics, did_you_mean
from .functions import (
    AGGREGATES,
    FORBIDDEN,
    GENERATORS,
    NOT_OFFERED,
    SCALAR_FUNCTIONS,
    SPARK_AGGREGATES,
    UNSAFE,
    WINDOW_FUNCTIONS,
    WORDS_WITHOUT_PARENTHESES,
)
from .sql import Call, Parsed, arguments, calls, closing, position_of

# Options of the functions for JSON, CSV and XML: `from_json(text, 'a int', map('mode', 'FAILFAST'))`.
#
# Some of Spark's options name files or addresses, or use the machine's time zone and encoding. Only options of the
# format itself are allowed, and only in a form that can be checked: a `map` of string literals.

_ALLOWED = {
    "json": """
        allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros
        allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames columnNameOfCorruptRecord dateFormat
        dropFieldIfAllNull ignoreNullFields locale mode prefersDecimal pretty primitivesAsString singleVariantColumn
        timestampFormat timestampNTZFormat writeNonAsciiCharacterAsCodePoint
    """,
    "csv": """
        charToEscapeQuoteEscaping columnNameOfCorruptRecord comment dateFormat delimiter emptyValue escape escapeQuotes
        ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace locale maxCharsPerColumn maxColumns mode nanValue negativeInf
        nullValue positiveInf prefersDate quote quoteAll sep singleVariantColumn timestampFormat timestampNTZFormat
        unescapedQuoteHandling
    """,
    "xml": """
        arrayElementName attributePrefix columnNameOfCorruptRecord dateFormat declaration excludeAttribute
        ignoreNamespace ignoreSurroundingSpaces locale mode nullValue prefersDecimal rootTag rowTag singleVariantColumn
        timestampFormat timestampNTZFormat validateName valueTag
    """,
}

OPTIONS = {format_: tuple(names.split()) for format_, names in _ALLOWED.items()}
"""The allowed options of each format."""

WITH_OPTIONS = {
    f"{function}_{format_}": (format_, index)
    for function, index in (("from", 2), ("to", 1), ("schema_of", 1))
    for format_ in OPTIONS
}
"""Functions with options: the format, and the index of the options among the arguments."""


def option_names(argument: Sequence[Token]) -> Iterator[Token] | None:
    """The names in `map('name', 'value', ...)`; None for an argument of another form."""
    head, body = argument[:2], argument[2:-1]
    closed = bool(argument) and argument[-1].token_type is TokenType.R_PAREN
    if [token.text.lower() for token in head] != ["map", "("] or not closed:
        return None
    for index, token in enumerate(body):
        expected = TokenType.COMMA if index % 2 else TokenType.STRING
        if token.token_type is not expected:
            return None
    return iter(body[::4]) if len(body) % 4 == 3 or not body else None


def is_allowed(format_: str, name: str) -> bool:
    """Whether an option of a format is allowed. Spark ignores upper and lower case here."""
    return name.lower() in {option.lower() for option in OPTIONS[format_]}


# Functions, types and literals.
#
# This module checks the tokens of the text. Spark's analyzer checks what depends on types, such as a string that Spark
# casts to a time (`runtime/cluster/spark/analyzer.py`).

_TIMES = frozenset({"date", "timestamp", "timestamp_ltz", "timestamp_ntz"})
_TEXTS = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.NATIONAL_STRING})


def check(
    parsed: Parsed, diagnostics: Diagnostics, aggregates: bool = False, udfs: Collection[str] = frozenset()
) -> bool:
    """Whether an expression uses only allowed functions and types; otherwise reports the others.

    `aggregates`: aggregates are allowed. `udfs`: the names of Python functions that it may call.
    """
    before = len(diagnostics)
    for call in calls(parsed):
        if call.name not in udfs:
            _check_call(parsed, call, diagnostics, aggregates, udfs)
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
        if word in _TIMES and not dotted:
            _check_time(parsed, index, diagnostics)
        if index > 0 and (tokens[index - 1].token_type in (TokenType.ALIAS, TokenType.DCOLON)):
            _check_type(parsed, index, diagnostics)
    return len(diagnostics) == before


def _check_type(parsed: Parsed, index: int, diagnostics: Diagnostics) -> None:
    """Report a type of other databases in a cast."""
    token = parsed.tokens[index]
    instead = of_others(token.text)
    if instead is None:
        return
    following = parsed.tokens[index + 1 : index + 2]
    sized = bool(following) and following[0].token_type is TokenType.L_PAREN
    end = parsed.tokens[closing(parsed.tokens, index + 1)].end + 1 if sized else token.end + 1
    name, hint = parsed.sql.text[token.start : end], f"Write {instead}."
    message = f"'{name}' is not a type."
    if sized:
        message, hint = f"'{name}' would not limit the text's length.", f"{hint} `left(x, 10)` cuts a text."
    diagnostics.add("HW207", parsed.sql.position(token.start, end), message, hint)


def _check_time(parsed: Parsed, index: int, diagnostics: Diagnostics) -> None:
    """Report a literal that is not a complete time: Spark evaluates `timestamp 'now'` once, by its clock."""
    texts = []
    for token in parsed.tokens[index + 1 :]:
        if token.token_type not in _TEXTS:
            break
        texts.append(token)
    if not texts:
        return
    position = parsed.sql.position(texts[0].start, texts[-1].end + 1)
    type_ = parsed.tokens[index].text.lower()
    if len(texts) == 1 and never_casts(texts[0].text, "timestamp" if type_ == "timestamp_ltz" else type_):
        written = parsed.sql.text[texts[0].start : texts[0].end + 1]
        diagnostics.add("HW415", position, *uncast(written, type_))
    elif len(texts) > 1 or takes_the_clock(texts[0].text):
        diagnostics.add("HW417", position, f"'{texts[0].text[:40]}' is not a complete time.", WRITE_OUT)


def is_of_one_row(parsed: Parsed, diagnostics: Diagnostics) -> bool:
    """Whether an expression can be computed from one row; otherwise reports the parts that cannot."""
    valid = True
    for node in parsed.tree.walk(prune=lambda node: isinstance(node, exp.Query)):
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
            position = position_of(parsed.sql, node)
            diagnostics.add("HW407", position, f"{what} is not allowed in an expression.", _INSTEAD.get(what))
            valid = False
    return valid


_INSTEAD = {
    "A query": "Use a `join` step to look up rows of a table.",
    "A window function": "Use `window` and `aggregate` steps.",
    "A star": "Name the columns.",
}


def _check_call(parsed: Parsed, call: Call, diagnostics: Diagnostics, aggregates: bool, udfs: Collection[str]) -> None:
    position = parsed.sql.position(call.start, call.end)
    name = call.name
    if name == "current_timestamp":
        if parsed.tokens[call.index].token_type is TokenType.IDENTIFIER:
            message = "In backticks it is Spark's own function, which is not deterministic."
            diagnostics.add("HW406", position, message, "Remove the backticks.")
        return
    if name == "unix_timestamp" and parsed.tokens[call.index + 2].token_type is TokenType.R_PAREN:
        diagnostics.add("HW406", position, "'unix_timestamp()' is not deterministic.", FORBIDDEN["unix_timestamp()"])
    elif name in FORBIDDEN:
        diagnostics.add("HW406", position, f"'{name}' is not deterministic.", FORBIDDEN[name])
    elif name in UNSAFE:
        diagnostics.add("HW418", position, f"'{name}' reads more than the record.", UNSAFE[name])
    elif name in GENERATORS:
        diagnostics.add("HW407", position, f"'{name}' returns several rows.", "Use the `explode` step.")
    elif name in WINDOW_FUNCTIONS:
        message = f"'{name}' is a window function."
        diagnostics.add("HW407", position, message, "Use `window` and `aggregate` steps.")
    elif name in SPARK_AGGREGATES:
        if not aggregates:
            diagnostics.add("HW408", position, f"'{name}' is an aggregate.", "Use it in an `aggregate` step.")
        elif name not in AGGREGATES:
            message = f"The aggregate '{name}' is not supported."
            diagnostics.add("HW409", position, message, f"Supported are {', '.join(sorted(AGGREGATES))}.")
    elif name in NOT_OFFERED:
        diagnostics.add("HW405", position, f"Spark's function '{name}' is not supported.", NOT_OFFERED[name])
    elif name not in SCALAR_FUNCTIONS:
        functions = SCALAR_FUNCTIONS | AGGREGATES.keys() | {*udfs}
        diagnostics.add("HW405", position, f"There is no function '{name}'.", did_you_mean(name, functions))
    elif name in WITH_OPTIONS:
        _check_options(parsed, call, diagnostics)


def _check_options(parsed: Parsed, call: Call, diagnostics: Diagnostics) -> None:
    format_, index = WITH_OPTIONS[call.name]
    opening = call.index + 1
    options = arguments(parsed.tokens[opening + 1 : closing(parsed.tokens, opening)])[index:]
    if not options:
        return
    names = option_names(options[0])
    if names is None:
        position = parsed.sql.position(options[0][0].start, options[0][-1].end + 1)
        message = f"The options of '{call.name}' must be a map of string literals."
        diagnostics.add("HW419", position, message, "Write them as in `map('mode', 'FAILFAST')`.")
        return
    for name in names:
        if not is_allowed(format_, name.text):
            position = parsed.sql.position(name.start, name.end + 1)
            hint = did_you_mean(name.text, OPTIONS[format_])
            hint = hint or "Remove it; `docs/language/expressions.md` lists the options."
            diagnostics.add("HW419", position, f"The option '{name.text[:40]}' is not allowed.", hint)
