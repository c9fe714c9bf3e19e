from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.runtime.assignment.assignor import (
    AssignedTask,
    AssignmentError,
    ClientAssignment,
    TaskAssignment,
    TaskType,
    validate_task_assignment,
)
from headwater.runtime.assignment.building_blocks import (
    Assignments,
    RackAwareOptimizationParams,
    default_standby_task_assignment,
    identity_assignment,
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
)
from headwater.runtime.assignment.cluster import ApplicationState, AssignmentConfigs, ProcessId
from headwater.runtime.assignment.racks import TaskPlacementError
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.assignment.clusters import One, cluster, placed

T00 = TaskId(0, 0)


def standbys(assignments: Assignments) -> dict[str, list[str]]:
    return {
        name: [str(task) for task in client.of_type(TaskType.STANDBY)] for name, client in sorted(assignments.items())
    }


def only_0_0_is_changelogged(clients: dict[str, One], configs: AssignmentConfigs) -> ApplicationState:
    others = " ".join(one.active for one in clients.values()).replace("0_0", "")
    return cluster(clients, stateful="0_0", stateless=others, configs=configs)


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        ({"a": "0_0", "b": "1_1"}, AssignmentError.NONE),
        ({"a": "0_0 1_1"}, AssignmentError.MISSING_PROCESS_ID),
        ({"a": "0_0", "b": "1_1", "x": ""}, AssignmentError.UNKNOWN_PROCESS_ID),
        ({"a": "0_0", "b": "1_1 13_13"}, AssignmentError.UNKNOWN_TASK_ID),
        ({"a": "1_1", "b": "1_1"}, AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES),
    ],
)
def test_case_33_an_assignment_is_validated(assignments: dict[str, str], expected: AssignmentError) -> None:
    state = cluster({"a": One(), "b": One()}, stateful="0_0", stateless="1_1")
    answer = TaskAssignment(
        [
            ClientAssignment(
                ProcessId(name), [AssignedTask(TaskId.parse(each), TaskType.ACTIVE) for each in tasks.split()]
            )
            for name, tasks in assignments.items()
        ]
    )

    assert validate_task_assignment(state, answer)[0] is expected


def test_case_35_standbys_go_to_idle_clients() -> None:
    clients = {"a": One(5, active="0_0 0_1 0_2"), "b": One(5, active="0_3 0_4 0_5")}
    clients |= {name: One(5) for name in "cde"}
    state = only_0_0_is_changelogged(clients, AssignmentConfigs(num_standby_replicas=3))
    assignments = identity_assignment(state)

    default_standby_task_assignment(state, assignments)

    assert standbys(assignments) == {"a": [], "b": [], "c": ["0_0"], "d": ["0_0"], "e": ["0_0"]}


def test_case_35_standbys_go_to_other_zones() -> None:
    zones = {"c1": "1", "c2": "1", "c3": "2", "c4": "3"}
    clients = {name: One(5, tags={"az": zone}, active="0_0" if name == "c1" else "") for name, zone in zones.items()}
    configs = AssignmentConfigs(num_standby_replicas=2, rack_aware_assignment_tags=("az",))
    state = only_0_0_is_changelogged(clients, configs)
    assignments = identity_assignment(state)

    default_standby_task_assignment(state, assignments)

    assert standbys(assignments) == {"c1": [], "c2": [], "c3": ["0_0"], "c4": ["0_0"]}


def test_more_standbys_than_zones_go_anywhere() -> None:
    clients = {"a": One(active="0_0", tags={"az": "1"}), "b": One(tags={"az": "1"}), "c": One(tags={"az": "2"})}
    configs = AssignmentConfigs(num_standby_replicas=2, rack_aware_assignment_tags=("az",))
    state = only_0_0_is_changelogged(clients, configs)
    assignments = identity_assignment(state)

    default_standby_task_assignment(state, assignments)

    assert standbys(assignments) == {"a": [], "b": ["0_0"], "c": ["0_0"]}


def test_tags_without_replicas_give_no_standbys() -> None:
    clients = {"a": One(active="0_0", tags={"az": "1"}), "b": One(tags={"az": "2"})}
    state = only_0_0_is_changelogged(clients, AssignmentConfigs(rack_aware_assignment_tags=("az",)))
    assignments = identity_assignment(state)

    default_standby_task_assignment(state, assignments)

    assert standbys(assignments) == {"a": [], "b": []}


def test_clients_without_an_entry_are_added() -> None:
    state = cluster({"a": One(), "b": One()}, "0_0", configs=AssignmentConfigs(num_standby_replicas=1))
    name = ProcessId("a")
    assignments = {name: ClientAssignment(name, [AssignedTask(T00, TaskType.ACTIVE)])}

    default_standby_task_assignment(state, assignments)

    assert standbys(assignments) == {"a": [], "b": ["0_0"]}


def test_identity_is_what_was() -> None:
    state = cluster({"b": One(standby="0_0"), "a": One(active="0_0 0_1")}, "0_0 0_1")

    assert placed(TaskAssignment(list(identity_assignment(state).values()))) == {
        "a": (["0_0", "0_1"], []),
        "b": ([], ["0_0"]),
    }


def racked(configs: AssignmentConfigs, clients: dict[str, One] | None = None) -> ApplicationState:
    """Client a in rack 1 has 0_0, whose data are in rack 2, and the other way round; the same of standbys."""
    clients = clients or {"a": One(active="0_0", standby="0_1"), "b": One(active="0_1", standby="0_0")}
    names = dict.fromkeys(" ".join(f"{one.active} {one.standby}" for one in clients.values()).split())
    state = cluster(clients, " ".join(names), configs=configs)
    tasks = {
        task: replace(
            info,
            topic_partitions=frozenset(
                replace(each, racks=frozenset({"r1" if task.partition % 2 else "r2"})) for each in info.topic_partitions
            ),
        )
        for task, info in state.all_tasks.items()
    }
    clients = {
        name: replace(client, rack_id=f"r{1 + 'abc'.index(name)}") for name, client in sorted(state.clients.items())
    }
    return replace(state, all_tasks=tasks, clients=clients)


