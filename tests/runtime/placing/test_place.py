"""The question that an assignor is asked, made of what clients hold and the log has, and what is made of its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.assignment.assignor import (
    AssignedTask,
    AssignmentError,
    ClientAssignment,
    TaskAssignment,
    TaskAssignor,
    TaskType,
)
from headwater.runtime.assignment.cluster import ApplicationState, ProcessId
from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.ir.topology import Assignment, PluginRef, Store, Topology
from headwater.runtime.log.commit.records import GenerationRecord
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.placing.assigned import Assigned, AssignorFailure, Move
from headwater.runtime.placing.place import Client, Executor, Member, application_state, copies_of, place
from headwater.runtime.task_id import StoreId, TaskId
from headwater.tests.runtime.driver.commits import Applications, part, segment, topic, topology

NAMES = Store("names", 2, "k string", "v bigint")
SUMS = Store("sums", 2, "k string", "v bigint", changelog=False)
EVENTS = topic("events")
BETWEEN = topic("between", writer="p-t")
TOPOLOGY = topology("t", part("reads", (EVENTS,), (BETWEEN,), (NAMES, SUMS)), part("plain", (BETWEEN,), number=1))
TASKS = {TaskId(number, partition) for number in range(2) for partition in range(2)}


@dataclass
class Answering:
    """A project's assignor that gives all tasks to the first client, and remembers what it was told."""

    twice: bool = False
    raising: bool = False
    nothing: bool = False
    nameless: bool = False
    without: str = ""
    told: list[AssignmentError] = field(default_factory=list)

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        if self.raising:
            raise ZeroDivisionError("no clients")
        if self.nothing:
            return None  # type: ignore[return-value]
        first, *others = sorted(application_state.clients)
        everything = [
            AssignedTask(replace(task, name="") if self.nameless else task, TaskType.ACTIVE)
            for task in application_state.all_tasks
            if str(task) != self.without
        ]
        rest = [ClientAssignment(each, everything if self.twice else ()) for each in others]
        return TaskAssignment([ClientAssignment(first, everything, 1_000), *rest])

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        self.told.append(error)


RAISING = Answering.assign.__code__.co_firstlineno + 2
"""The line at which it raises."""


class Group:
    """Two clients with two threads each, and what they hold. Process ids are in the other order than names."""

    def __init__(self, root: Path) -> None:
        self.applications = Applications(EmbeddedLog(root / "log"))
        self.committed = self.applications.start(TOPOLOGY)
        self.held: dict[str, dict[StoreId, int]] = {"client-1": {}, "client-2": {}}
        self.clients: Sequence[Client] = (
            Client("client-1", 2, process_id="bb"),
            Client("client-2", 2, process_id="aa"),
        )

    def hold(self, client: str, store: str, partition: int, records: int) -> None:
        self.held[client][StoreId(store, partition)] = records

    def grow(self, store: str, partition: int, records: int, at: int = 0) -> None:
        changes = segment(f"p-t-{store}-changelog", records, partition, partition)
        self.applications.commit("t", "reads", partition, {}, changes, at=at, records=records)
        self.committed.own.refresh()

    def record(self, clients: Mapping[str, Any]) -> None:
        """Start once more, with this assignment."""
        own = self.committed.own
        own.commit(GenerationRecord(own.generation + 1, 0, own.topology, {"clients": clients}))

    @property
    def members(self) -> list[Member]:
        return [Member(client, self.held[client.name]) for client in self.clients]

    def asked(self, declared: Topology = TOPOLOGY) -> ApplicationState:
        return application_state(declared, self.members, copies_of(declared, self.members, self.committed.own))

    def place(self, assignor: TaskAssignor) -> Assigned:
        return place(TOPOLOGY, self.members, self.committed.own, assignor)

    def had(self) -> dict[str, tuple[set[str], set[str]]]:
        """Process id -> previous active and standby tasks."""
        return {
            name: (set(map(str, each.previous_active_tasks)), set(map(str, each.previous_standby_tasks)))
            for name, each in self.asked().clients.items()
        }


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def test_assignor_sees_all_tasks_with_their_stores_and_all_clients(group: Group) -> None:
    state = group.asked()
    assert set(state.all_tasks) == TASKS
    assert {str(task): info.state_store_names for task, info in state.all_tasks.items()} == {
        "0_0": {"names", "sums"},
        "0_1": {"names", "sums"},
        "1_0": set(),
        "1_1": set(),
    }
    assert {task.name for task in state.all_tasks} == {"reads", "plain"}
    assert {name: client.num_processing_threads for name, client in state.clients.items()} == {"aa": 2, "bb": 2}
    assert state.clients[ProcessId("aa")].consumer_ids == ("aa-0", "aa-1")


