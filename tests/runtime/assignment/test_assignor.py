from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest

from headwater.runtime.assignment.assignor import (
    AssignedTask,
    AssignmentError,
    ClientAssignment,
    NotAnAssignmentError,
    TaskAssignment,
    TaskAssignmentError,
    TaskType,
    assign,
    validate_task_assignment,
)
from headwater.runtime.assignment.balance import assign_to_threads
from headwater.runtime.assignment.cluster import ApplicationState, ClientState, ProcessId, TaskInfo, UnknownLagError
from headwater.runtime.task_id import TaskId

A, B, C = ProcessId("a"), ProcessId("b"), ProcessId("c")
T00, T11, T13 = TaskId(0, 0), TaskId(1, 1), TaskId(13, 13)
STATE = ApplicationState(
    {T00: TaskInfo(T00, frozenset({"s"})), T11: TaskInfo(T11)}, {A: ClientState(A, 1), B: ClientState(B, 1)}
)


def active(task: TaskId) -> AssignedTask:
    return AssignedTask(task, TaskType.ACTIVE)


def standby(task: TaskId) -> AssignedTask:
    return AssignedTask(task, TaskType.STANDBY)


def both(*of_a: AssignedTask, b: tuple[AssignedTask, ...] = ()) -> TaskAssignment:
    return TaskAssignment([ClientAssignment(A, of_a), ClientAssignment(B, b)])


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        (both(active(T00), b=(active(T11),)), (AssignmentError.NONE, "")),
        (both(active(T00), b=(standby(T00),)), (AssignmentError.NONE, "")),
        (both(), (AssignmentError.NONE, "")),
        (both(active(T13)), (AssignmentError.UNKNOWN_TASK_ID, "13_13")),
        (both(standby(T13)), (AssignmentError.UNKNOWN_TASK_ID, "13_13")),
        (both(active(T11), b=(active(T11),)), (AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES, "1_1")),
        (both(standby(T11)), (AssignmentError.INVALID_STANDBY_TASK, "1_1")),
        (TaskAssignment([ClientAssignment(A)]), (AssignmentError.MISSING_PROCESS_ID, "b")),
        (
            TaskAssignment([ClientAssignment(A), ClientAssignment(B), ClientAssignment(C)]),
            (AssignmentError.UNKNOWN_PROCESS_ID, "c"),
        ),
        (TaskAssignment([ClientAssignment(C, [standby(T11)])]), (AssignmentError.INVALID_STANDBY_TASK, "1_1")),
        (TaskAssignment([ClientAssignment(C)]), (AssignmentError.MISSING_PROCESS_ID, "a")),
        (both(standby(T11), b=(active(T13),)), (AssignmentError.UNKNOWN_TASK_ID, "13_13")),
    ],
)
def test_first_thing_wrong_with_an_assignment_is_found(
    assignment: TaskAssignment, expected: tuple[AssignmentError, str]
) -> None:
    assert validate_task_assignment(STATE, assignment) == expected


@dataclass
class Fixed:
    """An assignor that always gives one answer, and remembers what it was told."""

    answer: TaskAssignment
    told: list[tuple[TaskAssignment, AssignmentError]] = field(default_factory=list)

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        return self.answer

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        self.told.append((assignment, error))


def test_valid_answer_is_given_by_client_and_the_assignor_is_told() -> None:
    assignor = Fixed(both(active(T00)))

    assignment = assign(assignor, STATE)

    assert assignment[A].of_type(TaskType.ACTIVE) == (T00,)
    assert assignor.told == [(assignor.answer, AssignmentError.NONE)]


def test_bad_answer_is_raised_after_the_assignor_was_told() -> None:
    assignor = Fixed(both(standby(T11)))

    with pytest.raises(TaskAssignmentError, match="a standby of a task without state: 1_1") as caught:
        assign(assignor, STATE)

    assert caught.value.error is AssignmentError.INVALID_STANDBY_TASK
    assert [str(entry) for entry in caught.value.entries] == ["ClientAssignment(a: standby 1_1)"]
    assert assignor.told == [(assignor.answer, AssignmentError.INVALID_STANDBY_TASK)]


