"""What is done while a result is computed again: its topology is paused, removed, renamed, damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.api.runs import StillRunningError, check_not_running
from headwater.runtime.driver.events import ApplicationStarted, EpochCommitted, Event
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.placed_log import PLACES
from headwater.runtime.progress.resets import plan_application_removal, remove
from headwater.runtime.tasks.errors import LockError
from headwater.tests.runtime.local.local_application import Stopping
from headwater.tests.runtime.local.recomputed_project import MAX, Definition, RecomputedProject, begun_project

CHANGED = replace(Definition(), aggregates=(*Definition().aggregates, MAX))


@pytest.fixture
def project(tmp_path: Path) -> RecomputedProject:
    return begun_project(tmp_path / "project", CHANGED)


def fresh(project: RecomputedProject, end: int = 40) -> object:
    other = RecomputedProject(project.path.parent / "fresh", defined=replace(project.defined, late="late"))
    other.append(range(end))
    other.went_well()
    return other.result()


def test_topology_that_is_paused_before_its_new_result_takes_over_stays_paused(project):
    class Pausing:
        def on(self, event: Event) -> None:
            if isinstance(event, ApplicationStarted) and event.application == "test-late":
                project.placed.pause("test-sums")

    project.run(observer=Pausing())
    assert project.placed.places().names["test-sums"] == "test-sums~2"
    assert project.placed.paused_since("test-sums") is not None
    assert project.placed.paused_since("test-late") is None
    project.placed.resume("test-sums")
    assert project.placed.paused_since("test-sums") is None
    project.went_well()
    assert project.result() == fresh(project)


def test_topology_that_was_paused_before_a_new_result_is_begun_stays_paused_in_both_places(project):
    project.placed.pause("test-sums")
    stopping = Stopping(1)
    project.run(observer=stopping, stop=stopping.stop)
    place = project.placed.places().recomputed["test-sums"].place
    assert project.app.log.paused_since(place) is not None
    project.placed.resume("test-sums")
    assert project.app.log.paused_since(place) is None
    project.went_well()
    assert project.result() == fresh(project)


def test_topology_whose_result_is_computed_again_is_refused_to_reset_like_one_that_runs(project):
    refused: list[str] = []

    class Resetting:
        def on(self, event: Event) -> None:
            if not isinstance(event, EpochCommitted) or event.application != "test-sums" or refused:
                return
            for name in ("test-sums", "test-late"):
                with pytest.raises(StillRunningError, match="test-sums is running on"):
                    check_not_running(project.placed, name)
                refused.append(name)
            planned = [plan_application_removal(project.placed, name) for name in refused]
            with pytest.raises(LockError):
                remove(project.placed, project.path / "state", planned)

    project.went_well(observer=Resetting())
    assert refused == ["test-sums", "test-late"]
    assert project.result() == fresh(project)
    check_not_running(project.placed, "test-sums")


def test_topology_that_is_renamed_while_it_is_computed_again_leaves_nothing_under_its_former_name(project):
    stopping = Stopping(12)
    project.run(observer=stopping, stop=stopping.stop)
    assert project.placed.places().recomputed.keys() == {"test-sums", "test-late"}
    project.defined, project.former = replace(CHANGED, late="tardy"), {"test-tardy": ("test-late",)}
    project.went_well()
    assert project.placed.places().recomputed == {}
    project.went_well(delay_ms=0)
    assert project.placed.applications() == ["test-first", "test-seed", "test-sums", "test-tardy"]
    assert len(project.app.log.applications()) == 5  # with the places
    assert project.result() == fresh(project)


def test_topology_that_reads_another_topic_by_now_is_computed_again_with_what_it_has_read_so_far(project):
    project.defined = replace(CHANGED, late_reads="copied")
    results = project.went_well()
    switched = [each.application for each in results.applications if each.recomputation == "switched"]
    assert switched == ["test-sums", "test-late"]
    assert project.result() == fresh(project)


def test_damaged_commit_of_places_is_listed_with_a_way_out_and_the_rest_is_verified(project):
    project.went_well()
    commits = project.app.log.commits(PLACES)
    last = project.path / "log" / commits.path(commits.latest())
    last.write_bytes(last.read_bytes()[:-20])
    found = {each.application: each for each in Verification(project.placed, ["test-sums"]).run()}
    (damage,) = found[PLACES].damages
    assert f"commit {commits.latest()} of ~places is damaged" in damage.what
    assert damage.way_out.startswith("put the files of the log back from a copy")
    assert "--full-refresh" not in damage.way_out
    others = {name: each.damages for name, each in found.items() if name != PLACES}
    assert others.keys() >= {"test-first", "test-seed", "test-sums~2", "test-late~2"}
    assert set(others.values()) == {()}
