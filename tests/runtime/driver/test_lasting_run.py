"""A run that lasts takes up what is appended while it runs: each append whole in one epoch, nothing in between."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from headwater import Project
from headwater.cli.main import main
from headwater.runtime.driver.client_events import TasksPlaced
from headwater.runtime.driver.events import ApplicationStarted, EpochCommitted, Event, NothingToRead, StatusTaken
from headwater.runtime.driver.results import RunResults
from headwater.tests.runtime.driver.folders import target, write_project
from headwater.tests.waiting import wait_until

pytestmark = pytest.mark.spark

Seen = TypeVar("Seen")

FILES = {
    "topics/clicks.yml": """
        topics:
          clicks:
            partitions: 2
            key:
              visitor: string
            value:
              page: string
    """,
    "topologies/pages.yml": """
        topology: pages
        flows:
          by_page:
            from: clicks
            steps:
              - key_by:
                  page: page
              - aggregate:
                  values:
                    clicks: count(*)
            to: page_clicks
    """,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_project(tmp_path, "lasting", {"local": target(interval="50ms")}, FILES)
    return tmp_path


class Watching:
    """Gives the events of a run, and its end, to the thread of the test."""

    def __init__(self) -> None:
        self._events: queue.Queue[Event | RunResults | BaseException] = queue.Queue()

    def on(self, event: Event) -> None:
        if not isinstance(event, StatusTaken):  # comes with the clock
            self._events.put(event)

    def ended(self, run: Future[RunResults]) -> None:
        self._events.put(run.exception() or run.result())

    def next(self, kind: type[Seen]) -> Seen:
        event = self._events.get()
        assert isinstance(event, kind), event
        return event


@contextmanager
def running(project: Project) -> Iterator[tuple[Watching, threading.Event, Future[RunResults]]]:
    watching, stop = Watching(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(project.run, observer=watching, stop=stop)
        run.add_done_callback(watching.ended)
        try:
            watching.next(TasksPlaced)
            watching.next(ApplicationStarted)
            watching.next(NothingToRead)  # told once: the topic is empty so far
            yield watching, stop, run
        finally:
            stop.set()


def clicks(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"key": {"visitor": visitor}, "value": {"page": page}} for visitor, page in pairs]


def counts(project: Project) -> dict[str, int]:
    """The last count of each page."""
    return {r.key["page"]: r.value["clicks"] for r in project.read("page_clicks") if r.key and r.value}


def test_each_append_is_taken_in_one_epoch_and_a_pause_commits_nothing(root: Path, spark_session: SparkSession) -> None:
    project = Project.load(root, session=spark_session)
    with running(project) as (watching, stop, run):
        for piece, expected in [
            (clicks(("ada", "home"), ("bob", "home"), ("cyd", "shop")), {"home": 2, "shop": 1}),
            (clicks(("ada", "shop")), {"home": 2, "shop": 2}),
            (clicks(("ada", "home"), ("dan", "help")), {"home": 3, "shop": 2, "help": 1}),
        ]:
            project.append("clicks", piece)
            taken, counted = watching.next(EpochCommitted), watching.next(EpochCommitted)
            assert (taken.records, taken.lag) == (len(piece), 0)
            assert (counted.records, counted.lag) == (len(piece), 0)
            assert counts(project) == expected
        stop.set()
        (result,) = run.result().applications
    assert (result.status, result.commits, result.records) == ("interrupted", 6, 12)


def test_command_takes_what_is_appended_beside_it_and_another_one_follows_its_output_until_it_is_told_to_end(
    root: Path,
) -> None:
    project = Project.load(root)
    with ExitStack() as commands:
        run = commands.enter_context(started(root, "run"))
        for number, page in enumerate(["home", "home", "shop"], 1):
            line = json.dumps(clicks((f"visitor {number}", page))[0])
            seeded = CliRunner().invoke(main, ["seed", "--append", "clicks", "--project-dir", str(root)], input=line)
            assert seeded.output == "appended 1 record to clicks\n"
            wait_until(
                lambda number=number: sum(1 for _ in project.read("page_clicks")) == number,
                possible=lambda: run.poll() is None,
                why="the run has ended",
            )
            if number == 1:
                read = commands.enter_context(
                    started(root, "read", "page_clicks", "--format", "json", "--follow", "--limit", "3")
                )
        followed, _ = read.communicate()
        run.send_signal(signal.SIGTERM)
        output, _ = run.communicate()
    assert (read.returncode, run.returncode) == (0, 0), output
    counted = sorted(map(json.loads, followed.splitlines()), key=lambda line: line["timestamp"])
    assert [(line["key"]["page"], line["value"]["clicks"]) for line in counted] == [
        ("home", 1),
        ("home", 2),
        ("shop", 1),
    ]


@contextmanager
def started(root: Path, command: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own, which ends with the test at the latest."""
    line = [sys.executable, "-m", "headwater.cli.main", command, "--project-dir", str(root), *arguments]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
