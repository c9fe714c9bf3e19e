from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headwater import Project
from headwater.benchmarks.suite import inputs
from headwater.benchmarks.suite.sides.process import Side, SideError
from headwater.benchmarks.suite.sides.project import TABLE, Feeding, link_log, write_log, write_project
from headwater.benchmarks.suite.sizes import Size
from headwater.benchmarks.suite.workloads import ALONE, SMALL, WORKLOADS, Workload

ECHO = "tests.benchmarks.echo_side"
TINY = Size(records=40, keys=10, segments=2)


def test_side_takes_what_it_is_told_and_nothing_else_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    with Side(ECHO) as side:
        first, both = side.take(3), side.take(4, 5)

    assert (first.seconds, both.seconds) == (3.0, 9.0)
    assert first.waited > 0
    assert capfd.readouterr() == ("", "")


def test_side_that_ends_is_an_error_with_its_exit_code_and_what_it_said() -> None:
    with Side(ECHO) as side, pytest.raises(SideError) as found:
        side.take(-1)

    assert str(found.value).endswith("has ended with 3:\nsomething that a library prints")


@pytest.mark.parametrize("workload", [*WORKLOADS.values(), *ALONE.values(), SMALL], ids=lambda each: each.name)
def test_project_of_a_workload_has_no_findings(workload: Workload, tmp_path: Path) -> None:
    write_project(tmp_path, workload, TINY, "task")

    with Project.load(tmp_path) as project:
        assert project.parse().diagnostics == ()


def test_prepared_epoch_is_there_once_it_is_fed(tmp_path: Path) -> None:
    write_log("typed", tmp_path / "prepared", 2, TINY)
    root = tmp_path / "project"
    write_project(root, WORKLOADS["table_join"], TINY, "task")
    link_log(tmp_path / "prepared", root)
    feeding = Feeding(root, "typed", TINY)

    with Project.load(root) as project:
        feeding.feed(TABLE, 0)
        table = [each.key for each in project.read(TABLE)]
        feeding.feed("records", 1)
        fed = project.read("records").to_arrow()

    assert len(table) == TINY.keys
    expected = inputs.epoch("typed", 1, TINY)
    assert sorted(fed["ts"].to_pylist()) == expected["ts"].to_pylist()


@pytest.mark.parametrize("kind", inputs.COLUMNS)
def test_input_is_the_same_each_time_and_has_the_columns_of_its_kind(kind: str) -> None:
    epoch = inputs.epoch(kind, 1, TINY)

    assert epoch == inputs.epoch(kind, 1, TINY)
    assert epoch != inputs.epoch(kind, 2, TINY)
    assert epoch.column_names == ["k", *inputs.COLUMNS[kind]]


def test_json_values_have_the_length_that_is_said() -> None:
    values = inputs.epoch("json", 0, Size(records=500))["value"]

    assert {len(value) for value in values.to_pylist()} == {inputs.JSON_BYTES}


@pytest.mark.parametrize(("size", "files"), [(Size(records=40, keys=10), 4), (TINY, 2)])
def test_files_of_the_peer_have_all_records(size: Size, files: int, tmp_path: Path) -> None:
    inputs.write_files("typed", tmp_path / "files", 1, size)

    found = sorted((tmp_path / "files" / inputs.epoch_name(0)).iterdir())
    rows = pa.concat_tables([pa.parquet.read_table(file) for file in found])  # type: ignore[attr-defined]
    assert len(found) == files
    assert rows.sort_by("ts") == inputs.epoch("typed", 0, size)


def test_side_that_never_answers_is_ended() -> None:
    with pytest.raises(SideError, match="had no answer within"), Side(ECHO, "silent", most_seconds=0.2):
        pass