COSTS = AssignmentConfigs(
    rack_aware_traffic_cost=100, rack_aware_non_overlap_cost=1, rack_aware_assignment_strategy="min_traffic"
)


def test_actives_move_to_their_data_and_take_the_place_of_standbys() -> None:
    state = racked(COSTS)
    assignments = identity_assignment(state)

    optimize_rack_aware_active_tasks(RackAwareOptimizationParams(state), assignments)

    assert placed(TaskAssignment(list(assignments.values()))) == {"a": (["0_1"], []), "b": (["0_0"], [])}


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        (None, ["0_1"]),
        ([T00], ["0_0"]),  # it has nothing to change places with
        ([], ["0_0"]),
    ],
)
def test_only_the_tasks_that_are_named_move(tasks: list[TaskId] | None, expected: list[str]) -> None:
    state = racked(COSTS)
    assignments = {name: ClientAssignment(name) for name in state.clients}
    for name, task in (("a", T00), ("b", TaskId(0, 1))):
        assignments[ProcessId(name)].assign_task(AssignedTask(task, TaskType.ACTIVE))
    params = RackAwareOptimizationParams(state)

    optimize_rack_aware_active_tasks(params if tasks is None else params.for_tasks(tasks), assignments)

    assert [str(task) for task in assignments[ProcessId("a")].tasks] == expected


def test_standbys_swap_where_that_saves_traffic() -> None:
    state = racked(COSTS)
    assignments = {name: ClientAssignment(name) for name in state.clients}
    for name, task in (("a", T00), ("b", TaskId(0, 1))):
        assignments[ProcessId(name)].assign_task(AssignedTask(task, TaskType.STANDBY))

    optimize_rack_aware_standby_tasks(RackAwareOptimizationParams(state), assignments)

    assert standbys(assignments) == {"a": ["0_1"], "b": ["0_0"]}


@pytest.mark.parametrize("strategy", ["min_traffic", "balance_subtopology"])
def test_only_the_standbys_that_are_named_move(strategy: str) -> None:
    configs = replace(COSTS, rack_aware_assignment_strategy=strategy)
    state = racked(configs, {"a": One(standby="0_0 0_2"), "b": One(standby="0_1 0_3")})
    assignments = identity_assignment(state)
    params = RackAwareOptimizationParams(state).for_tasks([T00, TaskId(0, 1)])

    optimize_rack_aware_standby_tasks(params, assignments)

    assert standbys(assignments) == {"a": ["0_1", "0_2"], "b": ["0_0", "0_3"]}


@pytest.mark.parametrize(("tags", "expected"), [((), ["0_1"]), (("zone",), ["0_0"])])
def test_standbys_swap_only_where_a_task_s_clients_differ_in_no_fewer_tags(
    tags: tuple[str, ...], expected: list[str]
) -> None:
    clients = {
        "a": One(standby="0_0", tags={"zone": "x"}),
        "b": One(standby="0_1", tags={"zone": "y"}),
        "c": One(active="0_0 0_1", tags={"zone": "y"}),
    }
    state = racked(replace(COSTS, rack_aware_assignment_tags=tags), clients)
    assignments = identity_assignment(state)

    optimize_rack_aware_standby_tasks(RackAwareOptimizationParams(state), assignments)

    assert standbys(assignments)["a"] == expected


def test_task_without_state_is_not_among_those_with_state_and_the_other_way_round() -> None:
    params = RackAwareOptimizationParams(cluster({"a": One()}, stateful="0_0", stateless="1_0"))

    assert params.for_stateful_tasks().tasks == {T00}
    assert params.for_stateless_tasks().tasks == {TaskId(1, 0)}


def test_task_that_nobody_runs_cannot_be_optimised() -> None:
    state = racked(COSTS)
    params = RackAwareOptimizationParams(state).for_stateful_tasks()

    with pytest.raises(TaskPlacementError, match="0_0"):
        optimize_rack_aware_active_tasks(params, {})


def test_identity_of_a_task_in_two_roles_is_refused() -> None:
    state = cluster({"a": One(active="0_0", standby="0_0")}, "0_0")

    with pytest.raises(ValueError, match="task 0_0 is twice on a"):
        identity_assignment(state)


def test_overridden_costs_decide() -> None:
    state = racked(COSTS)
    assignments = identity_assignment(state)
    params = RackAwareOptimizationParams(state).with_traffic_cost_override(1).with_non_overlap_cost_override(100)

    optimize_rack_aware_active_tasks(params.for_stateful_tasks(), assignments)

    assert placed(TaskAssignment(list(assignments.values())))["a"] == (["0_0"], ["0_1"])


def test_nothing_moves_where_no_costs_are_configured() -> None:
    state = racked(AssignmentConfigs(rack_aware_assignment_strategy="min_traffic"))
    assignments = identity_assignment(state)
    params = RackAwareOptimizationParams(state).with_traffic_cost_override(100).with_non_overlap_cost_override(0)

    optimize_rack_aware_active_tasks(params, assignments)
    optimize_rack_aware_standby_tasks(params, assignments)

    assert placed(TaskAssignment(list(assignments.values()))) == placed(
        TaskAssignment(list(identity_assignment(state).values()))
    )
