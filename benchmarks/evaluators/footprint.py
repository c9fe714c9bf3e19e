"""What a candidate costs before the first row: its files, and loading it into a process that has Arrow already."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from importlib.metadata import files
from pathlib import Path

from .candidates import PACKAGES

_LOADED = """
import json, time, psutil
import pyarrow.acero, pyarrow.compute, sqlglot
from benchmarks.evaluators.candidates import CANDIDATES
from benchmarks.evaluators.speed import flights
batch, process = flights(10), psutil.Process()
before, begun = process.memory_full_info().uss, time.process_time()
CANDIDATES[{name!r}]().flights()(batch)
print(json.dumps([time.process_time() - begun, process.memory_full_info().uss - before]))
"""


def footprint(name: str, times: int = 5) -> dict[str, object]:
    """Medians of new processes: processor time until ten rows are evaluated, and what memory that takes."""
    command = [sys.executable, "-c", _LOADED.format(name=name)]
    runs = [json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) for _ in range(times)]
    seconds, memory = (statistics.median(each) for each in zip(*runs, strict=True))
    return {
        "entry": "evaluators_footprint",
        "candidate": name,
        "load_cpu_s": round(seconds, 3),
        "memory_mb": round(memory / 1e6, 1),
        "installed_mb": round(sum(map(_size, PACKAGES[name])) / 1e6, 1),
    }


def _size(package: str) -> int:
    paths = (Path(str(each.locate())) for each in files(package) or ())
    return sum(path.stat().st_size for path in paths if path.is_file())
