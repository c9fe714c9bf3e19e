"""Assigns standbys by tags and loads, and swaps them by racks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..task_id import TaskId
from .cluster import AssignmentConfigs, ClientState, ProcessId
from .placement import ConstrainedPrioritySet, Placement
from .rack_flow import RackTraffic, cheapest, subtopology_capacities

# Standbys go to clients with other tags than the clients that have the task, and else to the lightest clients.

_log = logging.getLogger(__name__)


def assign_standbys(
    placement: Placement, tasks: Sequence[int], clients: Sequence[ClientState], configs: AssignmentConfigs
) -> None:
    """Assign the configured number of standbys, as far as there are clients for them.

    `tasks`: tasks with a changelog, in order. `clients`: by number. If tags are configured, the standbys of a task go
    to clients with different tags. Standbys without such a client go to the lightest clients.
    """
    if configs.num_standby_replicas == 0:
        return
    missing = dict.fromkeys(tasks, configs.num_standby_replicas)
    if configs.rack_aware_assignment_tags:
        tags = Tags(clients, configs.rack_aware_assignment_tags)
        for task in tasks:
            if placement.owner[task] >= 0:
                missing[task] = _on_other_tags(placement, task, tags, missing[task])
    _on_lightest(placement, missing)


def tags_allow(clients: Sequence[ClientState], configs: AssignmentConfigs) -> Callable[[int, int], bool] | None:
    """Whether a standby may move from one client to another: that one must have all tags of the first. None: always."""
    if not configs.rack_aware_assignment_tags:
        return None
    tags = [client.client_tags for client in clients]
    return lambda source, destination: all(tags[destination].get(key) == tag for key, tag in tags[source].items())


def tags_allow_swap(
    placement: Placement, clients: Sequence[ClientState], configs: AssignmentConfigs
) -> Callable[[int, int, int], bool] | None:
    """Whether a standby may move from one client to another: the task's clients must not have fewer different tags.

    The function uses the placement at the time of its call. None: always.
    """
    if not configs.rack_aware_assignment_tags:
        return None
    tags = [frozenset(client.client_tags.items()) for client in clients]

    def allowed(source: int, destination: int, task: int) -> bool:
        owner = placement.owner[task]
        clients = {*placement.holders(task), *([] if owner < 0 else [owner])} - {source, destination}
        others = frozenset[tuple[str, str]]().union(*(tags[client] for client in clients))
        return len(others | tags[destination]) >= len(others | tags[source])

    return allowed


def _on_lightest(placement: Placement, missing: Mapping[int, int]) -> None:
    queue = ConstrainedPrioritySet(placement.load)
    queue.offer_all(range(len(placement.clients)))
    for task, number in missing.items():
        for assigned in range(number):
            client = queue.poll(lambda client, task=task: not placement.has(client, task))  # type: ignore[misc]
            if client is None:
                _log.debug("no client for %d standbys of task %s", number - assigned, placement.tasks[task])
                break
            placement.assign_standby(client, task)
            queue.offer(client)


class Tags:
    """The values of the configured tags.

    `by_client[client]`: key -> value. `values[key]`: value -> the clients with it, as a boolean array by client.

    Three clients with the zones x, y, x have `by_client` [{zone: x}, {zone: y}, {zone: x}] and `values`
    {zone: {x: [True, False, True], y: [False, True, False]}}.
    """

    def __init__(self, clients: Sequence[ClientState], keys: Sequence[str]) -> None:
        self.by_client = [
            {key: client.client_tags[key] for key in keys if key in client.client_tags} for client in clients
        ]
        self.values: dict[str, dict[str, npt.NDArray[np.bool_]]] = {}
        for number, tags in enumerate(self.by_client):
            for key, value in tags.items():
                has_value = self.values.setdefault(key, {}).setdefault(value, np.zeros(len(clients), np.bool_))
                has_value[number] = True


def _on_other_tags(placement: Placement, task: int, tags: Tags, number: int) -> int:
    """Place up to `number` standbys on clients with unused tags. Returns the number of standbys left.

    A key does not count for a task any more once the task has as many clients as the key has values. Else no further
    client could be found.
    """
    last, copies = placement.owner[task], 1
    used: dict[str, dict[str, npt.NDArray[np.bool_]]] = {}
    while number:
        for key, value in tags.by_client[last].items():
            if len(tags.values[key]) <= copies:
                used.pop(key, None)
            else:
                used.setdefault(key, {})[value] = tags.values[key][value]
        free = placement.lacking(task)
        for values in used.values():
            for has_value in values.values():
                free &= ~has_value
        client = placement.lightest(free)
        if client is None:
            break
        placement.assign_standby(client, task)
        last, copies, number = client, copies + 1, number - 1
    return number


# Swaps standbys between two clients on different racks, for all such pairs, while that saves cost (KIP-925).
#
# A swap keeps the number of tasks of both clients. Unless subtopologies must stay spread, the best swap needs no
# solver: both clients sort their standbys by gain, and pairs are swapped while both together gain. Most pairs of
# clients are skipped at once, because not even their best standbys would gain.

ROUNDS = 4
"""The most rounds over all pairs, as in Kafka Streams. Later rounds would gain little."""


@dataclass
class Swaps:
    """One optimisation of `standbys`, which are changed in place; see `racks.optimize_standbys`.

    `tasks`: tasks with standbys that may move, None: all. `balance`: spread subtopologies over the two clients of a
    pair. `best`: the cache of `_best`.
    """

    traffic: RackTraffic
    traffic_cost: int
    non_overlap_cost: int
    standbys: Mapping[ProcessId, set[TaskId]]
    actives: Mapping[ProcessId, set[TaskId]]
    allowed: Callable[[ProcessId, ProcessId, TaskId], bool]
    moved: Callable[[ProcessId, ProcessId, TaskId], object] | None
    tasks: Collection[TaskId] | None
    balance: bool
    best: dict[tuple[ProcessId, str], int | None] = field(default_factory=dict, init=False)

    def run(self) -> None:
        """Swap until no swap gains. Raises RackCostError."""
        clients = sorted(self.standbys)
        racks = self.traffic.racks
        for _ in range(ROUNDS):
            moved = False
            for number, one in enumerate(clients):
                for other in clients[number + 1 :]:
                    if racks[one] != racks[other]:
                        moved |= self._swap(one, other)
            if not moved:
                return

    def _swap(self, one: ProcessId, other: ProcessId) -> bool:
        """Do the best swap of two clients. Returns whether one was done."""
        if not self.balance and not self._may_gain(one, other):
            return False
        of_one, of_other = self._movable(one, other), self._movable(other, one)
        if not of_one or not of_other:
            return False
        given, taken = (self._balanced if self.balance else self._cheapest)(one, other, of_one, of_other)
        for tasks, source, destination in ((given, one, other), (taken, other, one)):
            self.standbys[source].difference_update(tasks)
            self.standbys[destination].update(tasks)
            if self.moved is not None:
                for task in tasks:
                    self.moved(source, destination, task)
        if given:
            # Both clients have other standbys now, so their cached prices are outdated.
            for key in [key for key in self.best if key[0] in (one, other)]:
                del self.best[key]
        return bool(given)

    def _cheapest(
        self, one: ProcessId, other: ProcessId, of_one: list[TaskId], of_other: list[TaskId]
    ) -> tuple[list[TaskId], list[TaskId]]:
        """The tasks to move from `one` to `other` and back that save most.

        With prices -3, -1, 2 of one client, -1, 0, 0 of the other and a non-overlap cost of 0, the pairs are (-3, -1),
        (-1, 0) and (2, 0), with the sums -4, -1 and 2. The first two are swapped.
        """
        giving = sorted((self._price(task, one, other), task) for task in of_one)
        taking = sorted((self._price(task, other, one), task) for task in of_other)
        gaining = [
            (given, taken)
            for (given_price, given), (taken_price, taken) in zip(giving, taking, strict=False)
            if given_price + taken_price + 2 * self.non_overlap_cost < 0
        ]
        return [given for given, _ in gaining], [taken for _, taken in gaining]

    def _balanced(
        self, one: ProcessId, other: ProcessId, of_one: list[TaskId], of_other: list[TaskId]
    ) -> tuple[list[TaskId], list[TaskId]]:
        """The same with at most its share of every subtopology for each client, of the tasks that may move."""
        owners = {**dict.fromkeys(of_one, one), **dict.fromkeys(of_other, other)}
        capacities = subtopology_capacities(owners)
        moved = cheapest(owners, self.traffic, self.traffic_cost, self.non_overlap_cost, capacities)
        return [task for task in of_one if moved[task] == other], [task for task in of_other if moved[task] == one]

    def _own(self, tasks: Iterable[TaskId]) -> Iterable[TaskId]:
        return tasks if self.tasks is None else (task for task in tasks if task in self.tasks)

    def _movable(self, source: ProcessId, destination: ProcessId) -> list[TaskId]:
        """Standbys of `source` that may move to `destination`, which does not have these tasks in any role."""
        missing = self.standbys[source] - self.standbys[destination] - self.actives.get(destination, set())
        return [task for task in sorted(self._own(missing)) if self.allowed(source, destination, task)]

    def _price(self, task: TaskId, source: ProcessId, destination: ProcessId) -> int:
        """The change of the traffic cost by a move. A gain is negative."""
        return self.traffic_cost * (self.traffic.far(task, destination) - self.traffic.far(task, source))

    def _may_gain(self, one: ProcessId, other: ProcessId) -> bool:
        """Whether a swap of the best standbys would gain, if all of them were allowed to move."""
        first, second = self._best(one, other), self._best(other, one)
        return first is not None and second is not None and first + second + 2 * self.non_overlap_cost < 0

    def _best(self, source: ProcessId, destination: ProcessId) -> int | None:
        """The lowest price of the standbys of `source` on the rack of `destination`. Cached until `source` changes."""
        key = source, self.traffic.racks[destination]
        if key not in self.best:
            own = self._own(self.standbys[source])
            self.best[key] = min((self._price(task, source, destination) for task in own), default=None)
        return self.best[key]
