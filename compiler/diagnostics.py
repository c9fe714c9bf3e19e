"""What the compiler finds wrong: one type, one collector. Stages only append; `printing` sorts and shows.

    diagnostics.add("HW301", node.position, "There is no topic 'flihgts'.", hint="Did you mean 'flights'?")

The code must be in `codes.CODES`, which also says whether it is an error or a warning, what it means and the way out.
Messages are one sentence with a full stop, names in single quotes; a hint is one sentence that says what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..suggestions import did_you_mean
from .codes import CODES, Code, Severity

__all__ = ["CODES", "Code", "Diagnostic", "Diagnostics", "Position", "Severity", "did_you_mean"]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file of the project: path relative to the project's root with `/`, line and column from 1.

    Columns count characters. `end_column` is the column after the last character of the range on that line; None
    where only the start is known. What is wrong with an option of the command line has its name in place of a file
    (`option`), and no line.
    """

    file: str
    line: int = 1
    column: int = 1
    end_column: int | None = None

    @classmethod
    def option(cls, name: str) -> Position:
        """The place of what an option of the command line says, such as `--target`."""
        return cls(name, 0, 0)

    @property
    def in_file(self) -> bool:
        """Whether it is a place in a file, and not an option."""
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
    """Collects findings. Iterating gives them sorted by file and place, each once."""

    def __init__(self, found: Iterable[Diagnostic] = ()) -> None:
        self._found: list[Diagnostic] = list(found)

    def add(self, code: str, position: Position, message: str, hint: str | None = None) -> None:
        """Append a finding; its severity is that of the code. KeyError for a code that is not in the table."""
        self._found.append(Diagnostic(code, CODES[code].severity, position, message, hint))

    def extend(self, found: Iterable[Diagnostic]) -> None:
        """Append what another stage has found."""
        self._found.extend(found)

    @property
    def has_errors(self) -> bool:
        """Whether anything found is an error (warnings alone do not stop a build)."""
        return bool(self.errors)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors as they were found."""
        return tuple(found for found in self._found if found.severity is Severity.ERROR)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(sorted(dict.fromkeys(self._found), key=_order))

    def __len__(self) -> int:
        return len(dict.fromkeys(self._found))


def _order(found: Diagnostic) -> tuple[str, int, int, str, str]:
    position = found.position
    return position.file, position.line, position.column, found.code, found.message
