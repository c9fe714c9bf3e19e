from __future__ import annotations

import pytest

from headwater.runtime.assignment.cluster import AssignmentConfigs, NoClientsError
from headwater.runtime.assignment.sticky import Fallback, Sticky
from headwater.tests.runtime.assignment.clusters import One, cluster, deadlines, placed

TWELVE = " ".join(f"0_{partition}" for partition in range(12))


def test_case_36_tasks_are_shared_by_threads() -> None:
    placement = placed(Sticky().assign(cluster({"a": One(1), "b": One(2)}, stateless=TWELVE)))

    assert [len(active) for active, _ in placement.values()] == [4, 8]


def test_case_36_tasks_that_were_all_on_one_of_two_are_shared() -> None:
    seven = "0_0 0_1 0_2 0_3 0_4 0_5 0_6"

    placement = placed(Sticky().assign(cluster({"a": One(active=seven), "b": One()}, seven)))

    assert placement == {"a": (["0_0", "0_1", "0_2", "0_6"], []), "b": (["0_3", "0_4", "0_5"], [])}


def test_case_36_sole_client_has_no_standbys() -> None:
    configs = AssignmentConfigs(num_standby_replicas=2)

    assert placed(Sticky().assign(cluster({"a": One()}, "0_0 0_1", configs=configs))) == {"a": (["0_0", "0_1"], [])}


def test_task_goes_to_its_standby_before_anyone_else() -> None:
    clients = {"a": One(active="0_0"), "b": One(), "c": One(standby="0_1 0_2")}

    placement = placed(Sticky().assign(cluster(clients, "0_0 0_1 0_2")))

    assert placement == {"a": (["0_0"], []), "b": (["0_2"], []), "c": (["0_1"], [])}


def test_standbys_go_where_they_were() -> None:
    clients = {"a": One(active="0_0"), "b": One(active="0_1"), "c": One(active="0_2", standby="0_0")}
    configs = AssignmentConfigs(num_standby_replicas=1)

    placement = placed(Sticky().assign(cluster(clients, "0_0 0_1 0_2", configs=configs)))

    assert placement["a"][0] == ["0_0"]
    assert sorted(len(standby) for _, standby in placement.values()) == [1, 1, 1]


def test_client_that_reported_last_is_believed_of_two_that_had_a_task() -> None:
    clients = {"a": One(active="0_0"), "b": One(active="0_0")}

    assert placed(Sticky().assign(cluster(clients, "0_0 0_1"))) == {"a": (["0_1"], []), "b": (["0_0"], [])}


def test_previous_task_that_is_no_more_is_forgotten() -> None:
    clients = {"a": One(active="9_9", standby="8_8"), "b": One()}

    assert placed(Sticky().assign(cluster(clients, "0_0"))) == {"a": (["0_0"], []), "b": ([], [])}


def test_sticky_asks_for_no_follow_up_and_for_no_lags() -> None:
    assert deadlines(Sticky().assign(cluster({"a": One(lags={}), "b": One(lags={})}, "0_0"))) == {}


def test_fallback_keeps_everything_where_it_was() -> None:
    clients = {"a": One(active="0_0 0_1 0_2 0_3"), "b": One()}

    placement = placed(Fallback().assign(cluster(clients, "0_0 0_1 0_2 0_3 0_4")))

    assert placement == {"a": (["0_0", "0_1", "0_2", "0_3"], []), "b": (["0_4"], [])}


def test_fallback_prefers_the_client_with_more_threads_where_sticky_takes_the_first() -> None:
    clients = {"a": One(1), "b": One(2)}

    by_threads = placed(Fallback().assign(cluster(clients, stateless="0_0 0_1 0_2 0_3")))
    by_name = placed(Sticky().assign(cluster(clients, stateless="0_0 0_1 0_2 0_3")))

    assert [len(active) for active, _ in by_threads.values()] == [1, 3]
    assert [len(active) for active, _ in by_name.values()] == [2, 2]


def test_fallback_always_asks_for_a_follow_up_by_the_leader() -> None:
    state = cluster({"a": One(), "b": One()}, "0_0", now_ms=5, leader="b")

    assert deadlines(Fallback().assign(state)) == {"b": 600_005}


@pytest.mark.parametrize("assignor", [Sticky(), Fallback()])
def test_without_clients_there_is_an_error(assignor: Sticky | Fallback) -> None:
    with pytest.raises(NoClientsError, match="no clients"):
        assignor.assign(cluster({}, "0_0"))
