"""What holds of every answer of `balanced`; and, of each property, that a broken assignor is caught by it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headwater.runtime.assignment.assignor import AssignmentError, TaskAssignment, TaskType, validate_task_assignment
from headwater.runtime.assignment.balanced import Balanced
from headwater.runtime.assignment.balanced_search import estimates, with_lags
from headwater.runtime.assignment.cluster import LATEST_OFFSET, ApplicationState, ProcessId
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.assignment.balanced.measured_clusters import MEGABYTE, WHOLE, cluster, clusters

Assign = Callable[[ApplicationState], TaskAssignment]
Property = Callable[[Assign, ApplicationState], None]


def balanced(state: ApplicationState) -> TaskAssignment:
    return Balanced().assign(state)


def owners(assignment: TaskAssignment, role: TaskType = TaskType.ACTIVE) -> dict[TaskId, list[str]]:
    found: dict[TaskId, list[str]] = {}
    for client in sorted(assignment.assignment, key=lambda client: client.process_id):
        for task in client.of_type(role):
            found.setdefault(task, []).append(client.process_id)
    return found


def is_valid(run: Assign, state: ApplicationState) -> None:
    assignment = run(state)
    assert validate_task_assignment(state, assignment)[0] is AssignmentError.NONE
    assert {task: len(clients) for task, clients in owners(assignment).items()} == dict.fromkeys(state.all_tasks, 1)


def has_all_standbys_and_few_warmups(run: Assign, state: ApplicationState) -> None:
    configs, standbys = state.assignment_configs, owners(run(state), TaskType.STANDBY)
    wanted = min(configs.num_standby_replicas, len(state.clients) - 1)
    numbers = [len(standbys.get(task, ())) for task in state.all_tasks]
    assert all(number >= wanted for number in numbers)
    assert sum(numbers) <= wanted * len(numbers) + configs.max_warmup_replicas


def runs_at_once_what_somebody_can(run: Assign, state: ApplicationState) -> None:
    able = estimates(state, with_lags(state)).caught_up
    names = sorted(state.clients)
    for task, (owner,) in owners(run(state)).items():
        row = able[sorted(state.all_tasks).index(task)]
        assert row[names.index(ProcessId(owner))] or not row.any()


def settles(run: Assign, state: ApplicationState) -> None:
    """With every copy it asked for caught up, and what it did not ask for gone, it soon asks for nothing more."""
    for _ in range(len(state.all_tasks) + 3):
        assignment = run(state)
        if all(client.followup_rebalance_deadline is None for client in assignment.assignment):
            return
        state = after(state, assignment)
    raise AssertionError("it asks for ever")


def after(state: ApplicationState, assignment: TaskAssignment) -> ApplicationState:
    clients = {}
    for found in assignment.assignment:
        active, standby = (frozenset(found.of_type(role)) for role in (TaskType.ACTIVE, TaskType.STANDBY))
        lags = dict.fromkeys(state.all_tasks, WHOLE) | dict.fromkeys(standby, 0) | dict.fromkeys(active, LATEST_OFFSET)
        clients[found.process_id] = replace(
            state.clients[found.process_id],
            previous_active_tasks=active,
            previous_standby_tasks=standby,
            lags=lags,
        )
    return replace(state, clients=clients)


def ignores_order(run: Assign, state: ApplicationState) -> None:
    chance = random.Random(0)
    tasks, clients = list(state.all_tasks.items()), list(state.clients.items())
    chance.shuffle(tasks)
    chance.shuffle(clients)
    other = run(replace(state, all_tasks=dict(tasks), clients=dict(clients)))
    for role in TaskType:
        assert owners(other, role) == owners(run(state), role)


PROPERTIES: list[Property] = [
    is_valid,
    has_all_standbys_and_few_warmups,
    runs_at_once_what_somebody_can,
    settles,
    ignores_order,
]


def test_exchange_that_needs_two_warm_ups_is_not_begun_with_one() -> None:
    running = {"a": range(6), "b": [6], "c": [8], "d": [7]}
    state = cluster(
        [None] * 8 + [0],
        running,
        racks=["r0"] * 8 + ["r1"],
        client_racks={"a": "r1", "b": "r0", "c": "r0", "d": "r1"},
        max_warmup_replicas=1,
        rack_aware_assignment_strategy="min_traffic",
    )
    settles(balanced, state)


@pytest.mark.parametrize("holds", PROPERTIES)
def test_every_assignment_holds(holds: Property) -> None:
    @given(clusters())
    def run(state: ApplicationState) -> None:
        holds(balanced, state)

    run()


def without_the_last(state: ApplicationState) -> TaskAssignment:
    """Loses a task."""
    tasks = dict(sorted(state.all_tasks.items())[:-1])
    return Balanced().assign(replace(state, all_tasks=tasks))


def without_standbys(state: ApplicationState) -> TaskAssignment:
    configs = replace(state.assignment_configs, num_standby_replicas=0)
    return Balanced().assign(replace(state, assignment_configs=configs))


def as_if_nothing_were_there(state: ApplicationState) -> TaskAssignment:
    """Regards no copy."""
    clients = {name: replace(client, lags={}) for name, client in state.clients.items()}
    return Balanced().assign(replace(state, clients=clients))


def never_content(state: ApplicationState) -> TaskAssignment:
    """Asks for another assignment whatever it found."""
    assignment = Balanced().assign(state)
    for client in assignment.assignment:
        client.followup_rebalance_deadline = 1
    return assignment


def as_it_comes(state: ApplicationState) -> TaskAssignment:
    """Regards only the first task in the mapping."""
    tasks = dict(list(state.all_tasks.items())[:1])
    return Balanced().assign(replace(state, all_tasks=tasks))


CAUGHT: list[tuple[Property, Assign]] = [
    (is_valid, without_the_last),
    (has_all_standbys_and_few_warmups, without_standbys),
    (runs_at_once_what_somebody_can, as_if_nothing_were_there),
    (settles, never_content),
    (ignores_order, as_it_comes),
]


@pytest.mark.parametrize(("holds", "broken"), CAUGHT)
def test_broken_assignor_is_caught(holds: Property, broken: Assign) -> None:
    @settings(
        deadline=None,
        max_examples=300,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(clusters())
    def run(state: ApplicationState) -> None:
        holds(broken, state)

    with pytest.raises(AssertionError):
        run()


def test_every_property_is_shown_to_catch_something() -> None:
    assert {holds for holds, _ in CAUGHT} == set(PROPERTIES)


def makespan(sizes: Sequence[int], places: Sequence[int], clients: int) -> int:
    return max(sum(size for size, at in zip(sizes, places, strict=True) if at == client) for client in range(clients))


@given(st.lists(st.integers(1, 100), min_size=2, max_size=7))
def test_lost_state_is_restored_in_at_most_a_quarter_more_than_the_least_time(sizes: list[int]) -> None:
    state = cluster([size * MEGABYTE for size in sizes], {"a": [], "b": [], "c": []})

    found = Balanced(allowed_imbalance=100.0).assign(state)

    time = max(sum(sizes[task.partition] for task in each.of_type(TaskType.ACTIVE)) for each in found.assignment)
    assert time <= 1.25 * min(makespan(sizes, places, 3) for places in product(range(3), repeat=len(sizes)))
