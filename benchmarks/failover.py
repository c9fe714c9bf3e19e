"""How long the tasks of an executor that dies make no commit: a local cluster of two executors, steady input.

    python -m benchmarks.failover [failover_0 failover_1] [--keys 100000 1000000 2000000] [--times 3] [--no-peer]

`failover_0` has no standby, `failover_1` one for each task. Prints a JSON line for each kill, and one with the medians
of an entry. `seconds`: from SIGKILL to the first commit of a task that the executor had; `seconds_all`: until each of
them has made one; `phases`: when what was noticed, placed and restored, and when the epoch was planned that made the
first commit; `usual_epoch`: how long epochs took before, from plan to commit, which tells of the machine. A store is
filled by its changelog and holds so many keys in four partitions. The peer is Spark Structured Streaming with as many
keys and the same input, see `benchmarks.spark_peers`.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from headwater.runtime import Agg, Aggregate, Pipe, Sink, Source, Store, Topic, Topology, subtopology
from headwater.runtime.driver.client_events import ClientLost, StoreRestored, StoreRestoring, TasksPlaced
from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ingest.append import append
from headwater.runtime.ir.topology import Assignment, PluginRef, Settings
from headwater.runtime.log.commit.records import EpochRecord
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.records.schema import changelog_topic
from headwater.runtime.state.lmdb.store import LmdbBackend

from .common import in_process, tell, write_changelog

PARTITIONS = 4
MASTER = "local-cluster[2,2,1024]"
RECORDS = 200
EVERY_SECONDS = 0.05
EPOCH_MS = 100
BEHIND = 5_000
"""Records by which a copy may be behind that counts as up to date."""

INPUT = Topic("numbers", PARTITIONS, "k string", "v bigint")
OUTPUT = Topic("totals", PARTITIONS, "k string", "n bigint, total bigint", writer="benchmark-failover")
STORE = Store(
    "totals",
    PARTITIONS,
    "k string",
    "n bigint, total bigint",
    aggregates=(Agg("n", "count"), Agg("total", "sum", "v", "bigint")),
)


@subtopology(0, "totals")
def totals(rows: Pipe) -> Pipe:
    return rows.process(Source(INPUT, "totals"), Aggregate("totals", STORE, emit="per_epoch"), Sink("totals", OUTPUT))


TOPOLOGY = Topology("benchmark", "failover", "1", "hash", (totals,))


def feed(keys: int, number: int) -> pa.Table:
    """A little input for all partitions."""
    some = np.random.default_rng(number).integers(0, keys, RECORDS)
    return pa.table({"k": [f"k{key:08d}" for key in some.tolist()], "v": some})


def executor_processes() -> dict[str, int]:
    """Executor -> pid, of those that run below this process."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if "--executor-id" in words:
            found[words[words.index("--executor-id") + 1]] = process.pid
    return found


@dataclass
class Watching:
    """Notes when which client has committed what, and what else happens."""

    at: list[tuple[float, Event]] = field(default_factory=list)

    def on(self, event: Event) -> None:
        self.at.append((time.perf_counter(), event))

    def since(self, begin: float, wanted: Callable[[Event], bool]) -> float | None:
        """Seconds from `begin` to the first such event after it."""
        return next((at - begin for at, event in list(self.at) if at > begin and wanted(event)), None)


