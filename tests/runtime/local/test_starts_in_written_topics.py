"""Where a reader begins in a topic that another topology writes, and what becomes of its position as things change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.changes.model import Verdict
from headwater.runtime.driver.runs import changes_at_start
from headwater.runtime.progress.rewinding import Whence, plan_rewind, rewind
from headwater.tests.runtime.local.moved_project import MovedProject
from headwater.tests.runtime.local.summing import PARTITIONS

FIRST, MORE = range(20), range(20, 30)
ALONE = {"one": ("copies", "sums")}
WITH_READER = {**ALONE, "reader": ("late",)}


@pytest.fixture
def project(tmp_path: Path) -> MovedProject:
    """Topology one has written `sums`, several tasks into the same partition, and nobody reads it."""
    begun = MovedProject(tmp_path / "project")
    begun.laid_out(**ALONE)
    begun.append(FIRST)
    begun.went_well()
    state = begun.state("test-one")
    assert max(len(state.lane_ends("sums", partition)) for partition in range(PARTITIONS)) > 1
    return begun


Row = tuple[str, int, int]


def rows(project: MovedProject, topic: str) -> list[list[Row]]:
    """Key, count and time of the records of each partition in their order."""
    found: list[list[Row]] = [[] for _ in range(PARTITIONS)]
    for row in project.records(project.defined.topic(topic)):
        found[row["partition"]].append((row["key.k"], row["value.n"], row["_timestamp"]))
    return found


def reading(project: MovedProject, **changes: Any) -> None:
    project.defined = replace(project.defined, flows=WITH_READER, **changes)


def assert_read(project: MovedProject, expected: Sequence[Sequence[Row]]) -> None:
    """Of each key in order: the tasks of a reader take the records of several writers by their times."""
    read = rows(project, "late")
    assert [sorted(each) for each in read] == [sorted(each) for each in expected]


def since(found: Sequence[Sequence[Row]], time: int) -> list[list[Row]]:
    """From the first record of each partition that has this time or a later one."""
    firsts = [next((n for n, row in enumerate(each) if row[2] >= time), len(each)) for each in found]
    return [list(each[first:]) for each, first in zip(found, firsts, strict=True)]


@pytest.mark.parametrize("start", ["earliest", "latest", "1970-01-01T00:00:12Z"])
def test_new_reader_begins_where_start_says_and_keeps_its_position_under_new_names(
    project: MovedProject, start: str
) -> None:
    before = rows(project, "sums")
    skipped = {"earliest": 0, "latest": 10**9, "1970-01-01T00:00:12Z": 12_000}[start]
    expected = since(before, skipped)
    reading(project, starts={"late": start})
    project.went_well()
    assert_read(project, expected)

    project.append(MORE)
    flows = {"uno": ("copies", "sums"), "leser": ("late",)}
    project.defined = replace(project.defined, flows=flows, names={"late": "spaet"})
    project.went_well(former={"test-uno": ("test-one",), "test-leser": ("test-reader",)})
    after = rows(project, "sums")
    news = [each[len(old) :] for each, old in zip(after, before, strict=True)]
    assert sum(map(len, news)) == len(MORE) * PARTITIONS
    expected = [[*old, *new] for old, new in zip(expected, news, strict=True)]
    assert_read(project, expected)

    project.defined = replace(project.defined, starts={"late": "latest" if start == "earliest" else "earliest"})
    project.went_well()  # too late: it has a position
    assert_read(project, expected)


def test_position_after_a_rewind_counts_and_not_the_start(project: MovedProject) -> None:
    reading(project, starts={"late": "latest"})
    project.went_well()
    assert_read(project, [[]] * PARTITIONS)
    planned = plan_rewind(project.placed, "test-reader", "sums", Whence("time", 12_000), (), fed_by="test-seed")
    rewind(project.placed, project.path / "state", planned)
    project.went_well()
    assert_read(project, since(rows(project, "sums"), 12_000))


def test_reader_that_was_removed_and_comes_back_goes_on_where_it_was(project: MovedProject) -> None:
    reading(project)
    project.went_well()
    project.laid_out(**ALONE)
    project.append(MORE)
    project.went_well()
    reading(project, starts={"late": "latest"})
    project.went_well()
    assert_read(project, rows(project, "sums"))


def test_new_reader_of_a_topic_that_has_lost_records_begins_with_those_that_are_left(project: MovedProject) -> None:
    project.app.clean = True
    project.defined = replace(project.defined, retention_ms=1)
    project.append(MORE)
    project.went_well()
    left = rows(project, "sums")
    assert sum(map(len, left)) < (len(FIRST) + len(MORE)) * PARTITIONS
    reading(project)
    project.app.clean = False
    project.went_well()
    assert_read(project, left)


def test_new_reader_from_the_last_record_on_holds_up_no_recomputation(project: MovedProject) -> None:
    """It has no past that it could lose."""
    moved = {"one": ("copies",), "two": ("sums",), "reader": ("late",)}
    project.defined = replace(project.defined, flows=moved, starts={"late": "latest"})
    project.went_well()
    assert_read(project, [[]] * PARTITIONS)
    project.append(MORE)
    project.went_well()
    assert sum(map(len, rows(project, "late"))) == len(MORE) * PARTITIONS


def test_moved_flow_that_began_at_the_last_record_is_refused_with_the_way_out(project: MovedProject) -> None:
    reading(project, starts={"late": "latest"})
    project.went_well()
    project.append(MORE)
    project.went_well()
    project.defined = replace(project.defined, flows={**ALONE, "reader": (), "new": ("late",)})
    topologies = [topology for topology, _ in project.defined.topologies()]
    judged = changes_at_start(topologies, project.app.settings(), project.owned)
    (refused,) = [each for each in judged.changes["test-new"] if each.kind == "topic.incomplete"]
    assert (refused.verdict, refused.ways[1].what) == (
        Verdict.ERROR,
        "remove `start: latest`: then it is computed from all records",
    )
    project.defined = replace(project.defined, starts={})
    project.went_well()
    assert_read(project, rows(project, "sums"))
