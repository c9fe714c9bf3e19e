"""Tables without a frame. On a terminal they fit its width; elsewhere each row is a line and nothing is cut."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

import click

from ...readable_text import visible
from .terminal import console, is_terminal, tell

if TYPE_CHECKING:
    from rich.table import Table

LONGEST = 240
"""The most characters of a cell that a terminal shows."""

_LONGEST_WORD = 40
"""If a table would not fit otherwise, words that are longer than this are broken."""

_GAP = 2


def show(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = (), *, headed: bool = True
) -> bool:
    """Print a table. Returns whether a cell was cut.

    `right`: columns (from 0) that are aligned to the right, for numbers. Without `headed` only the rows are printed,
    with room for the header: they may go on with a table whose header was printed before. If the columns do not fit a
    terminal, cells are folded. If even their words do not fit, each row becomes a list of names and values.
    """
    cells = [[*map(visible, row)] for row in rows]
    if not is_terminal():
        click.echo("".join(_lines([header, *cells], right)[0 if headed else 1 :]), nl=False)
        return False
    cut = any(len(cell) > LONGEST for row in cells for cell in row)
    cells = [[cell if len(cell) <= LONGEST else f"{cell[: LONGEST - 1]}…" for cell in row] for row in cells]
    screen = console()
    shown: list[Table] = [_table(header, cells, right, headed, screen.width)]
    if _narrowest([header, *cells]) > screen.width:
        shown = [_listed(header, row) for row in cells]
    for number, table in enumerate(shown):
        if number or (len(shown) > 1 and not headed):
            screen.print()
        screen.print(table)
    return cut


def note_cut() -> None:
    """Say on stderr how to see whole values."""
    tell("long values are cut here; --format json has all of them", err=True)


def _lines(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """The rows as padded lines, without rich: for a whole topic, which goes to a pipe, rich takes ten times as long."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = []
        for n, (width, cell) in enumerate(zip(widths, row, strict=True)):
            blank = " " * (width - cell_len(cell))
            padded.append(blank + cell if n in right else cell + blank)
        lines.append((" " * _GAP).join(padded).rstrip() + "\n")
    return lines


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int], headed: bool, width: int
) -> Table:
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    columns = [[title, *(row[n] for row in rows)] for n, title in enumerate(header)]
    fits = sum(max(map(cell_len, column)) for column in columns) + _GAP * (len(columns) - 1) <= width
    table = Table(box=None, pad_edge=False, padding=(0, _GAP if fits else 1, 0, 0), show_header=headed)
    for n, column in enumerate(columns):
        no_wrap = not any(" " in cell or len(cell) > _LONGEST_WORD for cell in column)
        justify: Literal["left", "right"] = "right" if n in right else "left"
        room = cell_len(column[0]) if fits else None
        table.add_column(column[0], justify=justify, overflow="fold", no_wrap=no_wrap, min_width=room)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _listed(header: Sequence[str], row: Sequence[str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, cell in zip(header, row, strict=True):
        table.add_row(name, Text(cell))
    return table


def _narrowest(rows: Sequence[Sequence[str]]) -> int:
    """How wide a terminal must be so that no word is broken."""
    from rich.cells import cell_len

    longest = [
        max(min(cell_len(word), _LONGEST_WORD) for cell in column for word in cell.split() or [""])
        for column in zip(*rows, strict=True)
    ]
    return sum(longest) + len(longest) - 1
