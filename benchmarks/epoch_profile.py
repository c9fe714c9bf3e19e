"""Where the time of an epoch goes: shares of its parts, of small topologies on Spark.

    python -m benchmarks.epoch_profile [--epochs 20] [--warm-up 10] [--cases count join] [--picture FILE.svg]

Four partitions, `local[2]`, one client with two threads, one Spark session for all cases in turn. All records are
there before the run, so epochs follow one another. A case takes 40,000 records an epoch (10,000 a task) of 10,000 keys;
`small` is `count` with 1,000. Of `re-key` the epochs are those that write the repartition topic. Measured are full
epochs after the warm-up, by the trace of the run. Prints a JSON line for each case: the median of an epoch's seconds,
the medians of its parts' shares, and the slices of the epoch of median length; at the end, on stderr, a table.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headwater import Project
from headwater.runtime.driver.counters import EPOCH_PHASES
from headwater.runtime.driver.epoch_reports import EpochTrace
from headwater.runtime.driver.events import EpochTraced, Event
from headwater.runtime.observe.tracing import Shares, Trace, slices

from .common import print_line, write_files

PARTITIONS = 4
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

COLOURS = dict(
    zip(
        EPOCH_PHASES,
        ("#8d99ae", "#2a6f97", "#61a5c2", "#588157", "#dda15e", "#b04a3a", "#d9d9d9", "#6d597a"),
        strict=True,
    )
)
OTHERS = "#eeeeee"
WORTH_A_NAME = 0.05
"""The part of the picture's width from which on a slice has its name written on it."""


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
    parser.add_argument("--picture", type=Path, help="also draw the cases in this SVG; needs the extra `bench`")
    options = parser.parse_args(arguments)
    session, found = None, {}
    for case in options.cases:
        with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
            root, records = Path(folder), records_of(case)
            write_project(root, case, records)
            project = Project(root, session=session)
            append(project, case, records, options.warm_up + options.epochs)
            found[case] = measured(project, records, options.warm_up)
            print_line({"entry": ENTRY, "case": case, "records": records}, found[case])
            from pyspark.sql import SparkSession

            session = session or SparkSession.getActiveSession()  # it stays open until this process ends
    print(table(found), file=sys.stderr)
    if options.picture:
        draw([{"case": case, "records": records_of(case), **each} for case, each in found.items()], options.picture)


def records_of(case: str) -> int:
    """Records of an epoch."""
    return FEW if case == "small" else RECORDS


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
    write_files(root, files)


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


def draw(found: Sequence[Mapping[str, Any]], picture: Path) -> None:
    """Draw the shares of all cases, and the slices of one epoch of the first."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "profile", "font.size": 8})
    figure, (bars, slices) = pyplot.subplots(2, 1, figsize=(9, 7.5), height_ratios=(2, 5), layout="constrained")
    names = [f"{each['case']}, {each['records']:,} records\n{1000 * each['seconds']:.0f} ms" for each in found]
    left = [0.0] * len(found)
    for phase, colour in COLOURS.items():
        widths = [100 * each["shares"].get(phase, 0.0) for each in found]
        bars.barh(names, widths, left=left, color=colour, label=phase)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    bars.invert_yaxis()
    bars.set_xlim(0, max(100, *left))
    bars.set_xlabel("% of an epoch, medians")
    bars.spines[["top", "right"]].set_visible(False)
    bars.legend(ncols=len(COLOURS), loc="lower center", bbox_to_anchor=(0.45, 1), frameon=False)
    _epoch(slices, found[0])
    figure.savefig(picture, metadata={"Date": None})


def _epoch(panel: Any, case: Mapping[str, Any]) -> None:
    """A row for each depth of each track, the outermost on top, in milliseconds."""
    tracks: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    for track, name, start, end in case["slices"]:
        tracks[track].append((name, 1000 * start, 1000 * end))
    whole = max(end for found in tracks.values() for _, _, end in found)
    row = 0.0
    for track, found in tracks.items():
        panel.text(0, row + 0.75, track, fontweight="bold")
        row += 1
        around: list[tuple[float, str]] = []
        deepest = 0
        for name, start, end in found:
            while around and around[-1][0] <= start:
                around.pop()
            colour = COLOURS.get(name) or (COLOURS.get(around[-1][1], OTHERS) if around else OTHERS)
            phase = name if name in COLOURS else around[-1][1] if around else name
            panel.barh(row + len(around), end - start, 1, start, align="edge", color=colour, edgecolor="white", lw=0.4)
            if (end - start) / whole >= WORTH_A_NAME:
                word = name.split(" ")[0] if name[0].isupper() else name
                panel.text(start + whole / 400, row + len(around) + 0.72, word, fontsize=6, clip_on=True)
            around.append((end, phase))
            deepest = max(deepest, len(around))
        row += deepest + 0.5
    panel.set_ylim(row, 0)
    panel.set_xlim(0, whole)
    panel.set_yticks([])
    panel.set_xlabel(f"ms of an epoch of `{case['case']}`")
    panel.spines[["top", "right", "left"]].set_visible(False)


if __name__ == "__main__":
    main()
