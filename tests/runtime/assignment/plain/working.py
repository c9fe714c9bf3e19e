"""What the plain assignors work on: everything by name, counted again at each question."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headwater.runtime.assignment.cluster import ApplicationState, ClientState, ProcessId
from headwater.runtime.task_id import TaskId

Result = dict[ProcessId, tuple[set[TaskId], set[TaskId]]]
"""Client -> its actives and its standbys."""


@dataclass
class Client:
    """A client, and what it has so far."""

    state: ClientState
    active: set[TaskId] = field(default_factory=set)
    standby: set[TaskId] = field(default_factory=set)

    @property
    def threads(self) -> int:
        return self.state.num_processing_threads

    @property
    def count(self) -> int:
        return len(self.active) + len(self.standby)

    @property
    def load(self) -> float:
        return self.count / self.threads

    def has(self, task: TaskId) -> bool:
        return task in self.active or task in self.standby


Clients = dict[ProcessId, Client]


def clients_of(state: ApplicationState, lags: bool) -> Clients:
    return {name: Client(client) for name, client in sorted(state.client_states(lags).items())}


def result_of(clients: Clients) -> Result:
    return {name: (client.active, client.standby) for name, client in clients.items()}


class ConstrainedPrioritySet:
    """A list that is sorted at each poll."""

    def __init__(self, weight: Callable[[ProcessId], float], allowed: Callable[[ProcessId, TaskId], bool]) -> None:
        self._weight = weight
        self._allowed = allowed
        self._clients: list[ProcessId] = []

    def offer(self, *clients: ProcessId) -> None:
        self._clients = sorted({*self._clients, *clients}, key=lambda client: (self._weight(client), client))

    def poll(self, task: TaskId, also: Callable[[ProcessId], bool] = lambda client: True) -> ProcessId | None:
        for client in self._clients:
            if self._allowed(client, task) and also(client):
                self._clients.remove(client)
                return client
        return None


def changelogged(state: ApplicationState) -> list[TaskId]:
    return [task for task in sorted(state.all_tasks) if state.all_tasks[task].is_changelogged]


def without(tasks: Iterable[TaskId], others: Iterable[TaskId]) -> list[TaskId]:
    return sorted(set(tasks) - set(others))
