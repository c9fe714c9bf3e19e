"""Runs the topology of `tests/runtime/driver/delays.py` on two executors, again and again, as things go wrong.

First as it is, then with new input, then after one executor's state directory was removed, then while an executor is
killed, then once more, and at last after the application was fully refreshed. Prints what came of each
run as JSON, and every path of the executors' state that this process, the driver, has touched.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import psutil

from headwater.runtime.cluster.spark.cluster import SparkCluster
from headwater.runtime.cluster.spark.engine import executors
from headwater.runtime.cluster.spark.session import start_session
from headwater.runtime.driver.client_events import ClientLost
from headwater.runtime.driver.events import EpochCommitted, Event, Observer
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ingest.append import append
from headwater.runtime.ir.topology import PluginRef, Settings
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.resets import refresh_fully
from headwater.tests.processes import command_lines
from headwater.tests.quick_jvm import quick_jvm
from headwater.tests.runtime.driver import delays
from headwater.tests.waiting import wait_until


class KillsAnExecutor:
    """Kills executor 1 after the first commit."""

    done = False

    def __init__(self) -> None:
        self.gone: list[str] = []

    def on(self, event: Event) -> None:
        if isinstance(event, ClientLost):
            self.gone.append(event.client)
        if isinstance(event, EpochCommitted) and not self.done:
            self.done = True
            for process, words in command_lines(psutil.Process()):
                if "--executor-id" in words and words[words.index("--executor-id") + 1] == "1":
                    os.kill(process.pid, signal.SIGKILL)


class Touched:
    """Notes each path below a directory that this process opens, lists, makes, moves or removes, while it is `on`."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self.on = True
        self.paths: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event.split(".")[0] in ("open", "os", "shutil", "glob", "pathlib"):
            for each in arguments:
                text = os.fsdecode(each) if isinstance(each, str | bytes | os.PathLike) else ""
                if text.startswith(self._directory):
                    self.paths.append(f"{event} {text}")


def hourly(log: EmbeddedLog) -> dict[tuple[str, int], tuple[int, float]]:
    """The last value of each key of the output."""
    state = LogState.load(log.commits(delays.APPLICATION))
    return {
        (row["key.airline"], int(row["key.window_start"].timestamp() * 1000)): (
            row["value.flights"],
            row["value.total"],
        )
        for partition in range(delays.HOURLY.partitions)
        for within in state.ranges("hourly", partition)
        for fetched in log.read(within)
        for row in fetched.records.to_pylist()
    }


root = Path(sys.argv[1])
state_dir = root / "state"
log = EmbeddedLog(root / "log")
table, times = delays.flights(24_000)
parts = [slice(start, start + 6_000) for start in range(0, 24_000, 6_000)]
append(log, "p-seed", delays.AIRLINES, delays.airlines(), timestamps=[0] * 4)
session = start_session(
    {"master": "local-cluster[2,1,1024]", "executor.memory": "512m", "executor.extraJavaOptions": quick_jvm()}
)
touched = Touched(state_dir)
outcomes = []


def feed() -> None:
    part = parts.pop(0)
    append(log, "p-seed", delays.FLIGHTS, table.slice(part.start, 6_000), timestamps=times[part])


def run(observer: Observer | None = None, max_records: int = 3_000) -> None:
    settings = Settings(PluginRef("embedded", {"path": str(root / "log")}), str(state_dir), max_records=max_records)
    (result,) = run_topologies(
        [delays.TOPOLOGY], settings, SparkCluster(session), until_caught_up=True, observer=observer
    ).applications
    recorded = LogState.load(log.commits(delays.APPLICATION)).assignment
    outcomes.append(
        {
            "status": result.status,
            "error": result.error,
            "assignment": result.assignment,
            "placement": result.placement,
            "process_ids": {client["name"]: process_id for process_id, client in recorded["clients"].items()},
        }
    )


def wait_for_executors(*ids: str) -> None:
    """Wait until these are the executors that Spark knows; it is told of new and of lost ones some time later."""
    wait_until(lambda: executors(session).keys() == set(ids))


def stores() -> list[str]:
    """The stores that lie in the executors' directories, by folder."""
    touched.on = False
    found = [str(path.parent.relative_to(state_dir)) for path in sorted(state_dir.glob("*/*/*/*/data.mdb"))]
    touched.on = True
    return found


wait_for_executors("0", "1")
feed()
run()
feed()
run()
feed()
touched.on = False
shutil.rmtree(state_dir / "client-1")  # as if that executor's machine had been given another disk
touched.on = True
run()
feed()
kills = KillsAnExecutor()
run(kills, max_records=400)
wait_for_executors("0", "2")
run()
equal = hourly(log) == delays.expected(table, times)
refresh_fully(log, None, [delays.APPLICATION])
before = stores()
run(max_records=12_000)
print(
    json.dumps(
        {
            "runs": outcomes,
            "gone": kills.gone,
            "equal": equal,
            "equal_refreshed": hourly(log) == delays.expected(table, times),
            "touched": touched.paths,
            "before": before,
            "after": stores(),
        }
    )
)
session.stop()
