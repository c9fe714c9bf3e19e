"""Clients that come and go while an application runs, on the real loop, log and stores, in this process."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver import group, member
from headwater.runtime.driver.client_events import (
    ClientJoined,
    ClientLost,
    ClientRefused,
    StoreRestored,
    StoreRestoring,
    TasksPlaced,
)
from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.ir.topology import Assignment, PluginRef
from headwater.runtime.log.commit.encoding import decode_commit
from headwater.runtime.log.commit.records import AssignmentRecord
from headwater.runtime.placing import place
from headwater.runtime.placing.place import Client
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.timed_parts import wall_ms
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, SUMS, WHOLE_SUMS, fed, last_sums, summed


class Story:
    """All events, and something to do at each commit: `then` is called with the number of commits so far."""

    def __init__(self, then: Callable[[int], None] = lambda _: None) -> None:
        self.events: list[Event] = []
        self._then = then

    def on(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, EpochCommitted):
            self._then(len(self.of(EpochCommitted)))

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    def commits_by(self, client: str) -> int:
        return sum(event.client == client for event in self.events if isinstance(event, EpochCommitted))


def sticky(app: LocalApplication, standbys: int = 0) -> None:
    """Tasks stay where they were, or go where there is room."""
    app.topology = replace(
        app.topology,
        assignment=Assignment(PluginRef("sticky"), standby_replicas=standbys, probing_rebalance_interval_ms=60_000),
    )


def whole(app: LocalApplication) -> None:
    """Nothing was lost and nothing done twice."""
    assert last_sums(app) == WHOLE_SUMS
    assert len(app.read(SUMS)) == RECORDS * PARTITIONS


def test_client_that_comes_is_given_tasks_and_the_others_keep_theirs(application):
    app = fed(application(summed()))
    sticky(app)
    cluster = LocalCluster()
    cluster.lose("client-2")
    story = Story(lambda commits: cluster.find("client-2") if commits == 2 else None)
    result = app.attempt(app.settings(max_records=3, clients=2), cluster, story)
    assert (result.status, result.error) == ("caught_up", None)
    assert [event.client for event in story.of(ClientJoined)] == ["client-2"]
    first, second = story.of(TasksPlaced)
    assert (first.clients, second.clients, second.kept, len(second.moves)) == (1, 2, PARTITIONS // 2, PARTITIONS // 2)
    assert story.commits_by("client-2") > 0
    assert {name: len(tasks) for name, tasks in result.assignment.items()} == {"client-1": 2, "client-2": 2}
    whole(app)


def test_client_that_comes_and_cannot_be_given_tasks_is_told_and_left_out(application):
    app = fed(application(summed()))
    sticky(app)
    cluster = LocalCluster()
    cluster.lose("client-2")
    settings = app.settings(max_records=3, clients=2)
    with StateDirectory(Path(settings.state_dir), "client-2", "test-app").lock():
        story = Story(lambda commits: cluster.find("client-2") if commits == 2 else None)
        result = app.attempt(settings, cluster, story)
    assert (result.status, result.error) == ("caught_up", None)
    (refused,) = story.of(ClientRefused)
    assert "client-2 cannot join, and gets no tasks" in refused.text
    assert "is in use by" in refused.cause
    assert set(result.assignment) == {"client-1"}
    whole(app)


def test_each_assignment_is_a_commit_of_its_own(application):
    app = fed(application(summed()))
    sticky(app)
    cluster = LocalCluster()
    story = Story(lambda commits: cluster.lose("client-2") if commits == 2 else None)
    app.attempt(app.settings(max_records=3, clients=2), cluster, story)
    commits = app.log.commits("test-app")
    records = [decode_commit(commits.read(number)) for number in range(1, commits.latest() + 1)]
    (assigned,) = [record for record in records if isinstance(record, AssignmentRecord)]
    assert [client["active"] for client in assigned.assignment["clients"].values()] == [{"sums": [0, 1, 2, 3]}]


def test_standby_takes_over_without_being_restored(application, monkeypatch):
    monkeypatch.setattr(member, "STANDBY_REST", 0.0)  # an epoch takes some milliseconds here, and would not wait
    app = fed(application(summed()))
    sticky(app, standbys=1)
    cluster = LocalCluster()
    caught_up = threading.Event()
    story = Story(lambda commits: (cluster.lose("client-2"), caught_up.set()) if commits == 12 else None)
    result = app.attempt(app.settings(max_records=3, clients=2), cluster, story)
    assert (result.status, result.error) == ("caught_up", None)
    restored = Counter(event.client for event in story.of(StoreRestored))
    behind = [event.end - event.position for event in story.of(StoreRestoring)]
    assert sum(behind) < 3 * PARTITIONS, f"a copy that is kept up to date is behind by an epoch at most: {restored}"
    whole(app)


def test_without_standby_the_tasks_of_a_lost_client_are_restored_from_nothing(application):
    app = fed(application(summed()))
    sticky(app)
    cluster = LocalCluster()
    story = Story(lambda commits: cluster.lose("client-2") if commits == 12 else None)
    app.attempt(app.settings(max_records=3, clients=2), cluster, story)
    assert [event.position for event in story.of(StoreRestoring)][:1] == [0]
    whole(app)


def test_client_that_comes_and_goes_again_and_again_costs_no_record(application):
    app = fed(application(summed()))
    sticky(app, standbys=1)
    cluster = LocalCluster()

    def flap(commits: int) -> None:
        client = f"client-{1 + commits % 3}"
        cluster.find(client) if commits % 2 else cluster.lose(client)

    result = app.attempt(app.settings(max_records=2, clients=3), cluster, Story(flap))
    assert (result.status, result.error) == ("caught_up", None)
    whole(app)


class Blinking(LocalCluster):
    """A client that was lost is there again before anybody looks who is there."""

    def present(self, count: int) -> tuple[Client, ...]:
        self._lost.clear()
        return super().present(count)


def test_client_that_is_there_again_at_once_gets_its_tasks_back(application):
    app = fed(application(summed()))
    sticky(app)
    cluster = Blinking()
    story = Story(lambda commits: cluster.lose("client-2") if commits == 3 else None)
    result = app.attempt(app.settings(max_records=3, clients=2), cluster, story)
    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    assert (len(story.of(ClientLost)), len(story.of(ClientJoined))) == (1, 1)
    whole(app)


def test_all_clients_gone_for_long_is_an_error_that_says_so(application, monkeypatch):
    monkeypatch.setattr("headwater.runtime.driver.group.ALONE_SECONDS", 0.05)
    app = fed(application(summed()))
    cluster = LocalCluster()

    def lose_all(_: int) -> None:
        for number in (1, 2):
            cluster.lose(f"client-{number}")

    story = Story(lose_all)
    result = app.attempt(app.settings(max_records=3, clients=2), cluster, story)
    assert result.status == "failed"
    assert "all clients of test-app are gone, and none has joined for 0 s" in result.error
    assert len(story.of(ClientLost)) == 2
    app.run()
    whole(app)


@pytest.mark.parametrize("clients", [1, 2, 3])
def test_results_do_not_depend_on_when_clients_are_lost(application, clients):
    app = fed(application(summed()))
    cluster = LocalCluster()
    story = Story(lambda commits: cluster.lose(f"client-{clients}") if commits == clients and clients > 1 else None)
    result = app.attempt(app.settings(max_records=4, clients=clients), cluster, story)
    assert (result.status, result.error) == ("caught_up", None)
    whole(app)


def test_tasks_follow_their_copies_to_a_client_that_has_come_even_if_the_clock_is_set_back(
    application, monkeypatch: pytest.MonkeyPatch
):
    """The new client first gets copies that warm up. The assignor asks to be asked again, and then moves the tasks."""
    app = fed(application(summed()))
    probing = Assignment(PluginRef("high_availability"), acceptable_recovery_lag=0, probing_rebalance_interval_ms=50)
    app.topology = replace(app.topology, assignment=probing)
    cluster = LocalCluster()
    cluster.lose("client-2")
    hours = 0
    for module in (group, place):
        monkeypatch.setattr(module, "wall_ms", lambda: wall_ms() - hours * 3_600_000)
    monkeypatch.setattr(group, "FOLLOWUP_SECONDS", 0.0)

    def then(commits: int) -> None:
        nonlocal hours
        if commits == 2:
            cluster.find("client-2")
        hours += 1
        if commits < 3000 and not story.commits_by("client-2"):
            fed(app)

    story = Story(then)
    result = app.attempt(app.settings(max_records=30, clients=2), cluster, story)
    assert (result.status, result.error) == ("caught_up", None)
    assert len(story.of(TasksPlaced)) >= 3
    assert story.commits_by("client-2") > 0
    assert {n for n, _ in last_sums(app).values()} == {len(app.read(SUMS)) // PARTITIONS}
