"""Tasks placed on clients with the least load."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter, or_

import numpy as np
import numpy.typing as npt

from ..task_id import TaskId
from .assignor import AssignedTask, ClientAssignment, TaskAssignment, TaskType
from .cluster import ApplicationState, ClientState, NoClientsError, ProcessId

# The placement that an assignor works on: which client has which task so far, with up-to-date counts and loads.
#
# Tasks and clients are numbers here. The numbers follow the order in which everything is visited: tasks by subtopology
# and partition, clients by process id. So the first of equals is the smallest number, and names need no sorting.

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


# A queue of clients by weight, from which the lightest allowed client is taken.


class ConstrainedPrioritySet:
    """Clients by weight and number, named after the class in Kafka Streams.


    A client that was taken out must be offered again. It is a heap. Outdated entries stay in it until they reach the
    top, so offering a client again is cheap.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        """`weights`: by client. A client counts with the weight that it had when it was last offered."""
        self._weights = weights
        self._offers = [0] * len(weights)
        self._heap: list[tuple[float, int, int]] = []

    def offer(self, client: int) -> None:
        """Add a client, or move it after its weight has changed."""
        offer = self._offers[client] = self._offers[client] + 1
        heappush(self._heap, (self._weights[client], client, offer))

    def offer_all(self, clients: Iterable[int]) -> None:
        """Offer each of the clients."""
        for client in clients:
            self.offer(client)

    def poll(self, allowed: Callable[[int], bool] | None = None) -> int | None:
        """Take out the lightest allowed client, the first of equals; None if there is none."""
        heap, aside, found = self._heap, [], None
        while heap:
            entry = heappop(heap)
            client, offer = entry[1:]
            if offer != self._offers[client]:
                continue
            if allowed is None or allowed(client):
                found = client
                self._offers[client] += 1
                break
            aside.append(entry)
        for entry in aside:
            heappush(heap, entry)
        return found


# The least loaded client for a task, as the sticky assignors of Kafka Streams choose it.
#
# Two tasks that were once on the same client are a known pair. An idle client is taken at once. Of the others, the
# least loaded client on which the task forms a new pair is taken, and if there is none, the least loaded client. So
# standbys of tasks that share a client spread over many clients.

Weight = tuple[float, int, int]
"""The load, what decides between equal loads, and the client's number."""


class LeastLoaded:
    """The clients of a placement by weight, for assignors that add tasks and never remove any.

    `threads_first`: of equally loaded clients, the one with more threads comes first.
    """

    def __init__(self, placement: Placement, threads_first: bool) -> None:
        self._placement = placement
        self._threads_first = threads_first
        self._heap = [self._weight(client) for client in range(len(placement.clients))]
        heapify(self._heap)

    def overloaded(self, client: int) -> bool:
        """Whether a client has at least one task for each thread, and another client is less loaded."""
        return self._placement.load[client] >= 1 and self._lightest()[:2] < self._weight(client)[:2]

    def for_active(self) -> int:
        """The client for a task that nobody has.

        Such a task forms a new pair everywhere, so the least loaded client is taken.
        """
        return self._lightest()[2]

    def for_standby(self, task: int, company: Company) -> int | None:
        """The client for another standby of a task; None if all clients have it."""
        second, aside = None, list[Weight]()
        heap = self._heap
        while heap:
            weight = self._lightest()
            heappop(heap)
            aside.append(weight)
            client = weight[2]
            if self._placement.has(client, task):
                continue
            if self._placement.count[client] == 0 or company.is_new(task, client):
                second = client
                break
            second = client if second is None else second
        for weight in aside:
            heappush(heap, weight)
        return second

    def among(self, task: int, clients: Iterable[int], company: Company | None) -> int | None:
        """The same among `clients`, without those that have the task. Without `company` every pair is new."""
        ordered = sorted(self._weight(client) for client in clients if not self._placement.has(client, task))
        if not ordered:
            return None
        for load, _, client in ordered:
            if load == 0 or company is None or company.is_new(task, client):
                return client
        return ordered[0][2]

    def _weight(self, client: int) -> Weight:
        load = self._placement.load[client]
        # An idle client is taken at once, however few its threads.
        return load, -self._placement.threads[client] if self._threads_first and load else 0, client

    def _lightest(self) -> Weight:
        """The weight of the least loaded client.

        Loads only rise, so the first entry that is still true is the least.
        """
        heap = self._heap
        while (entry := heap[0]) != (now := self._weight(entry[2])):
            heapreplace(heap, now)
        return entry


class Company:
    """The known pairs of tasks, recorded from the moment at which all active tasks are placed.

    All tasks that are active on one client form pairs. So do those that an optimisation moved away, and the standbys
    that came later. A set of tasks is kept as the bits of an integer, because a set of pairs would grow with their
    square.
    """

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._first_owner = list(placement.owner)
        self._first = [_bits(own) for own in placement.active]
        self._all = list(self._first)
        self._standbys = [0] * len(placement.clients)

    def actives_moved(self) -> None:
        """Record that active tasks have changed clients. This forms no pairs."""
        self._all = [_bits(own) for own in self._placement.active]

    def standby_added(self, task: int, client: int) -> None:
        """Record a standby. It forms a pair with every task of the client."""
        self._all[client] |= 1 << task
        self._standbys[client] |= 1 << task

    def is_new(self, task: int, client: int) -> bool:
        """Whether the task would form a pair on the client that is not known yet."""
        owner, first = self._placement.owner[task], self._first_owner[task]
        known = self._first[first] | self._standbys[owner]
        known = reduce(or_, (self._all[holder] for holder in self._placement.holders(task)), known)
        return bool(self._all[client] & ~known)


def _bits(numbers: Iterable[int]) -> int:
    return reduce(or_, (1 << number for number in numbers), 0)