class Failover:
    """One run on two executors, one of which is killed."""

    def __init__(self, session: Any, root: Path, keys: int, standbys: int) -> None:
        from headwater.runtime.cluster.spark.cluster import SparkCluster

        self.log = EmbeddedLog(root / "log")
        self.keys = keys
        self.standbys = standbys
        self.watching = Watching()
        self.stop = threading.Event()
        # Each key once, in any order.
        write_changelog(
            self.log,
            TOPOLOGY,
            STORE,
            lambda partition: np.random.default_rng(partition).permutation(keys // PARTITIONS),
        )
        assignment = Assignment(PluginRef("sticky"), standby_replicas=standbys)
        topology = replace(TOPOLOGY, assignment=assignment)
        log = PluginRef("embedded", {"path": str(root / "log")})
        settings = Settings(log, str(root / "state"), epoch_interval_ms=EPOCH_MS)
        self.failed: list[str] = []

        def run() -> None:
            results = run_topologies(
                [topology],
                settings,
                SparkCluster(session),
                until_caught_up=False,
                observer=self.watching,
                stop=self.stop,
            )
            self.failed += [result.error for result in results.applications if result.error]

        self.threads = [threading.Thread(target=run), threading.Thread(target=self._feed)]

    def _feed(self) -> None:
        number = 0
        while not self.stop.wait(EVERY_SECONDS):
            append(self.log, "benchmark-seed", INPUT, feed(self.keys, number), timestamps=[number] * RECORDS)
            number += 1

    def measured(self) -> dict[str, Any]:
        """Wait until all is restored and in motion, kill an executor, and say how long its tasks made no commit."""
        for thread in self.threads:
            thread.start()
        try:
            self._wait(self._steady)
            victim, tasks = next((name, tasks) for name, tasks in self._assigned("active").items() if tasks)
            pid = executor_processes()[victim.removeprefix("executor-")]
            known = self._number()
            begin = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            self._wait(lambda: len(self._commits_of(tasks, known, victim)) == len(tasks))
            commits = self._commits_of(tasks, known, victim).values()
            seconds = sorted(at - begin for at, _ in commits)
            planned = min(at - begin - event.seconds for at, event in commits)
        finally:
            self.stop.set()
            for thread in self.threads:
                thread.join()
        kinds: dict[str, type[Event]] = {
            "noticed": ClientLost,
            "placed": TasksPlaced,
            "restoring": StoreRestoring,
            "restored": StoreRestored,
        }
        phases = {name: self.watching.since(begin, partial(_is_a, kind)) for name, kind in kinds.items()}
        phases = {name: round(at, 2) for name, at in phases.items() if at is not None}
        phases["planned"] = round(planned, 2)
        usual = self._usual(begin)
        return {"seconds": seconds[0], "seconds_all": seconds[-1], "usual_epoch": usual, "phases": phases}

    def _usual(self, begin: float) -> float:
        """The median of the seconds from plan to commit before the kill: what any epoch takes on this machine."""
        at = list(self.watching.at)
        before = [each.seconds for when, each in at if isinstance(each, EpochCommitted) and when < begin]
        return statistics.median(before[-10:])

    def _wait(self, fact: Callable[[], Any]) -> None:
        while not fact():
            if not self.threads[0].is_alive():
                raise SystemExit(f"the run has ended: {self.failed}")
            time.sleep(0.01)

    def _steady(self) -> bool:
        """Whether each client has committed often, and copies are up to date."""
        counts = [event.client for _, event in list(self.watching.at) if isinstance(event, EpochCommitted)]
        often = [client for client in set(counts) if counts.count(client) >= 20]
        return len(often) == 2 and (not self.standbys or self._copied())

    def _copied(self) -> bool:
        """Whether each store is there twice, and has nearly all of its changelog."""
        state = LogState.load(self.log.commits(TOPOLOGY.application))
        topic = changelog_topic(TOPOLOGY.application, STORE.name)
        for partition in range(PARTITIONS):
            wanted = state.lane_ends(topic, partition)[partition] - BEHIND
            found = [path.parent for path in self.log.root.parent.glob(f"state/*/*/totals/{partition}/data.mdb")]
            if len(found) < 2 or any(LmdbBackend().open_to_read(path).position < wanted for path in found):
                return False
        return True

    def _number(self) -> int:
        return self.log.commits(TOPOLOGY.application).latest()

    def _assigned(self, role: str) -> dict[str, set[int]]:
        recorded = LogState.load(self.log.commits(TOPOLOGY.application)).assignment
        return {
            each["name"]: {number for numbers in each.get(role, {}).values() for number in numbers}
            for each in recorded["clients"].values()
        }

    def _commits_of(self, tasks: set[int], known: int, victim: str) -> dict[int, tuple[float, EpochCommitted]]:
        """Task -> when it first made a commit on another client than the victim, and which."""
        from headwater.runtime.log.commit.encoding import decode_commit

        commits = self.log.commits(TOPOLOGY.application)
        found: dict[int, tuple[float, EpochCommitted]] = {}
        for at, event in list(self.watching.at):
            if isinstance(event, EpochCommitted) and event.commit > known and event.client != victim:
                content = commits.read(event.commit)
                assert content is not None
                record = decode_commit(content)
                assert isinstance(record, EpochRecord)
                for task in record.tasks:
                    if task.partition in tasks:
                        found.setdefault(task.partition, (at, event))
        return found


def _is_a(kind: type[Event], event: Event) -> bool:
    return isinstance(event, kind)


def main(arguments: Sequence[str] | None = None) -> None:
    from headwater.runtime.cluster.spark.session import start_session

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("entries", nargs="*", default=["failover_0", "failover_1"])
    parser.add_argument("--keys", nargs="+", type=int, default=[1_000_000])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args(arguments)
    session = start_session({"master": MASTER, "executor.memory": "1g", "deploy.maxExecutorRetries": "-1"})
    try:
        for name in options.entries:
            for keys in options.keys:
                runs = []
                for _ in range(options.times):
                    with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
                        wait_for_executors(session)
                        runs.append(Failover(session, Path(folder), keys, int(name[-1])).measured())
                tell({"entry": name, "keys": keys, "side": "headwater"}, runs)
    finally:
        session.stop()
    if not options.no_peer:
        for keys in options.keys:
            found = in_process("benchmarks.spark_peers", "failover", keys, options.times)
            tell({"entry": "failover_0", "keys": keys, "side": "spark streaming"}, found)


def wait_for_executors(session: Any) -> None:
    """Spark starts another executor for each that was killed."""
    from headwater.runtime.cluster.spark.engine import executors

    while len(executors(session)) < 2:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
