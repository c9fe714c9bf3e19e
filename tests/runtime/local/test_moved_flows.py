"""A flow that is in another topology now takes its topic with it: one commit switches it and all that reads it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.changes.model import Verdict
from headwater.runtime.driver.client_events import StoreRestored
from headwater.runtime.driver.events import EpochCommitted, RecomputationBegun, ResultSwitched
from headwater.runtime.driver.runs import changes_at_start
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.placed_log import PLACES
from headwater.runtime.log.places import Places
from headwater.tests.runtime.local.ended_process import ended_at_commit
from headwater.tests.runtime.local.local_application import Stopping
from headwater.tests.runtime.local.moved_project import BEFORE, Layout, MovedProject, moved_from_the_start
from headwater.tests.runtime.local.test_rebalance import Story

FIRST, MORE, LAST = range(20), range(20, 40), range(40, 50)
MOVED = {"one": ("sums",), "two": ("late", "copies"), "reader": ("again",)}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a project that has run, and that has got more records since."""
    made = MovedProject(tmp_path_factory.mktemp("begun") / "project")
    made.append(FIRST)
    made.went_well()
    made.append(MORE)
    return made.path


@pytest.fixture
def project(begun: Path, tmp_path: Path) -> MovedProject:
    return MovedProject(Path(shutil.copytree(begun, tmp_path / "project")))


def fresh(project: MovedProject, records: range = range(40)) -> Mapping[str, Any]:
    """What it would be, had its flows been there from the start."""
    assert project.defined == Layout(project.defined.flows)
    return moved_from_the_start(project.defined.flows, records)


LAYOUTS = {
    "to another topology": MOVED,
    "with its store": {"one": ("copies",), "two": ("sums", "late"), "reader": ("again",)},
    "to a new topology": {"one": ("sums",), "two": ("late",), "new": ("copies",), "reader": ("again",)},
    "into the one that reads it": {"one": ("sums",), "two": ("late",), "reader": ("copies", "again")},
    "each to the other": {"two": ("sums",), "one": ("copies", "late"), "reader": ("again",)},
    "a topology split in two": {"new": ("copies",), "newer": ("sums",), "two": ("late",), "reader": ("again",)},
    "two topologies joined": {"one": ("copies", "sums", "late"), "reader": ("again",)},
    "two topologies joined into a new one": {"new": ("copies", "sums", "late"), "reader": ("again",)},
}


FIRST_LAYOUTS = ("a topology split in two", "two topologies joined into a new one")
"""Those that `make test` runs. The others have their kinds of moves one at a time: `make soak` runs them."""


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(layout, marks=[] if name in FIRST_LAYOUTS else [pytest.mark.soak], id=name)
        for name, layout in LAYOUTS.items()
    ],
)
def test_result_after_a_move_is_that_of_a_project_that_was_so_from_the_start(project, layout):
    project.laid_out(**layout)
    project.went_well()
    expected = fresh(project)
    assert project.result() == expected
    assert set(project.placed.applications()) == {"test-seed", *project.owned}
    story = Story()
    project.went_well(observer=story, delay_ms=0)
    assert [story.of(kind) for kind in (EpochCommitted, RecomputationBegun, StoreRestored)] == [[], [], []]
    assert project.result() == expected
    project.append(LAST)
    project.went_well()
    assert project.result() == fresh(project, range(50))
    assert [each.damages for each in Verification(project.placed).run() if each.damages] == []


def test_topology_that_loses_a_flow_goes_on_and_drops_its_records_later(project):
    project.laid_out(**MOVED)
    story = Story()
    project.went_well(observer=story)
    assert [each.application for each in story.of(ResultSwitched)] == ["test-two", "test-reader"]
    assert "copied" in project.state("test-one").written()
    assert list(project.placed.places().handed) == ["test-one"]
    project.went_well(delay_ms=0)
    assert "copied" not in project.state("test-one").written()
    assert project.placed.places().handed == {"test-one": {"copied": 0}}
    project.laid_out(**BEFORE)  # and back: the topic begins again there, as its records are gone
    project.went_well()
    assert project.result() == fresh(project)
    assert project.placed.places().handed == {}


def test_plan_names_the_flow_and_both_topologies(project):
    project.laid_out(**MOVED)
    topologies = [topology for topology, _ in project.defined.topologies()]
    judged = changes_at_start(topologies, project.app.settings(), project.owned)
    told = {
        name: [(each.kind, each.verdict, each.what) for each in changes] for name, changes in judged.changes.items()
    }
    moved = ("flow.moved", Verdict.REPLACE, "it moved here from topology one")
    assert (told["test-one"], told["test-two"][0]) == (
        [("flow.moved", Verdict.COMPATIBLE, "it moved to topology two")],
        moved,
    )
    assert ("topic.writer", Verdict.REPLACE) in [each[:2] for each in told["test-reader"]]
    assert judged.recomputed == ("test-two", "test-reader")


@pytest.mark.parametrize("commits", [9, 25, *(pytest.param(each, marks=pytest.mark.soak) for each in (1, 5, 13, 17))])
def test_move_that_ends_at_any_commit_is_gone_on_with(project, commits):
    project.laid_out(**MOVED)
    stopping = Stopping(commits)
    project.run(observer=stopping, stop=stopping.stop)
    project.went_well()
    assert project.result() == fresh(project)


@pytest.mark.parametrize(
    ("number", "when"),
    [(1, "after"), (2, "after"), *(pytest.param(each, "before", marks=pytest.mark.soak) for each in (1, 2))],
)
@pytest.mark.parametrize("layout", ["two topologies joined into a new one"])
def test_move_that_ends_at_a_commit_of_places_is_gone_on_with(project, number, when, layout):
    project.laid_out(**LAYOUTS[layout])
    with ended_at_commit(project.app.log, PLACES, number, when):
        project.run()
    project.went_well()
    assert project.result() == fresh(project)


def test_move_that_is_undone_leaves_the_topic_where_it_was(project):
    project.laid_out(**MOVED)
    stopping = Stopping(14)
    project.run(observer=stopping, stop=stopping.stop)
    project.laid_out(**BEFORE)
    project.went_well()
    assert project.result() == fresh(project)
    assert (project.placed.places().names, project.placed.places().handed) == ({}, {})


def test_writer_of_before_that_is_not_selected_is_named_with_the_way_out(project):
    project.laid_out(**MOVED)
    refused, _ = project.run(select=slice(1, 3)).applications
    assert "headwater run --select 'one two+'" in str(refused.error)
    assert project.placed.places() == Places()


def test_topology_that_only_looks_renamed_is_not_computed_again_before_somebody_says_so(project):
    project.laid_out(new=("copies", "sums"), two=("late",), reader=("again",))
    refused = project.run().applications[0]
    assert "if new is one under a new name, put `was: one` into its file" in str(refused.error)
    assert project.placed.places() == Places()


def test_removed_topology_with_another_topic_stays_with_it(project):
    copied = project.defined.topic("copied")
    project.laid_out(two=("sums", "late"))
    project.went_well()
    assert project.result() == fresh(project)
    assert project.placed.applications() == ["test-one", "test-reader", "test-seed", "test-two"]
    assert len(project.records(copied)) == 80
