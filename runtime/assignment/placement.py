"""A placement of tasks on clients, and queues of the least loaded clients, for the built-in assignors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from heapq import heapify, heappop, heappush, heapreplace
from operator import or_

import numpy as np
import numpy.typing as npt

from ..task_id import TaskId
from .assignor import IN_ORDER, AssignedTask, ClientAssignment, TaskAssignment, TaskType
from .cluster import ApplicationState, ClientState, NoClientsError, ProcessId

# The placement that an assignor works on: the tasks of each client so far, with counts and loads.
#
# Tasks and clients are numbers here, in sorted order: tasks by subtopology and partition, clients by process id. So the
# first of equal candidates is the one with the smallest number, and names need no sorting.


class Placement:
    """Tasks on clients while an assignor works; empty at first.

    By client: `count`, the number of tasks in all roles; `load`, tasks per thread; `loads`, the same as an array;
    `active` and `standby`, sets of tasks. By task: `owner`, the client of the active task, -1 without one. These fields
    are public to read; only the methods here change them.
    """

    def __init__(self, tasks: Iterable[TaskId], clients: Mapping[ProcessId, ClientState]) -> None:
        """Raises NoClientsError."""
        if not clients:
            raise NoClientsError
        self.tasks = sorted(tasks, key=IN_ORDER)
        self.clients = sorted(clients)
        self.threads = [clients[client].num_processing_threads for client in self.clients]
        self.count = [0] * len(self.clients)
        # Both `load` and `loads`: a list is fast to read one element, an array is fast for a minimum.
        self.load = [0.0] * len(self.clients)
        self.loads: npt.NDArray[np.float64] = np.zeros(len(self.clients))
        self.active: list[set[int]] = [set() for _ in self.clients]
        self.standby: list[set[int]] = [set() for _ in self.clients]
        self.owner = [-1] * len(self.tasks)
        self._holders: dict[int, set[int]] = {}

    def holders(self, task: int) -> Collection[int]:
        """The clients with a standby of the task."""
        return self._holders.get(task, ())

    def has(self, client: int, task: int) -> bool:
        """Whether the client has the task, in either role."""
        return task in self.active[client] or task in self.standby[client]

    def lacking(self, task: int) -> npt.NDArray[np.bool_]:
        """By client: whether it does not have the task in any role."""
        free = np.ones(len(self.clients), np.bool_)
        free[list(self.holders(task))] = False
        if self.owner[task] >= 0:
            free[self.owner[task]] = False
        return free

    def lightest(self, among: npt.NDArray[np.bool_]) -> int | None:
        """The first least loaded client; None without one. `among`: candidates by client."""
        client = int(np.where(among, self.loads, np.inf).argmin())
        return client if among[client] else None

    def assign_active(self, client: int, task: int) -> None:
        """Assign an active task that no client has."""
        self.owner[task] = client
        self.active[client].add(task)
        self._counted(client, 1)

    def unassign_active(self, client: int, task: int) -> None:
        """Remove an active task from a client. Raises KeyError if the client does not have it."""
        self.active[client].remove(task)
        if self.owner[task] == client:
            self.owner[task] = -1
        self._counted(client, -1)

    def assign_standby(self, client: int, task: int) -> None:
        """Assign a standby of a task that the client does not have in any role."""
        self._holders.setdefault(task, set()).add(client)
        self.standby[client].add(task)
        self._counted(client, 1)

    def unassign_standby(self, client: int, task: int) -> None:
        """Remove a standby from a client. Raises KeyError if the client does not have it."""
        self._holders[task].remove(client)
        self.standby[client].remove(task)
        self._counted(client, -1)

    def move_active(self, source: int, destination: int, task: int) -> None:
        """Move an active task to a client that does not have it in any role."""
        self.unassign_active(source, task)
        self.assign_active(destination, task)

    def move_standby(self, source: int, destination: int, task: int) -> None:
        """Move a standby to a client that does not have the task in any role."""
        self.unassign_standby(source, task)
        self.assign_standby(destination, task)

    def swap(self, task: int, standby: int) -> None:
        """Swap the roles of a task's owner and of a client with a standby of it."""
        owner = self.owner[task]
        self.unassign_standby(standby, task)
        self.move_active(owner, standby, task)
        self.assign_standby(owner, task)

    def by_name(self, sets: list[set[int]], among: Collection[int] | None = None) -> dict[ProcessId, set[TaskId]]:
        """`active` or `standby` with names instead of numbers. `among`: only these tasks."""
        return {
            client: {self.tasks[task] for task in (own if among is None else own.intersection(among))}
            for client, own in zip(self.clients, sets, strict=True)
        }

    def replace_actives(self, placed: Mapping[ProcessId, Collection[TaskId]]) -> None:
        """Move active tasks to their clients in `placed`. Other tasks stay."""
        tasks = {task: number for number, task in enumerate(self.tasks)}
        for client, name in enumerate(self.clients):
            for task in placed.get(name, ()):
                if self.owner[tasks[task]] != client:
                    self.move_active(self.owner[tasks[task]], client, tasks[task])

    def to_assignment(self, deadlines: Mapping[ProcessId, int] | None = None) -> TaskAssignment:
        """The placement as an assignment. `deadlines`: follow-up deadlines of clients, in ms since 1970."""
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
    """The follow-up deadline, now plus the probing interval, of the leader or else of the first client."""
    leader = application_state.leader
    if leader is None:
        leader = min(application_state.clients)
    interval = application_state.assignment_configs.probing_rebalance_interval_ms
    return {leader: application_state.now_ms + interval}


