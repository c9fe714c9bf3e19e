"""Memory while a backlog is worked off: it must not grow with the backlog.

    python -m benchmarks.memory [--millions 8 32]

Highest resident set (RSS) of the driver (its Python and the JVM, which holds Spark's executor in local mode) and of the
Python workers together, looked at ten times a second. Pages that processes share are counted in each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psutil

from .headwater_epochs import append_epochs, write_project
from .records import PER_EPOCH

SAMPLE_SECONDS = 0.1


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--millions", type=int, nargs="+", default=[8, 32], help="records of backlog, in millions")
    options = parser.parse_args(arguments)
    for millions in options.millions:
        with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
            write_project(Path(folder), "plain")
            append_epochs(Path(folder), millions * 1_000_000 // PER_EPOCH)
            peak = peak_of([sys.executable, "-m", "benchmarks.headwater_epochs", folder])
        figures = ", ".join(f"{name} {bytes_ / 2**20:,.0f} MiB" for name, bytes_ in sorted(peak.items()))
        print(f"{millions} million records: {figures}", flush=True)


def peak_of(command: Sequence[str]) -> Counter[str]:
    """The highest RSS of each kind of process under a command, in bytes."""
    peak: Counter[str] = Counter()
    process = psutil.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak |= resident(process)
        try:
            process.wait(SAMPLE_SECONDS)
        except psutil.TimeoutExpired:
            continue
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return peak


def resident(root: psutil.Process) -> Counter[str]:
    """RSS by kind of process: the driver's Python, the JVM, Python workers (children of the JVM)."""
    found: Counter[str] = Counter()
    for process in [root, *root.children(recursive=True)]:
        try:
            java = "java" in process.name()
            kind = "driver Python" if process == root else "JVM" if java else "Python workers"
            found[kind] += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return found


if __name__ == "__main__":
    main()
