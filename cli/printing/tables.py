"""Tables on a terminal, and the formats of numbers and values in them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import click

from ...readable_text import counted, visible
from .terminal import console, is_terminal, print_line

if TYPE_CHECKING:
    from rich.table import Table

    from ...runtime.driver.results import ApplicationResult
    from ...runtime.driver.status import RunStatus, StoreStatus, TaskStatus
    from ...runtime.observe.tracing import Share


# Tables without a frame. On a terminal they fit its width; elsewhere a row is a line, and nothing is cut.

LONGEST = 240
"""The most characters of a cell on a terminal."""

_LONGEST_WORD = 40
"""Words longer than this are broken if the table does not fit otherwise."""

_GAP = 2


def show(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = (), *, headed: bool = True
) -> bool:
    """Print a table. Returns whether a cell was cut.

    `right`: columns (from 0) aligned to the right, for numbers. `headed=False`: only rows, in columns wide enough for
    the header, which an earlier table has printed. If the columns do not fit the terminal, cells are folded. If even
    their words do not fit, each row becomes a list of names and values.
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
    print_line("long values are cut here; --format json has all of them", err=True)


def _lines(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """The rows as padded lines, without rich, which takes ten times as long for a whole topic in a pipe."""
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
        min_width = cell_len(column[0]) if fits else None
        table.add_column(column[0], justify=justify, overflow="fold", no_wrap=no_wrap, min_width=min_width)
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
    """The terminal width at which no word is broken."""
    from rich.cells import cell_len

    longest = [
        max(min(cell_len(word), _LONGEST_WORD) for cell in column for word in cell.split() or [""])
        for column in zip(*rows, strict=True)
    ]
    return sum(longest) + len(longest) - 1


# Values of records and rows as cells.

_BOUNDS = ("window_start", "window_end")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(milliseconds: int) -> str:
    """`2024-05-01T08:00:00Z`, with a fraction if needed. A time outside of the calendar stays a number."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    precision = "milliseconds" if milliseconds % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def cell(name: str, value: Any) -> str:
    """A column's value: text as it is, window bounds as times, everything else as JSON."""
    if name in _BOUNDS and isinstance(value, int):
        return time_text(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def size_text(size: int) -> str:
    """`512 B`, `3.4 kB`, `12 MB`: bytes, in powers of 1,000, with at least two digits."""
    amount, units = float(size), iter(("kB", "MB", "GB", "TB"))
    unit = "B"
    while amount >= 999.5 and (larger := next(units, None)):
        amount, unit = amount / 1000, larger
    return f"{amount:,.1f} {unit}" if unit != "B" and amount < 9.95 else f"{amount:,.0f} {unit}"


# Numbers of runs and tasks as cells.

RUN_HEADER = ("application", "records/s", "epoch time", "most of it")
RUN_RIGHT = (1, 2)

TASK_HEADER = ("task", "consumed", "", "written", "", "dropped", "time", "most of it")
TASK_RIGHT = (1, 2, 3, 4, 5, 6)

STORE_HEADER = ("store", "task", "client", "rows", "size")
STORE_RIGHT = (3, 4)

SHARE_HEADER = ("part", "seconds", "share")
SHARE_RIGHT = (1, 2)

_WORTH_A_ROW = 0.005
"""The smallest share of the time for which a part of a phase is shown. Phases always are, so that they add up."""

_WORTH_A_WORD = 0.05
"""The smallest share of the time for which a phase is named. All phases are in `run_results.json`."""

_MOST_OF_A_RUN, _MOST_OF_A_TASK = 3, 2
"""The most phases that are named: more would not fit into 80 columns."""


def run_cells(result: ApplicationResult) -> list[str] | None:
    """Where the time of an application's epochs went; None without an epoch."""
    if result.metrics is None or not result.metrics.epochs:
        return None
    seconds = result.metrics.seconds
    rate = result.records / result.seconds if result.seconds else 0.0
    time = f"{sum(seconds.values()):,.1f} s"
    return [result.application, f"{rate:,.0f}", time, _spent(seconds, _MOST_OF_A_RUN)]


def share_cells(shares: Sequence[Share]) -> Iterator[list[str]]:
    """The parts of epochs, each below its parent part, and their total."""
    for share in shares:
        *above, part = share.part
        if not above or share.share >= _WORTH_A_ROW:
            yield [f"{'  ' * len(above)}{part}", f"{share.seconds:,.3f}", f"{100 * share.share:.1f}%"]
    yield ["all", f"{sum(share.seconds for share in shares if len(share.part) == 1):,.3f}", "100.0%"]


def task_cells(task: TaskStatus) -> list[str] | None:
    """What a task has done since the run began; None for a standby task."""
    from ...runtime.tasks.measured import PHASES

    if task.counts is None:
        return None
    counts, volume = task.counts, task.counts.volume
    seconds = dict(zip(PHASES, counts.seconds.values, strict=True))
    return [
        task.id,
        f"{counts.records:,}",
        size_text(volume.read_bytes),
        f"{volume.written_records + volume.changed_records:,}",
        size_text(volume.written_bytes + volume.changed_bytes),
        f"{sum(counts.dropped.values()):,}",
        f"{counts.seconds.total:,.1f} s",
        _spent(seconds, _MOST_OF_A_TASK),
    ]


def store_cells(status: RunStatus) -> list[list[str]]:
    """The rows and bytes of each copy of a store, as far as they are known, by store and task."""
    found = [
        (store.name, task.partition, task.id, client.name, store.size)
        for client in status.clients
        for task in client.tasks
        for store in task.stores
        if store.size is not None
    ]
    return [
        [name, task, client, "" if size.rows is None else f"{size.rows:,}", size_text(size.bytes)]
        for name, _, task, client, size in sorted(found, key=lambda row: row[:4])
    ]


def _spent(seconds: Mapping[str, float], most: int) -> str:
    """`sql 45%, read 30%`: the phases that took most time, in falling order."""
    total = sum(seconds.values())
    shares = {phase: spent / total for phase, spent in seconds.items()} if total else {}
    first = sorted(shares.items(), key=lambda item: -item[1])[:most]
    return ", ".join(f"{phase} {100 * share:.0f}%" for phase, share in first if share >= _WORTH_A_WORD)


def stores_text(task: TaskStatus) -> str:
    """`totals 3 rows, 20 kB`: the stores of a task whose sizes are known."""
    return ", ".join(filter(None, map(_store, task.stores)))


def _store(store: StoreStatus) -> str:
    if store.size is None:
        return ""
    rows = "" if store.size.rows is None else f"{counted(store.size.rows, 'row')}, "
    return f"{store.name} {rows}{size_text(store.size.bytes)}"