def test_task_reads_its_sources_and_has_the_changelogs_that_are_kept(group: Group) -> None:
    info = group.asked().all_tasks[TaskId(0, 1)]
    topics = {(each.topic, each.partition, each.is_source, each.is_changelog) for each in info.topic_partitions}
    assert topics == {("events", 1, True, False), ("p-t-names-changelog", 1, False, True)}
    assert {each.racks for each in info.topic_partitions} == {None}


def test_lag_is_what_the_stores_with_a_changelog_lack_and_a_copy_beyond_the_end_is_none(group: Group) -> None:
    group.grow("names", 1, 30)
    group.grow("sums", 1, 12)
    group.hold("client-2", "names", 1, 25)
    group.hold("client-2", "sums", 1, 12)
    group.hold("client-1", "names", 1, 43)
    states = group.asked().client_states(compute_task_lags=True)
    lags = {name: {str(task): lag for task, lag in (each.lags or {}).items()} for name, each in states.items()}
    assert lags == {"bb": {"0_0": 0, "0_1": 30}, "aa": {"0_0": 0, "0_1": 5}}
    assert {each.lags for each in group.asked().clients.values()} == {None}


def test_client_that_holds_most_of_a_task_had_it_and_others_had_it_as_standby(group: Group) -> None:
    group.hold("client-1", "names", 0, 10)
    group.hold("client-2", "names", 0, 20)
    group.hold("client-1", "names", 1, 7)
    group.hold("client-2", "names", 1, 7)
    assert group.had() == {"aa": ({"0_0", "0_1"}, set()), "bb": (set(), {"0_0", "0_1"})}


def test_client_with_the_rows_of_a_store_without_changelog_had_the_task(group: Group) -> None:
    group.grow("sums", 0, 12)
    group.hold("client-2", "sums", 0, 12)
    assert group.had()["aa"] == ({"0_0"}, set())


def test_client_with_nothing_had_no_task(group: Group) -> None:
    assert group.had() == {"aa": (set(), set()), "bb": (set(), set())}


def test_who_ran_a_task_last_had_it_unless_another_one_holds_more(group: Group) -> None:
    for partition in range(2):
        group.hold("client-1", "names", partition, 7)
        group.hold("client-2", "names", partition, 7 + partition)
    group.record({"bb": {"active": {"reads": [0, 1], "plain": [1]}}, "gone": {"active": {"plain": [0]}}})
    assert group.had() == {"aa": ({"0_1"}, {"0_0"}), "bb": ({"0_0", "1_1"}, {"0_1"})}


def test_size_and_pace_of_a_task_are_measured_as_far_as_commits_tell(group: Group) -> None:
    for second in range(3):
        group.grow("names", 0, 30, at=1000 * second)
    group.record({})
    tasks = group.asked().all_tasks
    assert (tasks[TaskId(0, 0)].state_bytes, tasks[TaskId(0, 0)].records_per_second) == (3, 30.0)
    assert (tasks[TaskId(0, 1)].state_bytes, tasks[TaskId(0, 1)].records_per_second) == (0, None)
    assert tasks[TaskId(1, 0)].state_bytes is None


def test_what_the_topology_asks_for_reaches_the_assignor(group: Group) -> None:
    asked = Assignment(PluginRef("mine"), 2, 3, 500, 1_000, "min_traffic", ("zone",), 7, 8)
    configs = group.asked(replace(TOPOLOGY, assignment=asked)).assignment_configs
    assert configs.num_standby_replicas == 2
    assert configs.max_warmup_replicas == 3
    assert configs.acceptable_recovery_lag == 500
    assert configs.probing_rebalance_interval_ms == 1_000
    assert (configs.rack_aware_traffic_cost, configs.rack_aware_non_overlap_cost) == (7, 8)
    assert (configs.rack_aware_assignment_strategy, configs.rack_aware_assignment_tags) == ("min_traffic", ("zone",))


def test_host_of_an_executor_is_known_and_a_virtual_client_has_none(group: Group) -> None:
    group.clients = (group.clients[0], replace(group.clients[1], executor=Executor("7", "host4", 2)))
    assert {name: each.host for name, each in group.asked().clients.items()} == {"bb": "", "aa": "host4"}


def test_tasks_go_where_the_assignor_says_and_it_is_told_so(group: Group) -> None:
    assignor = Answering()
    assigned = group.place(assignor)
    assert assigned.by_client() == {"client-2": ("0_0", "0_1", "1_0", "1_1"), "client-1": ()}
    assert (assigned.followup_deadline, assigned.failure) == (1_000, None)
    assert assignor.told == [AssignmentError.NONE]


