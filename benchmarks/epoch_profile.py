"""Where the time of an epoch goes: shares of its parts, of small topologies on Spark.

    python -m benchmarks.epoch_profile [--epochs 20] [--warm-up 10] [--cases count join] > profile.jsonl

Four partitions, `local[2]`, one client with two threads, one Spark session for all cases in turn. All records are
there before the run, so epochs follow one another. A case takes 40,000 records an epoch (10,000 a task) of 10,000 keys;
`small` is `count` with 1,000. Of `re-key` the epochs are those that write the repartition topic. Measured are full
epochs after the warm-up, by the trace of the run. Prints a JSON line for each case: the median of an epoch's seconds,
the medians of its parts' shares, and the slices of the epoch of median length; at the end, on stderr, a table.
`benchmarks.epoch_profile_plot` draws the lines.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from headwater import Project
from headwater.runtime.driver.counters import EPOCH_PHASES
from headwater.runtime.driver.epoch_reports import EpochTrace
from headwater.runtime.driver.events import EpochTraced, Event
from headwater.runtime.observe.tracing import Shares, Trace, slices

from .records import PARTITIONS

ENTRY = "epoch_profile"
KEYS = 10_000
RECORDS = 40_000
FEW = 1_000
COUNT = {"aggregate": {"values": {"n": "count(*)"}}}
STEPS: Mapping[str, list[dict[str, Any]]] = {
    "count": [COUNT],
    "window": [{"window": {"tumbling": "1m"}}, COUNT],
    "join": [{"join": {"table": "names", "values": {"name": "names.name"}}}],
    "re-key": [{"key_by": {"other": "other"}}, COUNT],
    "small": [COUNT],
}
WORTH_A_ROW = 0.01
"""The share from which on a part has a row in the table, in any case."""


@dataclass
class Epochs:
    """The traces of full epochs of the subtopology that reads the records. `records`: of a full one."""

    records: int
    traces: list[EpochTrace] = field(default_factory=list)

    def on(self, event: Event) -> None:
        if isinstance(event, EpochTraced):
            taken = sum(task.records for thread in event.trace.threads for task in thread)
            if taken == self.records and not event.trace.subtopology.endswith("rekeyed"):
                self.traces.append(event.trace)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--cases", choices=list(STEPS), nargs="+", default=list(STEPS))
    options = parser.parse_args(arguments)
    session, found = None, {}
    for case in options.cases:
        with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
            root, records = Path(folder), FEW if case == "small" else RECORDS
            write_project(root, case, records)
            project = Project(root, session=session)
            append(project, case, records, options.warm_up + options.epochs)
            found[case] = measured(project, records, options.warm_up)
            print(json.dumps({"entry": ENTRY, "case": case, "records": records} | found[case]), flush=True)
            from pyspark.sql import SparkSession

            session = session or SparkSession.getActiveSession()  # it stays open until this process ends
    print(table(found), file=sys.stderr)


def write_project(root: Path, case: str, records: int) -> None:
    """A project of one topology with the steps of a case."""
    local = {
        "spark": {"master": "local[2]"},
        "log": {"type": "embedded", "path": "log"},
        "state_dir": "state",
        "epoch": {"interval": "1ms", "max_records": records // PARTITIONS},
    }
    topic = {"partitions": PARTITIONS, "key": {"k": "bigint"}}
    value = {"other": "bigint", "v": "bigint", "ts": "timestamp"}
    topology: dict[str, Any] = {"topology": "profile"}
    if case == "join":
        topology["tables"] = {"names": {"topic": "names_by_key"}}
    topology["flows"] = {"results": {"from": "records", "steps": STEPS[case], "to": "results_of_all"}}
    files = {
        "headwater.yml": {"name": "benchmark", "version": "1", "profile": "benchmark"},
        "profiles.yml": {"benchmark": {"target": "local", "targets": {"local": local}}},
        "topics/records.yml": {
            "topics": {
                "records": {**topic, "value": value, "timestamp": "ts"},
                "names_by_key": {**topic, "value": {"name": "string", "ts": "timestamp"}, "timestamp": "ts"},
            }
        },
        "topologies/profile.yml": topology,
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(yaml.safe_dump(content, sort_keys=False))


def append(project: Project, case: str, records: int, epochs: int) -> None:
    """Append the records of so many epochs; before them, where they are joined, the table's."""
    rng = np.random.default_rng(7)
    if case == "join":
        keys, begun = np.arange(KEYS), pa.array(np.zeros(KEYS, np.int64), pa.timestamp("us", "UTC"))
        rows = {"k": keys, "name": [f"name {key}" for key in keys], "ts": begun}
        project.append("names_by_key", pa.table(rows))
    for number in range(epochs + 2):  # keys are spread over partitions by their hashes, so not all epochs are full
        seconds = np.arange(records) * 60 // records + number * 60
        project.append(
            "records",
            pa.table(
                {
                    "k": rng.integers(0, KEYS, records),
                    "other": rng.integers(0, KEYS, records),
                    "v": rng.integers(0, 1000, records),
                    "ts": pa.array(seconds * 1_000_000, pa.timestamp("us", "UTC")),
                }
            ),
        )


