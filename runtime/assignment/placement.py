"""The placement that an assignor works on: which client has which task so far, with up-to-date counts and loads.

Tasks and clients are numbers here. The numbers follow the order in which everything is visited: tasks by subtopology
and partition, clients by process id. So the first of equals is the smallest number, and names need no sorting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from ..task_id import TaskId
from .api.assignor import AssignedTask, ClientAssignment, TaskAssignment, TaskType
from .api.cluster import ApplicationState, ClientState, NoClientsError, ProcessId

_IN_ORDER = attrgetter("subtopology", "partition")


def in_order(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Tasks sorted by subtopology and partition. This is faster than comparing TaskIds."""
    return sorted(tasks, key=_IN_ORDER)


class Placement:
    """Tasks on clients while an assignor works; empty at first.

    `count` and `load` (tasks of all roles for each thread) are lists by client. `loads` is `load` as an array. `active`
    and `standby` are sets of tasks by client. `owner` is the client of each active task, -1 if there is none. Everyone
    may read these fields; only the methods here change them.
    """

    def __init__(self, tasks: Iterable[TaskId], clients: Mapping[ProcessId, ClientState]) -> None:
        """Raises NoClientsError."""
        if not clients:
            raise NoClientsError
        self.tasks = in_order(tasks)
        self.clients = sorted(clients)
        self.threads = [clients[client].num_processing_threads for client in self.clients]
        self.count = [0] * len(self.clients)
        # `load` and `loads` hold the same: reading one element of a list is fast, and so is a minimum over an array.
        self.load = [0.0] * len(self.clients)
        self.loads: npt.NDArray[np.float64] = np.zeros(len(self.clients))
        self.active: list[set[int]] = [set() for _ in self.clients]
        self.standby: list[set[int]] = [set() for _ in self.clients]
        self.owner = [-1] * len(self.tasks)
        self._holders: dict[int, set[int]] = {}

    def holders(self, task: int) -> Collection[int]:
        """The clients that have a standby of the task."""
        return self._holders.get(task, ())

    def has(self, client: int, task: int) -> bool:
        """Whether the client has the task, in either role."""
        return task in self.active[client] or task in self.standby[client]

    def lacking(self, task: int) -> npt.NDArray[np.bool_]:
        """By client: whether it has the task in neither role."""
        free = np.ones(len(self.clients), np.bool_)
        free[list(self.holders(task))] = False
        if self.owner[task] >= 0:
            free[self.owner[task]] = False
        return free

    def lightest(self, among: npt.NDArray[np.bool_]) -> int | None:
        """The least loaded of the clients `among`, the first of equals; None if there is none."""
        client = int(np.where(among, self.loads, np.inf).argmin())
        return client if among[client] else None

    def assign_active(self, client: int, task: int) -> None:
        """Give a client a task that is active nowhere."""
        self.owner[task] = client
        self.active[client].add(task)
        self._counted(client, 1)

    def unassign_active(self, client: int, task: int) -> None:
        """Take an active task from a client. Raises KeyError if the client does not have it."""
        self.active[client].remove(task)
        if self.owner[task] == client:
            self.owner[task] = -1
        self._counted(client, -1)

    def assign_standby(self, client: int, task: int) -> None:
        """Give a client a standby of a task that it has in neither role."""
        self._holders.setdefault(task, set()).add(client)
        self.standby[client].add(task)
        self._counted(client, 1)

    def unassign_standby(self, client: int, task: int) -> None:
        """Take a standby from a client. Raises KeyError if the client does not have it."""
        self._holders[task].remove(client)
        self.standby[client].remove(task)
        self._counted(client, -1)

    def move_active(self, source: int, destination: int, task: int) -> None:
        """Move an active task from one client to another that has it in neither role."""
        self.unassign_active(source, task)
        self.assign_active(destination, task)

    def move_standby(self, source: int, destination: int, task: int) -> None:
        """Move a standby from one client to another that has the task in neither role."""
        self.unassign_standby(source, task)
        self.assign_standby(destination, task)

    def swap(self, task: int, standby: int) -> None:
        """Exchange the roles of a task's owner and of a client with a standby of it."""
        owner = self.owner[task]
        self.unassign_standby(standby, task)
        self.move_active(owner, standby, task)
        self.assign_standby(owner, task)

    def by_name(self, sets: list[set[int]], among: Collection[int] | None = None) -> dict[ProcessId, set[TaskId]]:
        """`active` or `standby` with names instead of numbers, limited to the tasks `among`, if given."""
        return {
            client: {self.tasks[task] for task in (own if among is None else own.intersection(among))}
            for client, own in zip(self.clients, sets, strict=True)
        }

    def replace_actives(self, placed: Mapping[ProcessId, Collection[TaskId]]) -> None:
        """Move active tasks to where `placed` has them. Tasks that it does not name stay."""
        tasks = {task: number for number, task in enumerate(self.tasks)}
        for client, name in enumerate(self.clients):
            for task in placed.get(name, ()):
                if self.owner[tasks[task]] != client:
                    self.move_active(self.owner[tasks[task]], client, tasks[task])

    def to_assignment(self, deadlines: Mapping[ProcessId, int] | None = None) -> TaskAssignment:
        """The assignor's answer. `deadlines`: in ms since 1970, of clients that ask for a follow-up."""
        return TaskAssignment(
            [
                ClientAssignment(
                    client,
                    [
                        AssignedTask(self.tasks[task], role)
                        for own, role in ((active, TaskType.ACTIVE), (standby, TaskType.STANDBY))
                        for task in sorted(own)
                    ],
                    (deadlines or {}).get(client),
                )
                for client, active, standby in zip(self.clients, self.active, self.standby, strict=True)
            ]
        )

    def _counted(self, client: int, change: int) -> None:
        count = self.count[client] = self.count[client] + change
        load = self.load[client] = count / self.threads[client]
        self.loads[client] = load


def followup(application_state: ApplicationState) -> dict[ProcessId, int]:
    """The deadline of the follow-up: now plus the probing interval.

    The leader asks for it, or else the first client.
    """
    leader = application_state.leader
    if leader is None:
        leader = min(application_state.clients)
    interval = application_state.assignment_configs.probing_rebalance_interval_ms
    return {leader: application_state.now_ms + interval}
