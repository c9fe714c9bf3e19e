"""Tasks are 0_0, 0_1, ...; sizes and rates in order of the tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.plugins.errors import PluginOptionsError
from headwater.plugins.manager import PluginManager
from headwater.runtime.assignment.assignor import TaskType, assign
from headwater.runtime.assignment.balanced import Balanced
from headwater.runtime.assignment.balanced_search import estimates, with_lags
from headwater.runtime.assignment.cluster import ApplicationState, NoClientsError
from headwater.tests.runtime.assignment.balanced.measured_clusters import MEGABYTE, WHOLE, cluster

Placed = dict[str, list[int]]


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