def measured(project: Project, records: int, warm_up: int) -> dict[str, Any]:
    """Run until caught up, and give the medians."""
    epochs = Epochs(records)
    with Trace(project.root / "run.json") as trace:
        results = project.run(until_caught_up=True, observer=epochs, trace=trace)
    if results.failed:
        raise SystemExit(str(results))
    traces = epochs.traces[warm_up:]
    if not traces:
        raise SystemExit(f"no full epoch after {warm_up}: give more --epochs")
    shares = [shares_of(each) for each in traces]
    parts = sorted({part for each in shares for part in each})
    middle = sorted(traces, key=lambda each: each.seconds)[len(traces) // 2]
    return {
        "epochs": len(traces),
        "seconds": round(statistics.median(each.seconds for each in traces), 4),
        "load": round(os.getloadavg()[0], 1),
        "shares": {part: round(statistics.median(each.get(part, 0.0) for each in shares), 4) for part in parts},
        "slices": [
            [each.track.thread, each.name, round(each.start - middle.started, 5), round(each.end - middle.started, 5)]
            for each in slices("profile", middle)
            if each.track.thread != "driver"
        ],
    }


def shares_of(trace: EpochTrace) -> dict[str, float]:
    """The share of each part of an epoch, as `state > read rows`. Operators are named without their places."""
    alone = Shares()
    alone.add(trace)
    found: dict[str, float] = {}
    for each in alone.rows():
        part = " > ".join(word.split(" ")[0] if word[0].isupper() else word for word in each.part)
        found[part] = found.get(part, 0.0) + each.share
    return found


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """As a page has it: a row for each part, below the one that it is a part of."""
    rows = [["part", *found], ["---"] + ["---:"] * len(found)]
    rows.append(["an epoch, ms", *(f"{1000 * each['seconds']:.0f}" for each in found.values())])
    parts = {part for each in found.values() for part, share in each["shares"].items() if share >= WORTH_A_ROW}
    highest = {part: max(each["shares"].get(part, 0.0) for each in found.values()) for part in parts}

    def place(part: str) -> list[tuple[float, str]]:
        first, *words = part.split(" > ")
        paths = [" > ".join([first, *words[:depth]]) for depth in range(1, len(words) + 1)]
        return [(EPOCH_PHASES.index(first), first), *((-highest.get(path, 0.0), path) for path in paths)]

    for part in sorted(parts | set(EPOCH_PHASES), key=place):
        *above, name = part.split(" > ")
        cells = [each["shares"].get(part, 0.0) for each in found.values()]
        said = f"**{name}**" if not above else "&emsp;" * len(above) + name
        rows.append([said, *(f"{100 * share:.1f} %" if share else "" for share in cells)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
