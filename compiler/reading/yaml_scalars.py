"""Values of plain YAML scalars, and messages for syntax errors."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from ..diagnostics import Diagnostics
from .source import SourceFile

# Unquoted words. Words that YAML 1.1 and 1.2 read differently are errors.

Value = str | int | float | bool | None

_WORDS: dict[str, Value] = {
    "": None,
    **dict.fromkeys(("~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_AMBIGUOUS_BOOLEAN = re.compile(r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")
_NUMBER_START = re.compile(r"[-+.]?[0-9]")
# Limited, because Python does not convert strings of more than 4,300 digits.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,999})")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,100}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_AMBIGUOUS_NUMBER = re.compile(
    r"""[-+]?(?:
        0[0-9_]+                                    # octal in 1.1, decimal in 1.2
      | 0[0-9]+\.[0-9]*                             # a float in some readers
      | 0o[0-7_]+ | 0b[01_]+ | 0x[0-9a-fA-F_]+      # octal in 1.2, binary in 1.1, underscores in 1.1
      | [0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?          # underscores in 1.1
      | [0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)? # sexagesimal in 1.1
    )""",
    re.VERBOSE,
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}.*)?")


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A word that YAML readers read differently: code, message and hint of the diagnostic."""

    code: str
    message: str
    hint: str


def resolve(word: str) -> Value | Ambiguous:
    """The value of a plain scalar: null, boolean, number or string; or Ambiguous."""
    if word in _WORDS:
        return _WORDS[word]
    if _AMBIGUOUS_BOOLEAN.fullmatch(word):
        truth = "true" if word.lower() in ("yes", "on") else "false"
        return Ambiguous(
            "HW013",
            f"Some YAML readers take '{word}' for a boolean, others for a string.",
            f"Write '{truth}', or put it in quotes: \"{word}\".",
        )
    if not _NUMBER_START.match(word):
        return word
    return _number_or_text(word)


def _number_or_text(word: str) -> Value | Ambiguous:
    if _INTEGER.fullmatch(word):
        return int(word)
    if _HEXADECIMAL.fullmatch(word):
        return int(word, 16)
    if _FLOAT.fullmatch(word):
        return float(word)
    if _AMBIGUOUS_NUMBER.fullmatch(word):
        return Ambiguous(
            "HW014",
            f"YAML readers read '{_shorten(word)}' as different values.",
            "Write the plain decimal number, or put it in quotes.",
        )
    if _DATE.fullmatch(word):
        return Ambiguous(
            "HW015", f"Some YAML readers take '{_shorten(word)}' for a timestamp.", f'Put it in quotes: "{word}".'
        )
    return word


def _shorten(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:37]}..."


# Messages for syntax errors.

_TOO_DEEP = "exceeded maximum nesting depth"
"""The parser's own error at a thousand levels, since PyYAML 6.0.4. It reads ahead, so it may come before our limit."""
_TAB = re.compile(r"[ ]*\t")
_BARE_TEMPLATE = re.compile(r"(?:^|[:\-\[{,?])[ ]+(\{[{%#].*)|^(\{[{%#].*)")


def report_syntax_error(
    error: yaml.MarkedYAMLError, source: SourceFile, last_quoted: int | None, diagnostics: Diagnostics
) -> None:
    """Add a diagnostic for an error of the parser. `last_quoted`: the end of the last quoted scalar before it."""
    mark = error.problem_mark or error.context_mark
    index = min(mark.index, len(source.text)) if mark else 0
    start = source.text.rfind("\n", 0, index) + 1
    line = source.text[start:].split("\n", 1)[0]
    at = source.position(index)
    if (tab := _TAB.match(line)) or source.text[index : index + 1] == "\t":
        at = source.position(start + tab.end() - 1 if tab else index)
        diagnostics.add("HW011", at, "YAML does not allow a tab here.", "Use spaces.")
    elif bare := _BARE_TEMPLATE.search(line):
        first = start + bare.start(1 if bare[1] else 2)
        at = source.position(first, start + len(line.rstrip()))
        message = f"YAML reads a value that begins with '{source.text[first : first + 2]}' as a mapping."
        diagnostics.add("HW024", at, message, "Put the whole value in quotes.")
    elif error.problem == _TOO_DEEP:
        diagnostics.add("HW018", at, "This is nested too deeply to be read.", "Flatten it.")
    else:
        problem = error.problem or error.context or "unknown problem"
        diagnostics.add("HW010", at, f"This is not valid YAML: {problem}.", _hint(problem, source, index, last_quoted))


def _hint(problem: str, source: SourceFile, index: int, last_quoted: int | None) -> str | None:
    if "mapping values are not allowed" in problem:
        return "Put a value that contains ': ' in quotes, and check the indentation."
    if last_quoted is not None and "\n" not in source.text[last_quoted:index].strip(" "):
        return (
            "A value that begins with a quote ends at the next one: put the whole value into the other kind of quotes."
        )
    if "cannot start any token" in problem:
        return "Put a value that begins with this character in quotes."
    if "expected ',' or" in problem or "expected node content" in problem:
        return "Check brackets and commas; put values with special characters in quotes."
    if "could not find expected ':'" in problem or "expected key" in problem or "expected <block end>" in problem:
        return "Check the indentation of this line and the one before."
    return None
