"""Stories of executors that fail while the topology of `tests/runtime/driver/delays.py` runs on them.

`python faults.py FOLDER MASTER STORY...` plays the stories in one Spark application, each with a log of its own, and
prints what came of each as a line of JSON. A story waits for what has happened, and for the results to be complete.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from headwater.runtime.cluster.spark.cluster import SparkCluster
from headwater.runtime.cluster.spark.engine import executors
from headwater.runtime.cluster.spark.session import start_session
from headwater.runtime.driver import group
from headwater.runtime.driver.client_events import ClientJoined, ClientLost, StoreRestoring, TasksPlaced
from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.driver.results import ApplicationResult
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ingest.append import append
from headwater.runtime.ir.topology import Assignment, PluginRef, Settings
from headwater.runtime.log.commit.encoding import decode_commit
from headwater.runtime.log.commit.records import EpochRecord
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.tests.processes import command_lines
from headwater.tests.quick_jvm import quick_jvm
from headwater.tests.runtime.driver import delays
from headwater.tests.waiting import wait_until

PARTS = 6
RECORDS = 1_500
DEADLINE_MS = 3_000
"""Of the story of an executor that is silent."""

PATIENCE_MS = 24 * 3_600_000
"""Of all others, in which nobody is to be taken for silent: on a busy machine heartbeats may come seconds late."""


def start(master: str) -> Any:
    """A session. Its runs wait for an executor as long as it takes: on a busy machine one needs minutes to start."""
    group.ALONE_SECONDS = float("inf")
    return start_session(
        {
            "master": master,
            "executor.memory": "512m",
            "executor.extraJavaOptions": quick_jvm(),
            "executor.heartbeatInterval": "500ms",
            "deploy.maxExecutorRetries": "-1",
        }
    )


def process_of(executor: str) -> int:
    """The pid of an executor's JVM."""
    for process, words in command_lines(psutil.Process()):
        if "--executor-id" in words and words[words.index("--executor-id") + 1] == executor:
            return process.pid
    raise LookupError(f"executor {executor} has no process")


