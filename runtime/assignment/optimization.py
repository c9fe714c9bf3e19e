"""Where assignors call the optimisation by racks, with the costs that each uses unless others are configured."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

from .cluster import ApplicationState, AssignmentConfigs, ClientState
from .placement import Placement
from .standbys import tags_allow_swap

NO_STRATEGY = "none"


@dataclass(frozen=True)
class RackCosts:
    """What a partition read from another rack costs, and what a task that is not where it was."""

    traffic: int
    non_overlap: int

    def configured(self, configs: AssignmentConfigs) -> Self:
        """These, but for those that are configured."""
        traffic, non_overlap = configs.rack_aware_traffic_cost, configs.rack_aware_non_overlap_cost
        return type(self)(
            self.traffic if traffic is None else traffic, self.non_overlap if non_overlap is None else non_overlap
        )


STATELESS_COSTS = RackCosts(traffic=1, non_overlap=0)
"""Of tasks without state, which move for nothing."""


def optimize_placed_actives(
    application_state: ApplicationState, placement: Placement, tasks: Collection[int], costs: RackCosts
) -> None:
    """Exchange active tasks between clients where that saves traffic between racks. `tasks`: which may move."""
    if not tasks or application_state.assignment_configs.rack_aware_assignment_strategy == NO_STRATEGY:
        return
    from .rack_aware import optimize_actives  # brings in the solver

    placement.replace_actives(
        optimize_actives(
            application_state,
            {placement.tasks[task] for task in tasks},
            placement.by_name(placement.active, tasks),
            costs.traffic,
            costs.non_overlap,
        )
    )


def optimize_placed_standbys(
    application_state: ApplicationState, placement: Placement, clients: Sequence[ClientState], costs: RackCosts
) -> None:
    """Exchange standbys between clients where that saves traffic between racks, and tags allow it."""
    configs = application_state.assignment_configs
    if configs.rack_aware_assignment_strategy == NO_STRATEGY:
        return
    from .rack_aware import optimize_standbys  # brings in the solver

    task_numbers = {task: number for number, task in enumerate(placement.tasks)}
    client_numbers = {client: number for number, client in enumerate(placement.clients)}
    may_swap = tags_allow_swap(clients, configs, lambda task: [placement.owner[task], *placement.holders(task)])
    placement.replace_standbys(
        optimize_standbys(
            application_state,
            placement.by_name(placement.standby),
            placement.by_name(placement.active),
            lambda source, destination, task: may_swap(
                client_numbers[source], client_numbers[destination], task_numbers[task]
            ),
            costs.traffic,
            costs.non_overlap,
        )
    )
