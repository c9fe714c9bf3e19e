"""Our side with topics in Kafka: applications of one project, in this process and without Spark.

    python -m headwater.benchmarks.suite.sides.kafka FOLDER TARGET MEASURED

takes turns as all sides do. MEASURED are applications, separated by commas, or `all`: turn 1 runs them until they have
caught up, turn 0 all others. With `forever` behind it, it runs all of them until it is killed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater import Project
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.runs import run_topologies

from ...common import write_files
from .process import serve

PREPARE, MEASURE = 0, 1
COUNTS = """topology: counts
flows:
  counts:
    from: readings
    steps:
      - aggregate: {values: {readings: count(*), total: sum(n)}}
    to: totals
"""
COPIES = """topology: copies
flows:
  copies:
    from: readings
    to: copied
"""
TOPOLOGIES = {"counts": COUNTS, "copies": COPIES}
VALUE = {"n": "bigint", "degrees": "double", "note": "string"}


def write_project(
    root: Path, topology: str | None, partitions: int, kafka: dict[str, str], interval_ms: int = 500
) -> None:
    """A project that reads `readings` from Kafka. `topology`: a name of TOPOLOGIES; None if it copies only.

    `kafka`: the servers, and the names of topics in Kafka by those of the project.
    """
    topics: dict[str, Any] = {"readings": {"partitions": partitions, "key": {"sensor": "string"}, "value": VALUE}}
    if topology == "counts":
        value = {"readings": "bigint", "total": "bigint"}
        topics["totals"] = {"partitions": partitions, "key": {"sensor": "string"}, "value": value}
    elif topology == "copies":
        topics["copied"] = topics["readings"]
    for name, declared in topics.items():
        topics[name] = {**declared, "kafka": {"topic": kafka[name], "key": "string"}}
    clusters = {"kafka": {"main": {"bootstrap_servers": kafka["servers"]}}}
    targets = {
        target: {
            "log": {"type": "embedded", "path": f"{target}/log"},
            "state_dir": f"{target}/state",
            "epoch": {"interval": f"{interval_ms}ms"},
            **more,
        }
        for target, more in (("local", {}), ("kafka", clusters))
    }
    files = {
        "headwater.yml": {"name": "bench", "version": "1", "profile": "bench"},
        "profiles.yml": {"bench": {"target": "kafka", "targets": targets}},
        "topics/all.yml": {"topics": topics},
        **({f"topologies/{topology}.yml": TOPOLOGIES[topology]} if topology else {}),
    }
    write_files(root, files)


@dataclass
class Ours:
    """The applications of a project."""

    root: Path
    target: str
    measured: str

    def __post_init__(self) -> None:
        self.project = Project(self.root, target=self.target)
        self.topologies = self.project._code.topologies()

    def take(self, epochs: Sequence[int]) -> float:
        """Run those that are measured, or all others."""
        (turn,) = epochs
        names = [each.name for each in self.topologies] if self.measured == "all" else self.measured.split(",")
        chosen = [each for each in self.topologies if (each.name in names) == (turn == MEASURE)]
        begun = time.perf_counter()
        if chosen:
            self.run(chosen, until_caught_up=True)
        return time.perf_counter() - begun

    def run(self, chosen: Sequence[Any], until_caught_up: bool) -> None:
        """Run applications. Raises RuntimeError where one fails."""
        results = run_topologies(
            chosen, self.project.settings(), LocalCluster(), until_caught_up=until_caught_up
        ).applications
        if failed := [each.error for each in results if each.error]:
            raise RuntimeError(failed)

    def close(self) -> None:
        """Nothing lasts beyond a turn."""


if __name__ == "__main__":
    ours = Ours(Path(sys.argv[1]), *sys.argv[2:4])
    if "forever" in sys.argv:
        ours.run(ours.topologies, until_caught_up=False)
    else:
        serve(lambda: ours)
