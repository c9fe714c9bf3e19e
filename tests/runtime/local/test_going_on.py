"""A run goes on from what is committed where a changed project allows it, and that was chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.runtime.driver.runs import changes_at_start
from headwater.runtime.ir.windows import Window
from headwater.runtime.log.places import Places
from headwater.tests.runtime.local.local_application import Stopping
from headwater.tests.runtime.local.recomputed_project import MAX, Definition, RecomputedProject

FIRST, MORE = range(20), range(20, 40)


def graced(grace_ms: int, **more: Any) -> Definition:
    return Definition(window=Window(10_000, 10_000, grace_ms), **more)


def test_run_that_goes_on_drops_the_result_that_another_one_has_begun(tmp_path):
    project = RecomputedProject(tmp_path / "project", defined=graced(1_000))
    project.append(FIRST)
    project.went_well()
    before = project.result()
    project.defined = graced(100_000)
    stopping = Stopping(4)
    project.run(observer=stopping, stop=stopping.stop)
    assert sorted(project.placed.places().recomputed) == ["test-late", "test-sums"]

    project.went_well(go_on=True)

    assert (project.placed.places().recomputed, project.placed.places().names) == ({}, {})
    assert project.result() == before
    topologies = [topology for topology, _ in project.defined.topologies()]
    assert not any(changes_at_start(topologies, project.app.settings()).changes.values())  # it is for one run
    project.append(MORE)
    project.went_well()
    assert project.result() != before


@pytest.mark.parametrize("lost", [{"start": "latest"}, {"copied_retention_ms": 1}])
def test_change_that_cannot_be_computed_again_names_both_ways_and_the_first_one_works(tmp_path, lost):
    project = RecomputedProject(tmp_path / "project", defined=graced(1_000, **lost))
    project.append(FIRST)
    project.app.clean = True
    project.went_well()
    project.went_well()
    before = project.records(project.defined.sums)
    project.defined = graced(100_000, **lost)

    refused = project.run().applications[1]

    assert "its grace was 1s, is 100s" in str(refused.error)
    for way in ("headwater run --continue", "headwater run --full-refresh --select 'sums+'"):
        assert str(refused.error).count(way) == 1
    project.went_well(go_on=True)
    assert project.records(project.defined.sums) == before
    assert project.placed.places() == Places()

    other = replace(project.defined, aggregates=(*Definition().aggregates, MAX))
    project.defined = replace(other, window=Window(10_000, 10_000, 7_000))
    assert "--continue" not in str(project.run().applications[1].error)
