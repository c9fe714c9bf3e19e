"""What one standby replica costs the active tasks: records a second of the same run without standbys and with one.

    python -m benchmarks.standby_cost [--epochs 20] [--warm-up 10] [--times 2]

A count and sum by key, as in `keyed_count` of `make bench`, on two clients with a core each; there is always more to
read. With a standby each client also follows the changelogs of the other's tasks, on the same cores. The two sides take
turns, each run in a process of its own. Prints a JSON line for each run, and one with the medians and the cost.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headwater import Project
from headwater.runtime.driver.events import EpochCommitted, Event

from .common import in_process, print_line
from .suite import inputs
from .suite.sides import project
from .suite.sizes import Size
from .suite.workloads import WORKLOADS

CLIENTS = 2
SIZE = Size()


@dataclass
class Commits:
    """Notes when how many records had been committed."""

    seen: list[tuple[float, int]] = field(default_factory=list)

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            before = self.seen[-1][1] if self.seen else 0
            self.seen.append((time.perf_counter(), before + event.records))

    def rate(self, warm_up: int) -> float:
        """Records a second, from the commit that has so many records to the last one."""
        steady = [each for each in self.seen if each[1] >= warm_up]
        (begun, before), (ended, after) = steady[0], steady[-1]
        return (after - before) / (ended - begun)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--times", type=int, default=2)
    options = parser.parse_args(arguments)
    rates: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(options.times):
        for standbys, found in rates.items():
            with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
                write_project(Path(folder), standbys, options.epochs)
                found.append(in_process("benchmarks.standby_cost", folder, options.warm_up * SIZE.records))
            print_line(
                {"entry": "standby_cost", "standby_replicas": standbys}, {"records_per_second": round(found[-1])}
            )
    without, with_one = (statistics.median(found) for found in rates.values())
    cost = round(100 * (1 - with_one / without), 1)
    figures = {"median": True, "without": round(without), "with_one": round(with_one), "cost_percent": cost}
    print_line({"entry": "standby_cost"}, figures)


def write_project(root: Path, standbys: int, epochs: int) -> None:
    """A project on two clients, with the records of so many epochs."""
    project.write_project(root, WORKLOADS["keyed_count"], SIZE, "task", clients=CLIENTS, standbys=standbys)
    with Project.load(root) as loaded:
        for number in range(epochs):
            loaded.append("records", inputs.epoch("typed", number, SIZE))


def rate_of_a_run(root: Path, warm_up: int) -> float:
    """Run until caught up; records a second behind the first `warm_up` records."""
    commits = Commits()
    with Project.load(root) as loaded:
        results = loaded.run(until_caught_up=True, observer=commits)
    if results.failed:
        raise SystemExit(str(results))
    return commits.rate(warm_up)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2].isdecimal() and Path(sys.argv[1]).is_dir():
        print(rate_of_a_run(Path(sys.argv[1]), int(sys.argv[2])))
    else:
        main()
