"""A process that takes large records with a topology in it, without Spark, and says how much memory that took.

`python -m headwater.benchmarks.suite.sides.large_records FOLDER KEYS COUNT SIZE MAX_BYTES` gives a line of JSON. KEYS:
`kept` for one subtopology, `changed` for two, whose tasks run at once. Linux only: elsewhere a process cannot forget
its highest memory.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.api.files import CheckedFiles, Options
from headwater.api.topology_test_driver import DrivenProject
from headwater.compiler.testing.checked import TestedTopology
from headwater.runtime.ingest.incoming import Incoming, from_table

from ...common import write_files

TOPOLOGY = """
topology: case
flows:
  copied:
    from: texts
    steps:
      - select: {k: k, text: text}
    to: copies
  measured:
    from: texts
    steps:
      - aggregate: {values: {n: count(*), most: max(length(text))}}
    to: longest
"""
CHANGED_KEYS = TOPOLOGY.replace("- aggregate", "- key_by: {k: k}\n      - aggregate")
FILES = {
    "headwater.yml": "name: large\nversion: '1'\nprofile: large\n",
    "profiles.yml": "large: {target: t, targets: {t: {log: {type: embedded, path: log}}}}\n",
    "topics/inputs.yml": "topics:\n  texts: {partitions: 1, key: {id: string}, value: {k: string, text: string}}\n",
}
TOPOLOGIES = {"kept": TOPOLOGY, "changed": CHANGED_KEYS}


class NoSpark:
    """Where nothing is asked of Spark."""

    def analyze(self, requests: Any) -> Any:
        """Raises AssertionError."""
        raise AssertionError(f"only Spark knows the types of {requests}")


def measured(root: Path, keys: str, count: int, size: int, max_bytes: int) -> Mapping[str, Any]:
    """Take `count` texts of `size` bytes in epochs of `max_bytes`. `keys`: one of TOPOLOGIES.

    Gives the bytes of memory beyond those at the start, at the highest, of the append (`appended`) and of the epochs
    (`taken`), and the last two rows of the aggregation (`longest`).
    """
    write_files(root, {**FILES, "topologies/case.yml": TOPOLOGIES[keys]})
    spark: Any = NoSpark()
    project = DrivenProject(CheckedFiles(root, Options(None, None, {}, (), ()), lambda: spark), spark)
    surface = TestedTopology.from_graph(project.graphs["case"])
    topology = project.driven("case", "task")
    topology.settings = replace(topology.settings, max_bytes=max_bytes)
    topic = surface.read["texts"]
    text = random.Random(1).randbytes(size // 2).hex()

    def records() -> Iterator[Incoming]:
        for number in range(count):
            columns = {"id": [str(number % 2)], "k": [str(number % 2)], "text": [text]}
            yield from_table(topic, pa.table(columns), number)

    try:
        appended = _peak(lambda: topology.take((topic, records())))
        taken = _peak(lambda: topology.feed([]))
        rows = topology.records(surface.written["longest"])[-2:]
    finally:
        topology.close()
    longest = [[*(row.key or {}).values(), *(row.value or {}).values()] for row in rows]
    return {"appended": appended, "taken": taken, "longest": longest}


def _peak(action: Callable[[], object]) -> int:
    Path("/proc/self/clear_refs").write_text("5")  # the highest memory is that of what follows
    before = _memory("VmRSS")
    action()
    return _memory("VmHWM") - before


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))))
