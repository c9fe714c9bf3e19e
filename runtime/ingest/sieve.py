"""Parts rows from outside that fit a topic from those that do not, by what the topic's `on_error` says.

`fail`: nothing is taken if a row does not fit, and the error names the rows. `skip` and `dead_letter`: such rows are
left out, counted and told. They are no records yet, so there is no dead letter of them: what they came from has them
still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..log.errors import SeedError
from ..records.bad_values import BadValueError
from ..topology import Topic
from .incoming import Incoming

MOST_TOLD = 20
"""The most rows that are told, and that are looked for where one is too many."""


@dataclass(frozen=True)
class RefusedRow:
    """A row that does not fit its topic. `source`: its file or function; `place`: the line or row there."""

    source: str
    place: str
    cause: str
    column: str | None = None

    @property
    def text(self) -> str:
        """Where it is, and why it does not fit."""
        return SeedError(self.source, self.cause, self.place, self.column).message


@dataclass(frozen=True)
class RefusedRows:
    """Rows that were left out: how many, and the first of them."""

    count: int = 0
    first: tuple[RefusedRow, ...] = ()


class Sieve:
    """Takes the rows of one seed or append, in their order."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic.name
        self._leaves_out = topic.on_error != "fail"
        self._count = 0
        self._first: list[RefusedRow] = []

    @property
    def refused(self) -> RefusedRows:
        """The rows that were left out so far."""
        return RefusedRows(self._count, tuple(self._first))

    def taken(
        self, source: str, rows: Any, convert: Callable[[Any], Incoming], place: Callable[[int], str], first: int = 0
    ) -> Iterator[Incoming]:
        """What `convert` makes of the rows that fit. `rows`: a table or a list; `place`: of a row by its index.

        Halves are tried until single rows are left, so that a few bad rows among many cost little. Raises SeedError.
        """
        try:
            found = convert(rows)
        except BadValueError as error:
            if len(rows) == 1:
                self.refuse(source, lambda: place(first), error.cause, error.column)
                return
            middle = len(rows) // 2
            yield from self.taken(source, rows[:middle], convert, place, first)
            yield from self.taken(source, rows[middle:], convert, place, first + middle)
            return
        if self._leaves_out or not self._count:
            yield found

    def refuse(self, source: str, place: Callable[[], str], cause: str, column: str | None = None) -> None:
        """Note a row that does not fit. Raises SeedError once no more of them are told.

        `place` is asked only of rows that are told: a file is read again for each.
        """
        self._count += 1
        if len(self._first) < MOST_TOLD:
            self._first.append(RefusedRow(source, place(), cause, column))
        elif not self._leaves_out:
            self._fail("\nand more")

    def to_the_end(self, rows: Iterator[Incoming]) -> Iterator[Incoming]:
        """The same rows. Raises SeedError behind the last if rows do not fit, and may not be left out."""
        yield from rows
        if self._count and not self._leaves_out:
            self._fail("")

    def _fail(self, more: str) -> None:
        first, *others = self._first
        cause = first.cause + "".join(f"\nand {each.text}" for each in others) + more
        way_out = f"put them right, or leave such rows out with `on_error: skip` of {self._topic}"
        raise SeedError(first.source, cause, first.place, first.column, way_out)
