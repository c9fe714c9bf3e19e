"""Runs the topology of `tests/runtime/engine/delays.py` on two executors, of which one is killed, and then again.

Prints what came of the two runs as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime" / "engine"))
import delays

from headwater.runtime.engine.application import run_topologies
from headwater.runtime.engine.events import EpochCommitted, Event
from headwater.runtime.engine.session import start_session
from headwater.runtime.log.append import append
from headwater.runtime.log.embedded import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.topology import PluginRef, Settings


class KillsAnExecutor:
    """Kills executor 1 after the first commit."""

    done = False

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted) and not self.done:
            self.done = True
            for process in psutil.Process().children(recursive=True):
                words = [] if process.status() == psutil.STATUS_ZOMBIE else process.cmdline()
                if "--executor-id" in words and words[words.index("--executor-id") + 1] == "1":
                    os.kill(process.pid, signal.SIGKILL)


def hourly(log: EmbeddedLog) -> dict[tuple[str, int], tuple[int, float]]:
    state = LogState.load(log.commits(delays.APPLICATION))
    return {
        (row["key.airline"], int(row["key.window_start"].timestamp() * 1000)): (
            row["value.flights"],
            row["value.total"],
        )
        for partition in range(delays.HOURLY.partitions)
        for segment in state.segments("hourly", partition)
        for batch in log.read_batches(segment)
        for row in batch.to_pylist()
    }


root = Path(sys.argv[1])
log = EmbeddedLog(root / "log")
table, times = delays.flights(20_000)
append(log, "p-seed", delays.AIRLINES, delays.airlines(), timestamps=[0] * 4)
append(log, "p-seed", delays.FLIGHTS, table, timestamps=times)
session = start_session({"master": "local-cluster[2,1,1024]", "executor.memory": "512m"})
settings = Settings(PluginRef("embedded", {"path": str(root / "log")}), str(root / "state"), max_records=400)
outcomes = []
for observer in (KillsAnExecutor(), None):
    (result,) = run_topologies(
        [delays.TOPOLOGY], settings, until_caught_up=True, session=session, observer=observer
    ).applications
    outcomes.append({"status": result.status, "error": result.error, "clients": sorted(result.assignment)})
print(json.dumps({"runs": outcomes, "equal": hourly(log) == delays.expected(table, times)}))
session.stop()
