"""How assignors call the optimisation by racks, and the costs of stateless tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Self

from ...task_id import TaskId
from ..api.cluster import ApplicationState, AssignmentConfigs, ProcessId
from ..placement import Placement

NO_STRATEGY = "none"


@dataclass(frozen=True)
class RackCosts:
    """The cost of a partition that is read from another rack, and of a task that leaves its client."""

    traffic: int
    non_overlap: int

    def configured(self, configs: AssignmentConfigs) -> Self:
        """These costs, replaced by those that the topology configures."""
        traffic, non_overlap = configs.rack_aware_traffic_cost, configs.rack_aware_non_overlap_cost
        return type(self)(
            self.traffic if traffic is None else traffic, self.non_overlap if non_overlap is None else non_overlap
        )


STATELESS_COSTS = RackCosts(traffic=1, non_overlap=0)
"""Tasks without state move for nothing."""


def optimize_placed_actives(
    application_state: ApplicationState,
    placement: Placement,
    tasks: Collection[int],
    costs: RackCosts,
    as_utility: bool = False,
) -> None:
    """Exchange active tasks between clients where that saves traffic between racks.

    `tasks`: those that may move. `as_utility`: follow the rules of KIP-924's utility functions. Raises
    TaskPlacementError.
    """
    if not tasks or application_state.assignment_configs.rack_aware_assignment_strategy == NO_STRATEGY:
        return
    from .tasks import RackRules, optimize_actives  # brings in the solver

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
    """Exchange standbys between clients where that saves traffic between racks.

    `allowed`: whether a standby may go from one client to another in the placement of that moment; None: always.
    `tasks`: those whose standbys may move, None: all. `as_utility`: follow the rules of KIP-924's utility functions.
    """
    if application_state.assignment_configs.rack_aware_assignment_strategy == NO_STRATEGY:
        return
    from .tasks import RackRules, optimize_standbys  # brings in the solver

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
