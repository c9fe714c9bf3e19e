"""What a run promises, on the real loop, log and stores, in this process."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

import pytest

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver import loop
from headwater.runtime.driver.client_events import ClientLost
from headwater.runtime.driver.events import EpochCommitted, Event, Observer
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.placed_log import PlacedLog
from headwater.tests.runtime.local.local_application import LocalApplication, Stopping, part
from headwater.tests.runtime.local.summing import (
    COPIED,
    OTHERS,
    PARTITIONS,
    RECORDS,
    SUM_OF_ONE,
    SUMS,
    WHOLE_SUMS,
    WORDS,
    fed,
    last_sums,
    passed_through,
    summed,
    summed_by_text,
)


class Doing:
    """An observer that does something at the first commit."""

    def __init__(self, first):
        self._first = first
        self.done = False

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted) and not self.done:
            self.done = True
            self._first()


class Seen:
    """An observer that keeps all events, and passes them on."""

    def __init__(self, also: Observer) -> None:
        self._also = also
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)
        self._also.on(event)


def test_run_that_was_stopped_goes_on_where_it_committed_last(application):
    app = fed(application(summed()))
    stopping = Stopping(2)
    first = app.attempt(app.settings(max_records=5), observer=stopping, stop=stopping.stop)
    assert (first.status, first.commits, first.records) == ("interrupted", 2, 2 * 5 * PARTITIONS)
    second = app.run(max_records=7)
    assert (second.generation, second.records) == (2, (RECORDS - 10) * PARTITIONS)
    assert last_sums(app) == WHOLE_SUMS
    assert len(app.read(SUMS)) == RECORDS * PARTITIONS


def test_bytes_end_epochs_of_a_run_and_its_results_are_the_same(application):
    app = fed(application(summed()), records=6)
    result = app.attempt(replace(app.settings(), max_bytes=1))
    assert (result.status, result.commits, result.records) == ("caught_up", 6, 6 * PARTITIONS)
    assert last_sums(app) == {f"k{partition}": (6, 15) for partition in range(PARTITIONS)}
    assert len(app.read(SUMS)) == 6 * PARTITIONS


def test_bytes_of_each_epoch_are_told_and_are_no_more_than_they_may_be(application):
    app = fed(application(summed()))
    whole, small = Seen(Stopping(0)), Seen(Stopping(0))
    app.attempt(observer=whole)
    other = fed(application(summed()))
    other.attempt(replace(other.settings(), max_bytes=200), observer=small)
    (at_once,) = [event.bytes for event in whole.events if isinstance(event, EpochCommitted)]
    told = [event.bytes for event in small.events if isinstance(event, EpochCommitted)]
    assert at_once > RECORDS * PARTITIONS * 20
    assert max(told) <= 200 * PARTITIONS
    assert len(told) > 3
    # The offsets of texts have one more number than there are texts in each piece.
    assert at_once <= sum(told) <= at_once + 4 * PARTITIONS * len(told)


def test_tasks_of_a_lost_client_go_on_elsewhere_from_their_changelogs_while_the_others_never_stop(application):
    app = fed(application(summed()))
    cluster = LocalCluster()
    seen = Seen(Doing(lambda: cluster.lose("client-2")))
    result = app.attempt(app.settings(max_records=5, clients=2), cluster, seen)
    assert (result.status, result.error, result.records) == ("caught_up", None, RECORDS * PARTITIONS)
    assert {client: len(tasks) for client, tasks in result.assignment.items()} == {"client-1": PARTITIONS}
    assert [event.client for event in seen.events if isinstance(event, ClientLost)] == ["client-2"]
    assert last_sums(app) == WHOLE_SUMS
    assert len(app.read(SUMS)) == RECORDS * PARTITIONS


def test_stores_that_are_gone_are_restored_from_the_log(application):
    app = fed(application(summed()))
    app.run()
    for partition in range(PARTITIONS):
        app.append(WORDS, [((f"k{partition}",), (1000,), 99)], partition)
    result = app.attempt(app.settings(state="elsewhere"))
    assert (result.status, result.restored) == ("caught_up", PARTITIONS)
    assert set(last_sums(app).values()) == {(RECORDS + 1, SUM_OF_ONE[1] + 1000)}


@pytest.mark.parametrize("bad", [1, 999, *(pytest.param(each, marks=pytest.mark.soak) for each in (2, 321))])
def test_record_on_which_a_step_fails_is_found_and_other_tasks_commit(application, bad):
    app = application(summed())
    numbers = [(("a",), ({0: 2**63 - 1, bad: 1}.get(n, 0),), n) for n in range(1000)]
    app.append(WORDS, numbers, 0)
    app.append(WORDS, [(("b",), (n,), n) for n in range(RECORDS)], 1)
    result = app.attempt()
    assert (result.status, result.records) == ("failed", RECORDS)
    blamed = rf"topologies/t.yml:7: record words\[0\]@{bad} cannot be processed: sum overflows bigint"
    assert re.match(blamed, result.error)
    assert last_sums(app) == {"b": SUM_OF_ONE}
    again = app.attempt()
    assert (again.status, again.error) == ("failed", result.error)


def test_error_of_an_expression_names_its_place_and_record(application):
    def refused(batches):
        for batch in batches:
            if 17 in batch.column("x").to_pylist():
                raise ValueError("17 is not wanted")
            yield batch

    app = fed(application(passed_through(refused)))
    result = app.attempt()
    assert result.status == "failed"
    assert re.match(r"sums.yml:1: record words\[\d\]@17 cannot be processed: 17 is not wanted", result.error)
    assert last_sums(app) == {}


def test_topology_with_expressions_is_refused_where_nothing_stands_in_for_them(application):
    app = fed(application(passed_through(lambda batches: batches)))
    result = app.attempt(cluster=LocalCluster())
    assert (result.status, result.records) == ("failed", 0)
    assert "sums.yml:1: 'where' has expressions, which are Spark SQL and need Spark" in result.error


def test_second_driver_fences_the_first(application):
    app = fed(application(summed()))
    second = []
    takes_over = Doing(lambda: second.append(app.attempt(app.settings(state="elsewhere"))))
    first = app.attempt(app.settings(max_records=5), observer=takes_over)
    assert (first.status, first.commits, first.generation) == ("fenced", 1, 1)
    assert (second[0].status, second[0].generation) == ("caught_up", 2)
    assert first.records + second[0].records == RECORDS * PARTITIONS
    assert last_sums(app) == WHOLE_SUMS
    assert len(app.read(SUMS)) == RECORDS * PARTITIONS


def test_tasks_on_several_threads_of_several_clients_give_the_same(application):
    app = fed(application(summed()))
    result = app.attempt(app.settings(max_records=8, clients=3), LocalCluster(threads=2))
    assert (result.status, result.records) == ("caught_up", RECORDS * PARTITIONS)
    assert sum(map(len, result.assignment.values())) == PARTITIONS
    assert last_sums(app) == WHOLE_SUMS


def test_store_that_has_moved_to_another_subtopology_is_computed_again_and_renumbering_changes_nothing(application):
    app = fed(application(summed()))
    app.run()
    others = part("others", PARTITIONS, (((Source(OTHERS, ("f",)), Sink("f", COPIED, "append")), {}, {}),))
    renumbered = LocalApplication(app.path, (others, summed()))
    assert (renumbered.run().records, renumbered.topology.subtopologies[1].number) == (0, 1)

    moved = LocalApplication(app.path, summed_by_text())
    assert moved.attempt().status == "caught_up"

    assert last_sums(app) == WHOLE_SUMS  # in its first place
    moved.log = PlacedLog(moved.log)
    assert moved.log.place_of("test-app") == "test-app~2"
    assert last_sums(moved) == WHOLE_SUMS


class Each:
    """An observer that does something at each commit."""

    def __init__(self, then):
        self._then = then

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            self._then()


class Planned(LocalCluster):
    """Notes which partitions each epoch is planned for."""

    def __init__(self, expressions) -> None:
        super().__init__(expressions=expressions)
        self.partitions = []

    def job(self, part, client, application):
        cluster, made = self, super().job(part, client, application)
        run = made.run

        def noted(plan):
            cluster.partitions.append([task.partition for task in plan.tasks])
            return run(plan)

        made.run = noted
        return made


def test_epoch_has_only_the_tasks_with_records_to_take_and_a_quiet_run_takes_up_what_comes(application, monkeypatch):
    monkeypatch.setattr(loop, "QUIET_SECONDS", 3600.0)
    app = fed(application(summed()))
    cluster, stop = Planned(app.expressions), threading.Event()
    committed = threading.Semaphore(0)
    seen = Each(committed.release)
    settings = app.settings()
    run = threading.Thread(
        target=run_topologies,
        args=([app.topology], settings, cluster),
        kwargs={"until_caught_up": False, "observer": seen, "stop": stop},
    )
    run.start()
    committed.acquire()
    for partition in (2, 0):
        app.append(WORDS, [((f"k{partition}",), (1000,), 99)], partition)
        committed.acquire()
    stop.set()
    run.join()
    assert cluster.partitions == [[0, 1, 2, 3], [2], [0]]
    more = (RECORDS + 1, SUM_OF_ONE[1] + 1000)
    assert last_sums(app) == {**WHOLE_SUMS, "k0": more, "k2": more}


def test_run_whose_source_lost_its_newest_commit_and_was_appended_to_is_refused(application):
    app = fed(application(summed()))
    app.run()
    last = app.path / "log" / "commits" / "test-seed" / f"{PARTITIONS:012d}.json"
    lost = last.read_bytes()
    last.unlink()
    app.append(WORDS, [(("new",), (x,), x) for x in range(2 * RECORDS)], PARTITIONS - 1, name="new")

    refused = app.attempt()

    assert refused.status == "failed"
    assert f"words: read from commits of test-seed up to {PARTITIONS}, and another commit has its place now" in (
        refused.error
    )
    assert "new" not in last_sums(app)
    (damage,) = (damage for each in Verification(app.log).run() for damage in each.damages)
    assert damage.what == (
        f"test-app has read from commits of test-seed up to {PARTITIONS}, and another commit has its place now"
    )
    assert damage.way_out.endswith("restart it: headwater build --full-refresh --select 'app+'")
    last.write_bytes(lost)  # all of the log as it was
    app.append(WORDS, [(("k0",), (1,), RECORDS)], 0, name="later")
    app.run()
    assert last_sums(app)["k0"] == (RECORDS + 1, sum(range(RECORDS)) + 1)
