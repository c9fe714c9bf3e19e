"""Standby tasks, also by racks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..task_id import TaskId
from .cluster import AssignmentConfigs, ClientState, ProcessId
from .placement import ConstrainedPrioritySet, Placement
from .rack_flow import RackTraffic, cheapest, subtopology_rooms

# Where standbys go: to clients whose tags differ from those that have the task, and else to the lightest clients.

_log = logging.getLogger(__name__)


def assign_standbys(
    placement: Placement, tasks: Sequence[int], clients: Sequence[ClientState], configs: AssignmentConfigs
) -> None:
    """Give each task the configured number of standbys, as far as there are clients for them.

    `tasks`: those with a changelog, in order; `clients`: by number. If tags are configured, a task's standbys go to
    clients that differ in them. Standbys for which no such client is left go to the lightest clients.
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
    """Whether a standby may go from one client to another: the other client must have all tags of the first.

    None: always.
    """
    if not configs.rack_aware_assignment_tags:
        return None
    tags = [client.client_tags for client in clients]
    return lambda source, destination: all(tags[destination].get(key) == tag for key, tag in tags[source].items())


def tags_allow_swap(
    placement: Placement, clients: Sequence[ClientState], configs: AssignmentConfigs
) -> Callable[[int, int, int], bool] | None:
    """Whether a standby may go from one client to another: the task's clients must not differ in fewer tags afterwards.

    The answer is about the placement at that moment. None: always.
    """
    if not configs.rack_aware_assignment_tags:
        return None
    tags = [frozenset(client.client_tags.items()) for client in clients]

    def allowed(source: int, destination: int, task: int) -> bool:
        owner = placement.owner[task]
        having = {*placement.holders(task), *([] if owner < 0 else [owner])} - {source, destination}
        others = frozenset[tuple[str, str]]().union(*(tags[client] for client in having))
        return len(others | tags[destination]) >= len(others | tags[source])

    return allowed


def _on_lightest(placement: Placement, missing: Mapping[int, int]) -> None:
    queue = ConstrainedPrioritySet(placement.load)
    queue.offer_all(range(len(placement.clients)))
    for task, number in missing.items():
        for found in range(number):
            client = queue.poll(lambda client, task=task: not placement.has(client, task))  # type: ignore[misc]
            if client is None:
                _log.debug("no client for %d standbys of task %s", number - found, placement.tasks[task])
                break
            placement.assign_standby(client, task)
            queue.offer(client)


class Tags:
    """The values that clients have of the configured tags.

    `of[client]`: key -> value. `values[key]`: value -> the clients with it, as an array of booleans by client.
    """

    def __init__(self, clients: Sequence[ClientState], keys: Sequence[str]) -> None:
        self.of = [{key: client.client_tags[key] for key in keys if key in client.client_tags} for client in clients]
        self.values: dict[str, dict[str, npt.NDArray[np.bool_]]] = {}
        for client, tags in enumerate(self.of):
            for key, value in tags.items():
                there = self.values.setdefault(key, {}).setdefault(value, np.zeros(len(clients), np.bool_))
                there[client] = True


def _on_other_tags(placement: Placement, task: int, tags: Tags, number: int) -> int:
    """Place up to `number` standbys on clients whose tags are unused. Returns how many found no place.

    A key no longer counts for a task once as many clients have the task as the key has values. Otherwise no client
    could be found any more.
    """
    last, having = placement.owner[task], 1
    used: dict[str, dict[str, npt.NDArray[np.bool_]]] = {}
    while number:
        for key, value in tags.of[last].items():
            if len(tags.values[key]) <= having:
                used.pop(key, None)
            else:
                used.setdefault(key, {})[value] = tags.values[key][value]
        free = placement.lacking(task)
        for values in used.values():
            for there in values.values():
                free &= ~there
        client = placement.lightest(free)
        if client is None:
            break
        placement.assign_standby(client, task)
        last, having, number = client, having + 1, number - 1
    return number


# Swap standbys between two clients on different racks, for all such pairs, as long as that saves cost (KIP-925).
#
# A swap leaves each client its number of tasks: it takes as many as it gives. Unless subtopologies must stay spread,
# the best swap needs no solver. Each client offers its standbys, the largest gain first, and pairs of offers are
# swapped as long as both together gain. Most pairs of clients are skipped at once, because not even their best offers
# would gain.

