"""Swap standbys between two clients on different racks, for all such pairs, as long as that saves cost (KIP-925).

A swap leaves each client its number of tasks: it takes as many as it gives. Unless subtopologies must stay spread, the
best swap needs no solver. Each client offers its standbys, the largest gain first, and pairs of offers are swapped as
long as both together gain. Most pairs of clients are skipped at once, because not even their best offers would gain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ...task_id import TaskId
from ..api.cluster import ProcessId
from .flow import cheapest, subtopology_rooms
from .traffic import RackTraffic

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