def test_assignor_of_unknown_tasks_is_told_that_nothing_is_left() -> None:
    assignor = Fixed(both(active(T13)))

    with pytest.raises(TaskAssignmentError):
        assign(assignor, STATE)

    assert assignor.told == [(TaskAssignment(()), AssignmentError.UNKNOWN_TASK_ID)]


class Meddling(Fixed):
    """Takes its answer back once it was accepted."""

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        for client in assignment.assignment:
            client.remove_task(active(T00))


def test_answer_is_that_which_was_validated_whatever_the_assignor_does_to_it_later() -> None:
    assert assign(Meddling(both(active(T00))), STATE)[A].of_type(TaskType.ACTIVE) == (T00,)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "returned NoneType, not a TaskAssignment"),
        ({A: [T00]}, "returned dict, not a TaskAssignment"),
        (
            TaskAssignment([ClientAssignment(A, (), "soon"), ClientAssignment(B)]),  # type: ignore[arg-type]
            "asks for a follow-up at 'soon', not in whole ms since 1970",
        ),
    ],
)
def test_answer_that_cannot_be_looked_at_says_what_it_is(answer: Any, problem: str) -> None:
    with pytest.raises(NotAnAssignmentError, match=problem):
        assign(Fixed(answer), STATE)


def test_two_entries_for_a_client_are_refused() -> None:
    with pytest.raises(ValueError, match="client a has two entries"):
        TaskAssignment([ClientAssignment(A, [active(T00)]), ClientAssignment(B), ClientAssignment(A, [active(T11)])])


def test_entry_that_is_no_client_assignment_is_refused() -> None:
    with pytest.raises(TypeError, match="not 'a'"):
        TaskAssignment({"a": [T00]})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.all_tasks.pop(T00),
        lambda state: state.clients.clear(),
        lambda state: state.client_states(True).clear(),
        lambda state: state.clients[A].client_tags.update(zone="z"),
        lambda state: state.client_states(True)[A].lags.clear(),
        lambda state: state.clients[A].previous_active_tasks.add(T11),
        lambda state: setattr(state.clients[A], "rack_id", "r"),
        lambda state: setattr(state.assignment_configs, "max_warmup_replicas", 9),
        lambda state: setattr(state.all_tasks[T00], "state_bytes", 0),
    ],
)
def test_what_an_assignor_is_given_cannot_be_changed(change: Callable[[Any], object]) -> None:
    asked = ApplicationState(STATE.all_tasks, STATE.clients, lookup_lags=lambda: {A: {T00: 1}, B: {T00: 2}})

    with pytest.raises((AttributeError, FrozenInstanceError)):
        change(asked)


def test_one_task_in_two_roles_on_a_client_is_refused() -> None:
    with pytest.raises(ValueError, match="0_0"):
        ClientAssignment(A, [active(T00), standby(T00)])


def test_assigning_a_task_again_changes_its_role_and_removing_takes_any() -> None:
    client = ClientAssignment(A, [active(T11), active(T00)])
    client.assign_task(standby(T00))
    assert client.tasks == {T00: standby(T00), T11: active(T11)}

    client.remove_task(active(T00))
    assert list(client.tasks) == [T11]


def test_previous_tasks_are_sorted_by_lag_then_id() -> None:
    client = ClientState(A, 1, frozenset({T13, T11}), frozenset({T00}), lags={T00: 5, T11: 5, T13: -2})

    assert client.prev_tasks_by_lag() == [T13, T00, T11]


@pytest.mark.parametrize("lags", [None, {T11: 1}])
def test_lag_that_was_not_computed_is_an_error(lags: dict[TaskId, int] | None) -> None:
    with pytest.raises(UnknownLagError, match="0_0"):
        ClientState(A, 1, lags=lags).lag_for(T00)


def test_tasks_are_dealt_to_threads_by_id() -> None:
    tasks = {TaskId(0, 2), TaskId(0, 0), TaskId(0, 1), TaskId(0, 10), TaskId(1, 0)}

    assert assign_to_threads(tasks, 2) == (
        (TaskId(0, 0), TaskId(0, 2), TaskId(1, 0)),
        (TaskId(0, 1), TaskId(0, 10)),
    )


def test_threads_without_a_task_are_there_too() -> None:
    assert assign_to_threads([T00], 3) == ((T00,), (), ())
