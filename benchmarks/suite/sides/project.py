"""Our side's project: its files, and its log with records that are written but not yet committed.

So an epoch's records are there at once when one commit lists them, and only when they shall be.
"""

from __future__ import annotations

import os
import pickle
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.runtime.ingest.append import commit_append, write_incoming
from headwater.runtime.ingest.record_form import Sieve
from headwater.runtime.ingest.seed_rows import yielded_rows
from headwater.runtime.ir.topology import Topic
from headwater.runtime.log.commit.descriptions import ExternalTopic
from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.log import Listed
from headwater.runtime.log.state import LogState

from ...common import write_files
from .. import inputs
from ..sizes import Size
from ..workloads import Workload

PROJECT = "benchmark"
SEEDS = f"{PROJECT}-seed"
TOPOLOGY = "measured"
TABLE = "names_by_key"
WRITTEN = "written.pickle"

Written = dict[str, list[tuple[Listed, ...]]]
"""Topic -> epoch -> what a commit lists."""


def write_project(root: Path, workload: Workload, size: Size, engine: str, clients: int = 1, standbys: int = 0) -> None:
    """The project's files. A task takes up to a quarter more than its share of an epoch: keys are spread unevenly.

    `clients`: they share the cores. `standbys`: of each task.
    """
    local: dict[str, Any] = {
        "spark": {"master": "local[2]", "driver.memory": "4g"},
        "log": {"type": "embedded", "path": "log"},
        "state_dir": "state",
        "clients": clients,
        "epoch": {"interval": "1ms", "max_records": 1000 + size.records * 5 // (size.partitions * 4)},
        "engine": engine,
    }
    flow = {"from": "records", "steps": [dict(step) for step in workload.steps], "to": "results"}
    topology: dict[str, Any] = {"topology": TOPOLOGY, "flows": {**workload.flows, "measured": flow}}
    if standbys:
        topology["assignment"] = {"standby_replicas": standbys}
    if workload.tables:
        topology["tables"] = dict(workload.tables)
    if workload.stores:
        topology["stores"] = dict(workload.stores)
        (root / "functions").mkdir(parents=True)
        shutil.copyfile(Path(__file__).with_name("counting.py"), root / "functions" / "counting.py")
    files = {
        "headwater.yml": {"name": PROJECT, "version": "1", "profile": PROJECT},
        "profiles.yml": {PROJECT: {"target": "local", "targets": {"local": local}}},
        "topics/records.yml": {
            "topics": {
                "records": _declared(size, inputs.COLUMNS[workload.kind]),
                TABLE: _declared(size, {"name": "string", "ts": "timestamp"}),
            }
        },
        "topologies/measured.yml": topology,
    }
    write_files(root, files)


def _declared(size: Size, columns: dict[str, str] | Any) -> dict[str, Any]:
    return {
        "partitions": size.partitions,
        "key": {"k": "string"},
        "value": dict(columns),
        "timestamp": "ts",
    }


def write_log(kind: str, folder: Path, epochs: int, size: Size) -> None:
    """A log at `folder/log` with the records of so many epochs, none of them committed yet; and a table's."""
    log = EmbeddedLog(folder / "log")
    log.check()
    topic, table = (
        _topic("records", size, inputs.COLUMNS[kind]),
        _topic(TABLE, size, {"name": "string", "ts": "timestamp"}),
    )
    written: Written = {TABLE: [_written(log, table, inputs.rows_of_table(size))], "records": []}
    for number in range(epochs):
        pieces = inputs.appends(inputs.epoch(kind, number, size), size)
        written["records"].append(tuple(each for piece in pieces for each in _written(log, topic, piece)))
    (folder / WRITTEN).write_bytes(pickle.dumps(written))


def link_log(prepared: Path, root: Path) -> None:
    """The prepared log as the project's own: its files of records are links, as nobody ever changes them."""
    shutil.copytree(prepared / "log", root / "log", copy_function=_link_records)
    shutil.copyfile(prepared / WRITTEN, root / WRITTEN)


def _link_records(source: str, target: str) -> None:
    if source.endswith(".seg"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


class Feeding:
    """Commits what was written before. `kind`: of the records."""

    def __init__(self, root: Path, kind: str, size: Size) -> None:
        self._log = EmbeddedLog(root / "log")
        self._topics = {
            "records": _topic("records", size, inputs.COLUMNS[kind]),
            TABLE: _topic(TABLE, size, {"name": "string", "ts": "timestamp"}),
        }
        self._written: Written = pickle.loads((root / WRITTEN).read_bytes())
        self._state = LogState.load(self._log.commits(SEEDS))

    def feed(self, topic: str, number: int) -> None:
        """Commit the records of an epoch, all at once."""
        declared = self._topics[topic]
        now = time.time_ns() // 1_000_000
        commit_append(
            self._state,
            declared,
            AppendRecord(now, self._written[topic][number], topic=ExternalTopic.from_topic(declared)),
        )


def _topic(name: str, size: Size, columns: dict[str, str] | Any) -> Topic:
    """As the project's files declare it."""
    value = ", ".join(f"{column} {data_type}" for column, data_type in columns.items())
    return Topic(name, size.partitions, "k string", value, timestamp="ts")


def _written(log: EmbeddedLog, topic: Topic, rows: pa.Table) -> tuple[Listed, ...]:
    sieve = Sieve(topic)
    return write_incoming(log, SEEDS, topic, sieve.to_the_end(yielded_rows("the records", rows, topic, 0, sieve)))
