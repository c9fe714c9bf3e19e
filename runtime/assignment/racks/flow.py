"""The cheapest placement of tasks that leaves every client as many as it has: a flow of least cost.

Tasks that cost the same everywhere (same owner, same replicas) are one node, and a client that gets a task from
another one matters only by its rack. So tasks flow to their owner at the price of its rack alone, or else into a pool:
that of a rack with replicas of theirs, or the common one, where everything is far. Pools flow to the clients. The
common pool overcharges for racks with replicas, and a pool overcharges for the way back to the owner; as the right
price is always open beside it, the optimum is exact. The number of arcs grows with tasks and replicas, not with
tasks x clients.

Among placements of equal cost the one with fewest moves wins: costs are multiplied by more than there are tasks, and a
move adds one. A placement that is optimal already thus stays.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd

import numpy as np

from ....errors import HeadwaterError
from ...tasks.task_id import TaskId
from ..api.cluster import ProcessId
from .solver import new_solver
from .traffic import RackTraffic, Replicas

Group = int
"""Tasks that have rooms of their own: a subtopology, or all tasks."""

Rooms = Mapping[tuple[Group, ProcessId], int]
"""How many tasks of a group a client may have."""


class RackCostError(HeadwaterError):
    """The solver found no placement; costs so large that their sums overflow are the only known reason."""

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
    """What tasks have in common that cost the same wherever they are."""

    group: Group
    owner: ProcessId
    near: tuple[tuple[str, int], ...]
    partitions: int


@dataclass
class _Graph:
    """Arcs and supplies under construction; nodes are anything hashable, numbered as they appear."""

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
        """What the solver says, and what flows through each arc."""
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
    `rooms`: how many tasks of each subtopology fit on each client, at least enough for all; None: as many as it has.
    Raises RackCostError, SolverMissingError.
    """
    numbers = Counter(owners.values())
    if not rooms:
        rooms = {(0, client): number for client, number in numbers.items()}
        alike = _alike(owners, traffic.replicas, by_subtopology=False)
    else:
        alike = _alike(owners, traffic.replicas, by_subtopology=True)
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
    """How many tasks of a subtopology a client may have: its share of all tasks, of that subtopology, rounded up.

    Tasks that are not to be optimised count nowhere.
    """
    numbers, sizes = Counter(owners.values()), Counter(task.subtopology for task in owners)
    return {
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
    """The tasks by what they have in common, both in order."""
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
    """Who gets which task, by the numbers that flow: of tasks that are alike the first stay, pools are dealt by id."""
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
