"""Memory while a backlog is worked off: it must not grow with the backlog.

The highest resident set (RSS) of the driver (its Python and the JVM, which holds Spark's executor in local mode) and of
the Python workers together, looked at ten times a second. Pages that processes share are counted in each.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import psutil

from ..bench import Bench
from ..measurement import Measurement
from ..other_work import OtherWork
from ..workloads import WORKLOADS
from .beside_spark import our_side, rounded

SAMPLE_SECONDS = 0.1
MILLIONS = (8, 32)
RUNS = 3
WANTED_TIMES = 1.15


class Peak:
    """Looks at the memory of a process and all below it, for use in a `with` block. `bytes`: the most at once."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._root = psutil.Process(pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        self.bytes = max(self.bytes, resident(self._root))


def resident(root: psutil.Process) -> int:
    """RSS of a process and of all below it, in bytes; of those that have ended meanwhile, nothing."""
    found = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                found += process.memory_info().rss
    return found


def backlogs(bench: Bench) -> Iterator[Measurement]:
    """The highest memory for both backlogs, three runs of each in turn."""
    runs: dict[int, list[float]] = {each: [] for each in MILLIONS}
    with OtherWork() as others:
        for number in range(RUNS):
            for millions in MILLIONS:
                runs[millions].append(_peak(bench, millions, number) / 2**20)
    few, many = (statistics.median(runs[each]) for each in MILLIONS)
    found = Measurement(
        "memory",
        "MiB",
        rounded(many),
        None,
        round(many / few, 3),
        WANTED_TIMES,
        {f"{each} million records": [rounded(peak) for peak in found] for each, found in runs.items()},
        at_most=True,
        note=f"The most that the driver, its JVM and the workers held at once, while {MILLIONS[1]} million records "
        f"were worked off, a million an epoch; the ratio is to {MILLIONS[0]} million. Medians of {RUNS} runs.",
    )
    yield bench.judged(found, others)


def _peak(bench: Bench, millions: int, number: int) -> int:
    """The highest memory of a run that finds so many million records."""
    start = our_side(bench, WORKLOADS["keyed_count"], bench.size, max(MILLIONS), f"-{millions}-{number}")
    with start() as side, Peak(side.pid) as peak:
        side.take(*range(millions))
    return peak.bytes
