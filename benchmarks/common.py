"""Shared by several measurements: projects and changelogs to start from, other processes, lines of figures."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import yaml

from headwater.runtime.engine.execution.keyed.stored_rows import stored_columns
from headwater.runtime.ir.topology import Store, Topology
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord, TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.records.keys import encode_keys
from headwater.runtime.records.schema import CHANGELOG, changelog_topic
from headwater.runtime.state.codec import RowCodec

PER_COMMIT = 250_000
"""Records of a partition in a commit of `write_changelog`."""


def write_files(root: Path, files: Mapping[str, Any]) -> None:
    """Write a project's files: texts as they are, other content as YAML."""
    for name, content in files.items():
        text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def write_changelog(
    log: EmbeddedLog, topology: Topology, store: Store, numbers: Callable[[int], npt.NDArray[np.int64]]
) -> None:
    """Commit a changelog of a store of the topology's only subtopology, with one key column, in segments as of epochs.

    `numbers`: partition -> the numbers of its keys. A key's values and its time are its number.
    """
    state = LogState.load(log.commits(topology.application))
    state.commit(GenerationRecord(1, 0, TopologyDescription.from_topology(topology)))
    (part,) = topology.subtopologies
    columns, topic = stored_columns(store), changelog_topic(topology.application, store.name)
    codec = RowCodec(columns)
    for partition in range(store.partitions):
        for start, some in _slices(numbers(partition)):
            named = pa.array([f"k{number * store.partitions + partition:08d}" for number in some.tolist()])
            values = codec.encode([pa.array(some).cast(kind) for kind in columns.values()], some)
            table = pa.table([encode_keys([named]), pa.array(values, pa.binary()), some], schema=CHANGELOG)
            segments = log.write(topology.application, topic, f"{partition}-{start}", table, partition, partition)
            task = TaskCommit(part.name, partition, {}, 0, segments=segments)
            state.commit(EpochRecord(state.generation, 1, 0, (task,)))


def _slices(numbers: npt.NDArray[np.int64]) -> list[tuple[int, npt.NDArray[np.int64]]]:
    return [(start, numbers[start : start + PER_COMMIT]) for start in range(0, len(numbers), PER_COMMIT)]


def seconds(work: Callable[[], object]) -> float:
    """The seconds that a call takes, by the clock."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def in_process(module: str, *arguments: object) -> Any:
    """The JSON of the last line that a module prints as a process. Raises CalledProcessError."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parents[1])
    return json.loads(done.stdout.splitlines()[-1])


def tell(what: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], **more: Any) -> None:
    """Print a JSON line for each run, and one with the medians of the numbers and the load of the machine."""
    for run in runs:
        print_line(what, {name: round(each, 2) if isinstance(each, float) else each for name, each in run.items()})
    print_line(what, {"median": True} | more | {name: round(each, 2) for name, each in medians(runs).items()})


def medians(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The medians of the numbers of several runs."""
    names = [name for name, each in runs[0].items() if isinstance(each, int | float)]
    return {name: statistics.median(run[name] for run in runs) for name in names}


def print_line(what: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    """Print a JSON line, with the load of the machine."""
    print(json.dumps({**what, **figures, "load": round(os.getloadavg()[0], 1)}), flush=True)
