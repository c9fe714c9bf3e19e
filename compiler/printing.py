"""Shows diagnostics: as text for people, as JSON for programs, as annotations for GitHub."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from .diagnostics import Diagnostic, Severity

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_WIDEST = 160
_RESET, _BOLD, _RED, _YELLOW, _CYAN = "\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[36m"


def as_text(
    diagnostics: Iterable[Diagnostic], sources: Mapping[str, str], *, base: str = "", color: bool = False
) -> str:
    """Each finding as `file:line:col: error HW012: message`, its line with a caret, and its hint; then a count.

    `sources` is `LoadedProject.sources`. `base` goes before each file name: the project's folder as seen from where
    the reader stands. Colours are for terminals.
    """
    found = list(diagnostics)
    files = {item.position.file for item in found}
    texts = {name: _LINE_BREAK.split(sources[name]) for name in files if name in sources}
    lines = [line for item in found for line in _entry(item, texts, base, _Paint(color))]
    if found:
        lines.append(_count(found))
    return "".join(f"{line}\n" for line in lines)


def as_json(diagnostics: Iterable[Diagnostic], *, base: str = "") -> str:
    """One JSON object: `diagnostics` (a list), and how many `errors` and `warnings` there are."""
    found = list(diagnostics)
    errors = sum(item.severity is Severity.ERROR for item in found)
    content: dict[str, Any] = {
        "diagnostics": [
            {
                "code": item.code,
                "severity": item.severity.value,
                "file": _file(base, item),
                "line": item.position.line,
                "column": item.position.column,
                "end_column": item.position.end_column,
                "message": item.message,
                "hint": item.hint,
            }
            for item in found
        ],
        "errors": errors,
        "warnings": len(found) - errors,
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def as_github(diagnostics: Iterable[Diagnostic], *, base: str = "") -> str:
    """Workflow commands, one a line, which GitHub shows beside the lines of a pull request.

    The escapes are those of its toolkit: `%`, carriage return and line feed everywhere, `:` and `,` in properties too.
    """
    lines = []
    for item in diagnostics:
        properties = {
            "file": _file(base, item),
            "line": item.position.line,
            "col": item.position.column,
            "endColumn": item.position.end_column,
            "title": item.code,
        }
        shown = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value is not None)
        message = item.message if item.hint is None else f"{item.message}\n{item.hint}"
        lines.append(f"::{item.severity.value} {shown}::{_data(message)}\n")
    return "".join(lines)


class _Paint:
    def __init__(self, color: bool) -> None:
        self._color = color

    def __call__(self, text: str, style: str) -> str:
        return f"{style}{text}{_RESET}" if self._color else text


def _entry(item: Diagnostic, texts: Mapping[str, list[str]], base: str, paint: _Paint) -> list[str]:
    position = item.position
    style = _BOLD + (_RED if item.severity is Severity.ERROR else _YELLOW)
    place = paint(f"{_file(base, item)}:{position.line}:{position.column}:", _BOLD)
    lines = [f"{place} {paint(f'{item.severity.value} {item.code}:', style)} {_visible(item.message)}"]
    text = texts.get(position.file, [])
    if position.line <= len(text) and (line := _visible(text[position.line - 1])).strip():
        lines += _marked(line, position.column, position.end_column, style, paint)
    if item.hint is not None:
        lines.append(f"  {paint('hint:', _CYAN)} {_visible(item.hint)}")
    return lines


def _marked(line: str, column: int, end_column: int | None, style: str, paint: _Paint) -> list[str]:
    """The line, cut to a readable width around the range, and what underlines the range."""
    first = min(column - 1, len(line))
    last = max(min((end_column or column + 1) - 1, len(line)), first + 1)
    cut = max(first - _WIDEST // 2, 0) if len(line) > _WIDEST else 0
    shown = line[cut : cut + _WIDEST]
    first, last = first - cut, min(last - cut, max(len(shown), first - cut + 1))
    blank = " " * sum(map(_width, shown[:first]))
    mark = "^" + "~" * (sum(map(_width, shown[first:last])) - 1)
    return [f"  | {shown.rstrip()}", f"  | {blank}{paint(mark, style)}"]


def _count(found: list[Diagnostic]) -> str:
    errors = sum(item.severity is Severity.ERROR for item in found)
    counts = ((errors, "error"), (len(found) - errors, "warning"))
    return ", ".join(f"{number} {word}{'s' * (number != 1)}" for number, word in counts if number)


def _visible(text: str) -> str:
    """The text without what would move the cursor or change the terminal."""
    return "".join(" " if char == "\t" else char if char.isprintable() else "\ufffd" for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _file(base: str, item: Diagnostic) -> str:
    return f"{base.rstrip('/')}/{item.position.file}" if base not in ("", ".") else item.position.file


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    return _data(str(value)).replace(":", "%3A").replace(",", "%2C")
