"""Plain tables: columns padded with spaces, a header, no frame, so that they can be cut and searched."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence


def text(header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """The table without a line end. `right`: columns (from 0) whose cells stand at the right, as numbers do."""
    cells = [[*map(visible, row)] for row in (header, *rows)]
    widths = [max(width(row[column]) for row in cells) for column in range(len(header))]
    lines = []
    for row in cells:
        padded = [
            " " * (widths[n] - width(cell)) + cell if n in right else cell + " " * (widths[n] - width(cell))
            for n, cell in enumerate(row)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def visible(cell: str) -> str:
    """A cell without what would break the line or move the cursor."""
    return "".join(c if c.isprintable() else " " if c in "\t\n\r" else "\ufffd" for c in cell)


def width(cell: str) -> int:
    """Columns of a terminal that a text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in cell)
