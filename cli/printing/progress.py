"""Shows the progress of a run: a live table with bars of long restores on a terminal, lines elsewhere.

On a terminal, events of clients and tasks are also printed as lines: the table would not show them.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import click

from ...readable_text import counted, entry, readable, visible
from ...runtime.driver.client_events import TasksPlaced
from ...runtime.driver.events import RUNNING, ApplicationStarted, EpochCommitted, Event, Observer, TaskFailed
from ...runtime.driver.restoring import Restoring, RestoringStore, pace
from .terminal import console, is_terminal, lossy

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

_STARTING = "starting Spark"

MOST_BARS = 8
"""The most bars for one application: the stores with the most left to restore."""

_WORTH_A_BAR = 100_000
"""The changelog records that a store lacks at least to get a bar. Fewer take a moment."""

_BAR_WIDTH = 24


@dataclass
class Line:
    """The progress of one application. `lags`: the lag after the last epoch of each subtopology and client.

    `bars`: stores that take long to restore; `more`: the number of such stores without a bar. `stopped`: the number of
    stopped tasks, shown in the note while the run continues without them.
    """

    application: str
    records: int = 0
    dropped: int = 0
    commits: int = 0
    rate: float = 0.0
    lags: dict[tuple[str, str], int] = field(default_factory=dict)
    note: str = "starting"
    bars: tuple[RestoringStore, ...] = ()
    more: int = 0
    stopped: int = 0

    @property
    def lag(self) -> int:
        """The committed records of its topics that it has not consumed."""
        return sum(self.lags.values())


class Progress:
    """Adds up the events of each application. Thread-safe: each application runs in a thread of its own.

    `print_event` gets a sentence for each event of clients, tasks and stores while an application runs.
    """

    def __init__(self, print_event: Callable[[str], None] = lambda _: None) -> None:
        self._print_event = print_event
        self._lines: dict[str, Line] = {}
        self._restoring: dict[str, Restoring] = {}
        self._lock = threading.Lock()
        self._started: dict[str, float] = {}

    def on(self, event: Event) -> None:
        """Count one event."""
        with self._lock:
            started = event.application in self._started
            if event.needs_run:
                line = self._lines.setdefault(event.application, Line(event.application))
                self._restoring.setdefault(event.application, Restoring()).on(event)
                self._count(line, event)
        if event.on_terminal == "always" or (event.on_terminal == "after_start" and started):
            self._print_event(event.text)

    def lines(self) -> list[Line]:
        """The present progress of the applications, in the order in which they started."""
        with self._lock:
            return [self._with_bars(line) for line in self._lines.values()]

    def _with_bars(self, line: Line) -> Line:
        """The line with the progress of restored stores as its note: epochs of other tasks may continue meanwhile."""
        restoring = self._restoring[line.application]
        note = line.note
        if note == RUNNING and line.stopped:
            note = f"{counted(line.stopped, 'task')} stopped"
        long = [store for store in restoring.stores if store.work >= _WORTH_A_BAR]
        bars = sorted(long[:MOST_BARS], key=lambda store: (store.store, store.partition))
        shown = tuple(replace(store) for store in bars)
        return replace(line, note=restoring.short() or note, bars=shown, more=len(long) - len(bars))

    def _count(self, line: Line, event: Event) -> None:
        if event.note is not None:
            line.note = event.note
        match event:
            case ApplicationStarted():
                self._started[line.application] = time.monotonic()
            case TasksPlaced():
                line.lags = {}  # moved tasks are counted by their new clients
            case EpochCommitted():
                line.records += event.records
                line.dropped += sum(event.dropped.values())
                line.commits += 1
                line.lags[event.subtopology, event.client] = event.lag
                passed = time.monotonic() - self._started.get(line.application, time.monotonic())
                line.rate = line.records / passed if passed > 0 else 0.0
            case TaskFailed():
                line.stopped += 1


class _Live:
    """The progress as an object that rich draws four times a second."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __rich__(self) -> Group | str:
        from rich.console import Group
        from rich.table import Table

        lines = self._progress.lines()
        if not lines:
            return _STARTING
        table = Table(box=None, pad_edge=False)
        titles = ("application", "records", "records/s", "lag", "commits", "")
        rows = [
            (
                line.application,
                f"{line.records:,}",
                f"{line.rate:,.0f}",
                f"{line.lag:,}",
                f"{line.commits:,}",
                line.note,
            )
            for line in lines
        ]
        for n, title in enumerate(titles):
            # Only the note may be cut where the terminal is too narrow.
            needed = max(len(title), *(len(row[n]) for row in rows)) if title else None
            table.add_column(title, justify="left" if n in (0, 5) else "right", no_wrap=True, min_width=needed)
        for row in rows:
            table.add_row(*row)
        return Group(table, *(_bars(line) for line in lines if line.bars))


def _bars(line: Line) -> Table:
    """A bar for each store of an application that takes long to restore."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for justify in ("left", "left", "left", "right", "left"):
        table.add_column(justify=justify, no_wrap=True)
    for bar in line.bars:
        done = ProgressBar(max(1, bar.end), bar.position, width=_BAR_WIDTH)
        speed = pace(bar).removeprefix(", ")
        table.add_row(f"  {bar.store}/{bar.partition}", bar.client, done, f"{bar.position:,} of {bar.end:,}", speed)
    if line.more:
        table.add_row(f"  and {line.more:,} more", "", "", "", "")
    return table


@contextmanager
def shown() -> Iterator[Observer]:
    """An observer that shows a run until the block ends: live if stderr is a terminal, as lines otherwise.

    The run continues if the terminal is closed.
    """
    screen = console(err=True, file=lossy(sys.stderr))
    if not is_terminal(err=True) or screen.is_dumb_terminal:
        from ...runtime.driver.event_lines import Lines

        click.echo(_STARTING, err=True)
        yield Lines()
        return
    from rich.live import Live
    from rich.text import Text

    # Printed on the table's screen; rich redraws the table below.
    progress = Progress(lambda text: screen.print(Text(entry(visible(readable(text), lines=True))), soft_wrap=True))
    with Live(_Live(progress), console=screen, refresh_per_second=4):
        screen.show_cursor(
            True
        )  # a second Ctrl-C ends the process at once, which would leave a terminal without a cursor
        yield progress
