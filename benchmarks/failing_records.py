"""What records that fail cost: an epoch of a million records in which none, one or a thousand fail.

    python -m benchmarks.failing_records [--records 1000000] [--repeats 3]

A flow casts a text and divides; failing records become dead letters. All of a topic with one partition goes into one
epoch, so a run without failing records is one epoch of its task. The ratio to it, less 1, is the price in epochs. What
it costs to be ready for records that fail is the ratio of such a run to one with `on_error: fail`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headwater import Project
from headwater.runtime.cluster.spark.session import start_session

from .common import write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = {
    "headwater.yml": 'name: bench\nversion: "1.0"\nprofile: bench\n',
    "profiles.yml": """
bench:
  target: local
  targets:
    local:
      log: {{type: embedded, path: log}}
      state_dir: state
      epoch: {{max_records: {records}}}
""",
    "topics/readings.yml": """
topics:
  readings:
    partitions: 1
    on_error: {on_error}
    key: {{id: bigint}}
    value: {{reading: string, scale: int}}
""",
    "topologies/t.yml": """
topology: t
flows:
  scaled:
    from: readings
    steps:
      - filter: scale >= 0
      - select:
          scaled: cast(reading as double) / scale
    to: results
""",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the median seconds of a run for each number of failing records, and the ratio to none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    session = start_session({"master": "local[2]"})
    cases: list[tuple[str, int]] = [("fail", 0), ("dead_letter", 0), ("dead_letter", 1), ("dead_letter", 1000)]
    for on_error, failing in cases:  # once, so that Spark is warm
        run(session, options.records // 10, failing, on_error)
    seconds: dict[tuple[str, int], list[float]] = {case: [] for case in cases}
    for _ in range(options.repeats):
        for (on_error, failing), found in seconds.items():
            found.append(run(session, options.records, failing, on_error))
    print(f"{options.records:,} records in one epoch, {options.repeats} runs each, medians")
    plain, none = median(seconds["fail", 0]), median(seconds["dead_letter", 0])
    print(f"on_error: fail, none fail: {plain:6.2f} s")
    print(f"dead_letter, none fail:    {none:6.2f} s, {none / plain - 1:+.1%}")
    for on_error, failing in cases[2:]:
        some = median(seconds[on_error, failing])
        print(f"dead_letter, {failing:>4} fail:    {some:6.2f} s, {some / none - 1:+.2f} epochs")
    session.stop()


def run(session: SparkSession, records: int, failing: int, on_error: str) -> float:
    """The seconds of a run until caught up over a new project, of which so many records fail."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_files(root, {name: text.format(records=records, on_error=on_error) for name, text in FILES.items()})
        project = Project(root, session=session)
        project.append("readings", rows(records, failing))
        (result,) = project.run(until_caught_up=True).applications
        assert (result.records, sum(result.dropped.values())) == (records, failing)
        return result.seconds


def rows(records: int, failing: int) -> pa.Table:
    """Records, of which some fail, evenly spread: half of them by their text, half by a division."""
    numbers = np.arange(records)
    text = numbers.astype(str).astype(object)
    scale = np.full(records, 3, np.int32)
    bad = ((np.arange(failing) + 0.5) * records / max(1, failing)).astype(np.int64)
    text[bad[::2]] = "none"
    scale[bad[1::2]] = 0
    return pa.table({"id": numbers, "reading": pa.array(text, pa.string()), "scale": scale})


if __name__ == "__main__":
    main()