ROUNDS = 4
"""The most rounds over all pairs, as in Kafka Streams. Later rounds would gain little."""


@dataclass
class Swaps:
    """One optimisation of `standbys`, whose sets are changed; see `tasks.optimize_standbys`.

    `tasks`: those whose standbys may move, None: all. `balance`: spread subtopologies over the two clients of a pair.
    `best`: see `_best`.
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
        """Swap until nothing more is gained. Raises RackCostError."""
        clients = sorted(self.standbys)
        racks = self.traffic.racks
        for _ in range(ROUNDS):
            moved = False
            for at, one in enumerate(clients):
                for other in clients[at + 1 :]:
                    if racks[one] != racks[other]:
                        moved |= self._swap(one, other)
            if not moved:
                return

    def _swap(self, one: ProcessId, other: ProcessId) -> bool:
        """Do the best swap of two clients. Returns whether there was one."""
        if not self.balance and not self._promises(one, other):
            return False
        mine, yours = self._movable(one, other), self._movable(other, one)
        if not mine or not yours:
            return False
        given, taken = (self._rooms if self.balance else self._offers)(one, other, mine, yours)
        for tasks, source, destination in ((given, one, other), (taken, other, one)):
            self.standbys[source].difference_update(tasks)
            self.standbys[destination].update(tasks)
            if self.moved is not None:
                for task in tasks:
                    self.moved(source, destination, task)
        if given:
            # Both clients have other standbys now, so their cached prices no longer hold.
            for key in [key for key in self.best if key[0] in (one, other)]:
                del self.best[key]
        return bool(given)

    def _offers(
        self, one: ProcessId, other: ProcessId, mine: list[TaskId], yours: list[TaskId]
    ) -> tuple[list[TaskId], list[TaskId]]:
        """The tasks to give and to take that save most."""
        giving = sorted((self._price(task, one, other), task) for task in mine)
        taking = sorted((self._price(task, other, one), task) for task in yours)
        pays = [
            (give, take)
            for (less, give), (more, take) in zip(giving, taking, strict=False)
            if less + more + 2 * self.non_overlap_cost < 0
        ]
        return [give for give, _ in pays], [take for _, take in pays]

    def _rooms(
        self, one: ProcessId, other: ProcessId, mine: list[TaskId], yours: list[TaskId]
    ) -> tuple[list[TaskId], list[TaskId]]:
        """The same, where each client gets at most its share of every subtopology, counted over the tasks that may
        move.
        """
        owners = {**dict.fromkeys(mine, one), **dict.fromkeys(yours, other)}
        rooms = subtopology_rooms(owners)
        moved = cheapest(owners, self.traffic, self.traffic_cost, self.non_overlap_cost, rooms)
        return [task for task in mine if moved[task] == other], [task for task in yours if moved[task] == one]

    def _own(self, tasks: Iterable[TaskId]) -> Iterable[TaskId]:
        return tasks if self.tasks is None else (task for task in tasks if task in self.tasks)

    def _movable(self, source: ProcessId, destination: ProcessId) -> list[TaskId]:
        """Standbys of `source` that `destination` has in no role and may get."""
        missing = self.standbys[source] - self.standbys[destination] - self.actives.get(destination, set())
        return [task for task in sorted(self._own(missing)) if self.allowed(source, destination, task)]

    def _price(self, task: TaskId, source: ProcessId, destination: ProcessId) -> int:
        """The cost of a move in traffic; a gain is negative."""
        return self.traffic_cost * (self.traffic.far(task, destination) - self.traffic.far(task, source))

    def _promises(self, one: ProcessId, other: ProcessId) -> bool:
        """Whether the best offers of both clients would gain, if all their standbys were allowed to move."""
        first, second = self._best(one, other), self._best(other, one)
        return first is not None and second is not None and first + second + 2 * self.non_overlap_cost < 0

    def _best(self, source: ProcessId, destination: ProcessId) -> int | None:
        """The best price of any standby of `source` on the rack of `destination`.

        Cached until a swap changes `source`.
        """
        key = source, self.traffic.racks[destination]
        if key not in self.best:
            own = self._own(self.standbys[source])
            self.best[key] = min((self._price(task, source, destination) for task in own), default=None)
        return self.best[key]
