"""From round to round, as clients come and go, until nothing is asked for any more.

Before each round, copies have caught up that were placed in the round before, and all others are lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pytest

from headwater.runtime.assignment.assignor import (
    AssignmentError,
    ClientAssignment,
    TaskAssignment,
    TaskType,
    validate_task_assignment,
)
from headwater.runtime.assignment.cluster import (
    LATEST_OFFSET,
    ApplicationState,
    AssignmentConfigs,
    ClientState,
    ProcessId,
    TaskInfo,
)
from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.assignment.sticky import Fallback
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.assignment.clusters import deadlines, sets, task

Assign = Callable[[ApplicationState], TaskAssignment]

high_availability: Assign = HighAvailability().assign

FAR = 1_000_000
COUNTS = [1, 2, 3, 5, 8, 13, 21, 34, 50]


def tasks_of(stateful: int, stateless: int) -> dict[TaskId, TaskInfo]:
    """Tasks of subtopologies of three partitions each, those with state first."""
    ids = [TaskId(number // 3, number % 3) for number in range(stateful + stateless)]
    return {each: task(each, stateful=number < stateful) for number, each in enumerate(ids)}


@dataclass
class Group:
    """Clients of one thread each, and what they have."""

    tasks: dict[TaskId, TaskInfo]
    configs: AssignmentConfigs
    clients: dict[ProcessId, ClientState]
    assign: Assign = high_availability
    joined: int = 0

    @classmethod
    def of(
        cls,
        clients: int,
        stateful: int,
        stateless: int,
        warmups: int,
        replicas: int,
        assign: Assign = high_availability,
    ) -> Group:
        configs = AssignmentConfigs(100, max_warmup_replicas=warmups, num_standby_replicas=replicas)
        group = cls(tasks_of(stateful, stateless), configs, {}, assign)
        for _ in range(clients):
            group.add()
        return group

    def add(self) -> None:
        name = ProcessId(f"c{self.joined:03}")
        self.clients[name] = ClientState(name, 1, lags=self._lags((), ()))
        self.joined += 1

    def drop(self, name: ProcessId) -> None:
        del self.clients[name]

    def round(self) -> bool:
        """Assign once; whether more is asked for."""
        state = ApplicationState(self.tasks, self.clients, self.configs)
        assignment = self.assign(state)
        assert validate_task_assignment(state, assignment) == (AssignmentError.NONE, "")
        assert sorted(each for active, _ in sets(assignment).values() for each in active) == sorted(self.tasks)
        self.clients = {
            client.process_id: replace(
                self.clients[client.process_id],
                previous_active_tasks=frozenset(client.of_type(TaskType.ACTIVE)),
                previous_standby_tasks=frozenset(client.of_type(TaskType.STANDBY)),
                lags=self._lags(client.of_type(TaskType.ACTIVE), client.of_type(TaskType.STANDBY)),
            )
            for client in assignment.assignment
        }
        return bool(deadlines(assignment))

    def rounds(self, at_most: int) -> int:
        """Assign until no more is asked for, and nothing moves any more then; after how many rounds."""
        for number in range(1, at_most + 1):
            if not self.round():
                settled = self.clients
                assert not self.round()
                assert self.clients == settled
                return number
        raise AssertionError(f"not settled after {at_most} rounds")

    def check_balance(self) -> None:
        """Both active tasks and tasks with state are spread evenly."""
        for counts in (
            [len(client.previous_active_tasks) for client in self.clients.values()],
            [len(self._stateful(client)) for client in self.clients.values()],
        ):
            assert max(counts) - min(counts) <= 1

    def _stateful(self, client: ClientState) -> list[TaskId]:
        own = client.previous_active_tasks | client.previous_standby_tasks
        return [each for each in own if self.tasks[each].is_stateful]

    def _lags(self, active: Iterable[TaskId], standby: Iterable[TaskId]) -> dict[TaskId, int]:
        lags = {each: FAR for each, info in self.tasks.items() if info.is_stateful}
        lags |= {each: LATEST_OFFSET for each in active if each in lags}
        return lags | dict.fromkeys(standby, 0)


@pytest.mark.parametrize("replicas", [0, 1, 2])
@pytest.mark.parametrize("clients", COUNTS)
def test_static_group_settles_in_one_round(clients: int, replicas: int) -> None:
    group = Group.of(clients, 11, 7, 2, replicas)

    assert group.rounds(1) == 1
    group.check_balance()


def settles_with_a_new_client(group: Group) -> None:
    """Within as many rounds as all copies need, `max_warmup_replicas` in each, and one more."""
    group.rounds(1)
    group.add()
    group.rounds(copies(group) // group.configs.max_warmup_replicas + 1)
    group.check_balance()


def settles_without_a_client(group: Group) -> None:
    """Standbys that are wanted elsewhere use up the same budget."""
    group.rounds(1)
    group.drop(min(group.clients))
    group.rounds(copies(group) // group.configs.max_warmup_replicas + 2)
    group.check_balance()


def copies(group: Group) -> int:
    return sum(info.is_stateful for info in group.tasks.values()) * (1 + group.configs.num_standby_replicas)


@pytest.mark.parametrize("replicas", [0, 1])
@pytest.mark.parametrize("warmups", [1, 2, 5])
@pytest.mark.parametrize("clients", COUNTS)
def test_added_client_has_its_share_within_the_bound(clients: int, warmups: int, replicas: int) -> None:
    settles_with_a_new_client(Group.of(clients, 12, 7, warmups, replicas))


@pytest.mark.parametrize("replicas", [0, 1])
@pytest.mark.parametrize("warmups", [1, 2, 5])
@pytest.mark.parametrize("clients", COUNTS[1:])
def test_tasks_of_a_dropped_client_are_shared_within_the_bound(clients: int, warmups: int, replicas: int) -> None:
    settles_without_a_client(Group.of(clients, 12, 7, warmups, replicas))


def changed(state: ApplicationState, change: Callable[[ClientAssignment], object]) -> TaskAssignment:
    assignment = high_availability(state)
    for client in assignment.assignment:
        change(client)
    return assignment


def asks_for_ever(state: ApplicationState) -> TaskAssignment:
    return changed(state, lambda client: setattr(client, "followup_rebalance_deadline", 1))


def never_asks(state: ApplicationState) -> TaskAssignment:
    return changed(state, lambda client: setattr(client, "followup_rebalance_deadline", None))


def warms_up_one_task_in_a_round(state: ApplicationState) -> TaskAssignment:
    configs = replace(state.assignment_configs, max_warmup_replicas=1)
    return high_availability(replace(state, assignment_configs=configs))


def moves_nothing(state: ApplicationState) -> TaskAssignment:
    return Fallback().assign(state)


@pytest.mark.parametrize("settles", [settles_with_a_new_client, settles_without_a_client])
@pytest.mark.parametrize("broken", [asks_for_ever, never_asks, warms_up_one_task_in_a_round, moves_nothing])
def test_broken_assignor_does_not_pass_as_settled(settles: Callable[[Group], None], broken: Assign) -> None:
    with pytest.raises(AssertionError):
        settles(Group.of(4, 40, 7, 20, 1, broken))


@pytest.mark.parametrize("clients", range(1, 8))
def test_case_40_client_is_added(clients: int) -> None:
    group = Group.of(clients, 11, 7, 2, 0)
    group.rounds(1)
    group.add()

    group.rounds(6)

    group.check_balance()


def test_case_40_first_of_seven_clients_is_dropped() -> None:
    group = Group.of(7, 13, 11, 2, 0)
    group.rounds(1)
    group.drop(min(group.clients))

    group.rounds(8)

    group.check_balance()


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_settles_within_the_bound(seed: int) -> None:
    chance = random.Random(seed)
    stateful, replicas = chance.randint(1, 12), chance.randint(0, 2)
    group = Group.of(chance.choice(COUNTS), stateful, chance.randint(0, 9), chance.randint(1, 4), replicas)
    for _ in range(4):
        for _ in range(chance.randint(1, 3)):
            if chance.random() < 0.5 and len(group.clients) > 1:
                group.drop(chance.choice(sorted(group.clients)))
            else:
                group.add()
            group.round()
        group.rounds(max(2 * stateful * (1 + replicas), 2))
        group.check_balance()
