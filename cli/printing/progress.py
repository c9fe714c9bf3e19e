"""Shows the progress of a run: on a terminal a live table, with bars of long restores; lines elsewhere.

What happens to clients and tasks while it runs is a line on the terminal, too: it would not be seen in the table.
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

from ...readable_text import entry, readable, visible
from .terminal import console, is_terminal, lossy

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from ...runtime.driver.events import Event, Observer
    from ...runtime.driver.restoring import Restoring


_STARTING = "starting Spark"

MOST_BARS = 8
"""The most stores of an application that have a bar: those with the most to do."""

_WORTH_A_BAR = 100_000
"""Changelog records that a store lacked at first: less takes a moment."""

_BAR_WIDTH = 24


@dataclass(frozen=True)
class Bar:
    """A store that is being restored. `pace`: how fast, and how long it takes."""

    store: str
    client: str
    position: int
    end: int
    pace: str


@dataclass
class Line:
    """The progress of one application. `lags` has the lag after the last epoch of each subtopology and client.

    `bars`: of stores that take long to restore; `more`: how many of these have none. `stopped`: tasks that have, which
    is noted as long as the run goes on without them.
    """

    application: str
    records: int = 0
    dropped: int = 0
    commits: int = 0
    rate: float = 0.0
    lags: dict[tuple[str, str], int] = field(default_factory=dict)
    note: str = "starting"
    bars: tuple[Bar, ...] = ()
    more: int = 0
    stopped: int = 0

    @property
    def running(self) -> str:
        """The note while epochs go on."""
        return f"{self.stopped:,} task{'s' if self.stopped > 1 else ''} stopped" if self.stopped else "running"

    @property
    def lag(self) -> int:
        """How many records of its topics are committed and not yet consumed."""
        return sum(self.lags.values())


class Progress:
    """Adds up the events of each application. Any thread may call it: each application runs in one of its own.

    `say` is given what happens to clients, tasks and stores while an application runs, as sentences.
    """

    def __init__(self, say: Callable[[str], None] = lambda _: None) -> None:
        self._say = say
        self._lines: dict[str, Line] = {}
        self._restoring: dict[str, Restoring] = {}
        self._lock = threading.Lock()
        self._started: dict[str, float] = {}

    def on(self, event: Event) -> None:
        """Count one event."""
        from ...runtime.driver import events
        from ...runtime.driver.event_texts import sentence
        from ...runtime.driver.restoring import Restoring

        if isinstance(event, events.LogCleaned | events.UpkeepFailed | events.RecordsHeldBack):
            # It may be of what is fed from outside, which is no application that runs.
            if self._is_told(event):
                self._say(sentence(event))
            return
        with self._lock:
            line = self._lines.setdefault(event.application, Line(event.application))
            self._restoring.setdefault(event.application, Restoring()).on(event)
            self._note(line, event)
            told = self._is_told(event)
        if told:
            self._say(sentence(event))

    def lines(self) -> list[Line]:
        """The applications in the order in which they started, as they are now."""
        with self._lock:
            return [self._with_bars(line) for line in self._lines.values()]

    def _with_bars(self, line: Line) -> Line:
        """While stores are restored, the note says how far they are: epochs of other tasks go on meanwhile."""
        from ...runtime.driver.restoring import pace

        restoring = self._restoring[line.application]
        note = restoring.short() or line.note
        long = [each for each in restoring.stores if each.work >= _WORTH_A_BAR]
        bars = tuple(
            Bar(f"{each.store}/{each.partition}", each.client, each.position, each.end, pace(each).removeprefix(", "))
            for each in sorted(long[:MOST_BARS], key=lambda each: (each.store, each.partition))
        )
        return replace(line, note=note, bars=bars, more=len(long) - len(bars))

    def _is_told(self, event: Event) -> bool:
        """Whether an event is a line of its own. How tasks are placed at the start is no news."""
        from ...runtime.driver import events

        clients = (events.ClientLost, events.ClientJoined, events.ClientRefused)
        moves = (*clients, events.TasksPlaced, events.AssignmentFailed)
        pauses = (events.ApplicationPaused, events.ApplicationResumed)
        recomputed = (events.RecomputationBegun, events.ResultSwitched, events.RecomputationUnfinished)
        topics = (events.TopicRepartitioned,)
        stores = (events.StoreDamaged, events.StoreOutdated, events.ForeignStoresWiped, events.StoreLost)
        failed = (events.SnapshotUnusable, events.SnapshotNotSaved, events.UpkeepFailed)
        others = (
            events.TaskFailed,
            events.TasksWait,
            events.WaitEnded,
            events.TaskBeginsAgain,
            events.LineageNotSent,
            events.TraceNotWritten,
            events.ClusterEnded,
            events.RecordsHeldBack,
        )
        always = (*stores, *others, *failed, *pauses, *recomputed, *topics)
        return isinstance(event, always) or (isinstance(event, moves) and event.application in self._started)

    def _note(self, line: Line, event: Event) -> None:
        from ...runtime.driver import events

        match event:
            case events.ApplicationStarted():
                self._started[line.application] = time.monotonic()
                line.note = "running"
            case events.TasksPlaced():
                line.lags = {}  # tasks that have moved are counted by their new clients
            case events.AssignmentFailed():
                line.note = "assignor failed"
            case events.EpochCommitted():
                line.records += event.records
                line.dropped += sum(event.dropped.values())
                line.commits += 1
                line.lags[event.subtopology, event.client] = event.lag
                passed = time.monotonic() - self._started.get(line.application, time.monotonic())
                line.rate = line.records / passed if passed > 0 else 0.0
                line.note = line.running
            case events.NothingToRead():
                line.note = f"no records in {', '.join(event.topics)} yet"
            case events.Waiting():
                line.note = f"waits for {', '.join(event.writers)}"
            case events.TaskFailed():
                line.stopped += 1
                line.note = line.running
            case events.ClientLost():
                line.note = f"{event.client} is gone"
            case events.ClientJoined():
                line.note = f"{event.client} has joined"
            case events.ApplicationPaused():
                line.note = "paused"
            case events.ApplicationResumed():
                line.note = line.running
            case events.ApplicationStopping():
                line.note = "ends once its open epochs are committed"
            case events.RecomputationBegun():
                line.note = "recomputing"
            case events.ResultSwitched():
                line.note = "switched"
            case events.RecomputationUnfinished():
                line.note = "not recomputed"
            case events.ApplicationStopped():
                line.note = event.reason.replace("_", " ")


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
            # Of a note without room the rest is left out, and of nothing else.
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
        table.add_row(f"  {bar.store}", bar.client, done, f"{bar.position:,} of {bar.end:,}", bar.pace)
    if line.more:
        table.add_row(f"  and {line.more:,} more", "", "", "", "")
    return table


@contextmanager
def shown() -> Iterator[Observer]:
    """An observer that shows a run until the block ends: live where stderr is a terminal.

    The run goes on when the terminal is closed.
    """
    screen = console(err=True, file=lossy(sys.stderr))
    if not is_terminal(err=True) or screen.is_dumb_terminal:
        from ...runtime.driver.event_texts import Lines

        click.echo(_STARTING, err=True)
        yield Lines()
        return
    from rich.live import Live
    from rich.text import Text

    # Printed on the screen of the table, which rich draws again below.
    progress = Progress(lambda text: screen.print(Text(entry(visible(readable(text), lines=True))), soft_wrap=True))
    with Live(_Live(progress), console=screen, refresh_per_second=4):
        screen.show_cursor(True)  # a second Ctrl-C ends the process at once, which would leave the terminal without one
        yield progress
