"""High availability, step by step as described, without racks."""

from __future__ import annotations

from itertools import cycle, permutations

from headwater.runtime.assignment.cluster import LATEST_OFFSET, UNBOUNDED_LAG, ApplicationState, ProcessId
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.assignment.plain.standbys import assign_standbys, tags_match
from headwater.tests.runtime.assignment.plain.working import (
    Client,
    Clients,
    ConstrainedPrioritySet,
    Result,
    changelogged,
    clients_of,
    result_of,
    without,
)


def high_availability(state: ApplicationState) -> tuple[Result, bool]:
    """The placement, and whether a follow-up is asked for."""
    clients = clients_of(state, lags=True)
    stateful = changelogged(state)

    for task, name in zip(stateful, cycle(clients), strict=False):
        clients[name].active.add(task)
    balance(clients, state, "active")

    if state.assignment_configs.num_standby_replicas:
        assign_standbys(state, clients)
        balance(clients, state, "standby")

    moves = Moves(state, clients, stateful)
    moved = moves.actives() + moves.standbys()

    queue = ConstrainedPrioritySet(
        lambda name: len(clients[name].active) / clients[name].threads, lambda name, task: True
    )
    queue.offer(*clients)
    for task in without(state.all_tasks, stateful):
        name = queue.poll(task)
        assert name is not None
        clients[name].active.add(task)
        queue.offer(name)
    return result_of(clients), moved > 0


def balance(clients: Clients, state: ApplicationState, role: str) -> None:
    moved = True
    while moved:
        moved = False
        for source, destination in permutations(clients, 2):
            one, other = clients[source], clients[destination]
            for task in sorted(getattr(one, role)):
                if not should_move(one, other):
                    break
                allowed = role == "active" or tags_match(clients, state, source, destination)
                if allowed and not other.has(task):
                    getattr(one, role).remove(task)
                    getattr(other, role).add(task)
                    moved = True


def should_move(source: Client, destination: Client) -> bool:
    skew = source.load - destination.load
    after = (source.count - 1) / source.threads - (destination.count + 1) / destination.threads
    return skew > 0 and after >= 0 and after < skew


class Moves:
    """Steps 3 to 5."""

    def __init__(self, state: ApplicationState, clients: Clients, stateful: list[TaskId]) -> None:
        self.clients = clients
        self.budget = state.assignment_configs.max_warmup_replicas
        self.warmups: set[tuple[ProcessId, TaskId]] = set()
        limit = state.assignment_configs.acceptable_recovery_lag
        self.lag = {(name, task): clients[name].state.lag_for(task) for task in stateful for name in clients}
        self.caught_up = {
            task: {
                name
                for name in clients
                if self.lag[name, task] == LATEST_OFFSET or limit == UNBOUNDED_LAG or 0 <= self.lag[name, task] <= limit
            }
            for task in stateful
        }
        self.by_lag = {task: sorted(clients, key=lambda name: (self.lag[name, task], name)) for task in stateful}
        self.queue = ConstrainedPrioritySet(
            lambda name: clients[name].load, lambda name, task: name in self.caught_up[task]
        )
        self.queue.offer(*clients)

    def needed(self, task: TaskId, name: ProcessId) -> bool:
        return name not in self.caught_up[task] and self.lag[self.by_lag[task][0], task] < self.lag[name, task]

    def actives(self) -> int:
        movements = [
            (len(self.caught_up[task]), task, name)
            for name, client in self.clients.items()
            for task in sorted(client.active)
            if self.needed(task, name)
        ]
        for _, task, destination in sorted(movements):
            source = self.queue.poll(task, lambda name, task=task: task in self.clients[name].standby)
            if source is not None:
                self.swap(task, source, destination)
            else:
                source = self.queue.poll(task)
                if source is None:
                    source = self.by_lag[task][0]
                if task in self.clients[source].standby:
                    self.swap(task, source, destination)
                else:
                    self.clients[source].active.add(task)
                    self.clients[destination].active.remove(task)
                    if self.spend():
                        self.clients[destination].standby.add(task)
                        self.warmups.add((destination, task))
            self.queue.offer(source, destination)
        return len(movements)

    def standbys(self) -> int:
        movements = [
            (len(self.caught_up[task]), task, name)
            for name, client in self.clients.items()
            for task in sorted(client.standby)
            if (name, task) not in self.warmups and self.needed(task, name)
        ]
        moved = 0
        for _, task, destination in sorted(movements, key=lambda movement: movement[:2]):
            source = self.queue.poll(task, lambda name, task=task: not self.clients[name].has(task))
            if source is None:
                before = self.by_lag[task][: self.by_lag[task].index(destination)]
                source = next((name for name in before if not self.clients[name].has(task)), None)
            if source is None:
                continue
            self.clients[source].standby.add(task)
            if not self.spend():
                self.clients[destination].standby.remove(task)
            self.queue.offer(source, destination)
            moved += 1
        return moved

    def swap(self, task: TaskId, source: ProcessId, destination: ProcessId) -> None:
        self.clients[source].standby.remove(task)
        self.clients[source].active.add(task)
        self.clients[destination].active.remove(task)
        self.clients[destination].standby.add(task)

    def spend(self) -> bool:
        self.budget -= 1
        return self.budget >= 0
