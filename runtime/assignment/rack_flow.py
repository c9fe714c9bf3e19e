"""Traffic between racks, and its minimum by a flow."""

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

# How many of a task's partitions lie on other racks than a client. This is the cost that a placement minimises.
#
# It is known only if every client has a rack and all partitions that count have known racks. Otherwise there is no
# RackTraffic, and placements stay as they are.

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


# Find the cheapest placement of tasks by racks, as a minimum-cost flow. Every client keeps its number of tasks.
#
# Tasks that cost the same on every client (same owner, same replicas) share one node of the graph. A task that leaves
# its owner can go to any client, and only that client's rack decides the cost. So the graph has these arcs:
#
# - from the tasks to their owner, at the cost of the owner's rack;
# - from the tasks to a pool for each rack that has replicas of them, at the cost of that rack;
# - from the tasks to the common pool, at the cost of a rack without any replica;
# - from the common pool to each rack's pool, and from there to the rack's clients, free of charge.
#
# Some paths overcharge: through the common pool to a rack with replicas, or through a pool back to the owner. The path
# at the true cost always exists beside them, so the optimum is exact. The number of arcs grows with tasks and replicas,
# and not with tasks x clients.
#
# Among placements of equal cost the one with the fewest moves wins. Costs are multiplied by a number larger than the
# number of tasks, and each move adds one. So a placement that is already optimal stays.

Group = int
"""Tasks whose number on a client is limited together: one subtopology, or 0 for all tasks."""

Rooms = Mapping[tuple[Group, ProcessId], int]
"""How many tasks of a group each client may have."""


class RackCostError(HeadwaterError):
    """The solver found no placement. The only known reason is costs so large that their sums overflow."""

    def __init__(self, status: str, traffic_cost: int, non_overlap_cost: int) -> None:
        super().__init__(
            f"no placement found for traffic cost {traffic_cost} and non-overlap cost {non_overlap_cost}: {status}",
            "choose smaller costs; only their ratio matters",
        )
        self.status = status
        self.traffic_cost = traffic_cost
        self.non_overlap_cost = non_overlap_cost


@dataclass(frozen=True, order=True)
class _Alike:
    """What tasks that cost the same on every client have in common."""

    group: Group
    owner: ProcessId
    near: tuple[tuple[str, int], ...]
    partitions: int


@dataclass
class _Graph:
    """Arcs and supplies under construction. A node is anything hashable; nodes are numbered as they appear."""

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
        """The solver's status, and the flow through each arc that has any."""
        # The solver takes 32-bit nodes and contiguous arrays. The columns of a transposed array are not contiguous.
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
    rooms: Rooms | None = None,
) -> dict[TaskId, ProcessId]:
    """The owners after optimisation: each client has as many tasks as before.

    A task costs `traffic_cost` for each partition on other racks, and `non_overlap_cost` where it was not before.
    `rooms`: how many tasks of each subtopology fit on each client, in sum at least all tasks; None: as many as the
    client has now. Raises RackCostError, SolverMissingError.
    """
    numbers = Counter(owners.values())
    if not rooms:
        rooms = {(0, client): number for client, number in numbers.items()}
        alike = _alike(owners, traffic.replicas, by_subtopology=False)
    else:
        alike = _alike(owners, traffic.replicas, by_subtopology=True)
    # Only the ratio of the costs matters. Dividing by their common divisor keeps the products below 64 bits.
    scale = gcd(traffic_cost, non_overlap_cost) or 1
    far, moved = traffic_cost // scale * (len(owners) + 1), non_overlap_cost // scale * (len(owners) + 1) + 1
    graph = _Graph()
    here = {traffic.racks[client] for client in numbers}
    for each, tasks in alike.items():
        graph.supply(each, len(tasks))
        graph.arc(each, (each.group, each.owner), len(tasks), far * _far(each, traffic.racks[each.owner]))
        graph.arc(each, each.group, len(tasks), far * each.partitions + moved)
        for rack, near in each.near:
            if rack in here:
                graph.arc(each, _pool(each.group, rack), len(tasks), far * (each.partitions - near) + moved)
    for group in sorted({each.group for each in alike}):
        for rack in sorted(here):
            graph.arc(group, _pool(group, rack), len(owners), 0)
        for client in sorted(numbers):
            room = rooms[group, client]
            graph.arc(_pool(group, traffic.racks[client]), (group, client), room, 0)
            graph.arc((group, client), client, room, 0)
    for client in sorted(numbers):
        graph.supply(client, -numbers[client])
    status, flows = graph.flows()
    if not flows:
        raise RackCostError(status, traffic_cost, non_overlap_cost)
    return _dealt(alike, traffic, flows, sorted(numbers))


def subtopology_rooms(owners: Mapping[TaskId, ProcessId]) -> Rooms:
    """How many tasks of a subtopology a client may have: its share of all tasks, times the subtopology's tasks, rounded
    up.

    Only the tasks in `owners` count, which are those to be optimised.
    """
    numbers, sizes = Counter(owners.values()), Counter(task.subtopology for task in owners)
    return {
        # Whole numbers: Kafka Streams rounds up in floating point, and is sometimes one too high.
        (subtopology, client): -(-number * size // len(owners))
        for subtopology, size in sizes.items()
        for client, number in numbers.items()
    }


def _pool(group: Group, rack: str) -> tuple[str, Group, str]:
    return "pool", group, rack


def _far(alike: _Alike, rack: str) -> int:
    return Replicas(alike.partitions, alike.near).far(rack)


def _alike(
    owners: Mapping[TaskId, ProcessId], replicas: Mapping[TaskId, Replicas], by_subtopology: bool
) -> dict[_Alike, list[TaskId]]:
    """The tasks grouped by what they have in common. Groups and tasks are sorted."""
    alike = defaultdict[_Alike, list[TaskId]](list)
    for task in sorted(owners):
        group = task.subtopology if by_subtopology else 0
        alike[_Alike(group, owners[task], replicas[task].near, replicas[task].partitions)].append(task)
    return {each: alike[each] for each in sorted(alike)}


def _dealt(
    alike: Mapping[_Alike, list[TaskId]],
    traffic: RackTraffic,
    flows: Mapping[tuple[object, object], int],
    clients: list[ProcessId],
) -> dict[TaskId, ProcessId]:
    """The owner of each task, read from the flows.

    Of tasks that are alike the first ones stay with their owner. A pool is dealt to its clients by task id.
    """
    owners = dict[TaskId, ProcessId]()
    common, pools = defaultdict[Group, list[TaskId]](list), defaultdict[tuple[Group, str], list[TaskId]](list)
    for each, tasks in alike.items():
        at = flows.get((each, (each.group, each.owner)), 0)
        owners.update(dict.fromkeys(tasks[:at], each.owner))
        for rack, _ in each.near:
            number = flows.get((each, _pool(each.group, rack)), 0)
            pools[each.group, rack] += tasks[at : at + number]
            at += number
        common[each.group] += tasks[at:]
    racks = sorted({traffic.racks[client] for client in clients})
    for group in sorted({each.group for each in alike}):
        rest = sorted(common[group], reverse=True)
        for rack in racks:
            number = flows.get((group, _pool(group, rack)), 0)
            pool = sorted([*pools[group, rack], *(rest.pop() for _ in range(number))], reverse=True)
            for client in clients:
                if traffic.racks[client] == rack:
                    number = flows.get((_pool(group, rack), (group, client)), 0)
                    owners.update((pool.pop(), client) for _ in range(number))
    return owners
