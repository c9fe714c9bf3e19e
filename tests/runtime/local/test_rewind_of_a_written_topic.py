"""A reader that is moved in a topic that another topology writes, also after its result was computed again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.progress.rewinding import EARLIEST, Whence, plan_rewind, rewind
from headwater.tests.runtime.local.recomputed_project import MAX, Definition, RecomputedProject


@pytest.mark.parametrize("recomputed", [False, True])
def test_reader_of_a_written_topic_that_is_moved_reads_from_there_on(tmp_path: Path, recomputed: bool) -> None:
    project = RecomputedProject(tmp_path / "project")
    project.append(range(20))
    project.went_well()
    if recomputed:
        project.defined = replace(Definition(), aggregates=(*Definition().aggregates, MAX))
        project.went_well()
    whole = project.records(project.defined.sums)

    for whence, first in ((EARLIEST, 0), (Whence("time", 12_000), 12_000)):
        planned = plan_rewind(project.placed, "test-late", "sums", whence, fed_by="test-seed")
        rewind(project.placed, project.path / "state", planned)
        results = {each.application: each.records for each in project.went_well().applications}
        expected = sum(row["_timestamp"] >= first for row in whole)
        assert results == {"test-first": 0, "test-sums": 0, "test-late": expected}
        assert sum(move.then for move in planned.moves) == expected
