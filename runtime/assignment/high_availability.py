"""The built-in assignor `high_availability` (KIP-441): balanced, but a task moves only to a client that has caught up.

First it spreads the tasks with state, then their standbys, as if all clients had caught up. Then it leaves tasks where
their state is, and lets the clients that are to have them warm up. Last it spreads the tasks without state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from .api.assignor import AssignmentError, TaskAssignment
from .api.cluster import ApplicationState, ClientState, TaskInfo
from .balance import balance_actives, balance_standbys
from .lags import LagTable, clients_in_order
from .placement import Placement, followup
from .priority import ConstrainedPrioritySet
from .racks.optimization import STATELESS_COSTS, RackCosts, optimize_placed_actives, optimize_placed_standbys
from .standbys import assign_standbys, tags_allow, tags_allow_swap
from .warmups import Warmups, move_actives, move_standbys

STATEFUL_COSTS = RackCosts(traffic=10, non_overlap=1)


class HighAvailability:
    """A TaskAssignor that needs lags. It asks for a follow-up as long as some task is not on its intended client."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Place all tasks.

        Raises NoClientsError, and UnknownLagError if the lag of a task with a changelog is missing.
        """
        states = application_state.client_states(compute_task_lags=True)
        configs = application_state.assignment_configs
        placement = Placement(application_state.all_tasks, states)
        clients = clients_in_order(states)
        infos = [application_state.all_tasks[task] for task in placement.tasks]
        stateful = [task for task, info in enumerate(infos) if _is_restorable(info)]
        costs = STATEFUL_COSTS.configured(configs)

        _spread(placement, stateful)
        balance_actives(placement)
        optimize_placed_actives(application_state, placement, stateful, costs)
        if configs.num_standby_replicas:
            assign_standbys(placement, stateful, clients, configs)
            balance_standbys(placement, tags_allow(clients, configs))
            may_swap = tags_allow_swap(placement, clients, configs)
            optimize_placed_standbys(application_state, placement, may_swap, costs)

        moved = _move(placement, stateful, clients, application_state)

        stateless = [task for task, info in enumerate(infos) if not _is_restorable(info)]
        _place_stateless(placement, stateless)
        optimize_placed_actives(application_state, placement, stateless, STATELESS_COSTS)
        return placement.to_assignment(followup(application_state) if moved else None)

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        """Nothing to remember."""


def _is_restorable(task: TaskInfo) -> bool:
    """Whether another client can restore the task's state.

    A store without a changelog has no lag and no copies. Kafka Streams, too, places its task as one without state.
    """
    return task.is_stateful and task.is_changelogged


def _spread(placement: Placement, tasks: Sequence[int]) -> None:
    """Deal the tasks to the clients in turn."""
    for task, client in zip(tasks, cycle(range(len(placement.clients)))):
        placement.assign_active(client, task)


def _move(
    placement: Placement, stateful: Sequence[int], clients: Sequence[ClientState], application_state: ApplicationState
) -> int:
    """Leave tasks where their state is. Returns how many are not on their intended client."""
    configs = application_state.assignment_configs
    lags = LagTable(placement.tasks, stateful, clients, configs.acceptable_recovery_lag)
    warmups = Warmups(configs.max_warmup_replicas)
    return move_actives(placement, lags, warmups) + move_standbys(placement, lags, warmups)


def _place_stateless(placement: Placement, tasks: Sequence[int]) -> None:
    """Give each task to the client with the fewest active tasks for each thread."""
    loads = [len(own) / threads for own, threads in zip(placement.active, placement.threads, strict=True)]
    queue = ConstrainedPrioritySet(loads)
    queue.offer_all(range(len(loads)))
    for task in tasks:
        client = queue.poll()
        assert client is not None  # every client is offered, and there is one
        placement.assign_active(client, task)
        loads[client] = len(placement.active[client]) / placement.threads[client]
        queue.offer(client)
