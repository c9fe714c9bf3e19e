"""Assignors whose answers are of no use in ways that no AssignmentError has: each is told in a sentence."""

from __future__ import annotations

from asyncio import CancelledError
from typing import Any

import pytest

from headwater.runtime.assignment.assignor import (
    AssignedTask,
    AssignmentError,
    ClientAssignment,
    NotAnAssignmentError,
    TaskAssignment,
    TaskType,
    run_assignor,
)
from headwater.runtime.assignment.cluster import ApplicationState, ClientState, ProcessId, TaskInfo
from headwater.runtime.task_id import TaskId

A, TASK = ProcessId("a"), TaskId(0, 0)
STATE = ApplicationState({TASK: TaskInfo(TASK)}, {A: ClientState(A, 1)})


class Says:
    """Answers with what it was made with, and ends the process where that is told."""

    def __init__(self, answer: Any, *, ends_when_told: bool = False) -> None:
        self.answer = answer
        self.ends_when_told = ends_when_told

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return TaskAssignment(self.answer)

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        if self.ends_when_told:
            raise SystemExit(0)


@pytest.mark.parametrize("name", [7, None, b"a"])
def test_process_id_that_is_no_text_is_refused(name: Any) -> None:
    with pytest.raises(NotAnAssignmentError, match="which is not a process id"):
        run_assignor(Says([ClientAssignment(A), ClientAssignment(name)]), STATE)


@pytest.mark.parametrize(
    "task",
    [AssignedTask(TASK, "active"), AssignedTask(TASK, None), AssignedTask("0_0", TaskType.ACTIVE)],  # type: ignore[arg-type]
)
def test_task_that_is_none_is_refused_and_not_passed_over(task: AssignedTask) -> None:
    with pytest.raises(NotAnAssignmentError, match="is not an AssignedTask of a TaskId and a TaskType"):
        run_assignor(Says([ClientAssignment(A, [task])]), STATE)


@pytest.mark.parametrize(
    "assignor",
    [Says(SystemExit(0)), Says([ClientAssignment(A)], ends_when_told=True)],
    ids=["when asked", "when told"],
)
def test_assignor_that_ends_the_process_is_an_error(assignor: Says) -> None:
    with pytest.raises(NotAnAssignmentError, match=r"wants to end the process: SystemExit\(0\)"):
        run_assignor(assignor, STATE)


def test_assignor_without_its_methods_is_an_error_that_names_them() -> None:
    with pytest.raises(NotAnAssignmentError, match="has no method assign: it is of <class 'object'>"):
        run_assignor(object(), STATE)  # type: ignore[arg-type]


def test_assignor_that_raises_what_no_plugin_should_is_an_error() -> None:
    with pytest.raises(NotAnAssignmentError, match=r"wants to end the process: CancelledError\('stop'\)"):
        run_assignor(Says(CancelledError("stop")), STATE)
