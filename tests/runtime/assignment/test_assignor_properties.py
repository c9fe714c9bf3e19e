"""What holds of every answer; and, of each property, that a broken assignor is caught by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from headwater.runtime.assignment.assignor import (
    AssignedTask,
    AssignmentError,
    ClientAssignment,
    TaskAssignment,
    TaskType,
    validate_task_assignment,
)
from headwater.runtime.assignment.cluster import LATEST_OFFSET, UNBOUNDED_LAG, ApplicationState
from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.assignment.sticky import Fallback, Sticky
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.assignment.clusters import clusters, deadlines, sets

Assign = Callable[[ApplicationState], TaskAssignment]
Property = Callable[[Assign, ApplicationState], None]

SETTINGS = settings(suppress_health_check=list(HealthCheck))


def every_task_has_one_active(assign: Assign, state: ApplicationState) -> None:
    active = [task for own, _ in sets(assign(state)).values() for task in own]

    assert sorted(active) == sorted(state.all_tasks)


def every_standby_has_a_use(assign: Assign, state: ApplicationState) -> None:
    """As many as are asked for and clients are left, of tasks with a changelog; and warm-ups within the budget."""
    assignment = assign(state)
    standbys = Counter(task for _, own in sets(assignment).values() for task in own)
    configs = state.assignment_configs
    least = min(configs.num_standby_replicas, len(state.clients) - 1)
    extra = 0
    for task, info in state.all_tasks.items():
        wanted = least if info.is_changelogged else 0
        assert standbys[task] >= wanted
        extra += standbys[task] - wanted
    assert extra <= (configs.max_warmup_replicas if deadlines(assignment) else 0)
    assert validate_task_assignment(state, assignment) == (AssignmentError.NONE, "")


def nothing_leaves_state_for_less(assign: Assign, state: ApplicationState) -> None:
    """An active is on a client that is caught up, or nobody is further on."""
    limit = state.assignment_configs.acceptable_recovery_lag
    for name, (active, _) in sets(assign(state)).items():
        for task in active:
            if state.all_tasks[task].is_changelogged:
                lag = state.clients[name].lag_for(task)
                caught_up = lag == LATEST_OFFSET or 0 <= lag <= limit or limit == UNBOUNDED_LAG
                assert caught_up or all(other.lag_for(task) >= lag for other in state.clients.values())


def settles(assign: Assign, state: ApplicationState) -> None:
    """Once all copies have caught up it comes to rest, and rest is even."""
    state = replace(state, clients={name: replace(each, client_tags={}) for name, each in state.clients.items()})
    bound = 4 + 2 * len(state.all_tasks) * (1 + state.assignment_configs.num_standby_replicas)
    for _ in range(bound):
        assignment = assign(state)
        state = caught_up(state, assignment)
        if not deadlines(assignment):
            break
    else:
        raise AssertionError(f"not settled after {bound} rounds")
    assert sets(assign(state)) == sets(assignment)
    threads = {name: client.num_processing_threads for name, client in state.clients.items()}
    stateful = {
        name: sum(state.all_tasks[task].is_changelogged for task in own) / threads[name]
        for name, (active, standby) in sets(assignment).items()
        for own in [active | standby]
    }
    if set(threads.values()) == {1} and not state.assignment_configs.num_standby_replicas:
        assert max(stateful.values()) - min(stateful.values()) <= 1


def quotas_are_filled_by_tasks_that_stay(assign: Assign, state: ApplicationState) -> None:
    """A client keeps all of its tasks that its quota allows."""
    quota = len(state.all_tasks) // sum(client.num_processing_threads for client in state.clients.values())
    owner = {task: name for name, client in sorted(state.clients.items()) for task in client.previous_active_tasks}
    for name, (active, _) in sets(assign(state)).items():
        had = {task for task in state.all_tasks if owner.get(task) == name}
        assert len(active & had) >= min(len(had), quota * state.clients[name].num_processing_threads)


def all_tasks_stay(assign: Assign, state: ApplicationState) -> None:
    """Whatever the balance."""
    owner = {task: name for name, client in sorted(state.clients.items()) for task in client.previous_active_tasks}
    now = {task: name for name, (active, _) in sets(assign(state)).items() for task in active}
    assert all(now[task] == name for task, name in owner.items() if task in now)


def caught_up(state: ApplicationState, assignment: TaskAssignment) -> ApplicationState:
    """What an assignor is asked next, when all copies that were placed have caught up and all others are lost."""
    clients = {}
    for name, (active, standby) in sets(assignment).items():
        lags = {task: 1_000_000 for task, info in state.all_tasks.items() if info.is_stateful}
        lags |= {task: LATEST_OFFSET for task in active if task in lags} | dict.fromkeys(standby, 0)
        clients[name] = replace(
            state.clients[name],
            previous_active_tasks=frozenset(active),
            previous_standby_tasks=frozenset(standby),
            lags=lags,
        )
    return replace(state, clients=clients)


high_availability, sticky, fallback = HighAvailability().assign, Sticky().assign, Fallback().assign
HOLDS: list[tuple[Property, Assign]] = [
    *((every_task_has_one_active, assign) for assign in (high_availability, sticky, fallback)),
    *((every_standby_has_a_use, assign) for assign in (high_availability, sticky, fallback)),
    (nothing_leaves_state_for_less, high_availability),
    (settles, high_availability),
    (quotas_are_filled_by_tasks_that_stay, sticky),
    (quotas_are_filled_by_tasks_that_stay, fallback),
    (all_tasks_stay, fallback),
]


@pytest.mark.parametrize(
    ("holds", "assign"), HOLDS, ids=[f"{each.__name__}-{type(assign.__self__).__name__}" for each, assign in HOLDS]
)
@SETTINGS
@given(state=clusters())
def test_property_holds(holds: Property, assign: Assign, state: ApplicationState) -> None:
    holds(assign, state)


def changed(assignment: TaskAssignment, change: Callable[[list[ClientAssignment]], None]) -> TaskAssignment:
    clients = list(assignment.assignment)
    change(clients)
    return TaskAssignment(clients)


def first(tasks: tuple[TaskId, ...], role: TaskType) -> list[AssignedTask]:
    return [AssignedTask(task, role) for task in tasks[:1]]


def loses_a_task(state: ApplicationState) -> TaskAssignment:
    def lose(clients: list[ClientAssignment]) -> None:
        for task in first(clients[0].of_type(TaskType.ACTIVE), TaskType.ACTIVE):
            clients[0].remove_task(task)

    return changed(high_availability(state), lose)


def runs_a_task_twice(state: ApplicationState) -> TaskAssignment:
    def double(clients: list[ClientAssignment]) -> None:
        for task in first(clients[0].of_type(TaskType.ACTIVE), TaskType.ACTIVE):
            clients[-1].assign_task(task)

    return changed(high_availability(state), double)


def spares_a_standby(state: ApplicationState) -> TaskAssignment:
    def spare(clients: list[ClientAssignment]) -> None:
        for client in clients:
            for task in first(client.of_type(TaskType.STANDBY), TaskType.STANDBY):
                client.remove_task(task)

    return changed(high_availability(state), spare)


def warms_up_without_a_budget(state: ApplicationState) -> TaskAssignment:
    unbounded = replace(state.assignment_configs, max_warmup_replicas=1_000)
    return high_availability(replace(state, assignment_configs=unbounded))


def copies_what_has_no_state(state: ApplicationState) -> TaskAssignment:
    def copy(clients: list[ClientAssignment]) -> None:
        for task in first(clients[0].of_type(TaskType.ACTIVE), TaskType.STANDBY):
            clients[-1].assign_task(task) if len(clients) > 1 else None

    return changed(sticky(state), copy)


def forgets_lags(state: ApplicationState) -> TaskAssignment:
    clients = {
        name: replace(client, lags=dict.fromkeys(client.lags or {}, 0)) for name, client in state.clients.items()
    }
    return high_availability(replace(state, clients=clients))


def asks_for_ever(state: ApplicationState) -> TaskAssignment:
    def ask(clients: list[ClientAssignment]) -> None:
        clients[0].followup_rebalance_deadline = 0

    return changed(high_availability(state), ask)


def shoves_on(state: ApplicationState) -> TaskAssignment:
    """Each client has what the one before it should have."""
    clients = list(high_availability(state).assignment)
    names = [client.process_id for client in clients]
    return TaskAssignment(
        [
            ClientAssignment(name, client.tasks.values())
            for name, client in zip([*names[1:], names[0]], clients, strict=True)
        ]
    )


def never_evens_out(state: ApplicationState) -> TaskAssignment:
    return fallback(state)


def forgets_owners(state: ApplicationState) -> TaskAssignment:
    clients = {name: replace(client, previous_active_tasks=frozenset()) for name, client in state.clients.items()}
    return sticky(replace(state, clients=clients))


CAUGHT: list[tuple[Property, Assign]] = [
    (every_task_has_one_active, loses_a_task),
    (every_task_has_one_active, runs_a_task_twice),
    (every_standby_has_a_use, spares_a_standby),
    (every_standby_has_a_use, warms_up_without_a_budget),
    (every_standby_has_a_use, copies_what_has_no_state),
    (nothing_leaves_state_for_less, forgets_lags),
    (nothing_leaves_state_for_less, sticky),
    (settles, asks_for_ever),
    (settles, shoves_on),
    (settles, never_evens_out),
    (quotas_are_filled_by_tasks_that_stay, forgets_owners),
    (all_tasks_stay, sticky),
]


@pytest.mark.parametrize(
    ("holds", "broken"), CAUGHT, ids=[f"{each.__name__}-{broken.__name__}" for each, broken in CAUGHT]
)
def test_broken_assignor_is_caught(holds: Property, broken: Assign) -> None:
    def caught(state: ApplicationState) -> bool:
        try:
            holds(broken, state)
        except AssertionError:
            return True
        return False

    # Raises NoSuchExample where every example holds.
    find(clusters(), caught, settings=settings(SETTINGS, max_examples=400, database=None, phases=[Phase.generate]))


def test_every_property_is_shown_to_catch_something() -> None:
    assert {holds for holds, _ in CAUGHT} == {holds for holds, _ in HOLDS}


@SETTINGS
@given(state=clusters())
def test_order_of_mappings_makes_no_difference(state: ApplicationState) -> None:
    turned = replace(
        state,
        all_tasks=dict(reversed(state.all_tasks.items())),
        clients={
            name: replace(client, lags=dict(reversed((client.lags or {}).items())))
            for name, client in reversed(state.clients.items())
        },
    )

    for assign in (high_availability, sticky, fallback):
        assert sets(assign(turned)) == sets(assign(state))