def test_moved_tasks_are_those_whose_owner_changes_or_is_gone(group: Group) -> None:
    group.record({"aa": {"active": {"plain": [1]}}, "gone": {"active": {"plain": [0]}}})
    group.hold("client-1", "names", 0, 5)
    assigned = group.place(Answering())
    assert (assigned.kept, assigned.new) == (1, 1)
    assert assigned.moves == (
        Move(TaskId(0, 0), "client-1", "client-2", {"client-1": 0}),
        Move(TaskId(1, 0), None, "client-2"),
    )


def test_client_that_comes_back_without_its_state_is_not_told_as_gone(group: Group) -> None:
    group.record(
        {
            "before": {"name": "client-2", "active": {"plain": [0]}},
            "gone": {"name": "client-3", "active": {"plain": [1]}},
        }
    )
    assert group.place(Answering()).moves == (
        Move(TaskId(1, 0), None, "client-2", emptied="client-2"),
        Move(TaskId(1, 1), None, "client-2"),
    )


def test_move_tells_how_far_every_copy_is_behind(group: Group) -> None:
    group.grow("names", 0, 30)
    group.hold("client-1", "names", 0, 30)
    group.hold("client-2", "names", 0, 12)
    assert group.place(Answering()).summary()["moves"] == [
        {"task": "0_0", "from": "client-1", "to": "client-2", "lags": {"client-2": 18, "client-1": 0}}
    ]


def test_clients_are_told_as_the_assignor_saw_them(group: Group) -> None:
    members = [replace(group.members[0], rack="left", tags={"zone": "a"}), group.members[1]]
    assigned = place(TOPOLOGY, members, group.committed.own, Answering())
    assert assigned.summary()["clients"] == {
        "client-1": {"process_id": "bb", "rack": "left", "tags": {"zone": "a"}},
        "client-2": {"process_id": "aa", "rack": None, "tags": {}},
    }


def test_tasks_that_nobody_was_given_are_told(group: Group) -> None:
    assigned = group.place(Answering(without="1_0"))
    assert (assigned.unassigned, assigned.failure) == ((TaskId(1, 0),), None)
    assert assigned.summary()["unassigned"] == ["1_0"]


def test_tasks_that_an_assignor_names_by_numbers_alone_keep_their_names_in_the_log(group: Group) -> None:
    assigned = group.place(Answering(nameless=True))
    assert set(Assigned.recorded("p-t", assigned.to_json())) == {
        ("p-t", name, each) for name in ("reads", "plain") for each in (0, 1)
    }


@pytest.mark.parametrize(
    ("assignor", "told", "failure"),
    [
        (
            Answering(twice=True),
            [AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES],
            AssignorFailure(
                "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES",
                "the assignment has an active task on two clients: 0_0",
                (
                    "ClientAssignment(aa: active 0_0, active 0_1, active 1_0, active 1_1)",
                    "ClientAssignment(bb: active 0_0, active 0_1, active 1_0, active 1_1)",
                ),
            ),
        ),
        (
            Answering(raising=True),
            [],
            AssignorFailure("RAISED", f"the assignor raised ZeroDivisionError: no clients ({__file__}:{RAISING})"),
        ),
        (
            Answering(nothing=True),
            [],
            AssignorFailure("NO_ASSIGNMENT", "the assignor returned NoneType, not a TaskAssignment"),
        ),
    ],
)
def test_answer_of_no_use_leaves_tasks_where_they_were_and_spreads_the_others(
    group: Group, assignor: Answering, told: list[AssignmentError], failure: AssignorFailure
) -> None:
    group.hold("client-1", "names", 0, 5)
    group.hold("client-1", "names", 1, 5)
    group.record({"bb": {"active": {"plain": [0]}}})
    assigned = group.place(assignor)
    assert assigned.by_client() == {"client-1": ("0_0", "0_1", "1_0"), "client-2": ("1_1",)}
    assert (assigned.kept, assigned.new, assigned.followup_deadline) == (3, 1, None)
    assert assigned.failure == failure
    assert assignor.told == told


def test_what_the_log_keeps_of_an_assignment_gives_the_owners_back(group: Group) -> None:
    assigned = group.place(Answering())
    assert Assigned.recorded("p-t", assigned.to_json()) == {
        ("p-t", "reads", 0): "aa",
        ("p-t", "reads", 1): "aa",
        ("p-t", "plain", 0): "aa",
        ("p-t", "plain", 1): "aa",
    }


def test_built_in_assignor_leaves_tasks_where_their_state_is(group: Group) -> None:
    group.grow("names", 0, 50_000)
    group.hold("client-1", "names", 0, 49_990)
    placed = group.place(HighAvailability()).by_client()
    assert "0_0" in placed["client-1"]
    assert sorted(map(len, placed.values())) == [2, 2]