class Story:
    """One application that runs in a thread, and all of its events."""

    def __init__(self, session: Any, root: Path, standbys: int, deadline_ms: int, max_records: int = 200) -> None:
        self.session = session
        self._deadline_ms = deadline_ms
        self.log = EmbeddedLog(root / "log")
        self.events: list[Event] = []
        self.kill_at: Callable[[Event], str | None] = lambda _: None
        self._table, self._times = delays.flights(PARTS * RECORDS)
        self._fed = 0
        self._topology = replace(delays.TOPOLOGY, assignment=Assignment(PluginRef("sticky"), standby_replicas=standbys))
        log = PluginRef("embedded", {"path": str(root / "log")})
        self._settings = Settings(log, str(root / "state"), epoch_interval_ms=100, max_records=max_records)
        self._stop = threading.Event()
        self._results: list[ApplicationResult] = []
        seeds = LogState.load(self.log.commits("p-seed"))
        if seeds.number:  # a run before this one was killed
            fed = (within for partition in range(4) for within in seeds.ranges("flights", partition))
            self._fed = sum(within.records for within in fed) // RECORDS
        else:
            append(self.log, "p-seed", delays.AIRLINES, delays.airlines(), timestamps=[0] * 4)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        cluster = SparkCluster(self.session, self._deadline_ms)
        results = run_topologies(
            [self._topology], self._settings, cluster, until_caught_up=False, observer=self, stop=self._stop
        )
        self._results.extend(results.applications)

    def on(self, event: Event) -> None:
        self.events.append(event)
        if (executor := self.kill_at(event)) is not None:
            self.kill_at = lambda _: None
            self.strike(signal.SIGKILL, executor)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def strike(self, number: int, *ids: str) -> None:
        for pid in [process_of(each) for each in ids]:
            os.kill(pid, number)

    def wait(self, fact: Callable[[], Any]) -> Any:
        return wait_until(fact, possible=self._thread.is_alive, why=lambda: self._told())

    def feed(self) -> None:
        """A part of the flights more."""
        rows = slice(self._fed * RECORDS, (self._fed + 1) * RECORDS)
        append(self.log, "p-seed", delays.FLIGHTS, self._table.slice(rows.start, RECORDS), timestamps=self._times[rows])
        self._fed += 1

    def begin(self) -> None:
        """Start with all executors and the first part, and wait until it is done."""
        self.feed()
        self._thread.start()
        self.complete()

    def commits(self) -> int:
        return len(self.of(EpochCommitted))

    def feed_and_begin(self) -> None:
        """A part of the flights more, of which something is committed by now."""
        before = self.commits()
        self.feed()
        self.wait(lambda: self.commits() > before)

    def assignment(self, of: str = "active") -> dict[str, list[str]]:
        """Client -> its tasks, as the log says."""
        recorded = LogState.load(self.log.commits(delays.APPLICATION)).assignment
        return {
            client["name"]: [f"{part}_{number}" for part, numbers in client.get(of, {}).items() for number in numbers]
            for client in recorded["clients"].values()
        }

    def hourly(self) -> dict[tuple[str, int], tuple[int, float]]:
        """The last value of each key of the output."""
        state = LogState.load(self.log.commits(delays.APPLICATION))
        return {
            (row["key.airline"], int(row["key.window_start"].timestamp() * 1000)): (
                row["value.flights"],
                row["value.total"],
            )
            for partition in range(delays.HOURLY.partitions)
            for within in state.ranges("hourly", partition)
            for fetched in self.log.read(within)
            for row in fetched.records.to_pylist()
        }

    def complete(self) -> None:
        """Wait until all that was fed is in the results."""
        count = self._fed * RECORDS
        wanted = delays.expected(self._table.slice(0, count), self._times[:count])
        self.wait(lambda: self.hourly() == wanted)

    def end(self) -> dict[str, Any]:
        """Feed the rest, wait until all of it is in the results, stop, and say what has happened."""
        while self._fed < PARTS:
            self.feed()
        self.complete()
        self._stop.set()
        self._thread.join()
        (result,) = self._results
        return {
            "status": result.status,
            "error": result.error,
            "lost": [(event.client, event.silent is not None) for event in self.of(ClientLost)],
            "joined": [event.client for event in self.of(ClientJoined)],
            "placed": len(self.of(TasksPlaced)),
            "tasks": sorted(task for tasks in result.assignment.values() for task in tasks),
            "clients": sorted(result.assignment),
            "taken": self.taken(),
        }

    def taken(self) -> int:
        """The flights that all commits together have taken: each of them once."""
        commits = self.log.commits(delays.APPLICATION)
        records = (decode_commit(commits.read(number)) for number in range(1, commits.latest() + 1))
        epochs = [record for record in records if isinstance(record, EpochRecord)]
        return sum(task.records for each in epochs for task in each.tasks if task.subtopology == "late") - 4

    def _told(self) -> str:
        ended = [f"{result.status}: {result.error}" for result in self._results]
        return "\n".join([*ended, *(event.text for event in self.events)])


def some_client(story: Story, of: str = "active") -> str:
    """The id of an executor that has a task with stores."""
    return next(name for name, tasks in sorted(story.assignment(of).items()) if tasks).removeprefix("executor-")


def killed_while_it_processes(story: Story) -> dict[str, Any]:
    story.begin()
    victim = some_client(story)
    story.kill_at = lambda event: victim if isinstance(event, EpochCommitted) else None
    story.feed()
    story.wait(lambda: story.of(ClientLost))
    return story.end() | {"killed": [victim]}


def killed_while_it_restores(story: Story) -> dict[str, Any]:
    """One is killed, and then the one that is given its tasks, as soon as it begins to restore them."""
    story.begin()
    first = some_client(story)
    killed = [first]

    def restoring(event: Event) -> str | None:
        if isinstance(event, StoreRestoring) and story.of(ClientLost):
            killed.append(event.client.removeprefix("executor-"))
            return killed[-1]
        return None

    story.kill_at = restoring
    story.strike(signal.SIGKILL, first)
    story.feed()
    story.wait(lambda: len(story.of(ClientLost)) == 2)
    return story.end() | {"killed": killed}


def killed_with_the_only_standby(story: Story) -> dict[str, Any]:
    """Of some task: then the one that has the task itself, when there is another standby."""
    story.begin()
    standby = some_client(story, "standby")
    copied = story.assignment("standby")[f"executor-{standby}"]
    story.strike(signal.SIGKILL, standby)
    story.feed()
    story.wait(lambda: len(story.of(TasksPlaced)) >= 2)
    story.wait(lambda: any(set(tasks) & set(copied) for tasks in story.assignment("standby").values()))
    story.feed_and_begin()
    active = next(name for name, tasks in story.assignment().items() if set(tasks) & set(copied))
    story.strike(signal.SIGKILL, active.removeprefix("executor-"))
    story.wait(lambda: len(story.of(ClientLost)) == 2)
    return story.end() | {"killed": [standby, active.removeprefix("executor-")]}


