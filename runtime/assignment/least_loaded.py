"""The least loaded client for a task, as the sticky assignors of Kafka Streams choose it.

Two tasks that were once on the same client are a known pair. An idle client is taken at once. Of the others, the least
loaded client on which the task forms a new pair is taken, and if there is none, the least loaded client. So standbys of
tasks that share a client spread over many clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from heapq import heapify, heappop, heappush, heapreplace
from operator import or_

from .placement import Placement

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
