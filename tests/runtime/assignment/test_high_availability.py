from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.runtime.assignment.cluster import (
    LATEST_OFFSET,
    UNBOUNDED_LAG,
    UNKNOWN_LAG,
    ApplicationState,
    AssignmentConfigError,
    AssignmentConfigs,
    NoClientsError,
    UnknownLagError,
)
from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.assignment.clusters import One, Placed, cluster, deadlines, placed, task

NINE = "0_0 0_1 0_2 1_0 1_1 1_2 2_0 2_1 2_2"
FAR = 2**63 - 1


def assigned(state: ApplicationState) -> tuple[Placed, bool]:
    assignment = HighAvailability().assign(state)
    return placed(assignment), bool(deadlines(assignment))


def held(placement: Placed) -> list[int]:
    return [len(active) + len(standby) for active, standby in placement.values()]


def test_case_37_behind_clients_hold_only_what_the_budget_warms_up() -> None:
    configs = AssignmentConfigs(acceptable_recovery_lag=11, max_warmup_replicas=2, num_standby_replicas=1)
    clients = {"c1": One(lags=0), "c2": One(lags=10), "c3": One(lags=FAR)}

    placement, followup = assigned(cluster(clients, NINE, configs=configs))

    assert held(placement) == [9, 9, 2]
    assert followup


def test_case_37_everyone_counts_as_caught_up_without_a_bound() -> None:
    configs = AssignmentConfigs(UNBOUNDED_LAG, max_warmup_replicas=1, num_standby_replicas=1)
    clients = {"c1": One(lags=0), "c2": One(lags=FAR), "c3": One(lags=FAR)}

    placement, followup = assigned(cluster(clients, NINE, configs=configs))

    assert held(placement) == [6, 6, 6]
    assert not followup


def test_case_38_task_runs_where_it_is_caught_up_and_warms_up_where_it_is_wanted() -> None:
    configs = AssignmentConfigs(acceptable_recovery_lag=100)
    clients = {"c1": One(lags=500), "c2": One(lags=0)}

    placement, followup = assigned(cluster(clients, stateful="0_0", stateless="0_1", configs=configs))

    assert placement == {"c1": (["0_1"], ["0_0"]), "c2": (["0_0"], [])}
    assert followup


@pytest.mark.parametrize(("replicas", "standbys"), [(0, 1), (1, 4)])
def test_case_38_new_client_warms_up_one_task_or_has_standbys_of_all(replicas: int, standbys: int) -> None:
    configs = AssignmentConfigs(acceptable_recovery_lag=100, max_warmup_replicas=1, num_standby_replicas=replicas)
    clients = {"c1": One(lags=0), "c2": One(lags=10_000)}

    placement, followup = assigned(cluster(clients, "0_0 0_1 0_2 0_3", configs=configs))

    assert len(placement["c1"][0]) == 4
    assert ([], standbys) == (placement["c2"][0], len(placement["c2"][1]))
    assert followup


def test_restart_puts_tasks_where_their_state_is() -> None:
    clients = {
        "a": One(lags={"0_0": 9_999_999, "0_1": 0, "0_2": 9_999_999, "0_3": 0}),
        "b": One(lags={"0_0": 0, "0_1": 9_999_999, "0_2": 0, "0_3": 9_999_999}),
    }

    placement, _ = assigned(cluster(clients, "0_0 0_1 0_2 0_3"))

    assert {name: active for name, (active, _) in placement.items()} == {"a": ["0_1", "0_3"], "b": ["0_0", "0_2"]}


def test_most_caught_up_client_runs_a_task_that_nobody_is_caught_up_on() -> None:
    configs = AssignmentConfigs(acceptable_recovery_lag=10, max_warmup_replicas=1)
    clients = {"a": One(lags=500), "b": One(lags=400), "c": One(lags=400)}

    placement, followup = assigned(cluster(clients, "0_0", configs=configs))

    assert placement == {"a": ([], ["0_0"]), "b": (["0_0"], []), "c": ([], [])}
    assert followup


def test_unknown_lag_counts_as_further_on_but_not_as_caught_up() -> None:
    configs = AssignmentConfigs(acceptable_recovery_lag=10)
    clients = {"a": One(lags=500), "b": One(lags=UNKNOWN_LAG)}

    placement, followup = assigned(cluster(clients, "0_0", configs=configs))

    assert placement == {"a": ([], ["0_0"]), "b": (["0_0"], [])}
    assert followup
    settled, followup = assigned(cluster({"a": One(lags=UNKNOWN_LAG), "b": One(lags=5)}, "0_0", configs=configs))
    assert settled == {"a": (["0_0"], []), "b": ([], [])}
    assert not followup


