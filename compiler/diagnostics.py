"""Findings of the compiler with their positions, and how they are printed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from ..readable_text import json_text, readable, visible
from ..suggestions import did_you_mean
from .codes import CODES, Code, Severity

# Diagnostics: errors and warnings. All stages add them to one collector.
#
#     diagnostics.add("HW301", node.position, "There is no topic 'flihgts'.", hint="Did you mean 'flights'?")
#
# The code must be in `codes.CODES`, which also has its severity, meaning and way out. A message is one sentence with a
# full stop, with names in single quotes. A hint is one sentence that says what to do.

__all__ = ["CODES", "Code", "Diagnostic", "Diagnostics", "Position", "Severity", "did_you_mean"]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A range in a file of the project.

    `file`: the path relative to the project's root, with `/`. `line`, `column`: from 1, in characters. `end_column`:
    the column after the last character on that line; None if unknown. For an option of the command line, see `option`.
    """

    file: str
    line: int = 1
    column: int = 1
    end_column: int | None = None

    @classmethod
    def option(cls, name: str) -> Position:
        """The position of an option of the command line, such as `--target`: without a line."""
        return cls(name, 0, 0)

    @property
    def in_file(self) -> bool:
        """Whether it is in a file, not an option."""
        return self.line > 0

    @property
    def line_text(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.in_file else self.file


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding with its position."""

    code: str
    severity: Severity
    position: Position
    message: str
    hint: str | None = None


class Diagnostics:
    """Collects findings. Iteration yields them without duplicates, sorted by position."""

    def __init__(self, items: Iterable[Diagnostic] = ()) -> None:
        self._items: list[Diagnostic] = list(items)

    def add(self, code: str, position: Position, message: str, hint: str | None = None) -> None:
        """Add a finding with the severity of its code. Raises KeyError for an unknown code.

        Values of environment variables are hidden in its texts, see `readable`.
        """
        at = position.line_text
        message, hint = readable(message, at), None if hint is None else readable(hint, at)
        self._items.append(Diagnostic(code, CODES[code].severity, position, message, hint))

    def extend(self, items: Iterable[Diagnostic]) -> None:
        """Add the findings of another stage."""
        self._items.extend(items)

    def withdraw(self, code: str, positions: Collection[Position]) -> None:
        """Remove findings that follow from another one, so that one mistake has one message."""
        self._items = [item for item in self._items if item.code != code or item.position not in positions]

    @property
    def has_errors(self) -> bool:
        """Whether there is an error. Warnings alone do not stop a build."""
        return bool(self.errors)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors, in the order in which they were added."""
        return tuple(item for item in self._items if item.severity is Severity.ERROR)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(sorted(dict.fromkeys(self._items), key=_order))

    def __len__(self) -> int:
        return len(dict.fromkeys(self._items))


def _order(item: Diagnostic) -> tuple[str, int, int, str, str]:
    position = item.position
    return position.file, position.line, position.column, item.code, item.message


# Printing: as text, as JSON, and as annotations of GitHub.

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_MAX_WIDTH = 160


def as_text(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str], *, base: str = "") -> str:
    """Findings as `file:line:col: error HW012: message`, the line with a caret, and the hint; then a count.

    `sources`: see `LoadedProject.sources`. `base`: the path to the project's folder, put before file names.
    """
    return styled(diagnostics, sources, base=base).plain


def styled(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str], *, base: str = "") -> Text:
    """The text of `as_text` with rich's styles, for terminals."""
    items = list(diagnostics)
    files = {item.position.file for item in items}
    texts = {name: _LINE_BREAK.split(sources[name]) for name in files if name in sources}
    lines = [line for item in items for line in _entry(item, texts, base)]
    if items:
        lines.append(Text(_count(items)))
    return Text("\n").join([*lines, Text()])


def as_json(diagnostics: Iterable[Diagnostic], *, base: str = "") -> str:
    """A JSON object: the list `diagnostics`, and the numbers of `errors` and `warnings`."""
    items = list(diagnostics)
    errors = sum(item.severity is Severity.ERROR for item in items)
    content: dict[str, Any] = {
        "diagnostics": [
            {
                "code": item.code,
                "severity": item.severity.value,
                "file": _file(base, item),
                "line": item.position.line if item.position.in_file else None,
                "column": item.position.column if item.position.in_file else None,
                "end_column": item.position.end_column,
                "message": item.message,
                "hint": item.hint,
            }
            for item in items
        ],
        "errors": errors,
        "warnings": len(items) - errors,
    }
    return json_text(content, indent=2) + "\n"


def as_github(diagnostics: Iterable[Diagnostic], *, base: str = "") -> str:
    """Workflow commands of GitHub, one per line, which are shown at the lines of a pull request.

    Escapes as in GitHub's toolkit: `%`, carriage return and line feed everywhere, `:` and `,` also in properties.
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
        if not item.position.in_file:
            properties = {"title": f"{item.code} {item.position}"}
        message = item.message if item.hint is None else f"{item.message}\n{item.hint}"
        lines.append(annotation(item.severity.value, properties, message))
    return "".join(lines)


def annotation(level: str, properties: Mapping[str, object], message: str) -> str:
    """One workflow command of GitHub, as a line. Properties that are None are omitted."""
    shown = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value is not None)
    return f"::{level} {shown}::{_data(readable(message))}\n"


def _entry(item: Diagnostic, texts: Mapping[str, list[str]], base: str) -> list[Text]:
    position = item.position
    style = "bold red" if item.severity is Severity.ERROR else "bold yellow"
    location = (f"{_location(base, item)}:", "bold")
    lines = [Text.assemble(location, " ", (f"{item.severity.value} {item.code}:", style), " ", visible(item.message))]
    text = texts.get(position.file, [])
    if 0 < position.line <= len(text) and (line := text[position.line - 1]).strip():
        lines += _marked(line, position.column, position.end_column, style)
    if item.hint is not None:
        lines.append(Text.assemble("  ", ("hint:", "cyan"), " ", visible(item.hint)))
    return lines


def _marked(line: str, column: int, end_column: int | None, style: str) -> list[Text]:
    """The line, cut to a readable width around the range, and the marks below the range."""
    first = min(column - 1, len(line))
    last = max(min((end_column or column + 1) - 1, len(line)), first + 1)
    cut = max(first - _MAX_WIDTH // 2, 0) if len(line) > _MAX_WIDTH else 0
    shown = line[cut : cut + _MAX_WIDTH]
    first, last = first - cut, min(last - cut, max(len(shown), first - cut + 1))
    before, within, after = map(visible, (shown[:first], shown[first:last], shown[last:].rstrip()))
    blank = " " * cell_len(before)
    mark = "^" + "~" * (cell_len(within) - 1)
    return [Text(f"  | {before}{within}{after}".rstrip()), Text.assemble(f"  | {blank}", (mark, style))]


def _count(items: list[Diagnostic]) -> str:
    errors = sum(item.severity is Severity.ERROR for item in items)
    counts = ((errors, "error"), (len(items) - errors, "warning"))
    return ", ".join(f"{number} {word}{'s' * (number != 1)}" for number, word in counts if number)


def _location(base: str, item: Diagnostic) -> str:
    return visible(str(replace(item.position, file=_file(base, item))))


def _file(base: str, item: Diagnostic) -> str:
    if not item.position.in_file:
        return item.position.file
    return f"{base.rstrip('/')}/{item.position.file}" if base not in ("", ".") else item.position.file


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    return _data(readable(str(value))).replace(":", "%3A").replace(",", "%2C")
