"""Memory while a backlog is worked off: it must not grow with the backlog.

The highest resident set (RSS) of the driver (its Python and the JVM, which holds Spark's executor in local mode) and of
the Python workers together, looked at ten times a second. Pages that processes share are counted in each.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator

import psutil

from ..bench import Bench
from ..measurement import Measurement, rounded
from ..other_work import OtherWork, Watch
from ..workloads import WORKLOADS
from .beside_spark import our_side

SAMPLE_SECONDS = 0.1
MILLIONS = (8, 32)
RUNS = 3
WANTED_TIMES = 1.15


class Peak(Watch):
    """Looks at the memory of a process and all below it, for use in a `with` block. `bytes`: the most at once."""

    def __init__(self, pid: int) -> None:
        super().__init__(SAMPLE_SECONDS)
        self.bytes = 0
        self._root = psutil.Process(pid)

    def look(self) -> None:
        """Take the memory of now."""
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
