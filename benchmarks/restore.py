"""How fast stores are restored from their changelogs: four tasks, on two clients with a core each.

    python -m benchmarks.restore [restore_1m restore_4m restore_hot restore_snapshot] [--link driver|spark]
        [--times 3] [--no-peer]

Prints a JSON line for each run, and one with the medians of an entry. Slices go the way of a run: the driver's
TaskManager and StoreChangelogReader plan them, a pool sends them, and a client works on its stores: in the driver
(`driver`), or in Spark's Python workers (`spark`). The peer is Spark Structured Streaming, which reloads as many keys:
see `benchmarks.spark_peers`. `restore_snapshot` restores the same state both ways: from its changelog, and from
snapshots that have all of it; `times_faster` compares their medians. `cpu_seconds`: of all processes together, which
says more on a machine that is not idle.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from headwater.runtime.ir.topology import Store, Subtopology, Topic, Topology
from headwater.runtime.log.commit.records import SnapshotRecord, TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.placing.place import Client
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.planner import Planner
from headwater.runtime.restore.copies import Snapshots
from headwater.runtime.restore.linked_stores import LinkedStores
from headwater.runtime.restore.links import LocalLink, StateLink, claim_stores
from headwater.runtime.restore.requests import StateLocation
from headwater.runtime.restore.store_changelog_reader import StoreChangelogReader
from headwater.runtime.restore.strategies import SnapshotRestore
from headwater.runtime.state.restore_listener import RestoreListener
from headwater.runtime.task_id import StoreId, TaskId, TopicPartition
from headwater.runtime.tasks.task_manager import DeclaredTask, TaskManager

from .common import PER_COMMIT, in_process, medians, print_line, tell, write_changelog

PARTITIONS = 4
CLIENTS = 2
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


class Unheard(RestoreListener):
    """A listener that does nothing."""


class NoCommits:
    """Nothing is processed, so nothing is committed."""

    def commit(self, tasks: Sequence[TaskCommit]) -> int:
        raise AssertionError(f"nobody has processed anything: {tasks}")


def write_entry(root: Path, entry: Entry) -> None:
    """Commit the changelog of an entry."""

    def numbers(partition: int) -> npt.NDArray[np.int64]:
        rng, rows, keys = np.random.default_rng(partition), entry.records // PARTITIONS, entry.keys // PARTITIONS
        return rng.permutation(rows) if keys == rows else rng.integers(0, keys, rows)

    write_changelog(EmbeddedLog(root / "log"), TOPOLOGY, STORE, numbers)


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
                raise SystemExit(held.failure.cause)
            location = replace(location, folder=held.folder, process_id=held.process_id)
            parts, snapshots = TOPOLOGY.subtopologies, Snapshots(committed.own)
            stores = LinkedStores(
                location.folder, link, location, planner, parts, {}, strategy=SnapshotRestore(), snapshots=snapshots
            )
            every.append(stores)
            readers.append(StoreChangelogReader(stores, pool.submit, Unheard()))
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
            TaskId(0, partition, PART.name), STORE, snapshots.new_path(StoreId(STORE.name, partition))
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
            write_entry(Path(folder), entry)
            with links_of(options.link) as links:
                runs = [measured(Path(folder), f"state-{time_}", links) for time_ in range(options.times)]
                if name == "restore_snapshot":
                    saved = save(Path(folder), "saved", links)
                    loads = [measured(Path(folder), f"load-{time_}", links) for time_ in range(options.times)]
        report({"entry": name, "side": f"headwater/{options.link}"}, entry.records, runs)
        if name == "restore_snapshot":
            report({"entry": name, "side": f"snapshots/{options.link}, saving"}, entry.records, [saved])
            report({"entry": name, "side": f"snapshots/{options.link}"}, entry.records, loads)
            times_faster = medians(runs)["seconds"] / medians(loads)["seconds"]
            print_line({"entry": name}, {"times_faster": round(times_faster, 1)})
        elif entry.keys == entry.records and not options.no_peer:
            found = in_process("benchmarks.spark_peers", "reload", entry.keys, options.times)
            report({"entry": name, "side": "spark streaming"}, entry.records, found)


def measured(root: Path, folder: str, links: Sequence[StateLink], backend: str = "lmdb") -> dict[str, float]:
    """Seconds by the clock, and of CPU, of one restore."""
    cpu, begun = cpu_seconds(), time.perf_counter()
    restore(root, folder, links, backend)
    return {"seconds": time.perf_counter() - begun, "cpu_seconds": cpu_seconds() - cpu}


def cpu_seconds() -> float:
    """Of this process and of all below it, user and system."""
    root = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in [root, *root.children(recursive=True)])


def report(what: dict[str, Any], records: int, runs: Sequence[dict[str, float]]) -> None:
    """Lines of the runs, and of the medians with their records a second."""
    times = {name: each for name, each in medians(runs).items() if name.endswith("seconds")}
    rates = {f"records_per_{name.removesuffix('s')}": round(records / each) for name, each in times.items()}
    tell(what, runs, records=records, **rates)


if __name__ == "__main__":
    main()
