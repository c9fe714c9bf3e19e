"""What is told at the end of a run."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.cli.results import show_run
from headwater.runtime.driver.reports.results import ApplicationResult, RunResults
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
    [(1, "gave 0_0 to nobody: it does not run"), (12, "0_9, and 2 more to nobody: they do not run")],
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