# A queue of clients by weight, from which the lightest allowed client is taken.


class ConstrainedPrioritySet:
    """Clients by weight and number, named after the class in Kafka Streams.

    A polled client must be offered again. It is a heap. Outdated entries stay in it until they reach the top, so
    offering a client again is cheap.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        """`weights`: by client. A client has the weight of its last offer."""
        self._weights = weights
        self._offers = [0] * len(weights)
        self._heap: list[tuple[float, int, int]] = []

    def offer(self, client: int) -> None:
        """Add a client, or update it after its weight has changed."""
        offer = self._offers[client] = self._offers[client] + 1
        heappush(self._heap, (self._weights[client], client, offer))

    def offer_all(self, clients: Iterable[int]) -> None:
        """Offer all of the clients."""
        for client in clients:
            self.offer(client)

    def poll(self, allowed: Callable[[int], bool] | None = None) -> int | None:
        """Remove and return the first lightest client that is allowed; None without one."""
        heap, aside, lightest = self._heap, [], None
        while heap:
            entry = heappop(heap)
            client, offer = entry[1:]
            if offer != self._offers[client]:
                continue
            if allowed is None or allowed(client):
                lightest = client
                self._offers[client] += 1
                break
            aside.append(entry)
        for entry in aside:
            heappush(heap, entry)
        return lightest


# The least loaded client for a task, as in the sticky assignors of Kafka Streams.
#
# Two tasks that were once on the same client are a known pair. An idle client is taken at once. Of the others it takes
# the least loaded one on which the task forms a new pair; without one, the least loaded one. So standbys of tasks that
# share a client spread over many clients.

Weight = tuple[float, int, int]
"""The load, a tie-breaker, and the client's number."""


class LeastLoaded:
    """The clients of a placement by weight, for assignors that only add tasks.

    `threads_first`: of equally loaded clients, the one with more threads comes first.
    """

    def __init__(self, placement: Placement, threads_first: bool) -> None:
        self._placement = placement
        self._threads_first = threads_first
        self._heap = [self._weight(client) for client in range(len(placement.clients))]
        heapify(self._heap)

    def overloaded(self, client: int) -> bool:
        """Whether a client has at least one task per thread, and another client is less loaded."""
        return self._placement.load[client] >= 1 and self._lightest()[:2] < self._weight(client)[:2]

    def for_active(self) -> int:
        """The client for an unassigned task: the least loaded one, because the task forms new pairs on all clients."""
        return self._lightest()[2]

    def for_standby(self, task: int, pairs: TaskPairs) -> int | None:
        """The client for another standby of a task; None if all clients have it."""
        chosen, aside = None, list[Weight]()
        heap = self._heap
        while heap:
            weight = self._lightest()
            heappop(heap)
            aside.append(weight)
            client = weight[2]
            if self._placement.has(client, task):
                continue
            if self._placement.count[client] == 0 or pairs.is_new(task, client):
                chosen = client
                break
            chosen = client if chosen is None else chosen
        for weight in aside:
            heappush(heap, weight)
        return chosen

    def among(self, task: int, clients: Iterable[int], pairs: TaskPairs | None) -> int | None:
        """The same among `clients`, without those that have the task. Without `pairs` all pairs are new."""
        ordered = sorted(self._weight(client) for client in clients if not self._placement.has(client, task))
        if not ordered:
            return None
        for load, _, client in ordered:
            if load == 0 or pairs is None or pairs.is_new(task, client):
                return client
        return ordered[0][2]

    def _weight(self, client: int) -> Weight:
        load = self._placement.load[client]
        # An idle client is taken at once, with any number of threads.
        return load, -self._placement.threads[client] if self._threads_first and load else 0, client

    def _lightest(self) -> Weight:
        """The weight of the least loaded client. Loads only rise, so the first current entry is the least."""
        heap = self._heap
        while (entry := heap[0]) != (current := self._weight(entry[2])):
            heapreplace(heap, current)
        return entry


class TaskPairs:
    """The known pairs of tasks, named after the class in Kafka Streams. Created when all active tasks are placed.

    All active tasks of one client form pairs. So do tasks that an optimisation moved away, and later standbys. A set of
    tasks is the bits of an integer, because a set of pairs would grow quadratically: the tasks 0 and 3 are 0b1001.
    """

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._first_owner = list(placement.owner)
        self._first = [_bits(own) for own in placement.active]
        self._all = list(self._first)
        self._standbys = [0] * len(placement.clients)

    def actives_moved(self) -> None:
        """Record that active tasks have moved between clients. This forms no pairs."""
        self._all = [_bits(own) for own in self._placement.active]

    def standby_added(self, task: int, client: int) -> None:
        """Record a standby. It forms a pair with all tasks of the client."""
        self._all[client] |= 1 << task
        self._standbys[client] |= 1 << task

    def is_new(self, task: int, client: int) -> bool:
        """Whether the task would form a new pair on the client."""
        owner, first = self._placement.owner[task], self._first_owner[task]
        paired = self._first[first] | self._standbys[owner]
        paired = reduce(or_, (self._all[holder] for holder in self._placement.holders(task)), paired)
        return bool(self._all[client] & ~paired)


def _bits(numbers: Iterable[int]) -> int:
    return reduce(or_, (1 << number for number in numbers), 0)
