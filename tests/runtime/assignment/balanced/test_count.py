from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.assignment.assignor import (
    AssignmentError,
    TaskAssignment,
    TaskType,
    assign,
    validate_task_assignment,
)
from headwater.runtime.assignment.balanced import BalancedCount
from headwater.runtime.assignment.cluster import ApplicationState, ClientState, ProcessId, TaskInfo
from headwater.runtime.task_id import TaskId

Placement = dict[str, set[TaskId]]


def cluster(
    tasks: int, threads: Mapping[str, int], previous: Mapping[str, set[TaskId]] | None = None, stateful: int = 0
) -> ApplicationState:
    """Tasks 0_0, 0_1...; the last `stateful` of them have a store."""
    ids = [TaskId(0, partition) for partition in range(tasks)]
    infos = {task: TaskInfo(task, frozenset({"s"} if task.partition >= tasks - stateful else ())) for task in ids}
    clients = {
        ProcessId(name): ClientState(
            ProcessId(name), count, previous_active_tasks=frozenset((previous or {}).get(name, ()))
        )
        for name, count in threads.items()
    }
    return ApplicationState(infos, clients)


def place(state: ApplicationState) -> Placement:
    return {name: set(client.of_type(TaskType.ACTIVE)) for name, client in assign(BalancedCount(), state).items()}


def counts(placement: Placement) -> dict[str, int]:
    return {name: len(tasks) for name, tasks in placement.items()}


def ids(*partitions: int) -> set[TaskId]:
    return {TaskId(0, partition) for partition in partitions}


def test_tasks_are_shared_by_threads() -> None:
    assert counts(place(cluster(12, {"a": 1, "b": 2}))) == {"a": 4, "b": 8}


def test_remainder_goes_to_the_largest_claim() -> None:
    assert counts(place(cluster(4, {"a": 1, "b": 2}))) == {"a": 1, "b": 3}


def test_client_that_joins_gets_its_share_and_nothing_else_moves() -> None:
    before = {"a": ids(0, 1, 2, 3), "b": ids(4, 5, 6, 7)}

    after = place(cluster(8, {"a": 1, "b": 1, "c": 1}, before))

    assert counts(after) == {"a": 3, "b": 3, "c": 2}
    assert after["a"] < before["a"]
    assert after["b"] < before["b"]


def test_tasks_of_a_client_that_left_are_shared_and_nothing_else_moves() -> None:
    before = {"a": ids(0, 1), "b": ids(2, 3)}

    after = place(cluster(6, {"a": 1, "b": 1}, before))

    assert counts(after) == {"a": 3, "b": 3}
    assert after["a"] > before["a"]
    assert after["b"] > before["b"]


def test_balanced_placement_stays_as_it_is() -> None:
    before = {"a": ids(1, 3, 4), "b": ids(0, 2)}

    assert place(cluster(5, {"a": 1, "b": 1}, before)) == before


def test_task_with_state_stays_before_one_without() -> None:
    after = place(cluster(4, {"a": 1, "b": 1}, {"a": ids(0, 1, 2, 3)}, stateful=2))

    assert after == {"a": ids(2, 3), "b": ids(0, 1)}


def test_more_clients_than_tasks_leaves_some_without() -> None:
    assert sorted(counts(place(cluster(2, {"a": 1, "b": 1, "c": 1}))).values()) == [0, 1, 1]


def test_without_clients_nobody_has_anything() -> None:
    assert place(cluster(3, {})) == {}


def test_task_that_two_clients_say_they_had_goes_to_one() -> None:
    after = place(cluster(2, {"a": 1, "b": 1}, {"a": ids(0), "b": ids(0)}))

    assert after == {"a": ids(0), "b": ids(1)}


@st.composite
def clusters(draw: st.DrawFn) -> ApplicationState:
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1))
    tasks = draw(st.integers(0, 20))
    previous: dict[str, set[TaskId]] = {name: set() for name in names}
    for task in range(draw(st.integers(0, tasks))):
        previous[draw(st.sampled_from(names))].add(TaskId(0, task))
    threads = {name: draw(st.integers(1, 4)) for name in names}
    return cluster(tasks, threads, previous, draw(st.integers(0, tasks)))


@given(clusters())
def test_any_placement_is_whole_balanced_and_settled(state: ApplicationState) -> None:
    after = place(state)

    assert sorted(task for own in after.values() for task in own) == sorted(state.all_tasks)
    threads = sum(client.num_processing_threads for client in state.clients.values())
    for name, client in state.clients.items():
        share = len(state.all_tasks) * client.num_processing_threads / threads
        assert abs(len(after[name]) - share) < 1
    settled = cluster(
        len(state.all_tasks), {name: client.num_processing_threads for name, client in state.clients.items()}, after
    )
    assert place(settled) == after


@given(clusters(), st.randoms(use_true_random=False))
def test_order_of_mappings_makes_no_difference(state: ApplicationState, shuffle: random.Random) -> None:
    tasks, clients = list(state.all_tasks.items()), list(state.clients.items())
    shuffle.shuffle(tasks)
    shuffle.shuffle(clients)

    assert place(ApplicationState(dict(tasks), dict(clients))) == place(state)


def test_answer_is_valid() -> None:
    state = cluster(5, {"a": 1, "b": 3})

    assert validate_task_assignment(state, BalancedCount().assign(state)) == (AssignmentError.NONE, "")


def test_answer_says_which_client_has_which_task() -> None:
    assignment: TaskAssignment = BalancedCount().assign(cluster(2, {"a": 1, "b": 1}))

    assert repr(list(assignment.assignment)) == "[ClientAssignment(a: active 0_0), ClientAssignment(b: active 0_1)]"


@pytest.mark.parametrize("previous", [{}, {"a": ids(0)}])
def test_zero_tasks_are_placed_too(previous: dict[str, set[TaskId]]) -> None:
    assert place(cluster(0, {"a": 1}, previous)) == {"a": set()}
