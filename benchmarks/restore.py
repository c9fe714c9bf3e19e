"""How fast stores are restored from their changelogs: four tasks, on two clients with a core each.

    python -m benchmarks.restore [restore_1m restore_4m restore_hot restore_snapshot] [--link driver|spark]
        [--times 3] [--no-peer]

Prints a JSON line for each run, and one with the medians of an entry. Slices go the way of a run: the driver's
TaskManager and StoreChangelogReader plan them, a pool sends them, and a client works on its stores: in the driver
(`driver`), or in Spark's Python workers (`spark`). The peer is Spark Structured Streaming, which reloads as many keys:
see `benchmarks.spark_reload`. `restore_snapshot` restores the same state both ways: from its changelog, and from
snapshots that have all of it; `times_faster` compares their medians. `cpu_seconds`: of all processes together, which
says more on a machine that is not idle.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from headwater.runtime.ir.topology import Store, Subtopology, Topic, Topology
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord, SnapshotRecord, TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.placing.place import Client
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.planner import Planner
from headwater.runtime.records.keys import encode_keys
from headwater.runtime.records.schema import CHANGELOG, changelog_topic
from headwater.runtime.restore.copies import Snapshots
from headwater.runtime.restore.linked_stores import LinkedStores
from headwater.runtime.restore.links import LocalLink, StateLink, claim_stores
from headwater.runtime.restore.requests import StateLocation
from headwater.runtime.restore.store_changelog_reader import StoreChangelogReader
from headwater.runtime.restore.strategies import SnapshotRestore
from headwater.runtime.state.codec import RowCodec
from headwater.runtime.task_id import TaskId, TopicPartition
from headwater.runtime.tasks.task_manager import DeclaredTask, TaskManager

PARTITIONS = 4
CLIENTS = 2
PER_COMMIT = 250_000
STORE = Store("totals", PARTITIONS, "k string", "n bigint, total bigint")
TOPIC = Topic("records", PARTITIONS, "k string", "v bigint")
PART = Subtopology(0, "totals", PARTITIONS, lambda tasks, _: tasks, (TOPIC,), (), (STORE,))
TOPOLOGY = Topology("benchmark", "totals", "1", "hash", (PART,))


@dataclass(frozen=True)
class Entry:
    """`records` of a changelog, on so many keys. Where there are as many, each key comes once, in any order."""

    records: int
    keys: int


ENTRIES = {
    "restore_1m": Entry(1_000_000, 1_000_000),
    "restore_4m": Entry(4_000_000, 4_000_000),
    "restore_hot": Entry(5_000_000, 100_000),
    "restore_snapshot": Entry(4_000_000, 4_000_000),
}


class NoCommits:
    """Nothing is processed, so nothing is committed."""

    def commit(self, tasks: Sequence[TaskCommit]) -> int:
        raise AssertionError(f"nobody has processed anything: {tasks}")


def write_changelog(root: Path, entry: Entry) -> None:
    """Commit the changelog, in segments as epochs of a million records write them."""
    log = EmbeddedLog(root / "log")
    application = TOPOLOGY.application
    state = LogState.load(log.commits(application))
    state.commit(GenerationRecord(1, 0, TopologyDescription.from_topology(TOPOLOGY)))
    codec = RowCodec({"n": pa.int64(), "total": pa.int64()})
    topic = changelog_topic(application, STORE.name)
    for partition in range(PARTITIONS):
        rng = np.random.default_rng(partition)
        rows, keys = entry.records // PARTITIONS, entry.keys // PARTITIONS
        numbers = rng.permutation(rows) if keys == rows else rng.integers(0, keys, rows)
        for start in range(0, rows, PER_COMMIT):
            some = numbers[start : start + PER_COMMIT]
            named = pa.array([f"k{number * PARTITIONS + partition:08d}" for number in some.tolist()])
            values = codec.encode([pa.array(some), pa.array(some)], some)
            table = pa.table([encode_keys([named]), pa.array(values, pa.binary()), some], schema=CHANGELOG)
            segments = log.write(application, topic, f"{partition}-{start}", table, partition, partition)
            state.commit(
                EpochRecord(state.generation, 1, 0, (TaskCommit(PART.name, partition, {}, 0, segments=segments),))
            )


def restore(root: Path, folder: str, links: Sequence[StateLink], backend: str = "lmdb") -> list[LinkedStores]:
    """Restore all tasks into empty state directories: from snapshots, as far as there are any."""
    committed = Committed(EmbeddedLog(root / "log"), TOPOLOGY)
    planner = Planner(committed, PER_COMMIT)
    with ThreadPoolExecutor(len(links)) as pool:
        managers, readers, every = [], [], []
        for number, link in enumerate(links):
            location = StateLocation(
                str(root / folder),
                TOPOLOGY.application,
                folder=f"client-{number}",
                incarnation="1",
                log=("embedded", {"path": str(root / "log")}),
                log_identity=committed.log.identity(),
                stores=(replace(STORE, backend=backend),),
            )
            (root / folder / location.folder / TOPOLOGY.application).mkdir(parents=True)
            held = claim_stores(link, replace(location, folder=""))
            if held.failure is not None:
                raise SystemExit(held.failure.message)
            location = replace(location, folder=held.folder, process_id=held.process_id)
            parts, snapshots = TOPOLOGY.subtopologies, Snapshots(committed.own)
            stores = LinkedStores(
                location.folder, link, location, planner, parts, {}, strategy=SnapshotRestore(), snapshots=snapshots
            )
            every.append(stores)
            readers.append(StoreChangelogReader(stores, pool.submit))
            managers.append(TaskManager(location.folder, stores, readers[-1], NoCommits(), _declared))
            tasks = [TaskId(0, partition, PART.name) for partition in range(number, PARTITIONS, len(links))]
            managers[-1].handle_assignment(tasks, [])
        left = managers
        while left := [manager for manager in left if not manager.try_to_complete_restoration()]:
            wait([reader.slice for reader in readers if reader.slice], return_when=FIRST_COMPLETED)
    return every


def save(root: Path, folder: str, links: Sequence[StateLink]) -> dict[str, float]:
    """Copy all stores into the log, one after the other, and list them; seconds, CPU and bytes of the copies alone."""
    every = restore(root, folder, links)
    state = LogState.load(EmbeddedLog(root / "log").commits(TOPOLOGY.application))
    snapshots = Snapshots(state)
    cpu, begun = cpu_seconds(), time.perf_counter()
    answers = [
        every[partition % len(every)].save(
            TaskId(0, partition, PART.name), STORE, snapshots.new_path(STORE.name, partition)
        )
        for partition in range(PARTITIONS)
    ]
    seconds, cpu = time.perf_counter() - begun, cpu_seconds() - cpu
    saved = [each.saved for each in answers if each.saved is not None]
    state.commit(SnapshotRecord(state.generation, 0, tuple(saved)))
    return {"seconds": seconds, "cpu_seconds": cpu, "bytes": sum(each.size for each in saved)}


def _declared(task: TaskId) -> DeclaredTask:
    return DeclaredTask((STORE.name,), frozenset({TopicPartition(TOPIC.name, task.partition)}))


@contextmanager
def links_of(kind: str) -> Iterator[list[StateLink]]:
    """A link for each client."""
    if kind == "driver":
        yield [LocalLink() for _ in range(CLIENTS)]
        return
    from headwater.runtime.cluster.spark.cluster import OnExecutor
    from headwater.runtime.cluster.spark.session import start_session

    session = start_session({"master": f"local[{CLIENTS}]"})
    try:
        yield [
            OnExecutor(session, Client(f"client-{number}", 1), TOPOLOGY.application, lambda _: False)
            for number in range(CLIENTS)
        ]
    finally:
        session.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("entries", nargs="*", default=list(ENTRIES))
    parser.add_argument("--link", choices=("driver", "spark"), default="driver")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args(arguments)
    for name in options.entries:
        entry = ENTRIES[name]
        with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
            write_changelog(Path(folder), entry)
            with links_of(options.link) as links:
                runs = [measured(Path(folder), f"state-{time_}", links) for time_ in range(options.times)]
                if name == "restore_snapshot":
                    saved = save(Path(folder), "saved", links)
                    loads = [measured(Path(folder), f"load-{time_}", links) for time_ in range(options.times)]
        tell({"entry": name, "side": f"headwater/{options.link}"}, entry.records, runs)
        if name == "restore_snapshot":
            tell({"entry": name, "side": f"snapshots/{options.link}, saving"}, entry.records, [saved])
            tell({"entry": name, "side": f"snapshots/{options.link}"}, entry.records, loads)
            medians = [statistics.median(run["seconds"] for run in each) for each in (runs, loads)]
            print(json.dumps({"entry": name, "times_faster": round(medians[0] / medians[1], 1)}), flush=True)
        elif entry.keys == entry.records and not options.no_peer:
            peer = [sys.executable, "-m", "benchmarks.spark_reload", str(entry.keys), str(options.times)]
            found = json.loads(subprocess.run(peer, stdout=subprocess.PIPE, check=True).stdout.splitlines()[-1])
            tell({"entry": name, "side": "spark streaming"}, entry.records, found)


def measured(root: Path, folder: str, links: Sequence[StateLink], backend: str = "lmdb") -> dict[str, float]:
    """Seconds by the clock, and of CPU, of one restore."""
    cpu, begun = cpu_seconds(), time.perf_counter()
    restore(root, folder, links, backend)
    return {"seconds": time.perf_counter() - begun, "cpu_seconds": cpu_seconds() - cpu}


def cpu_seconds() -> float:
    """Of this process and of all below it, user and system."""
    root = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in [root, *root.children(recursive=True)])


def tell(what: dict[str, Any], records: int, runs: Sequence[dict[str, float]]) -> None:
    """A JSON line for each run, and one of the medians, with the load of the machine."""
    for run in runs:
        print(json.dumps(what | {key: round(value, 2) for key, value in run.items()}), flush=True)
    medians = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    times = {key: value for key, value in medians.items() if key.endswith("seconds")}
    rates = {f"records_per_{key.removesuffix('s')}": round(records / value) for key, value in times.items()}
    print(json.dumps(what | {"median": True, "records": records, **rates, "load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
