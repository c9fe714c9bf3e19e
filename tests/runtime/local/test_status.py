"""What a driver says of its run while it runs: the real loop on real logs and stores, in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver import status_writer
from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.driver.status import ClientStatus, RunStatus, TaskStatus
from headwater.runtime.ir.topology import Assignment, PluginRef
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, TOTALS, WHOLE_SUMS, fed, last_sums, summed

APPLICATION = "test-app"


def read(app: LocalApplication) -> RunStatus | None:
    text = app.log.read_status(APPLICATION)
    return None if text is None else RunStatus.from_text(APPLICATION, text)


class Looking:
    """Reads the status at each event of the run, as another process may."""

    def __init__(self, app: LocalApplication, then: Callable[[int], None] = lambda _: None) -> None:
        self.seen: list[RunStatus] = []
        self._app = app
        self._then = then
        self._commits = 0

    def on(self, event: Event) -> None:
        found = read(self._app)
        if found is not None and found.ended is None:
            self.seen.append(found)
        if isinstance(event, EpochCommitted):
            self._commits += 1
            self._then(self._commits)

    def clients(self) -> list[ClientStatus]:
        return [client for status in self.seen for client in status.clients]

    def tasks(self) -> list[TaskStatus]:
        return [task for client in self.clients() for task in client.tasks]


def sticky(app: LocalApplication, standbys: int = 0) -> None:
    app.topology = replace(app.topology, assignment=Assignment(PluginRef("sticky"), standby_replicas=standbys))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("log", ["embedded", "sparse"])
def test_status_has_clients_tasks_and_lags_while_the_application_runs_and_its_end(application, log):
    app = fed(application(summed(), log=log))
    sticky(app, standbys=1)
    looking = Looking(app)
    result = app.attempt(app.settings(max_records=3, clients=2), observer=looking)

    assert {status.condition(status.written_at) for status in looking.seen} == {"running"}
    assert {status.generation for status in looking.seen} == {result.generation}
    assert {client.name for client in looking.clients()} == {"client-1", "client-2"}
    actives = [task for task in looking.tasks() if task.role == "active" and task.state == "running"]
    assert max(task.lag for task in actives) >= RECORDS - 3
    assert max(task.rate for task in actives) > 0
    assert {(task.subtopology, store.name) for task in actives for store in task.stores} == {("sums", TOTALS.name)}
    assert any(task.role == "standby" for task in looking.tasks())

    end = read(app)
    assert (end.ended, end.condition(end.written_at), end.records) == ("caught_up", "ended", RECORDS * PARTITIONS)
    last = [task for client in end.clients for task in client.tasks if task.role == "active"]
    assert sorted(task.id for task in last) == [f"0_{partition}" for partition in range(PARTITIONS)]
    assert {(task.state, task.lag) for task in last} == {("running", 0)}


@pytest.mark.usefixtures("at_once")
def test_restoring_task_shows_how_far_its_stores_are(application):
    app = fed(application(summed()))
    sticky(app)
    cluster = LocalCluster()
    looking = Looking(app, lambda commits: cluster.lose("client-2") if commits == 12 else None)
    app.attempt(app.settings(max_records=3, clients=2), cluster, looking)

    restoring = [task for task in looking.tasks() if task.state == "restoring"]
    assert restoring
    (store,) = restoring[0].stores
    assert (store.position, restoring[0].restored, restoring[0].lag) == (0, 0.0, store.end)
    assert store.end > 0
    running = [each for each in looking.seen if {task.state for task in each.clients[0].tasks} == {"running"}]
    before, after = running[0], looking.seen[-1]
    assert [client.name for client in before.clients] == ["client-1", "client-2"]
    assert [client.name for client in after.clients] == ["client-1"]
    since = {task.id: task.since for task in after.clients[0].tasks}
    stayed = {task.id: task.since for task in before.clients[0].tasks}
    assert len(stayed) == PARTITIONS // 2
    assert {task: since[task] for task in stayed} == stayed, "a task that is not moved has run all the time"


def test_status_is_written_no_more_often_than_allowed(application, monkeypatch):
    monkeypatch.setattr(status_writer, "EVERY_SECONDS", 3600.0)
    app = fed(application(summed()))
    looking = Looking(app)
    app.attempt(app.settings(max_records=3), observer=looking)

    assert len({status.written_at for status in looking.seen}) <= 2, "the first, the last"
    assert looking.seen[1].commits == 0
    assert read(app).commits >= 10


def test_interrupted_run_says_so(application):
    app = fed(application(summed()))
    stop = threading.Event()
    app.attempt(app.settings(max_records=3), observer=Looking(app, lambda _: stop.set()), stop=stop)

    assert read(app).ended == "interrupted"


@pytest.mark.usefixtures("at_once")
def test_run_that_was_taken_over_leaves_the_status_of_the_newer_one(application):
    app = fed(application(summed()))

    def take_over(commits: int) -> None:
        if commits == 2:
            app.run_elsewhere = app.attempt(app.settings(state="elsewhere"))

    first = app.attempt(app.settings(max_records=3), observer=Looking(app, take_over))

    assert (first.status, app.run_elsewhere.status) == ("fenced", "caught_up")
    status = read(app)
    assert (status.generation, status.ended) == (app.run_elsewhere.generation, "caught_up")
    assert last_sums(app) == WHOLE_SUMS


def test_status_that_cannot_be_written_does_not_disturb_the_run(application):
    app = fed(application(summed()))
    app.log.check()
    (app.path / "log" / "status").write_text("a file in the way of a folder")

    app.run()

    assert last_sums(app) == WHOLE_SUMS


def test_refused_run_leaves_the_status_of_the_one_before(application):
    app = fed(application(summed()))
    app.run()
    before = app.log.read_status(APPLICATION)
    stopped = threading.Event()
    stopped.set()
    run_topologies([app.topology], app.settings(), LocalCluster(), until_caught_up=True, stop=stopped)

    assert app.log.read_status(APPLICATION) == before


@pytest.mark.parametrize("backend", ["lmdb", "rocksdb"])
def test_end_has_the_rows_of_closed_stores_also_of_a_run_that_opens_none(application, backend):
    app = fed(application(summed(backend=backend)))
    for _ in range(2):  # one epoch, whose own changes are applied as the stores are closed; then nothing to do
        app.run()
        (client,) = read(app).clients
        rows = {task.partition: store.size.rows for task in client.tasks for store in task.stores}
        assert rows == dict.fromkeys(range(PARTITIONS), 1)
