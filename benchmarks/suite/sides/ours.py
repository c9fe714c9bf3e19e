"""Our side, a process: runs a project, and lets it take one epoch's records whenever it is told to.

    python -m benchmarks.suite.sides.ours FOLDER KIND EPOCHS SIZE

See `process.py` for what it is told and what it answers. `EPOCHS`: subtopologies that take each record.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headwater import Project
from headwater.runtime.driver.events import EpochCommitted, Event

from ..sizes import Size
from .process import serve
from .project import TABLE, Feeding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Epochs:
    """An observer: from when to when an epoch's records were worked on."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    records: int = 0
    started: float = float("inf")
    ended: float = 0.0
    over: bool = False

    def on(self, event: Event) -> None:
        """Add up what was taken, and note from when to when."""
        if isinstance(event, EpochCommitted):
            with self.changed:
                self.ended = time.perf_counter()
                self.started = min(self.started, self.ended - event.seconds)
                self.records += event.records
                self.changed.notify_all()

    def end(self) -> None:
        """The run is over, whatever it has come to."""
        with self.changed:
            self.over = True
            self.changed.notify_all()

    def wait(self, records: int) -> float:
        """Until so many are taken since the last call; seconds from the start of the first epoch to the last commit."""
        with self.changed:
            self.changed.wait_for(lambda: self.over or self.records >= records)
            if self.over:
                raise SystemExit("the run has ended before its records were taken")
            seconds = self.ended - self.started
            self.records, self.started = 0, float("inf")
        return seconds


class RunningProject:
    """A project that runs in a thread of its own, and has taken its table. `session`: of Spark, if there is one."""

    def __init__(self, root: Path, kind: str, epochs: int, size: Size, session: SparkSession | None = None) -> None:
        self._session = session
        self._taken_each = epochs * size.records
        self._epochs, self._stop = Epochs(), threading.Event()
        self._feeding = Feeding(root, kind, size)
        joined = "tables" in (root / "topologies" / "measured.yml").read_text()
        self._thread = threading.Thread(target=self._run, args=(root,))
        if joined:
            self._feeding.feed(TABLE, 0)
        self._thread.start()
        if joined:
            self._epochs.wait(1)

    def take(self, epochs: Sequence[int]) -> float:
        """Seconds for the records of some epochs."""
        for number in epochs:
            self._feeding.feed("records", number)
        return self._epochs.wait(self._taken_each * len(epochs))

    def close(self) -> None:
        """End the run."""
        self._stop.set()
        self._thread.join()

    def _run(self, root: Path) -> None:
        try:
            with Project.load(root, session=self._session) as project:
                project.run(observer=self._epochs, stop=self._stop)
        finally:
            self._epochs.end()


if __name__ == "__main__":
    folder, kind, epochs, size = sys.argv[1:5]
    serve(lambda: RunningProject(Path(folder), kind, int(epochs), Size.from_json(size)))