def test_lag_without_bound_is_no_worse_than_an_equal_one() -> None:
    configs = AssignmentConfigs(acceptable_recovery_lag=10, max_warmup_replicas=1, num_standby_replicas=1)
    clients = {
        "a": One(lags={"0_0": 5, "0_1": 0}),
        "b": One(lags={"0_0": FAR, "0_1": 0}),
        "c": One(lags={"0_0": FAR, "0_1": 0}),
    }

    placement, followup = assigned(cluster(clients, "0_0 0_1", configs=configs))

    assert placement == {"a": (["0_0"], ["0_1"]), "b": (["0_1"], ["0_0"]), "c": ([], ["0_0"])}
    assert followup


def test_caught_up_standby_changes_roles_for_nothing() -> None:
    configs = AssignmentConfigs(acceptable_recovery_lag=0, max_warmup_replicas=1, num_standby_replicas=1)
    clients = {"a": One(lags=500), "b": One(lags=LATEST_OFFSET)}

    placement, _ = assigned(cluster(clients, "0_0 0_1 0_2", configs=configs))

    assert placement == {"a": ([], ["0_0", "0_1", "0_2"]), "b": (["0_0", "0_1", "0_2"], [])}


def test_leader_asks_for_the_follow_up_after_the_interval() -> None:
    configs = AssignmentConfigs(acceptable_recovery_lag=0, probing_rebalance_interval_ms=7)
    clients = {"a": One(lags=500), "b": One(lags=0)}

    by_b = HighAvailability().assign(cluster(clients, "0_0", configs=configs, now_ms=1000, leader="b"))
    by_first = HighAvailability().assign(cluster(clients, "0_0", configs=configs, now_ms=1000))

    assert (deadlines(by_b), deadlines(by_first)) == ({"b": 1007}, {"a": 1007})


def test_tasks_without_state_go_by_active_tasks_alone() -> None:
    configs = AssignmentConfigs(num_standby_replicas=1)
    clients = {"a": One(), "b": One()}

    placement, _ = assigned(cluster(clients, "0_0", "1_0 1_1", configs))

    assert placement == {"a": (["0_0", "1_1"], []), "b": (["1_0"], ["0_0"])}


def test_lag_that_is_not_there_is_an_error_that_names_it() -> None:
    state = cluster({"a": One(lags=0), "b": One(lags={"0_0": 1})}, "0_0 0_1")

    with pytest.raises(UnknownLagError, match="no lag of task 0_1 on b") as caught:
        HighAvailability().assign(state)

    assert (caught.value.task, caught.value.process_id) == (TaskId(0, 1), "b")


def test_lags_of_tasks_without_state_are_not_asked_for() -> None:
    placement, _ = assigned(cluster({"a": One(lags={}), "b": One(lags={})}, stateless="0_0 0_1"))

    assert placement == {"a": (["0_0"], []), "b": (["0_1"], [])}


def test_task_without_changelog_has_no_lag_and_is_not_warmed_up() -> None:
    logged, unlogged = TaskId(0, 0), TaskId(1, 0)
    clients = {"a": One(lags={"0_0": 0, "1_0": 0}), "b": One(lags={"0_0": 0, "1_0": 500})}
    configs = AssignmentConfigs(acceptable_recovery_lag=10, num_standby_replicas=1)
    tasks = {logged: task(logged), unlogged: task(unlogged, changelogged=False)}
    state = replace(cluster(clients, "0_0 1_0", configs=configs), all_tasks=tasks)
    none = {name: replace(client, lags={logged: 0}) for name, client in state.clients.items()}

    expected = ({"a": (["0_0"], []), "b": (["1_0"], ["0_0"])}, False)
    assert assigned(state) == expected
    assert assigned(replace(state, clients=none)) == expected


def test_without_clients_there_is_an_error() -> None:
    with pytest.raises(NoClientsError):
        HighAvailability().assign(cluster({}, "0_0"))


@pytest.mark.parametrize(
    ("field", "value"), [("max_warmup_replicas", 0), ("num_standby_replicas", -1), ("acceptable_recovery_lag", -1)]
)
def test_configuration_that_makes_no_sense_is_refused(field: str, value: int) -> None:
    with pytest.raises(AssignmentConfigError, match=f"{field} is {value}, but must be at least") as caught:
        AssignmentConfigs(**{field: value})  # type: ignore[arg-type]

    assert (caught.value.field, caught.value.value) == (field, value)
