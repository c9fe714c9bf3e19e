"""Keyed count and sum of a million typed records an epoch, against Spark Structured Streaming on the same machine.

    python -m benchmarks.keyed_count_sum [--epochs 25] [--warm-up 20] [--only headwater|spark]

Both sides keep state durably and write the rows that changed; each runs in a process of its own, one after the other.
The figure is the median of the epochs after the warm-up: 5 of 25.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .headwater_epochs import append_epochs, write_project
from .records import PER_EPOCH, write_files

VARIANTS = {"plain": "no SQL step", "sql": "filter and projection in Spark SQL"}
SIDES = ("headwater", "spark")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--only", choices=SIDES)
    options = parser.parse_args(arguments)
    print(f"{platform.platform()}, Python {platform.python_version()}, {PER_EPOCH:,} records an epoch")
    for variant, meaning in VARIANTS.items():
        medians: dict[str, float] = {}
        for side in [options.only] if options.only else SIDES:
            with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
                prepare(side, Path(folder), variant, options.epochs)
                seconds = run(side, Path(folder), variant)
            measured = seconds[options.warm_up : options.epochs]
            medians[side] = statistics.median(measured)
            print(
                f"{meaning:36} {side:10} median {medians[side]:.2f} s of {len(measured)} epochs "
                f"({min(measured):.2f} to {max(measured):.2f})",
                flush=True,
            )
        if len(medians) == len(SIDES):
            print(f"{meaning:36} headwater is {medians['spark'] / medians['headwater']:.1f} times as fast", flush=True)


def prepare(side: str, folder: Path, variant: str, epochs: int) -> None:
    """Make the input: files for the peer, a project with a filled topic for us."""
    if side == "spark":
        write_files(folder / "in", epochs)
    else:
        write_project(folder, variant)
        append_epochs(folder, epochs + 1)


def run(side: str, folder: Path, variant: str) -> list[float]:
    """Seconds of each epoch of one side, in a process of its own."""
    module = "benchmarks.spark_streaming" if side == "spark" else "benchmarks.headwater_epochs"
    command = [sys.executable, "-m", module, str(folder), variant]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return [float(second) for second in json.loads(result.stdout.splitlines()[-1])]


if __name__ == "__main__":
    main()
