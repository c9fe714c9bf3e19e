"""Rack-aware optimisation: the same number of tasks on every client, with less of their data on other racks.

A task costs, where it is placed, `traffic_cost` for each partition that has no replica on the client's rack, and
`non_overlap_cost` if it was not there before. Strategy `min_traffic` looks for the least sum; `balance_subtopology`
does so while spreading each subtopology over the clients. No task moves without gain: of placements that cost the
same, the one with fewest moves is taken. Costs are whole numbers, and those passed hold, whatever is configured.

Nothing moves under strategy `none`, nor where the racks of clients or of partitions that count are not all known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum

from ....errors import HeadwaterError
from ...tasks.task_id import TaskId
from ..api.cluster import ApplicationState, ProcessId, TaskTopicPartition
from .flow import cheapest, subtopology_rooms
from .standbys import Swaps
from .traffic import Counts, RackTraffic, rack_traffic, racks_known

Placement = Mapping[ProcessId, set[TaskId]]
"""Client -> the tasks it has in one role."""

MayMove = Callable[[ProcessId, ProcessId, TaskId], bool]
"""Whether a standby may go from a client to another one."""

Moved = Callable[[ProcessId, ProcessId, TaskId], object]
"""Told of a standby that went from a client to another one."""


class RackRules(Enum):
    """What counts, where Kafka Streams' own assignor and its utility functions (KIP-924) differ.

    HIGH_AVAILABILITY: of an active, the inputs count; standbys are optimised by `min_traffic` whatever the strategy;
    and with standbys asked for, racks of inputs and changelogs must all be known before anything is optimised.
    UTILITY: of an active, its changelogs count too; standbys follow the strategy; only racks of what counts must be
    known.
    """

    HIGH_AVAILABILITY = "high_availability"
    UTILITY = "utility"


class TaskPlacementError(HeadwaterError, ValueError):
    """A task to be optimised that is not on exactly one client. `clients`: those that have it."""

    def __init__(self, task: TaskId, clients: Collection[ProcessId]) -> None:
        where = f"is on {' and '.join(sorted(clients))}" if clients else "is on no client"
        super().__init__(f"task {task} {where}, and can be optimised only on exactly one")
        self.task = task
        self.clients = tuple(sorted(clients))


def optimize_actives(
    application_state: ApplicationState,
    tasks: Collection[TaskId],
    placed: Placement,
    traffic_cost: int,
    non_overlap_cost: int,
    rules: RackRules = RackRules.HIGH_AVAILABILITY,
) -> dict[ProcessId, set[TaskId]]:
    """A new placement with `tasks` where they cost least in all; other tasks in `placed` stay.

    Raises TaskPlacementError, RackCostError, SolverMissingError.
    """
    result = {client: set(own) for client, own in placed.items()}
    strategy = application_state.assignment_configs.rack_aware_assignment_strategy
    traffic = _traffic(application_state, _of_actives(rules), rules)
    if not tasks or strategy == "none" or traffic is None:
        return result
    owners = _owners(tasks, placed)
    rooms = subtopology_rooms(owners) if strategy == "balance_subtopology" else None
    moved = cheapest(owners, traffic, traffic_cost, non_overlap_cost, rooms)
    for task, owner in owners.items():
        result[owner].remove(task)
    for task, owner in moved.items():
        result[owner].add(task)
    return result


def optimize_standbys(
    application_state: ApplicationState,
    standbys: Placement,
    actives: Placement,
    allowed: MayMove,
    traffic_cost: int,
    non_overlap_cost: int,
    rules: RackRules = RackRules.HIGH_AVAILABILITY,
    tasks: Collection[TaskId] | None = None,
    moved: Moved | None = None,
) -> dict[ProcessId, set[TaskId]]:
    """Swap standbys between clients on different racks, pair by pair, at most four rounds, as long as that pays.

    `allowed` is asked about the placement of that moment; where its answer depends on who has what, `moved` lets the
    caller follow. `tasks`: whose standbys may move, None: all. Raises RackCostError, SolverMissingError.
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
    placed: Placement,
    traffic_cost: int,
    non_overlap_cost: int,
    before: Placement | None = None,
    rules: RackRules = RackRules.HIGH_AVAILABILITY,
) -> int:
    """What actives cost where they are, at these prices, with moves since `before`; 0 where racks are unknown."""
    return _cost(rack_traffic(application_state, _of_actives(rules)), placed, before, traffic_cost, non_overlap_cost)


def standby_cost(
    application_state: ApplicationState,
    placed: Placement,
    traffic_cost: int,
    non_overlap_cost: int,
    before: Placement | None = None,
) -> int:
    """What standbys cost where they are, at these prices, with moves since `before`; 0 where racks are unknown."""
    return _cost(rack_traffic(application_state, _is_changelog), placed, before, traffic_cost, non_overlap_cost)


def _cost(
    traffic: RackTraffic | None, placed: Placement, before: Placement | None, traffic_cost: int, non_overlap_cost: int
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
    """What is known of racks, None where that is not enough."""
    if rules is RackRules.HIGH_AVAILABILITY:
        standbys = application_state.assignment_configs.num_standby_replicas > 0
        if not racks_known(application_state, _any if standbys else _is_input):
            return None
    return rack_traffic(application_state, counts)


def _owners(tasks: Iterable[TaskId], placed: Placement) -> dict[TaskId, ProcessId]:
    """The one client that has each of `tasks`. Raises TaskPlacementError."""
    wanted = {task: list[ProcessId]() for task in sorted(tasks)}
    for client, own in placed.items():
        for task in own & wanted.keys():
            wanted[task].append(client)
    for task, clients in wanted.items():
        if len(clients) != 1:
            raise TaskPlacementError(task, clients)
    return {task: clients[0] for task, clients in wanted.items()}
