"""Tasks are 0_0, 0_1, ...; sizes and rates in order of the tasks."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headwater.plugins.errors import PluginOptionsError
from headwater.plugins.manager import PluginManager
from headwater.runtime.assignment.assignor import (
    AssignmentError,
    TaskAssignment,
    TaskType,
    assign,
    validate_task_assignment,
)
from headwater.runtime.assignment.balanced import Balanced
from headwater.runtime.assignment.balanced_estimates import estimates, with_lags
from headwater.runtime.assignment.cluster import (
    LATEST_OFFSET,
    ApplicationState,
    AssignmentConfigs,
    ClientState,
    NoClientsError,
    ProcessId,
    TaskInfo,
    TaskTopicPartition,
)
from headwater.runtime.tasks.task_id import TaskId

MEGABYTE = 1_000_000
WHOLE = 1000
"""Lag of a client that has nothing of a task."""

Placed = dict[str, list[int]]


def cluster(
    sizes: Sequence[int | None],
    running: Mapping[str, Sequence[int]],
    lags: Mapping[str, Mapping[int, int]] | None = None,
    rates: Sequence[float | None] = (),
    racks: Sequence[str] = (),
    client_racks: Mapping[str, str] | None = None,
    **configs: object,
) -> ApplicationState:
    """`running`: what each client runs now. `lags`: of other copies, WHOLE where not given."""
    infos, states = {}, {}
    for number, size in enumerate(sizes):
        where = frozenset(racks[number].split()) if racks else None
        partitions = frozenset(
            TaskTopicPartition("changelog" if changelog else "in", number, not changelog, changelog, where)
            for changelog in (False, True)
        )
        rate = rates[number] if rates else None
        infos[TaskId(0, number)] = TaskInfo(TaskId(0, number), frozenset({"store"}), partitions, size, rate)
    for name, own in running.items():
        lag = {TaskId(0, number): WHOLE for number in range(len(sizes))}
        lag |= {TaskId(0, number): behind for number, behind in (lags or {}).get(name, {}).items()}
        lag |= {TaskId(0, number): LATEST_OFFSET for number in own}
        previous = frozenset(TaskId(0, number) for number in own)
        rack = (client_racks or {}).get(name)
        states[ProcessId(name)] = ClientState(ProcessId(name), 1, previous, rack_id=rack, lags=lag)
    return ApplicationState(infos, states, AssignmentConfigs(acceptable_recovery_lag=10, **configs))


def placed(state: ApplicationState, role: TaskType = TaskType.ACTIVE, **options: float) -> Placed:
    found = assign(Balanced(**options), state)
    return {name: [task.partition for task in client.of_type(role)] for name, client in found.items()}


def deadlines(state: ApplicationState) -> set[int | None]:
    return {client.followup_rebalance_deadline for client in assign(Balanced(), state).values()}


def test_lost_state_is_restored_in_the_least_time() -> None:
    lost = cluster([90 * MEGABYTE, 50 * MEGABYTE, 40 * MEGABYTE, 1 * MEGABYTE], {"a": [], "b": []})

    assert sorted(placed(lost).values()) == [[0, 3], [1, 2]]


def test_task_without_a_copy_goes_to_the_client_that_lacks_least() -> None:
    state = cluster([MEGABYTE, MEGABYTE], {"a": [], "b": []}, {"a": {1: 100}, "b": {0: 100}})

    assert placed(state) == {"a": [1], "b": [0]}


def test_loads_are_balanced_by_rates() -> None:
    state = cluster([None] * 4, {"a": [], "b": []}, rates=[300.0, 100.0, 100.0, 100.0])

    assert sorted(placed(state).values()) == [[0], [1, 2, 3]]


def test_task_that_was_not_measured_has_the_average_load() -> None:
    state = cluster([None] * 4, {"a": [], "b": []}, rates=[200.0, 400.0, None, 300.0])

    assert estimates(state, with_lags(state)).load.tolist() == pytest.approx(
        [(2 / 3 + 0.1) / 1.1, (4 / 3 + 0.1) / 1.1, 1, 1]
    )


def test_balance_is_reached_by_moving_little_state() -> None:
    sizes = [80 * MEGABYTE, 5 * MEGABYTE, 70 * MEGABYTE, 6 * MEGABYTE]
    state = cluster(sizes, {"a": [0, 1, 2, 3], "b": []})

    assert placed(state) == {"a": [0, 1, 2, 3], "b": []}
    assert placed(state, TaskType.STANDBY) == {"a": [], "b": [1, 3]}
    caught_up = cluster(sizes, {"a": [0, 1, 2, 3], "b": []}, {"b": {1: 3, 3: 0}})
    assert placed(caught_up) == {"a": [0, 2], "b": [1, 3]}


def test_imbalance_that_is_allowed_moves_nothing() -> None:
    state = cluster([MEGABYTE] * 5, {"a": [0, 1, 2], "b": [3, 4], "c": []})

    assert placed(state, TaskType.STANDBY, allowed_imbalance=1.0) == {"a": [], "b": [], "c": []}
    assert placed(state, TaskType.STANDBY, allowed_imbalance=0.1) != {"a": [], "b": [], "c": []}


def test_leader_asks_again_as_long_as_a_task_warms_up() -> None:
    warming = cluster([MEGABYTE] * 2, {"a": [0, 1], "b": []}, probing_rebalance_interval_ms=70_000)
    settled = cluster([MEGABYTE] * 2, {"a": [0], "b": [1]})

    assert deadlines(replace(warming, now_ms=5)) == {70_005, None}
    assert deadlines(settled) == {None}


def test_no_more_warm_ups_than_allowed() -> None:
    state = cluster([MEGABYTE] * 8, {"a": list(range(8)), "b": []}, max_warmup_replicas=1)

    assert len(placed(state, TaskType.STANDBY)["b"]) == 1


def test_standbys_stay_where_state_is_and_off_the_rack_of_the_active() -> None:
    racks = {"a": "r0", "b": "r0", "c": "r1", "d": "r1"}
    running = {"a": [0], "b": [1], "c": [2], "d": [3]}
    new = cluster([MEGABYTE] * 4, running, client_racks=racks, num_standby_replicas=1)
    held = {"a": {3: 0}, "b": {2: 0}, "c": {1: 0}, "d": {0: 0}}

    found = placed(new, TaskType.STANDBY)

    assert {frozenset(found["a"] + found["b"]), frozenset(found["c"] + found["d"])} == {
        frozenset({0, 1}),
        frozenset({2, 3}),
    }
    there = cluster([MEGABYTE] * 4, running, held, client_racks=racks, num_standby_replicas=1)
    assert placed(there, TaskType.STANDBY) == {"a": [3], "b": [2], "c": [1], "d": [0]}


def test_standby_takes_over_at_once() -> None:
    state = cluster([MEGABYTE] * 3, {"b": [1], "c": [2]}, {"b": {0: WHOLE}, "c": {0: 4}})

    assert 0 in placed(state)["c"]


@pytest.mark.parametrize(("strategy", "far"), [("min_traffic", 0), ("none", 2)])
def test_input_is_read_on_its_rack_where_the_strategy_asks_for_it(strategy: str, far: int) -> None:
    racks = {"a": "r0", "b": "r1"}
    state = cluster(
        [0, 0],
        {"a": [0], "b": [1]},
        {"a": {1: 0}, "b": {0: 0}},
        racks=["r1", "r0"],
        client_racks=racks,
        rack_aware_assignment_strategy=strategy,
    )

    found = placed(state, cross_rack_seconds=1.0)

    assert sum(racks[name] == f"r{task}" for name, own in found.items() for task in own) == far


def test_without_lags_previous_owners_count_as_running() -> None:
    state = cluster([MEGABYTE] * 4, {"a": [0, 2], "b": [1, 3]})
    blind = replace(state, clients={name: replace(client, lags=None) for name, client in state.clients.items()})

    assert placed(blind) == {"a": [0, 2], "b": [1, 3]}


def test_without_clients_is_an_error() -> None:
    with pytest.raises(NoClientsError):
        Balanced().assign(cluster([1], {}))


def test_without_tasks_clients_have_none() -> None:
    assert placed(cluster([], {"a": []})) == {"a": []}


def test_options_are_checked() -> None:
    assignors = PluginManager(installed=False).assignors

    assert isinstance(assignors.create("balanced", {"movement_weight": 2}), Balanced)
    with pytest.raises(PluginOptionsError):
        assignors.create("balanced", {"restore_bytes_per_second": 0})


@st.composite
def clusters(draw: st.DrawFn, most: int = 9) -> ApplicationState:
    names = draw(st.lists(st.sampled_from("abcd"), unique=True, min_size=1))
    count = draw(st.integers(0, most))
    owners = [draw(st.sampled_from([*names, "gone"])) for _ in range(count)]
    lags = {
        name: draw(st.dictionaries(st.integers(0, count - 1), st.integers(-3, WHOLE))) if count else {}
        for name in names
    }
    return cluster(
        [draw(st.none() | st.integers(0, 1000).map(MEGABYTE.__mul__)) for _ in range(count)],
        {name: [task for task in range(count) if owners[task] == name] for name in names},
        {name: {task: lag for task, lag in own.items() if lag != LATEST_OFFSET} for name, own in lags.items()},
        [draw(st.none() | st.floats(0, 1e5)) for _ in range(count)],
        [draw(st.sampled_from(["r0", "r1", "r0 r1"])) for _ in range(count)],
        {name: draw(st.sampled_from(["r0", "r1"])) for name in names},
        num_standby_replicas=draw(st.integers(0, 2)),
        max_warmup_replicas=draw(st.integers(1, 3)),
        rack_aware_assignment_strategy=draw(st.sampled_from(["none", "min_traffic"])),
    )


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


PROPERTIES = [
    is_valid,
    has_all_standbys_and_few_warmups,
    runs_at_once_what_somebody_can,
    settles,
    ignores_order,
]


@pytest.mark.parametrize("holds", PROPERTIES)
def test_every_assignment_holds(holds: Property) -> None:
    @settings(deadline=None, max_examples=60)
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


@pytest.mark.parametrize(
    ("holds", "broken"),
    [
        (is_valid, without_the_last),
        (has_all_standbys_and_few_warmups, without_standbys),
        (runs_at_once_what_somebody_can, as_if_nothing_were_there),
        (settles, never_content),
        (ignores_order, as_it_comes),
    ],
)
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


def makespan(sizes: Sequence[int], places: Sequence[int], clients: int) -> int:
    return max(sum(size for size, at in zip(sizes, places, strict=True) if at == client) for client in range(clients))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 100), min_size=2, max_size=7))
def test_lost_state_is_restored_in_at_most_a_quarter_more_than_the_least_time(sizes: list[int]) -> None:
    state = cluster([size * MEGABYTE for size in sizes], {"a": [], "b": [], "c": []})

    found = placed(state, allowed_imbalance=100.0)

    time = max(sum(sizes[task] for task in own) for own in found.values())
    assert time <= 1.25 * min(makespan(sizes, places, 3) for places in product(range(3), repeat=len(sizes)))