def two_killed_at_once(story: Story) -> dict[str, Any]:
    story.begin()
    story.feed_and_begin()
    victims = sorted(executors(story.session))[:2]
    story.strike(signal.SIGKILL, *victims)
    story.wait(lambda: len(story.of(ClientLost)) == 2)
    return story.end() | {"killed": victims}


def added_under_load(story: Story) -> dict[str, Any]:
    """One fewer at first; Spark is asked for it while there is work."""
    count = len(executors(story.session))
    ask_for(story.session, count - 1)
    story.strike(signal.SIGKILL, sorted(executors(story.session))[0])
    wait_until(lambda: len(executors(story.session)) == count - 1)
    story.begin()
    story.feed_and_begin()
    ask_for(story.session, count)
    story.wait(lambda: story.of(ClientJoined))
    new = story.of(ClientJoined)[0].client
    story.feed()
    story.wait(lambda: any(event.client == new for event in story.of(EpochCommitted)))
    return story.end() | {"clients_at_first": count - 1}


def ask_for(session: Any, count: int) -> None:
    """Tell Spark's master how many executors there are to be."""
    context = session.sparkContext
    nowhere = getattr(getattr(context._jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
    assert context._jsc.sc().requestTotalExecutors(count, 0, nowhere)


def silent_past_the_deadline(story: Story) -> dict[str, Any]:
    """Suspended while it works; it is given up, and goes on when others have done its work.

    Others may be taken for silent too, and it once more, where the machine keeps their heartbeats waiting.
    """

    def times(kind: type) -> int:
        return sum(event.client == f"executor-{victim}" for event in story.of(kind))

    story.begin()
    victim = some_client(story)
    before = process_ids(story)[f"executor-{victim}"]
    story.feed_and_begin()
    story.strike(signal.SIGSTOP, victim)
    try:
        story.feed()
        story.wait(lambda: times(ClientLost))
        story.complete()
    finally:
        story.strike(signal.SIGCONT, victim)
    story.wait(lambda: times(ClientJoined) >= times(ClientLost))
    story.feed()
    after = process_ids(story).get(f"executor-{victim}")
    ended = story.end()
    return ended | {"suspended": victim, "same_process_id": before == after}


def driver_killed(story: Story) -> dict[str, Any]:
    """In the middle of its work, with all of its executors."""
    story.begin()
    story.feed()
    story.feed_and_begin()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def after_the_driver_was_killed(story: Story) -> dict[str, Any]:
    """Another run on the same log and state directories."""
    story.begin()
    return story.end()


def process_ids(story: Story) -> dict[str, str]:
    recorded = LogState.load(story.log.commits(delays.APPLICATION)).assignment
    return {client["name"]: process_id for process_id, client in recorded["clients"].items()}


STORIES: dict[str, tuple[Callable[[Story], dict[str, Any]], int]] = {
    "driver_killed": (driver_killed, 0),
    "after_the_driver_was_killed": (after_the_driver_was_killed, 0),
    "killed_while_it_processes": (killed_while_it_processes, 0),
    "killed_while_it_restores": (killed_while_it_restores, 0),
    "killed_with_the_only_standby": (killed_with_the_only_standby, 1),
    "two_killed_at_once": (two_killed_at_once, 0),
    "added_under_load": (added_under_load, 0),
    "silent_past_the_deadline": (silent_past_the_deadline, 0),
}
"""What happens, and how many standbys there are."""


@contextmanager
def all_executors(session: Any, count: int) -> Iterator[None]:
    """Spark starts another executor for each that has ended: each story begins with all of them."""
    wait_until(lambda: len(executors(session)) == count)
    yield


def main(root: Path, master: str, names: list[str]) -> None:
    session = start(master)
    count = int(master.split("[")[1].split(",")[0])
    for name in names:
        play, standbys = STORIES[name]
        deadline_ms = DEADLINE_MS if play is silent_past_the_deadline else PATIENCE_MS
        with all_executors(session, count):
            folder = "driver" if "driver" in name else name
            outcome = play(Story(session, root / folder, standbys, deadline_ms))
        print(json.dumps({"story": name, "fed": PARTS * RECORDS, **outcome}), flush=True)
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
