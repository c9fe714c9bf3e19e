"""The built-in assignor `sticky`: as few moves as quotas by threads allow. It needs no lags."""

from __future__ import annotations

from .api.assignor import AssignmentError, TaskAssignment
from .api.cluster import ApplicationState
from .placement import Placement
from .racks.optimization import (
    NO_STRATEGY,
    STATELESS_COSTS,
    RackCosts,
    optimize_placed_actives,
    optimize_placed_standbys,
)
from .stickiness import StickyPlacing

STICKY_COSTS = RackCosts(traffic=1, non_overlap=10)


class Sticky:
    """A TaskAssignor: tasks stay, or go to their standbys, or to the lightest client.

    It uses racks only if both costs are configured, like the utility functions of KIP-924.
    """

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Place all tasks. Raises NoClientsError."""
        clients = application_state.client_states(compute_task_lags=False)
        configs = application_state.assignment_configs
        placing = StickyPlacing(application_state.all_tasks, clients)
        placing.place_actives()
        infos = [application_state.all_tasks[task] for task in placing.placement.tasks]
        by_racks = (
            configs.rack_aware_assignment_strategy != NO_STRATEGY
            and configs.rack_aware_traffic_cost is not None
            and configs.rack_aware_non_overlap_cost is not None
        )
        costs = STICKY_COSTS.configured(configs)
        if by_racks:

            def optimize(placement: Placement) -> None:
                for stateful, of_kind in ((True, costs), (False, STATELESS_COSTS)):
                    tasks = [task for task, info in enumerate(infos) if info.is_stateful is stateful]
                    optimize_placed_actives(application_state, placement, tasks, of_kind, as_utility=True)

            placing.optimize(optimize)
        if configs.num_standby_replicas:
            changelogged = [task for task, info in enumerate(infos) if info.is_changelogged]
            placing.place_standbys(changelogged, configs.num_standby_replicas)
            if by_racks:
                optimize_placed_standbys(application_state, placing.placement, None, costs, as_utility=True)
        return placing.placement.to_assignment()

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        """Nothing to remember."""
