"""A topology whose stores or steps change is computed again beside the result that is there, and takes its place."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.runtime.changes.model import Verdict
from headwater.runtime.driver import rebuild as recomputing
from headwater.runtime.driver.client_events import StoreRestored
from headwater.runtime.driver.events import (
    ApplicationStarted,
    EpochCommitted,
    Event,
    RecomputationBegun,
    ResultSwitched,
)
from headwater.runtime.driver.runs import changes_at_start
from headwater.runtime.ir.topology import PluginRef
from headwater.runtime.ir.windows import Window
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.placed_log import PLACES
from headwater.runtime.log.places import Places
from headwater.runtime.progress.resets import refresh_fully
from headwater.tests.runtime.local.ended_process import ProcessEnded, ended_at_commit
from headwater.tests.runtime.local.local_application import Stopping
from headwater.tests.runtime.local.recomputed_project import (
    COUNT,
    MAX,
    SUM,
    Definition,
    RecomputedProject,
    begun_project,
    result_from_the_start,
)
from headwater.tests.runtime.local.test_rebalance import Story
from headwater.tests.sampled import sampled
from headwater.tests.waiting import wait_until


@pytest.fixture
def project(tmp_path: Path) -> RecomputedProject:
    return begun_project(tmp_path / "project")


def fresh(project: RecomputedProject) -> Mapping[str, Any]:
    """What it would be, had it been so from the start."""
    return result_from_the_start(project.defined)


def test_changed_aggregate_is_computed_again_beside_the_result_and_takes_its_place(project):
    old = project.result()
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    story = Story()
    results = project.went_well(observer=story)
    assert project.result() == fresh(project)
    assert [each.application for each in results.applications] == ["test-first", "test-sums", "test-late"]
    assert [(each.application, each.records) for each in story.of(RecomputationBegun)] == [
        ("test-sums", {"copied": 80}),
        ("test-late", {}),
    ]
    assert [each.application for each in story.of(ResultSwitched)] == ["test-sums", "test-late"]
    assert project.placed.applications() == ["test-first", "test-late", "test-seed", "test-sums"]
    assert [each.damages for each in Verification(project.placed).run()] == [()] * 5
    assert old != project.result()


def test_second_run_finds_nothing_changed_restores_nothing_and_drops_the_old_result(project):
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    project.went_well()
    expected = fresh(project)
    story = Story()
    project.went_well(observer=story, delay_ms=0)
    assert [story.of(kind) for kind in (EpochCommitted, RecomputationBegun, StoreRestored)] == [[], [], []]
    assert project.placed.places().given_up == {}
    assert project.app.log.applications() == ["test-first", "test-late~2", "test-seed", "test-sums~2", "~places"]
    assert project.result() == expected


@pytest.mark.parametrize(
    "commits", [5, 25, *(pytest.param(each, marks=pytest.mark.soak) for each in (1, 9, 13, 17, 21, 29))]
)
def test_recomputation_that_ends_at_any_commit_is_gone_on_with(project, commits):
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    expected = fresh(project)
    stopping = Stopping(commits)
    project.run(observer=stopping, stop=stopping.stop)
    story = Story()
    project.went_well(observer=story)
    assert project.result() == expected


@pytest.mark.parametrize(
    ("number", "when"),
    [(1, "after"), (2, "after"), *(pytest.param(each, "before", marks=pytest.mark.soak) for each in (1, 2))],
)
def test_recomputation_that_ends_at_a_commit_of_places_is_gone_on_with(project, number, when):
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    expected = fresh(project)
    with ended_at_commit(project.app.log, PLACES, number, when):
        project.run()
    project.went_well()
    assert project.result() == expected
    assert [each.damages for each in Verification(project.placed).run()] == [()] * 5


def test_project_that_is_changed_again_drops_what_was_computed_and_begins_again(project):
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    stopping = Stopping(14)
    project.run(observer=stopping, stop=stopping.stop)
    project.defined = replace(Definition(), aggregates=(MAX,))
    project.went_well()
    assert project.result() == fresh(project)
    assert sorted(project.placed.places().given_up) == ["test-late", "test-late~2", "test-sums", "test-sums~2"]


def test_refused_run_leaves_what_was_computed_so_far_to_the_next_one(project):
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    stopping = Stopping(14)
    project.run(observer=stopping, stop=stopping.stop)
    begun = project.placed.places().recomputed
    results = project.run(select=slice(2)).applications  # without the reader of the sums
    assert [each.status for each in results] == ["caught_up", "failed"]
    project.went_well()
    assert project.placed.places().names == {name: each.place for name, each in begun.items()}
    assert project.result() == fresh(project)


def test_change_that_is_undone_leaves_the_old_result_and_goes_on_with_it(project):
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    stopping = Stopping(14)
    project.run(observer=stopping, stop=stopping.stop)
    project.defined = Definition()
    project.went_well()
    assert project.result() == fresh(project)
    assert project.placed.places().names == {}


@pytest.mark.parametrize("commits", [20, pytest.param(16, marks=pytest.mark.soak)])
def test_change_that_is_undone_above_another_begins_that_one_again(project, commits):
    """What was computed so far has read other records, at the same positions."""
    project.defined = replace(Definition(), aggregates=(MAX,), keep_first=_even)
    stopping = Stopping(commits)
    project.run(observer=stopping, stop=stopping.stop)
    assert sorted(project.placed.places().recomputed) == ["test-first", "test-late", "test-sums"]
    project.defined = replace(Definition(), aggregates=(MAX,))
    project.went_well()
    assert project.result() == fresh(project)


def _even(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pa.array([x is None or x % 2 == 0 for x in batch.column("x").to_pylist()], pa.bool_()))


CHANGES = {
    "aggregate dropped": {"aggregates": (COUNT,)},
    "another function": {"aggregates": (COUNT, replace(SUM, function="max"))},
    "a window": {"window": Window(10_000, 10_000, 100_000)},
    "another store": {"store": "others"},
}


@pytest.mark.parametrize("name", sampled(CHANGES, 2))
def test_result_after_a_change_is_that_of_a_project_that_was_so_from_the_start(project, name):
    project.defined = replace(Definition(), **CHANGES[name])
    project.went_well()
    assert project.result() == fresh(project)
    project.append(range(40, 50))
    project.went_well()
    assert project.records(project.defined.sums)


def test_reader_that_is_not_selected_stops_the_recomputation(project):
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    _, refused = project.run(select=slice(2)).applications
    assert "topology late has read sums, and would have to be rebuilt with it" in str(refused.error)
    assert project.placed.places() == Places()


def test_driver_of_before_goes_on_until_the_switch_and_is_fenced_then(project):
    expected_definition = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    stop, committed = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        try:
            old = pool.submit(
                project.run,
                select=slice(1, 3),
                until_caught_up=False,
                stop=stop,
                observer=Story(lambda _: committed.set()),
            )
            project.went_well(select=slice(1))
            wait_until(committed.is_set, possible=lambda: not old.done(), why="the run of before has ended")
            project.defined = expected_definition
            project.went_well(state="elsewhere")
            ended = old.result().applications
        finally:
            stop.set()
    assert "fenced" in [each.status for each in ended]
    assert project.result("elsewhere") == fresh(project)


def test_lasting_run_switches_and_goes_on_with_the_new_result(project):
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    expected = fresh(project)
    stop, switched = threading.Event(), []

    class Ending:
        def on(self, event: Event) -> None:
            switched.extend([event] if isinstance(event, ResultSwitched) else [])
            if isinstance(event, ApplicationStarted) and len(switched) == 2 and event.application == "test-late":
                stop.set()

    results = project.run(until_caught_up=False, stop=stop, observer=Ending())
    assert {each.error for each in results.applications} == {None}
    assert [each.application for each in results.applications] == ["test-first", "test-sums", "test-late"]
    project.went_well()
    assert project.result() == expected


def test_lasting_run_switches_while_records_keep_coming(project):
    """After each epoch there are more: the new result is never caught up with all of them."""
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    stop, events, come, one = threading.Event(), [], itertools.count(40), threading.Lock()

    class Feeding:
        def on(self, event: Event) -> None:
            if isinstance(event, EpochCommitted | ResultSwitched) and not stop.is_set():
                events.append(event)
                with one:  # the applications of a run have threads of their own
                    number = next(come)
                    project.append(range(number, number + 1))
            if len(events) == 150 or sum(isinstance(each, ResultSwitched) for each in events) == 2:
                stop.set()

    project.run(max_records=50, until_caught_up=False, stop=stop, observer=Feeding())
    assert [each.application for each in events if isinstance(each, ResultSwitched)] == ["test-sums", "test-late"]
    project.went_well()
    other = RecomputedProject(project.path.parent / "fresh", defined=project.defined)
    for each in (range(20), range(20, 40), *(range(number, number + 1) for number in range(40, next(come)))):
        other.append(each)
    other.went_well()
    assert project.result() == other.result()


def test_result_is_the_same_on_an_object_store(tmp_path):
    log = PluginRef("object_store", {"uri": (tmp_path / "bucket").as_uri(), "look_every": "1ms"})
    project = RecomputedProject(tmp_path / "project", log)
    project.append(range(40))
    project.went_well()
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    stopping = Stopping(10)
    project.run(observer=stopping, stop=stopping.stop)
    project.went_well()
    assert project.result() == fresh(project)


def test_paused_application_is_not_computed_again(project):
    project.app.log.pause("test-sums")
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    results = project.run().applications
    assert "test-sums is paused" in str(results[1].error)
    project.placed.resume("test-sums")
    project.went_well()
    assert project.result() == fresh(project)


def test_full_refresh_forgets_what_was_computed_again(project):
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    stopping = Stopping(14)
    project.run(observer=stopping, stop=stopping.stop)
    refresh_fully(project.placed, project.path / "state", ["test-sums", "test-late"])
    assert project.placed.places().recomputed == {}
    project.went_well()
    assert project.result() == fresh(project)


def test_reader_from_the_last_record_on_is_not_computed_again_as_it_would_lose_its_past(project):
    project.defined = Definition(start="latest", aggregates=(*Definition().aggregates, MAX))
    _, refused, _ = project.run().applications
    assert "read from the last record on (`start: latest`)" in str(refused.error)
    assert project.placed.places() == Places()


def test_topic_that_has_lost_records_is_not_read_again_and_nothing_is_moved(project):
    project.app.clean = True
    project.defined = Definition(copied_retention_ms=1)
    project.went_well()
    project.defined = replace(project.defined, aggregates=(*Definition().aggregates, MAX))
    refused = project.run().applications[1]
    assert "of its records are not there any more" in str(refused.error)
    assert "headwater run --full-refresh --select 'sums+'" in str(refused.error)
    assert project.placed.places() == Places()


def test_run_that_ended_right_after_the_switch_leaves_stores_that_the_next_one_takes_over(project, monkeypatch):
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    with monkeypatch.context() as patched:
        patched.setattr(recomputing, "take_over_rebuild", _end)
        with pytest.raises(ProcessEnded):
            project.run()
    story = Story()
    project.went_well(observer=story)
    assert (story.of(StoreRestored), story.of(EpochCommitted)) == ([], [])
    assert project.result() == fresh(project)


def _end(*_: Any) -> None:
    raise ProcessEnded


def test_new_column_of_a_result_that_is_computed_again_is_told_for_all_records(project):
    project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
    topologies = [topology for topology, _ in project.defined.topologies()]
    judged = changes_at_start(topologies, project.app.settings())
    told = {(each.kind, each.what) for each in judged.changes["test-sums"]}
    assert ("topic.columns", "its columns changed, for all records") in told
    read = {(each.kind, each.subject.name): each.verdict for each in judged.changes["test-late"]}
    assert (judged.changes["test-first"], read["topic.columns", "late"]) == ((), Verdict.REPLACE)
