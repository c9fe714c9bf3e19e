"""Single situations; what holds for all of them is in test_rack_properties.py."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from headwater.runtime.assignment.cluster import ApplicationState, ProcessId
from headwater.runtime.assignment.rack_flow import RackCostError
from headwater.runtime.assignment.racks import (
    RackRules,
    TaskPlacementError,
    active_cost,
    optimize_actives,
    optimize_standbys,
    standby_cost,
)
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.assignment.racks.rack_cases import Case, Placement, ids, moves, placement, price, racked

STRATEGIES = pytest.mark.parametrize("strategy", ["min_traffic", "balance_subtopology"])
REPLICAS = {"0_0": "r0 r1", "0_1": "r1 r2", "0_2": "r1 r2", "1_0": "r0 r2", "1_1": "r1 r3", "1_2": "r0 r1"}
SEVEN = {"1": "r0", "2": "r1", "3": "r2", "4": "r3", "5": "r4", "6": "r0", "7": "r1"}
APART = {"0_0": "r1", "0_1": "r0"}
TWO = {"a": "r0", "b": "r1"}
CROSSED = placement({"a": "0_0", "b": "0_1"})
SWAPPED = placement({"a": "0_1", "b": "0_0"})


def subtopologies(placed: Placement) -> dict[str, list[int]]:
    return {name: sorted(task.subtopology for task in own) for name, own in placed.items()}


def anywhere(source: ProcessId, destination: ProcessId, task: TaskId) -> bool:
    return True


@STRATEGIES
def test_case_34_tasks_on_each_others_racks_are_swapped_and_then_stay(strategy: str) -> None:
    state = racked(APART, TWO, assignment_strategy=strategy, traffic_cost=100, non_overlap_cost=1)

    once = optimize_actives(state, state.all_tasks, CROSSED, 10, 1)

    assert once == SWAPPED
    assert optimize_actives(state, state.all_tasks, once, 10, 1) == SWAPPED


@STRATEGIES
@pytest.mark.parametrize(("traffic", "non_overlap", "before", "after"), [(10, 1, 40, 4), (1, 0, 4, 0)])
def test_case_39_actives_go_where_their_replicas_are(
    strategy: str, traffic: int, non_overlap: int, before: int, after: int
) -> None:
    state = racked(REPLICAS, SEVEN, assignment_strategy=strategy)
    placed = placement({"1": "0_1 1_1", "2": "1_0", "3": "0_0", "4": "", "5": "", "6": "", "7": ""})

    result = optimize_actives(state, ids("0_0 0_1 1_0 1_1"), placed, traffic, non_overlap)

    assert result == placement({"1": "0_0 1_0", "2": "1_1", "3": "0_1", "4": "", "5": "", "6": "", "7": ""})
    assert active_cost(state, placed, traffic, non_overlap) == before
    assert active_cost(state, result, traffic, non_overlap, before=placed) == after


@STRATEGIES
@pytest.mark.parametrize(("tags", "after"), [(False, 20), (True, 50)])
def test_case_39_standbys_go_where_their_changelogs_are_as_far_as_they_may(
    strategy: str, tags: bool, after: int
) -> None:
    state = racked(REPLICAS, SEVEN, assignment_strategy=strategy)
    actives = placement({"1": "0_0", "2": "0_1", "3": "1_0", "4": "1_1", "5": "", "6": "0_2", "7": "1_2"})
    standbys = placement(
        {"1": "0_1 1_1", "2": "0_0 1_0", "3": "0_0 0_2", "4": "0_1 1_2", "5": "", "6": "1_0 1_2", "7": "0_2 1_1"}
    )

    live = {name: set(own) for name, own in standbys.items()}

    def racks_stay(source: ProcessId, destination: ProcessId, task: TaskId) -> bool:
        holders = {name for name in SEVEN if task in actives[ProcessId(name)] | live[ProcessId(name)]}
        swapped = holders - {source} | {destination}
        return len({SEVEN[name] for name in swapped}) >= len({SEVEN[name] for name in holders})

    def follow(source: ProcessId, destination: ProcessId, task: TaskId) -> None:
        live[source].remove(task)
        live[destination].add(task)

    allowed = racks_stay if tags else anywhere
    result = optimize_standbys(state, standbys, actives, allowed, 10, 1, moved=follow)

    assert standby_cost(state, standbys, 10, 1) == 60
    assert standby_cost(state, result, 10, 1) == after
    assert live == result
    assert all(len(result[ProcessId(name)]) == (0 if name == "5" else 2) for name in SEVEN)


@pytest.mark.parametrize(
    ("state", "placed"),
    [
        (racked(APART, TWO, assignment_strategy="none"), CROSSED),
        (racked(APART, {"a": "r0", "b": None}, assignment_strategy="min_traffic"), CROSSED),
        (racked(APART, TWO | {"idle": None}, assignment_strategy="min_traffic"), CROSSED),
        (racked({"0_0": "r1", "0_1": ""}, TWO, assignment_strategy="min_traffic"), CROSSED),
    ],
    ids=["no strategy", "client without rack", "idle client without rack", "partition without racks"],
)
def test_nothing_moves_where_racks_are_not_all_known(state: ApplicationState, placed: dict) -> None:
    assert optimize_actives(state, state.all_tasks, placed, 10, 1) == placed
    assert optimize_standbys(state, placed, {}, anywhere, 10, 1) == CROSSED


def test_unknown_racks_of_changelogs_matter_to_actives_only_with_standbys_or_as_utility() -> None:
    state = racked(APART, TWO, assignment_strategy="min_traffic")
    without = {
        id_: replace(
            task,
            topic_partitions=frozenset(
                replace(each, racks=None) if each.is_changelog else each for each in task.topic_partitions
            ),
        )
        for id_, task in state.all_tasks.items()
    }
    blind = replace(state, all_tasks=without)
    replicated = replace(blind, assignment_configs=replace(state.assignment_configs, num_standby_replicas=1))

    assert optimize_actives(blind, without, CROSSED, 10, 1) == SWAPPED
    assert optimize_actives(replicated, without, CROSSED, 10, 1) == CROSSED
    assert optimize_actives(blind, without, CROSSED, 10, 1, RackRules.UTILITY) == CROSSED


def test_as_utility_changelogs_of_actives_count_too() -> None:
    state = racked(APART, TWO, assignment_strategy="min_traffic")

    assert active_cost(state, CROSSED, 10, 1) == 20
    assert active_cost(state, CROSSED, 10, 1, rules=RackRules.UTILITY) == 40


def test_gain_that_does_not_pay_for_the_moves_is_left() -> None:
    state = racked(APART, TWO, assignment_strategy="min_traffic")

    assert optimize_actives(state, state.all_tasks, CROSSED, 10, 10) == CROSSED
    assert optimize_actives(state, state.all_tasks, CROSSED, 10, 9) == SWAPPED


@pytest.mark.parametrize(
    ("placed", "clients"), [({"a": "0_0", "b": ""}, ()), ({"a": "0_0 0_1", "b": "0_1"}, ("a", "b"))]
)
def test_task_that_is_not_on_exactly_one_client_is_refused(placed: dict[str, str], clients: tuple[str, ...]) -> None:
    state = racked(APART, TWO, assignment_strategy="min_traffic")

    with pytest.raises(TaskPlacementError) as raised:
        optimize_actives(state, ids("0_0 0_1"), placement(placed), 10, 1)

    assert isinstance(raised.value, ValueError)
    assert (raised.value.task, raised.value.clients) == (TaskId(0, 1), clients)


def test_tasks_that_were_not_named_stay() -> None:
    state = racked(APART, TWO, assignment_strategy="min_traffic")

    assert optimize_actives(state, ids("0_0"), CROSSED, 10, 1) == CROSSED
    assert optimize_standbys(state, CROSSED, {}, anywhere, 10, 1, tasks=ids("0_0")) == CROSSED


def test_subtopology_is_spread_although_that_costs_more() -> None:
    state = racked({"0_0": "r0", "0_1": "r0", "1_0": "r1", "1_1": "r1"}, TWO, assignment_strategy="balance_subtopology")
    placed = placement({"a": "0_0 0_1", "b": "1_0 1_1"})

    result = optimize_actives(state, state.all_tasks, placed, 10, 1)

    assert subtopologies(result) == {"a": [0, 1], "b": [0, 1]}


MANY = {f"{subtopology}_{partition}": f"r{subtopology}" for subtopology in (0, 1) for partition in range(6)}


def test_spread_of_a_subtopology_is_that_of_the_tasks_that_are_optimised() -> None:
    state = racked(MANY, TWO, assignment_strategy="balance_subtopology")
    placed = placement({"a": "0_0 0_1", "b": "1_0 1_1"})

    after = optimize_actives(state, ids("0_0 0_1 1_0 1_1"), placed, 10, 1)

    assert subtopologies(after) == {"a": [0, 1], "b": [0, 1]}


def test_spread_over_two_clients_is_that_of_the_standbys_they_can_swap() -> None:
    state = racked(
        MANY, TWO | {"c": "r1"}, assignment_strategy="balance_subtopology", traffic_cost=10, non_overlap_cost=1
    )
    standbys = placement({"a": "0_0 0_1", "b": "1_0 1_1", "c": "0_2 0_3 0_4 0_5 1_2 1_3 1_4 1_5"})

    def without_c(source: ProcessId, destination: ProcessId, task: TaskId) -> bool:
        return "c" not in (source, destination)

    after = optimize_standbys(state, standbys, {}, without_c, 10, 1, RackRules.UTILITY)

    assert subtopologies(after) == {"a": [0, 1], "b": [0, 1], "c": [0] * 4 + [1] * 4}


def test_idle_clients_stay_idle() -> None:
    state = racked({"0_0": "r1"}, TWO, assignment_strategy="min_traffic")

    assert optimize_actives(state, state.all_tasks, placement({"a": "0_0", "b": ""}), 10, 1) == {
        "a": {TaskId(0, 0)},
        "b": set(),
    }


def test_costs_that_overflow_are_refused() -> None:
    state = racked(APART, TWO, assignment_strategy="min_traffic")

    with pytest.raises(RackCostError) as raised:
        optimize_actives(state, state.all_tasks, CROSSED, 2**60 + 1, 1)

    assert (raised.value.traffic_cost, raised.value.non_overlap_cost) == (2**60 + 1, 1)


def many(seed: int) -> Case:
    """120 tasks on 12 clients and 4 racks."""
    chance = random.Random(seed)
    names, racks = [f"c{number:02}" for number in range(12)], ["r0", "r1", "r2", "r3"]
    tasks = [f"{number % 3}_{number // 3}" for number in range(120)]
    replicas = {task: " ".join(chance.sample(racks, chance.randint(1, 2))) for task in tasks}
    clients = {name: racks[number % 4] for number, name in enumerate(names)}
    chance.shuffle(tasks)
    placed = {name: " ".join(tasks[number::12]) for number, name in enumerate(names)}
    return Case(racked(replicas, clients, assignment_strategy="min_traffic"), placement(placed), {}, 7, 2)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cost_of_many_tasks_is_that_of_another_algorithm_on_single_seats(seed: int) -> None:
    from ortools.graph.python.linear_sum_assignment import SimpleLinearSumAssignment

    case = many(seed)
    seats = [client for client in sorted(case.actives) for _ in case.actives[client]]
    solver = SimpleLinearSumAssignment()
    for row, task in enumerate(sorted(case.state.all_tasks)):
        for column, client in enumerate(seats):
            solver.add_arc_with_cost(row, column, price(case, task, client, task not in case.actives[client]))
    solver.solve()

    result = optimize_actives(case.state, case.state.all_tasks, case.actives, 7, 2)

    assert active_cost(case.state, result, 7, 2, case.actives) == solver.optimal_cost()
    assert moves(case.actives, result) > 10
