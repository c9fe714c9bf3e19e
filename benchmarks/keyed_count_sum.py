"""Keyed count and sum of a million typed records an epoch, against Spark Structured Streaming on the same machine.

    python benchmarks/keyed_count_sum.py [--epochs 25] [--warm-up 20] [--only headwater|spark]

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
from pathlib import Path

from records import PER_EPOCH, write_files

SIDES = {"headwater": "headwater_epochs.py", "spark": "spark_streaming.py"}
VARIANTS = {"plain": "no SQL step", "sql": "filter and projection in Spark SQL"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--only", choices=SIDES)
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, {PER_EPOCH:,} records an epoch")
    with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as root:
        write_files(Path(root) / "in", options.epochs)
        for variant, meaning in VARIANTS.items():
            for side in [options.only] if options.only else SIDES:
                folder = Path(root) / f"{side}-{variant}"
                folder.mkdir()
                (folder / "in").symlink_to(Path(root) / "in")
                seconds = run(side, folder, variant)
                measured = seconds[options.warm_up :]
                print(
                    f"{meaning:36} {side:10} median {statistics.median(measured):.2f} s of {len(measured)} epochs "
                    f"({min(measured):.2f} to {max(measured):.2f}); {len(seconds)} in all",
                    flush=True,
                )


def run(side: str, folder: Path, variant: str) -> list[float]:
    """Seconds of each epoch of one side, in a process of its own."""
    script = Path(__file__).parent / SIDES[side]
    result = subprocess.run([sys.executable, str(script), str(folder), variant], stdout=subprocess.PIPE, check=True)
    return [float(second) for second in json.loads(result.stdout.splitlines()[-1])]


if __name__ == "__main__":
    main()
