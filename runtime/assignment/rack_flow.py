"""Traffic between racks, and the cheapest placement as a minimum-cost flow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import gcd

import numpy as np

from ...errors import HeadwaterError
from ..task_id import TaskId
from .cluster import ApplicationState, ProcessId, TaskInfo, TaskTopicPartition
from .rack_solver import new_solver

# The number of a task's partitions on other racks than a client: the cost to be minimised.
#
# It is known only if all clients and all counted partitions have known racks. Else RackTraffic is None, and placements
# stay as they are.

Counts = Callable[[TaskTopicPartition], bool]
"""Whether a partition counts."""


@dataclass(frozen=True)
class Replicas:
    """The racks of a task's partitions. `partitions`: number of counted ones. `near`: (rack, number of partitions with
    a replica there), sorted by rack.
    """

    partitions: int
    near: tuple[tuple[str, int], ...]

    def far(self, rack: str) -> int:
        """The number of partitions without a replica on `rack`."""
        return self.partitions - next((count for near, count in self.near if near == rack), 0)


@dataclass(frozen=True)
class RackTraffic:
    """The racks of all clients, and of the partitions of all tasks."""

    racks: Mapping[ProcessId, str]
    replicas: Mapping[TaskId, Replicas]

    def far(self, task: TaskId, client: ProcessId) -> int:
        """The number of partitions of `task` without a replica on the rack of `client`."""
        return self.replicas[task].far(self.racks[client])


def racks_known(application_state: ApplicationState, counts: Counts) -> bool:
    """Whether all clients and all counted partitions have known racks."""
    return all(client.rack_id is not None for client in application_state.clients.values()) and all(
        partition.racks
        for task in application_state.all_tasks.values()
        for partition in task.topic_partitions
        if counts(partition)
    )


def rack_traffic(application_state: ApplicationState, counts: Counts) -> RackTraffic | None:
    """The racks of clients and partitions; None if one is unknown."""
    if not racks_known(application_state, counts):
        return None
    return RackTraffic(
        {name: client.rack_id or "" for name, client in application_state.clients.items()},
        {id_: _replicas(task, counts) for id_, task in application_state.all_tasks.items()},
    )


def _replicas(task: TaskInfo, counts: Counts) -> Replicas:
    counted = [partition for partition in task.topic_partitions if counts(partition)]
    racks = Counter(rack for partition in counted for rack in partition.racks or ())
    return Replicas(len(counted), tuple(sorted(racks.items())))


# The cheapest placement of tasks by racks, as a minimum-cost flow. Every client keeps its number of tasks.
#
# Tasks with the same costs on all clients (same owner, same replicas) share one node of the graph. A task that leaves
# its owner can go to any client, and only that client's rack decides the cost. So the graph has these arcs:
#
# - from the tasks to their owner, at the cost of the owner's rack;
# - from the tasks to a pool for each rack that has replicas of them, at the cost of that rack;
# - from the tasks to the common pool, at the cost of a rack without any replica;
# - from the common pool to each rack's pool, and from there to the rack's clients, free of charge.
#
# Some paths cost too much: through the common pool to a rack with replicas, or through a pool back to the owner. A path
# at the real cost always exists too, so the optimum is exact. The number of arcs grows with tasks and replicas, and not
# with tasks x clients.
#
# Of placements with equal costs the one with the fewest moves wins: costs are multiplied by a number larger than the
# number of tasks, and each move adds one. So an optimal placement does not change.

Group = int
"""Tasks with a common limit per client: one subtopology, or 0 for all tasks."""

Capacities = Mapping[tuple[Group, ProcessId], int]
"""The most tasks of a group on a client."""


class RackCostError(HeadwaterError):
    """The solver found no placement. The only known reason is an overflow of very large costs."""

    def __init__(self, status: str, traffic_cost: int, non_overlap_cost: int) -> None:
        super().__init__(
            f"no placement found for traffic cost {traffic_cost} and non-overlap cost {non_overlap_cost}: {status}",
            "choose smaller costs; only their ratio matters",
        )
        self.status = status
        self.traffic_cost = traffic_cost
        self.non_overlap_cost = non_overlap_cost


@dataclass(frozen=True, order=True)
class _EqualTasks:
    """The common properties of tasks with the same costs on all clients."""

    group: Group
    owner: ProcessId
    near: tuple[tuple[str, int], ...]
    partitions: int


@dataclass
class _Graph:
    """Arcs and supplies of the flow. A node is any hashable object; nodes are numbered in the order of their first
    use."""

    nodes: dict[object, int] = field(default_factory=dict)
    supplies: Counter[int] = field(default_factory=Counter)
    arcs: dict[tuple[object, object], int] = field(default_factory=dict)
    columns: list[tuple[int, int, int, int]] = field(default_factory=list)

    def node(self, name: object) -> int:
        return self.nodes.setdefault(name, len(self.nodes))

    def arc(self, tail: object, head: object, capacity: int, cost: int) -> None:
        self.arcs[tail, head] = len(self.columns)
        self.columns.append((self.node(tail), self.node(head), capacity, cost))

    def supply(self, name: object, amount: int) -> None:
        self.supplies[self.node(name)] += amount

    def flows(self) -> tuple[str, dict[tuple[object, object], int]]:
        """The solver's status, and the flows of all arcs with a flow."""
        # The solver needs 32-bit nodes and contiguous arrays. The columns of a transposed array are not contiguous.
        solver = new_solver()
        tails, heads, capacities, costs = np.array(self.columns, dtype=np.int64).T
        arcs = solver.add_arcs_with_capacity_and_unit_cost(
            tails.astype(np.int32), heads.astype(np.int32), capacities.copy(), costs.copy()
        )
        solver.set_nodes_supplies(
            np.fromiter(self.supplies.keys(), np.int32), np.fromiter(self.supplies.values(), np.int64)
        )
        status = solver.solve()
        if status != solver.OPTIMAL:
            return status.name, {}
        flows = solver.flows(arcs).tolist()
        return status.name, {arc: flows[at] for arc, at in self.arcs.items() if flows[at]}


