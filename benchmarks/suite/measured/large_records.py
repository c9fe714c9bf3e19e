"""Memory of a task that takes large records: it must be in proportion to the bytes that bound an epoch."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...common import in_process
from ..bench import Bench
from ..measurement import Measurement, rounded

COUNT, SIZE, MAX_BYTES = 24, 16 << 20, 64 << 20
RUNS = 3
WANTED_TIMES = 4


def run(folder: Path, keys: str, count: int, size: int, max_bytes: int) -> Mapping[str, Any]:
    """What `sides.large_records` gives, in a process of its own. Raises CalledProcessError."""
    side = "headwater.benchmarks.suite.sides.large_records"
    return dict(in_process(side, folder, keys, count, size, max_bytes))


def epoch_bytes(bench: Bench) -> Iterator[Measurement]:
    """The highest memory of epochs by their bytes: of one task, and of two whose epochs run at once.

    What else the machine does has no part in it.
    """
    yield _measured(bench, "epoch_bytes", "kept", 1, "a task copied and counted")
    yield _measured(bench, "epoch_bytes_of_two", "changed", 2, "two tasks copied, re-keyed and counted")


def _measured(bench: Bench, name: str, keys: str, tasks: int, what: str) -> Measurement:
    runs = [run(bench.folder(f"{name}-{number}"), keys, COUNT, SIZE, MAX_BYTES) for number in range(RUNS)]
    taken = [measured["taken"] / 2**20 for measured in runs]
    bound = tasks * MAX_BYTES / 2**20
    return Measurement(
        name,
        "MiB",
        rounded(statistics.median(taken)),
        None,
        round(statistics.median(taken) / bound, 2),
        WANTED_TIMES,
        {
            "epochs": [rounded(each) for each in taken],
            "append": [rounded(measured["appended"] / 2**20) for measured in runs],
        },
        at_most=True,
        note=f"The most that a process without Spark held beyond what it had at the start, while {what} {COUNT} texts "
        f"of {SIZE >> 20} MiB; the ratio is to `max_bytes` of each task, {bound:.0f} MiB. Medians of {RUNS} runs.",
    )
