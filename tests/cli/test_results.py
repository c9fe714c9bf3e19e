"""What is told at the end of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.cli.printing.results import show_run
from headwater.errors import HeadwaterError
from headwater.runtime.driver.results import ApplicationResult, RunResults
from headwater.runtime.driver.status import RunStatus
from headwater.runtime.placing.assigned import Assigned, AssignorFailure
from headwater.runtime.task_id import TaskId


def told(capsys: pytest.CaptureFixture[str], **assigned: Any) -> str:
    placement = Assigned("mine", **assigned).summary()
    result = ApplicationResult("a-b", "caught_up", 1, 2, 30, 0.5, placement=placement)
    show_run(RunResults(0, 0.5, (result,)))
    return capsys.readouterr().err


def test_assignment_that_was_not_carried_out_is_told_with_its_entries(capsys: pytest.CaptureFixture[str]) -> None:
    failure = AssignorFailure("UNKNOWN_TASK_ID", "the assignment has a task that does not exist: 7_7", ("c1: 7_7",))

    assert told(capsys, failure=failure) == (
        "warning: a-b: tasks stay where they were, and new ones are spread evenly, as assignor mine failed: "
        "the assignment has a task that does not exist: 7_7\n    c1: 7_7\n"
    )


@pytest.mark.parametrize(
    ("count", "sentence"),
    [(1, "gave 0_0 to no client: it does not run"), (12, "0_9, and 2 more to no client: they do not run")],
)
def test_tasks_that_nobody_was_given_are_told(capsys: pytest.CaptureFixture[str], count: int, sentence: str) -> None:
    assert told(capsys, unassigned=tuple(TaskId(0, number) for number in range(count))).endswith(f"{sentence}\n")


def test_nothing_is_told_of_an_assignment_that_is_carried_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys) == ""


def test_run_before_seed_is_told_how_topics_are_filled(capsys: pytest.CaptureFixture[str]) -> None:
    def result(*empty: str) -> ApplicationResult:
        return ApplicationResult("a-b", "caught_up", 1, 0, 0, 0.5, empty=empty)

    show_run(RunResults(0, 0.5, (result("orders", "prices"),)))
    told = capsys.readouterr().out
    assert "a-b: there are no records in orders, prices yet: `headwater seed` fills them from their seeds" in told
    assert "consumed all its input" not in told

    show_run(RunResults(0, 0.5, (result(),)))
    assert "consumed all its input" in capsys.readouterr().out


def test_dropped_records_are_told_below_the_table_that_counts_them(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = RunStatus("a-b", 1, "host", None, 0, 0, 1000, 3, 2, False, (), epochs=7, seconds={"read": 2.0})
    show_run(RunResults(0, 3.0, (ApplicationResult("a-b", "caught_up", 1, 2, 3, 3.0, {"late": 2}, metrics=metrics),)))
    assert capsys.readouterr().out.splitlines() == [
        "application  status     records  commits  dropped  run time",
        "a-b          caught up        3        2        2     3.0 s",
        "  a-b: 2 records dropped, late",
        "",
        "application  records/s  epoch time  most of it",
        "a-b                  1       2.0 s  read 100%",
    ]


def test_line_of_dead_letters_names_their_topic(capsys: pytest.CaptureFixture[str]) -> None:
    dropped = {"topologies/b.yml:6:dead_letter": 2, "topologies/b.yml:6:skipped": 1}
    result = ApplicationResult("a-b", "caught_up", 1, 2, 3, 3.0, dropped, dead_letters=("b_orders_dead_letter",))
    show_run(RunResults(0, 3.0, (result,)))
    told = capsys.readouterr().out.splitlines()
    assert "  a-b: 2 records dropped, topologies/b.yml:6:dead_letter; see b_orders_dead_letter" in told
    assert "  a-b: 1 record dropped, topologies/b.yml:6:skipped" in told


@pytest.mark.parametrize("error", ["commit 1 of a-b is damaged", "the disk is full"])
def test_error_says_once_of_which_application_it_is(capsys: pytest.CaptureFixture[str], error: str) -> None:
    show_run(RunResults(0, 3.0, (ApplicationResult("a-b", "failed", 1, 2, 3, 3.0, error=error),)))
    said = capsys.readouterr().err
    assert said.count("a-b") == 1
    assert error in said


def test_way_out_of_an_error_stands_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    raised = HeadwaterError("t.yml:6: record a[0]@0 cannot be processed\n  record: {}", "fix the step and run again")
    failed = ApplicationResult("a-b", "failed", 1, 2, 3, 3.0, error=str(raised), raised=raised)

    show_run(RunResults(0, 3.0, (failed,)))

    assert capsys.readouterr().err.splitlines() == [
        "error: a-b: t.yml:6: record a[0]@0 cannot be processed",
        "  record: {}",
        "  hint: fix the step and run again",
    ]


def test_run_is_told_where_its_time_went(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = {"planning": 0.1, "read": 2.0, "sql": 5.0, "operators": 3.0, "state": 0.0, "write": 1.0, "commit": 0.1}
    metrics = RunStatus("a-b", 1, "host", None, 0, 0, 1000, 90_000, 2, False, (), epochs=7, seconds=seconds)
    done = ApplicationResult("a-b", "caught_up", 1, 2, 90_000, 30.0, metrics=metrics)
    idle = ApplicationResult("a-c", "caught_up", 1, 0, 0, 1.0, metrics=replace(metrics, epochs=0, seconds={}))

    show_run(RunResults(0, 31.0, (done, idle)))
    assert capsys.readouterr().out.split("\n\n")[1].splitlines() == [
        "application  records/s  epoch time  most of it",
        "a-b              3,000      11.2 s  sql 45%, operators 27%, read 18%",
    ]
    show_run(RunResults(0, 1.0, (idle,)))
    assert "most of it" not in capsys.readouterr().out
