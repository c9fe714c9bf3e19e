"""A case as JSON: what its keys mean, what they default to, and what no case may be made of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.runtime.assignment.assignor import (
    AssignedTask,
    AssignmentError,
    ClientAssignment,
    TaskAssignment,
    TaskType,
)
from headwater.runtime.assignment.cases import case_from_json, run_case
from headwater.runtime.assignment.cluster import (
    ApplicationState,
    AssignmentConfigs,
    ClientState,
    ProcessId,
    TaskInfo,
    TaskTopicPartition,
    UnknownLagError,
)
from headwater.runtime.assignment.strict_json import CaseError, parse
from headwater.runtime.task_id import TaskId

WHOLE = {
    "id": "whole",
    "assignor": "sticky",
    "configs": {
        "acceptable_recovery_lag": 5,
        "max_warmup_replicas": 3,
        "num_standby_replicas": 1,
        "probing_rebalance_interval_ms": 60000,
        "rack_aware_assignment_tags": ["zone", "cluster"],
        "rack_aware_assignment_strategy": "min_traffic",
        "rack_aware_traffic_cost": 10,
        "rack_aware_non_overlap_cost": None,
    },
    "clients": [
        {
            "process_id": "b",
            "threads": 2,
            "rack": "r1",
            "tags": {"zone": "z"},
            "previous_active": ["0_1"],
            "previous_standby": ["1_10"],
            "lags": {"0_1": -2, "1_10": 7},
        },
        {"process_id": "a", "threads": 1},
    ],
    "tasks": [
        {
            "id": "0_1",
            "stateful": True,
            "changelogged": True,
            "state_bytes": 1000,
            "records_per_second": 2.5,
            "partitions": [
                {"topic": "in", "partition": 1, "source": True, "changelog": False, "racks": ["r1", "r2"]},
                {"topic": "log", "partition": 1, "source": False, "changelog": True, "racks": []},
            ],
        },
        {"id": "1_10", "stateful": False},
    ],
    "leader": "b",
    "now_ms": 100,
}

MINIMAL: dict[str, Any] = {"clients": [{"process_id": "a", "threads": 1}], "tasks": [{"id": "0_0"}]}


def changed(**keys: Any) -> dict[str, Any]:
    return {**MINIMAL, **keys}


def client(**keys: Any) -> dict[str, Any]:
    return changed(clients=[{"process_id": "a", "threads": 1, **keys}])


def task(**keys: Any) -> dict[str, Any]:
    return changed(tasks=[{"id": "0_0", **keys}])


def test_whole_case_is_the_state_that_it_describes() -> None:
    case = case_from_json(WHOLE)
    t01, t110 = TaskId(0, 1), TaskId(1, 10)

    assert (case.id, case.assignor) == ("whole", "sticky")
    assert case.state.assignment_configs == AssignmentConfigs(
        5, 3, 1, 60000, ("zone", "cluster"), 10, None, "min_traffic"
    )
    assert (case.state.leader, case.state.now_ms) == ("b", 100)
    assert case.state.all_tasks[t01] == TaskInfo(
        t01,
        frozenset({"store"}),
        frozenset(
            {
                TaskTopicPartition("in", 1, True, False, frozenset({"r1", "r2"})),
                TaskTopicPartition("log", 1, False, True, None),
            }
        ),
        1000,
        2.5,
    )
    assert case.state.all_tasks[t110] == TaskInfo(t110)
    assert case.state.client_states(compute_task_lags=True)[ProcessId("b")] == ClientState(
        ProcessId("b"), 2, frozenset({t01}), frozenset({t110}), {"zone": "z"}, "r1", lags={t01: -2, t110: 7}
    )


def test_minimal_case_has_defaults() -> None:
    state = case_from_json(MINIMAL).state

    assert case_from_json(MINIMAL).assignor == "high_availability"
    assert state.assignment_configs == AssignmentConfigs()
    assert state.leader == "a"
    assert state.all_tasks[TaskId(0, 0)].is_stateful
    assert state.all_tasks[TaskId(0, 0)].is_changelogged


def test_leader_is_the_smallest_process_id_unless_it_is_named() -> None:
    clients = [{"process_id": "b", "threads": 1}, {"process_id": "a", "threads": 1}]

    assert case_from_json(changed(clients=clients)).state.leader == "a"
    assert case_from_json(changed(clients=clients, leader="b")).state.leader == "b"


def test_lag_that_the_case_does_not_have_is_an_error_only_for_who_asks() -> None:
    state = case_from_json(client(lags={})).state

    assert state.client_states(compute_task_lags=False)["a"].lags is None
    with pytest.raises(UnknownLagError, match="no lag of task 0_0 on a"):
        state.client_states(compute_task_lags=True)["a"].lag_for(TaskId(0, 0))


@pytest.mark.parametrize(
    ("case", "where", "problem"),
    [
        ([], "", "expected an object, found a list"),
        ("case", "", 'expected an object, found "case"'),
        ({"clients": MINIMAL["clients"]}, "", "'tasks' is missing"),
        ({"tasks": []}, "", "'clients' is missing"),
        (changed(task=[]), "", "unknown key \"task\", did you mean 'tasks'?"),
        (changed(zzz=1), "", 'unknown key "zzz", known: id, assignor'),
        (changed(clients=[]), "clients", "there is no client"),
        (changed(clients={}), "clients", "expected a list, found an object"),
        (changed(clients=[None]), "clients[0]", "expected an object, found null"),
        (changed(clients=MINIMAL["clients"] * 2), "clients[1]", 'the client "a" is there twice'),
        (changed(clients=[{"process_id": "a"}]), "clients[0]", "'threads' is missing"),
        (client(threads=0), "clients[0].threads", "expected a whole number of 1 or more, found 0"),
        (client(threads=True), "clients[0].threads", "expected a whole number of 1 or more, found true"),
        (client(threads=1.0), "clients[0].threads", "expected a whole number of 1 or more, found 1.0"),
        (client(threads="2"), "clients[0].threads", 'expected a whole number of 1 or more, found "2"'),
        (client(threads=10**30), "clients[0].threads", "a number that does not fit into 64 bits"),
        (client(process_id=""), "clients[0].process_id", 'expected a text, found ""'),
        (client(process_id=7), "clients[0].process_id", "expected a text, found 7"),
        (client(rack=""), "clients[0].rack", 'expected a text, found ""'),
        (client(tags={"zone": 1}), "clients[0].tags.zone", "expected a text, found 1"),
        (client(previous_active=["0_0", "0_0"]), "clients[0].previous_active[1]", '"0_0" is there twice'),
        (
            client(previous_standby=["0-0"]),
            "clients[0].previous_standby[0]",
            'expected a task id such as 0_1, found "0-0"',
        ),
        (client(lags={"0_0": -1}), "clients[0].lags.0_0", "a lag is 0 or more, -2 of an owner, -3 unknown"),
        (client(lags={"0_0": -4}), "clients[0].lags.0_0", "expected a whole number of -3 or more, found -4"),
        (client(lags={"x": 1}), "clients[0].lags", 'expected a task id such as 0_1, found "x"'),
        (client(lags=[1]), "clients[0].lags", "expected an object, found a list"),
        (changed(tasks=MINIMAL["tasks"] * 2), "tasks[1]", "the task 0_0 is there twice"),
        (task(id="00_0"), "tasks[0].id", "expected a task id"),
        (task(id="-1_0"), "tasks[0].id", "expected a task id"),
        (task(id="0_٣"), "tasks[0].id", "expected a task id"),
        (task(id=f"0_{'9' * 5000}"), "tasks[0].id", "..."),
        (task(stateful=1), "tasks[0].stateful", "expected true or false, found 1"),
        (task(state_bytes=-1), "tasks[0].state_bytes", "expected a whole number of 0 or more, found -1"),
        (task(records_per_second="x"), "tasks[0].records_per_second", 'expected a number of 0 or more, found "x"'),
        (
            task(changelogged=False, partitions=[{"topic": "t", "partition": 0, "changelog": True}]),
            "tasks[0]",
            "a partition is a changelog, but the task is not changelogged",
        ),
        (
            task(partitions=[{"topic": "t", "partition": 0}] * 2),
            "tasks[0].partitions[1]",
            'the partition "t" 0 is there twice',
        ),
        (
            task(partitions=[{"topic": "t", "partition": 0, "racks": ["r", "r"]}]),
            "tasks[0].partitions[0].racks[1]",
            '"r" is there twice',
        ),
        (changed(configs={"max_warmup_replicas": 0}), "configs.max_warmup_replicas", "a whole number of 1 or more"),
        (
            changed(configs={"rack_aware_assignment_strategy": "max_traffic"}),
            "configs.rack_aware_assignment_strategy",
            "expected one of none, min_traffic, balance_subtopology",
        ),
        (changed(leader="z"), "leader", 'there is no client "z"'),
        (changed(now_ms=-1), "now_ms", "expected a whole number of 0 or more"),
        (changed(id=[1]), "id", "expected a text or a whole number, found a list"),
        (changed(assignor={"name": "x", "option": {}}), "assignor", "did you mean 'options'?"),
        (changed(assignor=None), "assignor", "expected a name or an object, found null"),
    ],
)
def test_faulty_case_is_refused_with_the_place(case: Any, where: str, problem: str) -> None:
    with pytest.raises(CaseError) as refused:
        case_from_json(case)

    assert refused.value.where == where
    assert problem in refused.value.message


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "not JSON"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": -Infinity}', "-Infinity is no number"),
        (b'{"a": 1, "a": 2}', 'the key "a" is there twice in one object'),
        (b'{"a": "\xff"}', "not UTF-8: byte 0xff at 7"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5_000, "a number that does not fit into 64 bits"),
        (b"{} {}", "not JSON: Extra data"),
    ],
)
def test_line_that_is_no_strict_json_is_refused(line: bytes, problem: str) -> None:
    with pytest.raises(CaseError) as refused:
        parse(line)

    assert problem in refused.value.message


class Fixed:
    """Answers with what it was made with."""

    def __init__(self, *clients: ClientAssignment) -> None:
        self.clients = clients
        self.told: list[AssignmentError] = []

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        return TaskAssignment(self.clients)

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        self.told.append(error)


def test_answer_is_sorted_by_client_subtopology_and_partition() -> None:
    tasks = [{"id": text} for text in ("0_2", "10_0", "2_0", "0_10")]
    clients = [{"process_id": "b", "threads": 1}, {"process_id": "a", "threads": 1}]
    placed = [
        AssignedTask(TaskId(10, 0), TaskType.ACTIVE),
        AssignedTask(TaskId(0, 10), TaskType.ACTIVE),
        AssignedTask(TaskId(2, 0), TaskType.ACTIVE),
        AssignedTask(TaskId(0, 2), TaskType.STANDBY),
    ]
    assignor = Fixed(ClientAssignment(ProcessId("b"), placed), ClientAssignment(ProcessId("a"), (), 90))

    found = run_case(case_from_json(changed(id=7, clients=clients, tasks=tasks)), assignor)

    assert json.dumps(found.to_json()) == (
        '{"id": 7, "assignments": {"a": {"active": [], "standby": []}, '
        '"b": {"active": ["0_10", "2_0", "10_0"], "standby": ["0_2"]}}, '
        '"followup_deadlines": {"a": 90}, "error": null, "validation": "NONE"}'
    )


def test_invalid_answer_is_shown_with_what_is_wrong_and_the_assignor_is_told() -> None:
    assignor = Fixed(ClientAssignment(ProcessId("z"), [AssignedTask(TaskId(0, 0), TaskType.ACTIVE)]))

    found = run_case(case_from_json(MINIMAL), assignor).to_json()

    assert found["validation"] == "MISSING_PROCESS_ID"
    assert found["error"] == "the assignment has no entry for a client: a"
    assert found["assignments"] == {"z": {"active": ["0_0"], "standby": []}}
    assert assignor.told == [AssignmentError.MISSING_PROCESS_ID]