def cheapest(
    owners: Mapping[TaskId, ProcessId],
    traffic: RackTraffic,
    traffic_cost: int,
    non_overlap_cost: int,
    capacities: Capacities | None = None,
) -> dict[TaskId, ProcessId]:
    """The owners after the optimisation. All clients keep their numbers of tasks.

    A task costs `traffic_cost` for each partition on other racks, and `non_overlap_cost` on a new client. `capacities`:
    the most tasks of each subtopology on each client, in total at least all tasks; None: the current number of tasks.
    Raises RackCostError, SolverMissingError.
    """
    numbers = Counter(owners.values())
    if not capacities:
        capacities = {(0, client): number for client, number in numbers.items()}
        by_equality = _group_equal(owners, traffic.replicas, by_subtopology=False)
    else:
        by_equality = _group_equal(owners, traffic.replicas, by_subtopology=True)
    # Only the ratio of the costs matters. Dividing by their common divisor keeps the products below 64 bits.
    scale = gcd(traffic_cost, non_overlap_cost) or 1
    far, moved = traffic_cost // scale * (len(owners) + 1), non_overlap_cost // scale * (len(owners) + 1) + 1
    graph = _Graph()
    racks = {traffic.racks[client] for client in numbers}
    for equal, tasks in by_equality.items():
        graph.supply(equal, len(tasks))
        graph.arc(equal, (equal.group, equal.owner), len(tasks), far * _far(equal, traffic.racks[equal.owner]))
        graph.arc(equal, equal.group, len(tasks), far * equal.partitions + moved)
        for rack, near in equal.near:
            if rack in racks:
                graph.arc(equal, _pool(equal.group, rack), len(tasks), far * (equal.partitions - near) + moved)
    for group in sorted({equal.group for equal in by_equality}):
        for rack in sorted(racks):
            graph.arc(group, _pool(group, rack), len(owners), 0)
        for client in sorted(numbers):
            capacity = capacities[group, client]
            graph.arc(_pool(group, traffic.racks[client]), (group, client), capacity, 0)
            graph.arc((group, client), client, capacity, 0)
    for client in sorted(numbers):
        graph.supply(client, -numbers[client])
    status, flows = graph.flows()
    if not flows:
        raise RackCostError(status, traffic_cost, non_overlap_cost)
    return _owners_from_flows(by_equality, traffic, flows, sorted(numbers))


def subtopology_capacities(owners: Mapping[TaskId, ProcessId]) -> Capacities:
    """The most tasks of a subtopology on a client: its share of all tasks, times the subtopology's tasks, rounded up.

    Only the tasks in `owners` count, which are the tasks to optimise.
    """
    numbers, sizes = Counter(owners.values()), Counter(task.subtopology for task in owners)
    return {
        # In integers: Kafka Streams rounds up in floating point, and is sometimes one too high.
        (subtopology, client): -(-number * size // len(owners))
        for subtopology, size in sizes.items()
        for client, number in numbers.items()
    }


def _pool(group: Group, rack: str) -> tuple[str, Group, str]:
    return "pool", group, rack


def _far(equal: _EqualTasks, rack: str) -> int:
    return Replicas(equal.partitions, equal.near).far(rack)


def _group_equal(
    owners: Mapping[TaskId, ProcessId], replicas: Mapping[TaskId, Replicas], by_subtopology: bool
) -> dict[_EqualTasks, list[TaskId]]:
    """The tasks grouped by their common properties. Groups and tasks are sorted."""
    by_equality = defaultdict[_EqualTasks, list[TaskId]](list)
    for task in sorted(owners):
        group = task.subtopology if by_subtopology else 0
        by_equality[_EqualTasks(group, owners[task], replicas[task].near, replicas[task].partitions)].append(task)
    return {equal: by_equality[equal] for equal in sorted(by_equality)}


def _owners_from_flows(
    by_equality: Mapping[_EqualTasks, list[TaskId]],
    traffic: RackTraffic,
    flows: Mapping[tuple[object, object], int],
    clients: list[ProcessId],
) -> dict[TaskId, ProcessId]:
    """The owners of all tasks, read from the flows.

    The first tasks of a group stay with their owner. A pool is dealt to its clients by task id.
    """
    owners = dict[TaskId, ProcessId]()
    common, pools = defaultdict[Group, list[TaskId]](list), defaultdict[tuple[Group, str], list[TaskId]](list)
    for equal, tasks in by_equality.items():
        at = flows.get((equal, (equal.group, equal.owner)), 0)
        owners.update(dict.fromkeys(tasks[:at], equal.owner))
        for rack, _ in equal.near:
            number = flows.get((equal, _pool(equal.group, rack)), 0)
            pools[equal.group, rack] += tasks[at : at + number]
            at += number
        common[equal.group] += tasks[at:]
    racks = sorted({traffic.racks[client] for client in clients})
    for group in sorted({equal.group for equal in by_equality}):
        rest = sorted(common[group], reverse=True)
        for rack in racks:
            number = flows.get((group, _pool(group, rack)), 0)
            pool = sorted([*pools[group, rack], *(rest.pop() for _ in range(number))], reverse=True)
            for client in clients:
                if traffic.racks[client] == rack:
                    number = flows.get((_pool(group, rack), (group, client)), 0)
                    owners.update((pool.pop(), client) for _ in range(number))
    return owners
