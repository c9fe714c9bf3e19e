"""Shows the progress of a run: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from .terminal import console, is_terminal

if TYPE_CHECKING:
    from rich.table import Table

    from ..runtime.driver.events import Event, Observer


_STARTING = "starting Spark"


@dataclass
class Line:
    """The progress of one application. `lags` has the lag after the last epoch of each subtopology and client."""

    application: str
    records: int = 0
    dropped: int = 0
    commits: int = 0
    rate: float = 0.0
    lags: dict[tuple[str, str], int] = field(default_factory=dict)
    note: str = "starting"

    @property
    def lag(self) -> int:
        """How many records of its topics are committed and not yet consumed."""
        newest: dict[str, int] = {}
        for (subtopology, _), lag in self.lags.items():
            newest[subtopology] = lag
        return sum(newest.values())


class Progress:
    """Adds up the events of each application. Any thread may call it: each application runs in one of its own."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._lock = threading.Lock()
        self._started: dict[str, float] = {}

    def on(self, event: Event) -> None:
        """Count one event."""
        with self._lock:
            line = self._lines.setdefault(event.application, Line(event.application))
            self._note(line, event)

    def lines(self) -> list[Line]:
        """The applications in the order in which they started."""
        with self._lock:
            return list(self._lines.values())

    def _note(self, line: Line, event: Event) -> None:
        from ..runtime.driver import events

        match event:
            case events.ApplicationStarted():
                self._started[line.application] = time.monotonic()
                line.note = "running"
            case events.AssignmentFailed():
                line.note = "assignor failed"
            case events.EpochCommitted():
                line.records += event.records
                line.dropped += sum(event.dropped.values())
                line.commits += 1
                line.lags.pop((event.subtopology, event.client), None)
                line.lags[event.subtopology, event.client] = event.lag
                passed = time.monotonic() - self._started.get(line.application, time.monotonic())
                line.rate = line.records / passed if passed > 0 else 0.0
                line.note = "running"
            case events.NothingToRead():
                line.note = f"no records in {', '.join(event.topics)} yet"
            case events.Waiting():
                line.note = f"waits for {', '.join(event.writers)}"
            case events.RecordFailed():
                line.note = "a record failed"
            case events.StoreDamaged():
                line.note = "restoring"
            case events.StoreRestoring():
                done = 100 * event.position // event.end
                line.note = f"restoring {event.store}, partition {event.partition}: {done} %"
            case events.StoreRestored():
                line.note = "running"
            case events.ClientLost():
                line.note = f"{event.client} is gone"
            case events.ClientJoined():
                line.note = f"{event.client} has joined"
            case events.ApplicationStopped():
                line.note = event.reason.replace("_", " ")


class _Live:
    """The progress as an object that rich draws four times a second."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __rich__(self) -> Table | str:
        from rich.table import Table

        lines = self._progress.lines()
        if not lines:
            return _STARTING
        table = Table(box=None, pad_edge=False)
        for title in ("application", "records", "records/s", "lag", "commits", ""):
            table.add_column(title, justify="left" if title in ("application", "") else "right", no_wrap=True)
        for line in lines:
            numbers = (f"{line.records:,}", f"{line.rate:,.0f}", f"{line.lag:,}", f"{line.commits:,}")
            table.add_row(line.application, *numbers, line.note)
        return table


@contextmanager
def shown() -> Iterator[Observer]:
    """An observer that shows a run until the block ends: live where stderr is a terminal."""
    screen = console(err=True)
    if not is_terminal(err=True) or screen.is_dumb_terminal:
        from ..runtime.driver.event_texts import Lines

        click.echo(_STARTING, err=True)
        yield Lines()
        return
    from rich.live import Live

    progress = Progress()
    with Live(_Live(progress), console=screen, refresh_per_second=4):
        yield progress
