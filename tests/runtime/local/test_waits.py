"""A lasting run tells which of its tasks wait for another application, and why that one does not go on."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver import waiting as other_runs
from headwater.runtime.driver.errors import Stop, TasksOfCause, WaitsFor
from headwater.runtime.driver.events import StatusTaken, TasksWait, WaitEnded
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Topic
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.local.local_application import PROJECT, LocalApplication, part
from headwater.tests.runtime.local.summing import PARTITIONS, TOTALS, WORDS
from headwater.tests.runtime.local.test_failing_records import AT, MOST
from headwater.tests.waiting import wait_until

WRITER, READER = f"{PROJECT}-writer", f"{PROJECT}-reader"
SUMS = Topic("sums", PARTITIONS, "k string", "n bigint, s bigint", writer=WRITER)
OTHERS = Topic("others", PARTITIONS, "k string", "x bigint")
COPIED = Topic("copied", PARTITIONS, "k string", "x bigint", writer=READER)
SEEN = Topic("seen", PARTITIONS, "k string", "n bigint, s bigint", writer=READER)
STOP = Stop("sum overflows bigint (cast the argument to a wider type)", "words", 0, 1, AT)


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch, at_once):
    """The statuses of others are read each time."""
    monkeypatch.setattr(other_runs, "EVERY_SECONDS", 0.0)


def named(path, name, made):
    app = LocalApplication(path, [made])
    app.topology = replace(app.topology, name=name)
    return app


def writer(path, on_error="fail"):
    """Sums of words; one that overflows fails."""
    words = replace(WORDS, on_error=on_error)
    nodes = (Source(words, "f"), Aggregate("f", TOTALS, at=AT), Sink("f", SUMS, "each_update"))
    return named(path, "writer", part("sums", PARTITIONS, ((nodes, {}, {}),), (TOTALS,)))


def reader(path):
    """Copies the sums, and what comes from outside, in the order of their times."""
    nodes = (Source(OTHERS, "f"), Source(SUMS, "g"), Sink("f", COPIED), Sink("g", SEEN))
    return named(path, "reader", part("copies", PARTITIONS, ((nodes, {}, {}),)))


class Watching:
    """Gives what the reader is told of tasks that wait, each with the status behind it, to the thread of the test."""

    def __init__(self):
        self.told = queue.Queue()
        self._events = []

    def on(self, event):
        if event.application == READER and isinstance(event, TasksWait | WaitEnded):
            self._events.append(event)
        if event.application == READER and isinstance(event, StatusTaken):
            for each in self._events:
                self.told.put((each, event.status.waits))
            self._events = []


@contextmanager
def lasting(*apps):
    watching, stop = Watching(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(
            run_topologies,
            [app.topology for app in apps],
            apps[0].settings(),
            LocalCluster(),
            until_caught_up=False,
            observer=watching,
            stop=stop,
        )
        run.add_done_callback(lambda _: watching.told.put(run.exception() or run.result()))
        try:
            yield watching.told
        finally:
            stop.set()


def test_reader_is_told_what_it_waits_for_until_the_writer_is_corrected(tmp_path):
    app, tasks = reader(tmp_path), (TaskId(0, 2),)
    app.append(OTHERS, [(("b",), (1,), 5)], 2)  # where the sums of b are, too
    app.append(WORDS, [(("a",), (x,), at) for at, x in enumerate((1, MOST))])
    app.append(WORDS, [(("b",), (x,), x) for x in range(5)], 1)
    with lasting(app) as told:
        unwritten = WaitsFor(WRITER, "unwritten", topic="sums")
        assert told.get() == (TasksWait(READER, tasks, unwritten), (TasksOfCause(unwritten, ("0_2",)),))

        assert writer(tmp_path).attempt(app.settings(state="writers")).status == "failed"
        assert told.get()[0] == WaitEnded(READER, tasks, unwritten)
        stopped = WaitsFor(WRITER, "stopped", "sums", 0, STOP)
        assert told.get() == (TasksWait(READER, tasks, stopped), (TasksOfCause(stopped, ("0_2",)),))

        assert writer(tmp_path, "skip").attempt(app.settings(state="writers")).status == "caught_up"
        assert told.get()[0] == WaitEnded(READER, tasks, stopped)
        wait_until(lambda: len(app.read(COPIED)) == 1)
    assert len(app.read(SEEN)) == 6
    assert told.get().applications[0].status == "interrupted"
    assert told.empty()
