"""The project in `kills/`: its input, its runs as processes of their own, and all that runs have left in the end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from headwater import Project
from headwater.runtime.log.commit.encoding import decode_commit
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord
from headwater.runtime.log.embedded.log import GRACE_S, EmbeddedLog, remove_leftovers
from headwater.runtime.log.ranges import LogRange
from headwater.runtime.log.state import LogState
from headwater.runtime.records.schema import changelog_topic
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.task_id import TaskKey
from headwater.tests.processes import has_ended
from headwater.tests.runtime.driver.strikes import AGAIN, FOLDER, Strike, stands_still
from headwater.tests.waiting import wait_until

APPLICATION = "shop-spending"
CLIENT = "client-1"
IN_ONE_PROCESS = Path(__file__).with_name("run_in_this_process.py")
TABLES = {"hourly_spending"}
"""Topics that a table is written to: of these, and of changelogs, the last values count."""

MINUTE = 60_000
START = 1_700_000_000_000 // (60 * MINUTE) * (60 * MINUTE)
CITIES = ["Oslo", "Rome", "Lima", "Kyiv", "Bonn", "Cork"]


def make(root: Path, payments: int, java: str = "", more: str = "") -> None:
    """The project in `root`, compiled, with its input. `java`: options for Spark's JVM. `more`: what its topology has
    besides, in YAML."""
    shutil.copytree(Path(__file__).parent / "kills", root, dirs_exist_ok=True)
    with (root / "topologies" / "spending.yml").open("a") as topology:
        topology.write(more)
    # In a process of its own: these tests run beside those of the Spark session.
    command = [sys.executable, "-m", "headwater.cli.main", "compile", "--project-dir", str(root)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "SPARK_SUBMIT_OPTS": java})
    project = Project.load(root)
    customers, paid = tables(payments)
    project.append("customers", customers)
    project.append("payments", paid)


def tables(payments: int, customers: int = 24) -> tuple[pa.Table, pa.Table]:
    """Where customers live, some of whom move, and what they pay in 20 hours: some late, some for nobody known."""
    random = np.random.default_rng(1)
    moves = payments // 10
    times = np.concatenate([np.zeros(customers, int), np.sort(random.integers(0, 20 * 60 * MINUTE, moves))])
    movers = np.concatenate([np.arange(customers), random.integers(0, customers, moves)])
    paid = np.sort(random.integers(0, 20 * 60 * MINUTE, payments))
    paid = np.maximum(paid - random.choice([0, 0, 0, MINUTE, 120 * MINUTE], payments), 0)
    return (
        pa.table(
            {"customer": integers(movers), "city": random.choice(CITIES, len(movers)), "since": timestamps(times)}
        ),
        pa.table(
            {
                "customer": integers(random.integers(0, customers + 2, payments)),
                "amount": random.lognormal(3, 1, payments).round(2),
                "paid_at": timestamps(paid),
            }
        ),
    )


def integers(values: Any) -> pa.Array:
    return pa.array(values, pa.int32())


def timestamps(milliseconds: Any) -> pa.Array:
    return pa.array((milliseconds + START) * 1000, pa.timestamp("us", tz="UTC"))


class Run:
    """A run of the topology, in a process group of its own."""

    def __init__(self, root: Path, *arguments: str, java: str | None = None, strike: Strike | None = None) -> None:
        """`java`: options for Spark's JVM; None for a run without Spark. `strike`: where to stop."""
        self._commits = EmbeddedLog(root / ".headwater" / "log").commits(APPLICATION)
        self._before = self._commits.latest()
        number = len(list(root.glob("output-*.txt")))
        self._output, self._marker = root / f"output-{number}.txt", root / f"struck-{number}"
        temporary(root).mkdir(exist_ok=True)
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": java or "", "TMPDIR": str(temporary(root))}
        if strike is not None:
            path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
            environment |= {"PYTHONPATH": path, "HEADWATER_STRIKE": strike.told(self._marker, java is None)}
        generated = root / "target" / "spending" / "runner.py"
        program = [generated] if java is not None else [IN_ONE_PROCESS, root]
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                [sys.executable, *map(str, program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )

    @property
    def pid(self) -> int:
        """Of the driver."""
        return self._process.pid

    @property
    def commits(self) -> int:
        """Commits of the application since its start: its claim, then epochs."""
        return self._commits.latest() - self._before

    @property
    def output(self) -> str:
        """What it has printed."""
        return self._output.read_text()

    def runs(self) -> bool:
        """Whether the driver still runs."""
        return self._process.poll() is None

    def wait_for_strike(self, again: bool = False) -> None:
        """Wait until one of its processes has stopped where it was told to; `again`: for the second time."""
        marker = self._marker.with_name(self._marker.name + AGAIN) if again else self._marker
        self._wait(lambda: stands_still(marker), "the point to be stopped at")

    def go_on(self) -> None:
        """Let the process that a strike has stopped go on."""
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def end(self) -> int:
        """Wait for its end and that of its JVM; the exit code."""
        family = self.family()
        code = self._process.wait()
        wait_until(lambda: all(map(has_ended, family)))
        return code

    def interrupt(self) -> None:
        """What Ctrl-C on a terminal does: SIGINT to the foreground group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL to the whole group: driver and JVM; and to the Python workers, whose parent makes them a group."""
        for process in self.family():
            with suppress(ProcessLookupError):  # it has just ended, by itself or with its group
                os.killpg(os.getpgid(process.pid), signal.SIGKILL)
        self._process.wait()

    def kill_driver(self) -> None:
        """SIGKILL to the driver alone: its JVM and the Python workers notice, and end some time later."""
        self._process.kill()
        self._process.wait()

    def family(self) -> list[psutil.Process]:
        """The driver, then its JVM and the Python workers."""
        driver = psutil.Process(self._process.pid)
        return [driver, *driver.children(recursive=True)]

    def _wait(self, reached: Callable[[], bool], what: str) -> None:
        wait_until(reached, possible=self.runs, why=lambda: f"it ended without {what}: {self.output}")


def outcome(root: Path, state_dir: str = "state") -> dict[str, Any]:
    """All that must be the same whatever happened to the runs, by what it is."""
    log = EmbeddedLog(root / ".headwater" / "log")
    state = LogState.load(log.commits(APPLICATION))
    found: dict[str, Any] = {}
    for name, part in [(name, part) for name in state.topology.stores for part in range(2)]:
        store = LmdbStore(root / ".headwater" / state_dir / CLIENT / APPLICATION / name / str(part))
        found[f"store {name} {part}"] = dict(store.range(None, None))
        store.close()
    for topic in sorted(state.written()):
        partitions = range(2)
        if topic in TABLES or topic.endswith("-changelog"):
            rows = [row for part in partitions for within in state.ranges(topic, part) for row in read(log, within)]
            found[topic] = {key_of(row): row for row in rows}
        elif topic.endswith("-repartition"):
            # Rows that were read are removed now and then, by the clock: how many there were is told by the ends.
            found[topic] = {part: dict(state.lane_ends(topic, part)) for part in partitions}
        else:
            for part in partitions:
                for lane in state.lane_ends(topic, part):
                    ranges = state.lane_ranges(topic, part, lane)
                    found[f"{topic} {part} {lane}"] = [row for within in ranges for row in read(log, within)]
    for name in state.topology.stores:
        # A cleaner may remove rows that have expired, whenever it comes to them.
        kept = {key for part in range(2) for key in found[f"store {name} {part}"]}
        topic = changelog_topic(APPLICATION, name)
        found[topic] = {key: row for key, row in found.get(topic, {}).items() if row["key"] in kept}
    for task in [(name, part) for name in state.topology.subtopologies for part in range(2)]:
        done = state.tasks.last_commit(TaskKey(APPLICATION, *task))
        found[f"task {task}"] = {
            "positions": done.positions,
            "stream time": done.stream_time,
            "clocks": done.clocks,
            "dropped": done.dropped,
            "records": done.records,
        }
    return found


def read(log: EmbeddedLog, within: LogRange) -> list[dict[str, Any]]:
    return [row for fetched in log.read(within) for row in fetched.records.to_pylist()]


def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(value for name, value in row.items() if name.startswith("key"))


def temporary(root: Path) -> Path:
    """The folder for temporary files of the runs."""
    return root / "temporary"


def kinds(root: Path) -> set[str]:
    """All paths that runs have made and that are there, a kind of them as one: `commits/shop-spending/#.json`.

    But for snapshots, which come after so many commits, segments that commits list, of which a cleaner leaves others
    in each run, and what the log leaves alone for a day: files that another process might be about to link.
    """
    folder = root / ".headwater" / "log"
    remove_leftovers(folder, time.time() + 2 * GRACE_S)
    log = EmbeddedLog(folder)
    listed = {folder / path for each in log.applications() for path in LogState.load(log.commits(each)).paths()}
    found = {
        str(path.relative_to(root))
        for folder in (root / ".headwater", root / "target", temporary(root))
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts and path.suffix != ".snapshot" and path not in listed
    }
    return {re.sub(r"\d+", "#", re.sub(r"[0-9a-f]{32}|[0-9a-f]+(?=-g\d)", "#", path)) for path in found}


def unlisted(root: Path) -> set[str]:
    """Segment files that no commit lists."""
    log = EmbeddedLog(root / ".headwater" / "log")
    return {file.path for file in log.files(APPLICATION)} - LogState.load(log.commits(APPLICATION)).paths()


def generations(root: Path) -> dict[int, int]:
    """Generation -> commits of epochs. None of them may stand behind the claim of a later generation."""
    commits = EmbeddedLog(root / ".headwater" / "log").commits(APPLICATION)
    found: dict[int, int] = {}
    for number in range(1, commits.latest() + 1):
        data = commits.read(number)
        assert data is not None
        match decode_commit(data):
            case GenerationRecord() as claim:
                assert claim.generation == max(found, default=0) + 1
                found[claim.generation] = 0
            case EpochRecord() as epoch:
                assert epoch.generation == max(found), f"commit {number} of a driver that was fenced"
                found[epoch.generation] += 1
    return found
