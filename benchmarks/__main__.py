"""The measurements of `make bench`, beside their peers.

    python -m benchmarks [--only keyed_count,growth] [--even-if-busy]

Prints a JSON object a line for each figure, and keeps those that were taken on an idle machine in
`benchmarks/results.jsonl`, from which `make bench-report` writes `docs/benchmarks.md`. A measurement that fails is
told, and the next one goes on. Exit code: 0; 1 if a measurement has failed; 3 if the machine was busy.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from .suite.bench import Bench, machine
from .suite.measurement import Measurement
from .suite.names import NAMES, PARTS, Measuring
from .suite.other_work import MOST_CORES
from .suite.results import RESULTS, keep

FAILED, BUSY = 1, 3
OTHERS = "others"
COMMANDS: Sequence[Sequence[str]] = (
    ("rack_aware",),
    ("balanced",),
    ("rebalance",),
    ("checksums",),
    ("backends",),
    ("restore",),
    ("restore", "--link", "spark", "--no-peer"),
    ("standby_cost",),
    ("metrics_parts",),
    ("epoch_profile",),
    ("failover", "failover_0"),
    ("failover", "failover_1", "--keys", "100000", "1000000", "2000000", "--no-peer"),
    ("object_store",),
    ("failing_records",),
)
"""The commands of `others`. Their figures are in `docs/internals/measurements.md`, not in `docs/benchmarks.md`."""


def main(arguments: Sequence[str] | None = None, measurements: Mapping[str, Measuring] = NAMES) -> int:
    """Measure; the exit code."""
    named = {**measurements, **PARTS}
    options = _options(arguments, named)
    names = options.only or list(measurements)
    failed: list[str] = []
    lines: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="headwater-benchmark-", dir=options.scratch) as scratch:
        bench = Bench(
            Path(scratch), options.warm_up, options.epochs, options.even_if_busy, options.quick_growth, options.engine
        )
        for name in (name for name in names if name != OTHERS):
            print(f"-- {name}", file=sys.stderr, flush=True)
            try:
                _measure(name, named[name], bench, options.results, lines)
            except Exception:  # whatever a measurement ends with, the next one has nothing to do with it
                traceback.print_exc()
                failed.append(name)
            bench.clear()
    if OTHERS in names:
        failed += _others()
    busy = [each.name for each in lines if each.busy is not None]
    if busy:
        print(f"not kept, as the machine was busy: {', '.join(busy)}", file=sys.stderr)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    for each in lines:
        print(each.to_json(), flush=True)
    return FAILED if failed else BUSY if busy else 0


def _measure(name: str, measuring: Measuring, bench: Bench, results: Path, lines: list[Measurement]) -> None:
    """Add the figures of a name to `lines`; tell and keep each as it comes."""
    begun = time.monotonic()
    for each in measuring(bench):
        said = replace(each, machine=machine(), command=f"make bench ONLY={name}")
        lines.append(said)
        print(f"{told(said)} ({time.monotonic() - begun:.0f} s)", file=sys.stderr, flush=True)
        keep(said, results)


def _others() -> list[str]:
    """Run the measurements that are commands of their own, such as `python -m benchmarks.restore`; those that fail."""
    failed = []
    for name, *arguments in COMMANDS:
        print(f"-- python -m benchmarks.{' '.join([name, *arguments])}", flush=True)
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], cwd=Path(__file__).parents[1])
        if done.returncode:
            failed.append(name)
    return failed


def told(found: Measurement) -> str:
    """A figure for people."""
    words = [f"{found.name}:"]
    if found.ours is not None:
        words.append(f"{found.ours:,g} {found.unit}")
    if found.peer is not None:
        words.append(f"beside {found.peer:,g} of the peer")
    if found.limit is not None:
        words.append(f"and {found.limit:,g} of a bare loop")
    if found.ratio is not None:
        words.append(f"= {found.ratio:g} times, wanted {'at most ' if found.at_most else ''}{found.target}")
    if found.busy is not None:
        words.append(
            f"-- the machine was busy: other processes used {found.busy:g} cores, more than {MOST_CORES}, so "
            + ("this is not kept" if found.ratio is not None else "there is no ratio and nothing is kept")
        )
    return " ".join(words)


def _options(arguments: Sequence[str] | None, measurements: Collection[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [*measurements, OTHERS]
    parser.add_argument("--only", type=lambda text: _names(text, known), help=f"some of {', '.join(known)}")
    parser.add_argument("--even-if-busy", action="store_true", help="give ratios also where other processes work")
    parser.add_argument("--quick-growth", action="store_true", help="plots of growth with fewer points")
    parser.add_argument("--warm-up", type=int, default=20, help="epochs of both sides before those that count (20)")
    parser.add_argument("--epochs", type=int, default=5, help="epochs that count (5)")
    parser.add_argument("--engine", choices=("task", "spark"), default="task", help="what computes our expressions")
    parser.add_argument("--scratch", help="where inputs, logs and stores are written meanwhile")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file that keeps the figures")
    return parser.parse_args(arguments)


def _names(text: str, known: Collection[str]) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
