"""Diagnostics, the errors and warnings of the compiler. Stages add them to one collector; `printing` shows them.

    diagnostics.add("HW301", node.position, "There is no topic 'flihgts'.", hint="Did you mean 'flights'?")

The code must be in `codes.CODES`, which also has its severity, meaning and way out. A message is one sentence with a
full stop, with names in single quotes. A hint is one sentence that says what to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ..readable_text import readable
from ..suggestions import did_you_mean
from .codes import CODES, Code, Severity

__all__ = ["CODES", "Code", "Diagnostic", "Diagnostics", "Position", "Severity", "did_you_mean"]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file of the project: the path relative to the project's root, with `/`; line and column from 1.

    Columns count characters. `end_column` is the column after the range's last character on that line; None if only the
    start is known. The place of a mistake in an option of the command line has the option's name in place of the file
    (see `option`), and no line.
    """

    file: str
    line: int = 1
    column: int = 1
    end_column: int | None = None

    @classmethod
    def option(cls, name: str) -> Position:
        """The place of a mistake in an option of the command line, such as `--target`."""
        return cls(name, 0, 0)

    @property
    def in_file(self) -> bool:
        """Whether it is a place in a file and not an option."""
        return self.line > 0

    @property
    def line_text(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.in_file else self.file


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding, at one place."""

    code: str
    severity: Severity
    position: Position
    message: str
    hint: str | None = None


class Diagnostics:
    """Collects findings. Iteration sorts them by file and place and yields each one once."""

    def __init__(self, found: Iterable[Diagnostic] = ()) -> None:
        self._found: list[Diagnostic] = list(found)

    def add(self, code: str, position: Position, message: str, hint: str | None = None) -> None:
        """Add a finding with the severity of its code. Raises KeyError for a code that is not in the table.

        Its texts hide values of environment variables, and are `readable`.
        """
        at = position.line_text
        message, hint = readable(message, at), None if hint is None else readable(hint, at)
        self._found.append(Diagnostic(code, CODES[code].severity, position, message, hint))

    def extend(self, found: Iterable[Diagnostic]) -> None:
        """Add the findings of another stage."""
        self._found.extend(found)

    def withdraw(self, code: str, places: Collection[Position]) -> None:
        """Take back what follows from another finding, so that one mistake has one message."""
        self._found = [found for found in self._found if found.code != code or found.position not in places]

    @property
    def has_errors(self) -> bool:
        """Whether there is an error. Warnings alone do not stop a build."""
        return bool(self.errors)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors, in the order in which they were added."""
        return tuple(found for found in self._found if found.severity is Severity.ERROR)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(sorted(dict.fromkeys(self._found), key=_order))

    def __len__(self) -> int:
        return len(dict.fromkeys(self._found))


def _order(found: Diagnostic) -> tuple[str, int, int, str, str]:
    position = found.position
    return position.file, position.line, position.column, found.code, found.message
