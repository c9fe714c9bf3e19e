"""Memory of a task that takes large records: it must be in proportion to the bytes that bound an epoch."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..bench import Bench
from ..measurement import Measurement
from ..other_work import OtherWork
from .beside_spark import rounded

COUNT, SIZE, MAX_BYTES = 24, 16 << 20, 64 << 20
RUNS = 3
WANTED_TIMES = 4


def run(folder: Path, count: int, size: int, max_bytes: int) -> Mapping[str, Any]:
    """What `sides.large_records` gives, in a process of its own. Raises CalledProcessError."""
    module = "headwater.benchmarks.suite.sides.large_records"
    arguments = [sys.executable, "-m", module, str(folder), *map(str, (count, size, max_bytes))]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def epoch_bytes(bench: Bench) -> Iterator[Measurement]:
    """The highest memory of the epochs, by their bytes."""
    with OtherWork() as others:
        runs = [run(bench.folder(f"large-{number}"), COUNT, SIZE, MAX_BYTES) for number in range(RUNS)]
    taken = [each["taken"] / 2**20 for each in runs]
    found = Measurement(
        "epoch_bytes",
        "MiB",
        rounded(statistics.median(taken)),
        None,
        round(statistics.median(taken) * 2**20 / MAX_BYTES, 2),
        WANTED_TIMES,
        {"epochs": [rounded(each) for each in taken], "append": [rounded(each["appended"] / 2**20) for each in runs]},
        at_most=True,
        note=f"The most that a process without Spark held beyond what it had at the start, while a task copied and "
        f"counted {COUNT} texts of {SIZE >> 20} MiB; the ratio is to `max_bytes`, {MAX_BYTES >> 20} MiB. Medians of "
        f"{RUNS} runs.",
    )
    yield bench.judged(found, others)
