"""How many of a task's partitions lie on other racks than a client. This is the cost that a placement minimises.

It is known only if every client has a rack and all partitions that count have known racks. Otherwise there is no
RackTraffic, and placements stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...task_id import TaskId
from ..api.cluster import ApplicationState, ProcessId, TaskInfo, TaskTopicPartition

Counts = Callable[[TaskTopicPartition], bool]
"""Whether a partition counts."""


@dataclass(frozen=True)
class Replicas:
    """Where a task's partitions lie.

    `partitions`: how many count. `near`: how many of them each rack has, sorted by rack.
    """

    partitions: int
    near: tuple[tuple[str, int], ...]

    def far(self, rack: str) -> int:
        """How many partitions have no replica on `rack`."""
        return self.partitions - next((count for near, count in self.near if near == rack), 0)


@dataclass(frozen=True)
class RackTraffic:
    """The racks of all clients, and where the data of each task lies."""

    racks: Mapping[ProcessId, str]
    replicas: Mapping[TaskId, Replicas]

    def far(self, task: TaskId, client: ProcessId) -> int:
        """How many partitions `task` has on other racks than that of `client`."""
        return self.replicas[task].far(self.racks[client])


def racks_known(application_state: ApplicationState, counts: Counts) -> bool:
    """Whether every client has a rack, and so has every partition that counts, of all tasks."""
    return all(client.rack_id is not None for client in application_state.clients.values()) and all(
        partition.racks
        for task in application_state.all_tasks.values()
        for partition in task.topic_partitions
        if counts(partition)
    )


def rack_traffic(application_state: ApplicationState, counts: Counts) -> RackTraffic | None:
    """The racks of clients and data; None if one is unknown."""
    if not racks_known(application_state, counts):
        return None
    return RackTraffic(
        {name: client.rack_id or "" for name, client in application_state.clients.items()},
        {id_: _replicas(task, counts) for id_, task in application_state.all_tasks.items()},
    )


def _replicas(task: TaskInfo, counts: Counts) -> Replicas:
    racks = [partition.racks or frozenset() for partition in task.topic_partitions if counts(partition)]
    return Replicas(len(racks), tuple(sorted(Counter(rack for each in racks for rack in each).items())))
