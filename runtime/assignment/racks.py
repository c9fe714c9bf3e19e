"""Rack-aware optimisation of assignments (KIP-925)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Self

from ...errors import HeadwaterError
from ..task_id import TaskId
from .cluster import ApplicationState, AssignmentConfigs, ProcessId, TaskTopicPartition
from .placement import Placement
from .rack_flow import Counts, RackTraffic, cheapest, rack_traffic, racks_known, subtopology_capacities
from .standbys import Swaps

# Rack-aware optimisation: clients keep their numbers of tasks and read less data from other racks.
#
# A task on a client costs `traffic_cost` for each partition without a replica on the client's rack, and
# `non_overlap_cost` if the client did not have it before. Strategy `min_traffic` minimises the sum of these costs.
# `balance_subtopology` does so too, and spreads each subtopology over the clients. Of placements with equal costs the
# one with the fewest moves is taken. Costs are integers. Callers pass them; configured costs are not read here.
#
# Nothing moves under strategy `none`, nor if the rack of a client or of a counted partition is unknown.

TasksOfProcesses = Mapping[ProcessId, set[TaskId]]
"""Client -> its tasks in one role."""

MayMove = Callable[[ProcessId, ProcessId, TaskId], bool]
"""Whether a standby may move from one client to another."""

Moved = Callable[[ProcessId, ProcessId, TaskId], object]
"""Called for each standby that moved from one client to another."""


class RackRules(Enum):
    """The partitions that count. Kafka Streams' own assignor and its utility functions (KIP-924) differ.

    HIGH_AVAILABILITY: for active tasks their sources count. Standbys are optimised by `min_traffic` under either
    strategy. If standbys are configured, the racks of all sources and changelogs must be known. UTILITY: for active
    tasks changelogs count too. Standbys follow the strategy. Only the racks of counted partitions must be known.
    """

    HIGH_AVAILABILITY = "high_availability"
    UTILITY = "utility"


class TaskPlacementError(HeadwaterError, ValueError):
    """A task to be optimised is not on exactly one client. `clients`: the clients with the task."""

    def __init__(self, task: TaskId, clients: Collection[ProcessId]) -> None:
        where = f"is on {' and '.join(sorted(clients))}" if clients else "is on no client"
        super().__init__(f"task {task} {where}, and can be optimised only on exactly one")
        self.task = task
        self.clients = tuple(sorted(clients))


def optimize_actives(
    application_state: ApplicationState,
    tasks: Collection[TaskId],
    placed: TasksOfProcesses,
    traffic_cost: int,
    non_overlap_cost: int,
    rules: RackRules = RackRules.HIGH_AVAILABILITY,
) -> dict[ProcessId, set[TaskId]]:
    """A new placement with the lowest total cost of `tasks`. Other tasks in `placed` stay.

    Raises TaskPlacementError, RackCostError, SolverMissingError.
    """
    result = {client: set(own) for client, own in placed.items()}
    strategy = application_state.assignment_configs.rack_aware_assignment_strategy
    traffic = _traffic(application_state, _of_actives(rules), rules)
    if not tasks or strategy == "none" or traffic is None:
        return result
    owners = _owners(tasks, placed)
    capacities = subtopology_capacities(owners) if strategy == "balance_subtopology" else None
    moved = cheapest(owners, traffic, traffic_cost, non_overlap_cost, capacities)
    for task, owner in owners.items():
        result[owner].remove(task)
    for task, owner in moved.items():
        result[owner].add(task)
    return result


def optimize_standbys(
    application_state: ApplicationState,
    standbys: TasksOfProcesses,
    actives: TasksOfProcesses,
    allowed: MayMove,
    traffic_cost: int,
    non_overlap_cost: int,
    rules: RackRules = RackRules.HIGH_AVAILABILITY,
    tasks: Collection[TaskId] | None = None,
    moved: Moved | None = None,
) -> dict[ProcessId, set[TaskId]]:
    """Swap standbys between clients on different racks, pair by pair, in at most four rounds.

    `allowed` is called during the optimisation, for the placement at that time. `moved` is called for each move, for an
    `allowed` that depends on the placement. `tasks`: tasks with standbys to move, None: all. Raises RackCostError,
    SolverMissingError.
    """
    result = {client: set(own) for client, own in standbys.items()}
    strategy = application_state.assignment_configs.rack_aware_assignment_strategy
    traffic = _traffic(application_state, _is_changelog, rules)
    if strategy != "none" and traffic is not None:
        balance = strategy == "balance_subtopology" and rules is RackRules.UTILITY
        Swaps(traffic, traffic_cost, non_overlap_cost, result, actives, allowed, moved, tasks, balance).run()
    return result


def active_cost(
    application_state: ApplicationState,
    placed: TasksOfProcesses,
    traffic_cost: int,
    non_overlap_cost: int,
    before: TasksOfProcesses | None = None,
    rules: RackRules = RackRules.HIGH_AVAILABILITY,
) -> int:
    """The total cost of the active tasks, with moves since `before`; 0 if racks are unknown."""
    return _cost(rack_traffic(application_state, _of_actives(rules)), placed, before, traffic_cost, non_overlap_cost)


def standby_cost(
    application_state: ApplicationState,
    placed: TasksOfProcesses,
    traffic_cost: int,
    non_overlap_cost: int,
    before: TasksOfProcesses | None = None,
) -> int:
    """The total cost of the standbys, with moves since `before`; 0 if racks are unknown."""
    return _cost(rack_traffic(application_state, _is_changelog), placed, before, traffic_cost, non_overlap_cost)


def _cost(
    traffic: RackTraffic | None,
    placed: TasksOfProcesses,
    before: TasksOfProcesses | None,
    traffic_cost: int,
    non_overlap_cost: int,
) -> int:
    if traffic is None:
        return 0
    far = sum(traffic.far(task, client) for client, own in placed.items() for task in own)
    moves = sum(len(own - before.get(client, set())) for client, own in placed.items()) if before is not None else 0
    return traffic_cost * far + non_overlap_cost * moves


def _is_input(partition: TaskTopicPartition) -> bool:
    return partition.is_source


def _is_changelog(partition: TaskTopicPartition) -> bool:
    return partition.is_changelog


def _any(_: TaskTopicPartition) -> bool:
    return True


def _of_actives(rules: RackRules) -> Counts:
    return _any if rules is RackRules.UTILITY else _is_input


def _traffic(application_state: ApplicationState, counts: Counts, rules: RackRules) -> RackTraffic | None:
    """The racks of clients and partitions; None if a needed one is unknown."""
    if rules is RackRules.HIGH_AVAILABILITY:
        standbys = application_state.assignment_configs.num_standby_replicas > 0
        # Kafka Streams decides once for active tasks and standbys, so an unknown rack of a changelog stops both.
        if not racks_known(application_state, _any if standbys else _is_input):
            return None
    return rack_traffic(application_state, counts)


def _owners(tasks: Iterable[TaskId], placed: TasksOfProcesses) -> dict[TaskId, ProcessId]:
    """Task -> its only client. Raises TaskPlacementError."""
    clients_of = {task: list[ProcessId]() for task in sorted(tasks)}
    for client, own in placed.items():
        for task in own & clients_of.keys():
            clients_of[task].append(client)
    for task, clients in clients_of.items():
        if len(clients) != 1:
            raise TaskPlacementError(task, clients)
    return {task: clients[0] for task, clients in clients_of.items()}


# The optimisation on a Placement, for assignors.

NO_STRATEGY = "none"


@dataclass(frozen=True)
class RackCosts:
    """The cost of a partition that is read from another rack, and of a task that leaves its client."""

    traffic: int
    non_overlap: int

    def configured(self, configs: AssignmentConfigs) -> Self:
        """The configured costs of the topology, with these as defaults."""
        traffic, non_overlap = configs.rack_aware_traffic_cost, configs.rack_aware_non_overlap_cost
        return type(self)(
            self.traffic if traffic is None else traffic, self.non_overlap if non_overlap is None else non_overlap
        )


STATELESS_COSTS = RackCosts(traffic=1, non_overlap=0)
"""A move of a stateless task is free."""


def optimize_placed_actives(
    application_state: ApplicationState,
    placement: Placement,
    tasks: Collection[int],
    costs: RackCosts,
    as_utility: bool = False,
) -> None:
    """Exchange active tasks between clients to save traffic between racks.

    `tasks`: tasks that may move. `as_utility`: use the rules of KIP-924's utility functions. Raises TaskPlacementError.
    """
    if not tasks or application_state.assignment_configs.rack_aware_assignment_strategy == NO_STRATEGY:
        return

    placed = optimize_actives(
        application_state,
        {placement.tasks[task] for task in tasks},
        placement.by_name(placement.active, tasks),
        costs.traffic,
        costs.non_overlap,
        RackRules.UTILITY if as_utility else RackRules.HIGH_AVAILABILITY,
    )
    placement.replace_actives(placed)


def optimize_placed_standbys(
    application_state: ApplicationState,
    placement: Placement,
    allowed: Callable[[int, int, int], bool] | None,
    costs: RackCosts,
    tasks: Collection[TaskId] | None = None,
    as_utility: bool = False,
) -> None:
    """Exchange standbys between clients to save traffic between racks.

    `allowed`: whether a standby may move from one client to another in the current placement; None: always. `tasks`:
    tasks with standbys that may move, None: all. `as_utility`: use the rules of KIP-924's utility functions.
    """
    if application_state.assignment_configs.rack_aware_assignment_strategy == NO_STRATEGY:
        return

    task_numbers = {task: number for number, task in enumerate(placement.tasks)}
    client_numbers = {client: number for number, client in enumerate(placement.clients)}

    def may_move(source: ProcessId, destination: ProcessId, task: TaskId) -> bool:
        return allowed is None or allowed(client_numbers[source], client_numbers[destination], task_numbers[task])

    def moved(source: ProcessId, destination: ProcessId, task: TaskId) -> None:
        placement.move_standby(client_numbers[source], client_numbers[destination], task_numbers[task])

    optimize_standbys(
        application_state,
        placement.by_name(placement.standby),
        placement.by_name(placement.active),
        may_move,
        costs.traffic,
        costs.non_overlap,
        RackRules.UTILITY if as_utility else RackRules.HIGH_AVAILABILITY,
        tasks,
        moved,
    )
