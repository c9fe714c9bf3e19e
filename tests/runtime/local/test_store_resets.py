"""Stores that somebody wants to be computed again: the next run does it, beside the rows that are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.runtime.changes.model import Verdict
from headwater.runtime.driver.events import ApplicationStarted, EpochCommitted, Event, RecomputationBegun
from headwater.runtime.driver.runs import changes_at_start
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts.parts import Snapshot
from headwater.runtime.progress.resets import CommittedMeanwhileError, cancel_reset, refresh_fully, request_reset
from headwater.runtime.progress.rewinding import EARLIEST, plan_rewind, rewind
from headwater.tests.runtime.local.local_application import PROJECT, Stopping
from headwater.tests.runtime.local.recomputed_project import RecomputedProject
from headwater.tests.runtime.local.renamed_project import Names, begun
from headwater.tests.runtime.local.test_rebalance import Story


@pytest.fixture
def project(tmp_path: Path) -> RecomputedProject:
    """One whose store has counted all records twice."""
    found = RecomputedProject(tmp_path / "project")
    found.append(range(40))
    found.went_well()
    seeds = f"{PROJECT}-seed"
    rewind(
        found.placed,
        found.path / "state",
        plan_rewind(found.placed, "test-sums", "copied", EARLIEST, fed_by=seeds, keep_state=True),
    )
    found.went_well()
    assert found.result() != fresh(found)
    return found


def fresh(project: RecomputedProject) -> object:
    other = RecomputedProject(project.path.parent / "fresh")
    if not other.app.log.applications():
        other.append(range(40))
    other.went_well()
    return other.result()


def ask(project: RecomputedProject, change=request_reset) -> None:
    topology = project.defined.topologies()[1][0]
    change(project.placed, topology, project.state("test-sums").incarnation, ["totals"])


def recomputed(project: RecomputedProject) -> tuple[str, ...]:
    topologies = [topology for topology, _ in project.defined.topologies()]
    return changes_at_start(topologies, project.app.settings()).recomputed


def test_store_and_what_reads_it_are_computed_again_beside_the_rows_that_are_there(project):
    wrong = project.result()
    ask(project)
    assert recomputed(project) == ("test-sums", "test-late")
    assert project.result() == wrong
    story = Story()
    project.went_well(observer=story)
    assert project.result() == fresh(project)
    assert [(each.application, each.records) for each in story.of(RecomputationBegun)] == [
        ("test-sums", {"copied": 160}),
        ("test-late", {}),
    ]
    assert recomputed(project) == ()
    ask(project)
    assert project.went_well().applications[1].recomputation == "switched"
    assert project.placed.places().names["test-sums"] == "test-sums~3"
    assert project.result() == fresh(project)


@pytest.mark.parametrize("when", [ApplicationStarted, EpochCommitted])
def test_run_that_is_under_way_goes_on_and_the_next_one_computes_the_store(project, when):
    project.append(range(40, 60))

    class Asking(Story):
        def on(self, event: Event) -> None:
            super().on(event)
            if isinstance(event, when):
                ask(project)

    story = Asking()
    project.went_well(observer=story, max_records=5)
    assert len(story.of(EpochCommitted)) > 5
    assert project.state("test-sums").resets == ("totals",)
    assert [each.recomputation for each in project.went_well().applications] == [None, "switched", "switched"]


def test_withdrawn_reset_leaves_the_rows_also_after_a_run_has_begun_with_it(project):
    wrong = project.result()
    ask(project)
    stopping = Stopping(4)
    project.run(observer=stopping, stop=stopping.stop)
    assert sorted(project.placed.places().recomputed) == ["test-late", "test-sums"]
    ask(project, cancel_reset)
    project.went_well()
    assert project.result() == wrong
    assert (project.placed.places().recomputed, recomputed(project)) == ({}, ())


def test_reset_of_what_has_begun_again_since_is_refused_and_needs_none(project):
    ask(project)
    before = project.state("test-sums").incarnation
    refresh_fully(project.placed, project.path / "state", ["test-sums", "test-late"])
    assert recomputed(project) == ()
    topology = project.defined.topologies()[1][0]
    for _ in range(2):
        with pytest.raises(CommittedMeanwhileError):
            request_reset(project.placed, topology, before, ["totals"])
        project.went_well()
    assert project.result() == fresh(project)


def test_reset_without_the_reader_is_refused_until_it_is_withdrawn(project):
    ask(project)
    refused = project.run(select=slice(1, 2)).applications[0]
    assert "topology late has read sums, and would have to be rebuilt with it" in str(refused.error)
    for way in ("headwater reset sums --store totals --withdraw", "headwater run --select 'sums+'"):
        assert str(refused.error).count(way) == 1
    assert "undo the change" not in str(refused.error)
    ask(project, cancel_reset)
    project.went_well(select=slice(1, 2))


@pytest.mark.parametrize("asked", ["before", "after"])
def test_reset_counts_for_a_store_under_its_new_name(tmp_path, asked):
    project = begun(tmp_path)
    renamed = Names(store="balances", was={"balances": ("totals",)})
    incarnation = LogState.load(project.app.log.commits("test-app")).incarnation
    if asked == "before":
        request_reset(project.app.log, project.names.topologies()[0], incarnation, ["totals"])
    project.names = renamed
    if asked == "after":
        request_reset(project.app.log, renamed.topologies()[0], incarnation, ["balances"])
    changes = changes_at_start(renamed.topologies(), project.app.settings()).changes["test-app"]
    assert [each.subject.name for each in changes if each.kind == "store.reset"] == ["balances"]
    assert LogState.load(project.app.log.commits("test-app")).resets == ("totals",)
    assert {each.verdict for each in changes if each.kind != "store.renamed"} == {Verdict.REPLACE}


def test_snapshot_of_a_state_with_resets_is_refused_by_versions_that_would_forget_them(project):
    before = json.loads(project.state("test-sums").snapshot())["format"]
    ask(project)
    data = project.state("test-sums").snapshot()
    assert before < json.loads(data)["format"] == 9
    assert Snapshot.decode(data).resets == ("totals",)
