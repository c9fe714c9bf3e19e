"""What many small epochs leave behind: one project on Spark, and what its log has come to, every so many commits.

    python -m benchmarks.real_epochs [--epochs 5000] [--every 500]

Records are appended before the run, in small appends. Two subtopologies with a repartition topic between them count
them by another key, ten of a partition in an epoch. Each epoch is two commits. The log is cleaned as by default, but
files that others have taken the place of are removed after a minute. Prints one JSON object a line.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwater import Project
from headwater.runtime.driver.events import EpochCommitted, Event

from .common import write_files
from .log_figures import measured

PARTITIONS = 4
PER_PARTITION = 10
KEYS = 1000
APPENDS = 200
NAME = "lasting"
APPLICATION = f"{NAME}-counts"


class Sampling:
    """Prints the figures every so many commits. The run waits meanwhile."""

    def __init__(self, root: Path, every: int) -> None:
        self._root = root
        self._every = every
        self._commits = 0
        self._begun = time.perf_counter()

    def on(self, event: Event) -> None:
        if not isinstance(event, EpochCommitted):
            return
        self._commits += 1
        if self._commits % self._every == 0:
            with Project.load(self._root) as project:
                figures = measured(
                    self._root / "log",
                    APPLICATION,
                    self._commits,
                    lambda: project.read("counts_by_key").to_arrow(),
                    lambda: list(project.query("by_key", key={"k": "k7"})),
                )
            print(json.dumps({"at": round(time.perf_counter() - self._begun, 1), **asdict(figures)}), flush=True)


def write_project(root: Path) -> None:
    """The project's files."""
    local: dict[str, Any] = {
        "spark": {"master": "local[2]", "driver.memory": "2g"},
        "log": {"type": "embedded", "path": "log"},
        "state_dir": "state",
        "epoch": {"interval": "1ms", "max_records": PER_PARTITION},
        "cleaner": {"file_delete_delay": "1m"},
    }
    records = {
        "partitions": PARTITIONS,
        "key": {"id": "bigint"},
        "value": {"k": "string", "ts": "timestamp"},
        "timestamp": "ts",
    }
    flows = {
        "by_key": {
            "from": "records",
            "steps": [{"key_by": {"k": "k"}}, {"aggregate": {"values": {"n": "count(*)"}}}],
            "to": "counts_by_key",
        },
    }
    files = {
        "headwater.yml": {"name": NAME, "version": "1", "profile": NAME},
        "profiles.yml": {NAME: {"target": "local", "targets": {"local": local}}},
        "topics/records.yml": {"topics": {"records": records}},
        "topologies/counts.yml": {"topology": "counts", "flows": flows},
    }
    write_files(root, files)


def append(root: Path, epochs: int, appends: int = APPENDS) -> None:
    """Append the records of so many epochs, in so many appends."""
    count = epochs * PARTITIONS * PER_PARTITION
    with Project.load(root) as project:
        for first in range(0, count, max(1, count // appends)):
            numbers = range(first, min(count, first + max(1, count // appends)))
            project.append("records", [_record(number) for number in numbers])


def _record(number: int) -> dict[str, Any]:
    at = f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    return {"key": {"id": number}, "value": {"k": f"k{number * 7919 % KEYS}", "ts": at}}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5_000, help="each of two commits")
    parser.add_argument("--every", type=int, default=500, help="commits between two lines")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
        root = Path(folder)
        write_project(root)
        append(root, options.epochs)
        with Project.load(root) as project:
            project.run(until_caught_up=True, observer=Sampling(root, options.every))


if __name__ == "__main__":
    main()
