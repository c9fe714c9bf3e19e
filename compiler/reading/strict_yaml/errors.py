"""Explains errors of the YAML parser in sentences that say what to do."""

from __future__ import annotations

import re

import yaml

from ...diagnostics import Diagnostics
from ..source import SourceFile

_TOO_DEEP = "exceeded maximum nesting depth"
"""What the parser itself says of a thousand levels, from PyYAML 6.0.4 on. It reads on before it gives what it has read,
so that no count of levels comes first.
"""
_TAB = re.compile(r"[ ]*\t")
_BARE_TEMPLATE = re.compile(r"(?:^|[:\-\[{,?])[ ]+(\{[{%#].*)|^(\{[{%#].*)")


def report_syntax_error(
    error: yaml.MarkedYAMLError, source: SourceFile, last_quoted: int | None, diagnostics: Diagnostics
) -> None:
    """Add a diagnostic for an error of the parser. `last_quoted`: where the last quoted scalar before it ended."""
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
        return "A value that begins with a quote ends with it: put the whole value into the other kind of quotes."
    if "cannot start any token" in problem:
        return "Put a value that begins with this character in quotes."
    if "expected ',' or" in problem or "expected node content" in problem:
        return "Check brackets and commas; put texts with special characters in quotes."
    if "could not find expected ':'" in problem or "expected key" in problem or "expected <block end>" in problem:
        return "Check the indentation of this line and the one before."
    return None
