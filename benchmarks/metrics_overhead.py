"""What metrics cost: the time of an epoch with all of it, and of the same epoch without.

    python -m benchmarks.metrics_overhead [--where local spark] [--records 20000 100000] [--epochs 600 400] [--times 3]

A count and sum by key, as in `keyed_count` of `make bench`. In one run two epochs measure, two do not, and so on: the
load of the machine comes to both sides alike. Neighbours are compared. With metrics: stages measure, the driver counts,
statuses have the numbers, a scraper reads them from the port every 5 s (Prometheus: every 15 s), each event is a line
of JSON in a file, and OpenLineage events go to a file. Without: none of that, but the statuses of before. Each run is
in a process of its own. The time of an epoch is that from one commit to the next, so it has all that the loop does.
`local`: in one process without Spark, where the time is that of the process on its cores, which others on the machine
hardly change; `spark`: as runs are, by the clock on the wall. Prints a JSON line for each run, with the median of the
pairs and its standard error, and one with the medians of all runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml

from headwater import Project
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver import counters, status_writer
from headwater.runtime.driver import epoch_reports as epochs
from headwater.runtime.driver.events import EpochCommitted, Event, Observer
from headwater.runtime.driver.json_lines import JsonLines
from headwater.runtime.driver.results import RunResults
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.generated_code import load_runner
from headwater.runtime.observe.lineage import reporting_lineage
from headwater.runtime.observe.metrics import serving

from . import unmeasured
from .headwater_epochs import append_epochs, write_project
from .records import PARTITIONS, PER_EPOCH

ENTRY = "metrics_overhead"
WHERE = ("local", "spark")
SCRAPE_SECONDS = 5.0
ROOT = Path(__file__).parents[1]


@dataclass
class Times:
    """When each epoch was committed; and hands events on, on the side with metrics."""

    others: Sequence[Observer]
    records: int
    clock: Callable[[], float]
    seen: list[tuple[float, int]] = field(default_factory=list)
    epoch: int = 0

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            self.epoch += 1
            if event.records == self.records:
                self.seen.append((self.clock(), self.epoch))
        if unmeasured.side.measured:
            for each in self.others:
                each.on(event)

    def pairs(self, warm_up: int) -> list[tuple[float, float]]:
        """The seconds of blocks that follow one another, with metrics and without."""
        blocks: dict[int, list[float]] = {}
        for (before, _), (after, epoch) in zip(self.seen[warm_up:], self.seen[warm_up + 1 :], strict=False):
            blocks.setdefault(epoch // unmeasured.BLOCK, []).append(after - before)
        whole = {number: sum(each) for number, each in blocks.items() if len(each) == unmeasured.BLOCK}
        return [
            (whole[number], whole[number + 1])
            for number in whole
            if unmeasured.is_measured(number * unmeasured.BLOCK) and number + 1 in whole
        ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--where", choices=WHERE, nargs="+", default=list(WHERE))
    parser.add_argument("--records", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--epochs", type=int, nargs="+", default=[600, 400])
    parser.add_argument("--warm-up", type=int, default=40)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args(arguments)
    for where in options.where:
        for records, count in zip(options.records, options.epochs, strict=True):
            costs = []
            what = {"entry": ENTRY, "where": where, "records": records}
            for _ in range(options.times):
                with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
                    costs.append(_measured(Path(folder), where, records, count, options.warm_up))
                print(json.dumps(what | costs[-1]), flush=True)
            medians = {name: round(statistics.median(each[name] for each in costs), 5) for name in costs[0]}
            print(json.dumps(what | {"median": True} | medians), flush=True)


def _measured(root: Path, where: str, records: int, count: int, warm_up: int) -> dict[str, float]:
    """One run in a process of its own: seconds of an epoch on both sides, and what measuring adds, in percent."""
    write_project(root, "sql" if where == "spark" else "plain")
    profiles = yaml.safe_load((root / "profiles.yml").read_text())
    local = profiles["benchmark"]["targets"]["local"]
    local["epoch"]["max_records"] = records // PARTITIONS
    local["lineage"] = {"file": "lineage.jsonl"}
    (root / "profiles.yml").write_text(yaml.safe_dump(profiles))
    append_epochs(root, -(-records * count // PER_EPOCH) + 1)
    (root / "path").mkdir()
    (root / "path" / "sitecustomize.py").write_text("from benchmarks import unmeasured\n\nunmeasured.install()\n")
    path = os.pathsep.join([str(root / "path"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "benchmarks.metrics_overhead", str(root), where, str(records), str(warm_up)]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**os.environ, "PYTHONPATH": path})
    found = json.loads(result.stdout.splitlines()[-1])
    on, off = ([pair[side] / unmeasured.BLOCK for pair in found] for side in (0, 1))
    costs = [100 * (one / other - 1) for one, other in found]
    low, _, high = statistics.quantiles(costs, n=4)
    return {
        "pairs": len(found),
        "with": round(statistics.median(on), 5),
        "without": round(statistics.median(off), 5),
        "cost_percent": round(statistics.median(costs), 2),
        # Of a median: 1.2533 times that of a mean, whose deviation is the distance of the quartiles by 1.349.
        "standard_error": round(1.2533 * (high - low) / 1.349 / len(costs) ** 0.5, 2),
        "load": round(os.getloadavg()[0], 1),
    }


def run(root: Path, where: str, records: int, warm_up: int) -> list[tuple[float, float]]:
    """Run until caught up. The workers and stages have `unmeasured` installed already."""
    _switch_the_driver()
    stop = threading.Event()
    with serving(0) as (statuses, url), open(root / "events.jsonl", "w") as lines, Project.load(root) as project:
        clock = time.perf_counter if where == "spark" else time.process_time
        times = Times((statuses, JsonLines(lines)), records, clock)
        scraper = threading.Thread(target=_scrape, args=(url, stop))
        scraper.start()
        if where == "spark":
            results = project.run(until_caught_up=True, observer=times)
        else:
            results = _run_in_this_process(project, times)
        stop.set()
        scraper.join()
    if results.failed:
        raise SystemExit(str(results))
    return times.pairs(warm_up)


def _run_in_this_process(project: Project, observer: Observer) -> RunResults:
    project.compile()
    runner = load_runner(project.root / "target" / "totals" / "runner.py")
    topologies, settings = [runner.topology], runner.settings
    with reporting_lineage(settings.lineage, topologies, observer, until_caught_up=True) as told:
        return run_topologies(topologies, settings, LocalCluster(), until_caught_up=True, observer=told)


def _switch_the_driver() -> None:
    """Count epochs, and put numbers into statuses, on the side with metrics only."""
    ended = epochs.EpochReports.ended

    def counted(self: Any, opened: Any, outcomes: Any, *rest: Any) -> None:
        unmeasured.side.at(opened.plan.epoch)
        ended(self, opened, outcomes, *rest)

    class Switched(counters.Counters):
        def epoch_ended(self, *arguments: Any) -> None:
            if unmeasured.side.measured:
                super().epoch_ended(*arguments)

        def committed(self, *arguments: Any) -> None:
            if unmeasured.side.measured:
                super().committed(*arguments)

    stores = status_writer.StatusWriter._stores

    def sized(self: Any, member: Any, task: Any) -> Any:
        found = stores(self, member, task)
        return found if unmeasured.side.measured else (type(each)(each.name, each.position, each.end) for each in found)

    patched: Any = status_writer
    patched.Counters = Switched
    epochs.EpochReports.ended = counted  # type: ignore[assignment, method-assign]
    status_writer.StatusWriter._stores = sized  # type: ignore[method-assign]


def _scrape(url: str, stop: threading.Event) -> None:
    while not stop.wait(SCRAPE_SECONDS):
        if unmeasured.side.measured:
            urlopen(url).read()


if __name__ == "__main__":
    if len(sys.argv) == 5 and Path(sys.argv[1]).is_dir():
        print(json.dumps(run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        main()
