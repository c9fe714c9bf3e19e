"""The question that an assignor is asked, made of what lies in the clients' state directories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from commits import Applications, part, segment, topic, topology

from headwater.runtime.assignment.assignor import (
    AssignedTask,
    AssignmentError,
    ClientAssignment,
    TaskAssignment,
    TaskAssignmentError,
    TaskAssignor,
    TaskType,
)
from headwater.runtime.assignment.cluster import ApplicationState, ProcessId
from headwater.runtime.engine.clients import Client
from headwater.runtime.engine.placement import Executor
from headwater.runtime.engine.placing import place
from headwater.runtime.engine.planner import Planner
from headwater.runtime.engine.plugged import Plugged
from headwater.runtime.log.embedded import EmbeddedLog
from headwater.runtime.state.directory import StateDirectory, StoreId
from headwater.runtime.state.lmdb import LmdbBackend
from headwater.runtime.tasks.task_id import TaskId
from headwater.runtime.topology import Assignment, PluginRef, Store, Topology

NAMES = Store("names", 2, "k string", "v bigint")
SUMS = Store("sums", 2, "k string", "v bigint")
EVENTS = topic("events")
BETWEEN = topic("between", writer="p-t")
TOPOLOGY = topology("t", part("reads", (EVENTS,), (BETWEEN,), (NAMES, SUMS)), part("plain", (BETWEEN,), number=1))
TASKS = {TaskId(number, partition) for number in range(2) for partition in range(2)}


@dataclass
class Asked:
    """A project's assignor that remembers what it was asked; it gives all tasks to the first client."""

    states: list[ApplicationState] = field(default_factory=list)
    twice: bool = False

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        self.states.append(application_state)
        first, *others = sorted(application_state.clients)
        everything = [AssignedTask(task, TaskType.ACTIVE) for task in application_state.all_tasks]
        rest = [ClientAssignment(each, everything if self.twice else ()) for each in others]
        return TaskAssignment([ClientAssignment(first, everything), *rest])

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        pass


class WithAssignor(Plugged):
    """Built-in plugins, and one assignor in the place of every name."""

    def __init__(self, assignor: TaskAssignor) -> None:
        super().__init__(("", (), ()))
        self._assignor = assignor

    def assignor(self, ref: PluginRef) -> TaskAssignor:
        return self._assignor


class Group:
    """Two clients with two threads each, and what they hold."""

    clients: Sequence[Client] = (Client("client-1", 2), Client("client-2", 2))

    def __init__(self, root: Path) -> None:
        self.applications = Applications(EmbeddedLog(root / "log"))
        self.committed = self.applications.start(TOPOLOGY)
        self.directories = {
            client.name: StateDirectory(root / "state", client.name, TOPOLOGY.application) for client in self.clients
        }

    def hold(self, client: str, store: str, partition: int, records: int) -> None:
        path = self.directories[client].store_path(StoreId(store, partition))
        LmdbBackend().open(path).apply((), 0, records)

    def grow(self, store: str, partition: int, records: int) -> None:
        changes = segment(f"p-t-{store}-changelog", records, partition, partition)
        self.applications.commit("t", "reads", partition, {}, changes)
        self.committed.own.refresh()

    def place(self, plugged: Plugged, declared: Topology = TOPOLOGY) -> dict[str, list[str]]:
        placed = place(declared, self.clients, self.directories, Planner(self.committed, 10), plugged)
        return {client: list(map(str, tasks)) for client, tasks in placed.items()}

    def asked(self, declared: Topology = TOPOLOGY) -> ApplicationState:
        assignor = Asked()
        self.place(WithAssignor(assignor), declared)
        (state,) = assignor.states
        return state


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
    assert {name: client.num_processing_threads for name, client in state.clients.items()} == {
        "client-1": 2,
        "client-2": 2,
    }


def test_lag_is_what_all_stores_of_a_task_lack_and_stateless_tasks_have_none(group: Group) -> None:
    group.grow("names", 1, 30)
    group.grow("sums", 1, 12)
    group.hold("client-2", "names", 1, 25)
    group.hold("client-2", "sums", 1, 12)
    state = group.asked()
    lags = {name: {str(task): lag for task, lag in (each.lags or {}).items()} for name, each in state.clients.items()}
    assert lags == {"client-1": {"0_0": 0, "0_1": 42}, "client-2": {"0_0": 0, "0_1": 5}}


def test_client_that_holds_most_of_a_task_had_it_before_the_first_by_name_of_equals(group: Group) -> None:
    group.grow("names", 0, 30)
    group.grow("names", 1, 30)
    group.hold("client-1", "names", 0, 10)
    group.hold("client-2", "names", 0, 20)
    group.hold("client-1", "names", 1, 7)
    group.hold("client-2", "names", 1, 7)
    state = group.asked()
    had = {name: {str(task) for task in each.previous_active_tasks} for name, each in state.clients.items()}
    assert had == {"client-1": {"0_1"}, "client-2": {"0_0"}}


def test_client_with_nothing_on_disk_had_no_task(group: Group) -> None:
    assert [client.previous_active_tasks for client in group.asked().clients.values()] == [frozenset(), frozenset()]


def test_what_the_topology_asks_for_reaches_the_assignor(group: Group) -> None:
    asked = Assignment(PluginRef("mine"), 2, 3, 500, 1_000, "min_traffic", ("zone",))
    configs = group.asked(replace(TOPOLOGY, assignment=asked)).assignment_configs
    assert configs.num_standby_replicas == 2
    assert configs.max_warmup_replicas == 3
    assert configs.acceptable_recovery_lag == 500
    assert configs.probing_rebalance_interval_ms == 1_000
    assert (configs.rack_aware_assignment_strategy, configs.rack_aware_assignment_tags) == ("min_traffic", ("zone",))


def test_host_of_an_executor_is_known_and_a_virtual_client_has_none(group: Group) -> None:
    group.clients = (Client("client-1", 2), Client("client-2", 2, Executor("7", "rack4", 2)))
    assert {name: each.host for name, each in group.asked().clients.items()} == {
        ProcessId("client-1"): "",
        ProcessId("client-2"): "rack4",
    }


def test_tasks_go_where_the_assignor_says(group: Group) -> None:
    assert group.place(WithAssignor(Asked())) == {"client-1": ["0_0", "0_1", "1_0", "1_1"], "client-2": []}


def test_task_on_two_clients_is_refused(group: Group) -> None:
    with pytest.raises(TaskAssignmentError, match="an active task on two clients: 0_0"):
        group.place(WithAssignor(Asked(twice=True)))


def test_built_in_assignor_leaves_tasks_where_their_state_is(group: Group) -> None:
    group.grow("sums", 0, 5)
    group.hold("client-2", "sums", 0, 5)
    placed = group.place(Plugged(("", (), ())))
    assert "0_0" in placed["client-2"]
    assert sorted(map(len, placed.values())) == [2, 2]
    assert "0_1" in placed["client-1"]
