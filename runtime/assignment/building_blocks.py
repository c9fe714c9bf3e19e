"""Parts of the built-in assignors, for custom assignors (KIP-924: TaskAssignmentUtils).

Functions take assignments by client, as `identity_assignment` returns them, and change them in place.
`validate_task_assignment` is in `assignor`, with the types that it checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..task_id import TaskId
from .assignor import AssignedTask, ClientAssignment, TaskType
from .cluster import ApplicationState, ProcessId
from .high_availability import clients_in_order
from .placement import Placement
from .racks import RackCosts, optimize_placed_actives, optimize_placed_standbys
from .standbys import assign_standbys, tags_allow_swap

Assignments = dict[ProcessId, ClientAssignment]
"""Client -> its assignment so far."""


@dataclass(frozen=True)
class RackAwareOptimizationParams:
    """Parameters of the rack-aware optimisation. None: all placed tasks, and the configured costs."""

    application_state: ApplicationState
    tasks: frozenset[TaskId] | None = None
    traffic_cost: int | None = None
    non_overlap_cost: int | None = None

    def for_stateful_tasks(self) -> RackAwareOptimizationParams:
        """The same for stateful tasks."""
        return self.for_tasks(task for task, info in self.application_state.all_tasks.items() if info.is_stateful)

    def for_stateless_tasks(self) -> RackAwareOptimizationParams:
        """The same for stateless tasks."""
        return self.for_tasks(task for task, info in self.application_state.all_tasks.items() if not info.is_stateful)

    def for_tasks(self, tasks: Iterable[TaskId]) -> RackAwareOptimizationParams:
        """The same for these tasks."""
        return replace(self, tasks=frozenset(tasks))

    def with_traffic_cost_override(self, cost: int) -> RackAwareOptimizationParams:
        """The same with another cost of a partition that is read from another rack."""
        return replace(self, traffic_cost=cost)

    def with_non_overlap_cost_override(self, cost: int) -> RackAwareOptimizationParams:
        """The same with another cost of a task that moves."""
        return replace(self, non_overlap_cost=cost)

    def costs(self) -> RackCosts | None:
        """The costs. None if the topology does not configure both, even if they are overridden (as in Kafka Streams).

        Then nothing is optimised.
        """
        configs = self.application_state.assignment_configs
        traffic, non_overlap = configs.rack_aware_traffic_cost, configs.rack_aware_non_overlap_cost
        if traffic is None or non_overlap is None:
            return None
        return RackCosts(
            traffic if self.traffic_cost is None else self.traffic_cost,
            non_overlap if self.non_overlap_cost is None else self.non_overlap_cost,
        )


def identity_assignment(application_state: ApplicationState) -> Assignments:
    """The previous assignment. Raises ValueError if a client had a task in two roles."""
    return {
        name: ClientAssignment(
            name,
            [AssignedTask(task, TaskType.ACTIVE) for task in sorted(client.previous_active_tasks)]
            + [AssignedTask(task, TaskType.STANDBY) for task in sorted(client.previous_standby_tasks)],
        )
        for name, client in sorted(application_state.clients.items())
    }


def default_standby_task_assignment(application_state: ApplicationState, assignments: Assignments) -> None:
    """Add the configured standbys of tasks with a changelog, on the lightest clients.

    If tags are configured, clients that differ in them come first. Clients without an entry get one.
    """
    placement = _placement(application_state, assignments)
    infos = application_state.all_tasks
    changelogged = [
        number for number, task in enumerate(placement.tasks) if task in infos and infos[task].is_changelogged
    ]
    clients = clients_in_order(application_state.clients)
    assign_standbys(placement, changelogged, clients, application_state.assignment_configs)
    _take_over(placement, assignments, TaskType.STANDBY)


def optimize_rack_aware_active_tasks(params: RackAwareOptimizationParams, assignments: Assignments) -> None:
    """Exchange active tasks between clients to save cost. Call it before standbys are added.

    A task that moves to a client with its standby replaces that standby. Raises TaskPlacementError if a task to be
    optimised is not active on exactly one client.
    """
    costs = params.costs()
    if costs is None:
        return
    state = params.application_state
    placement = _placement(state, assignments)
    tasks = [
        number
        for number, task in enumerate(placement.tasks)
        if (placement.owner[number] >= 0 if params.tasks is None else task in params.tasks)
    ]
    optimize_placed_actives(state, placement, tasks, costs, as_utility=True)
    _take_over(placement, assignments, TaskType.ACTIVE)


def optimize_rack_aware_standby_tasks(params: RackAwareOptimizationParams, assignments: Assignments) -> None:
    """Exchange standbys between clients to save cost, if a task's clients differ in no fewer tags afterwards."""
    costs = params.costs()
    if costs is None:
        return
    state = params.application_state
    placement = _placement(state, assignments)
    may_swap = tags_allow_swap(placement, clients_in_order(state.clients), state.assignment_configs)
    optimize_placed_standbys(state, placement, may_swap, costs, params.tasks, as_utility=True)
    _take_over(placement, assignments, TaskType.STANDBY)


def _placement(application_state: ApplicationState, assignments: Assignments) -> Placement:
    """The assignments as a placement. Clients without an entry get one. Raises NoClientsError."""
    for client in application_state.clients:
        assignments.setdefault(client, ClientAssignment(client))
    tasks = {task for client in assignments.values() for task in client.tasks} | application_state.all_tasks.keys()
    placement = Placement(tasks, application_state.clients)
    numbers = {task: number for number, task in enumerate(placement.tasks)}
    for number, name in enumerate(placement.clients):
        for task in assignments[name].tasks.values():
            assign = placement.assign_active if task.type is TaskType.ACTIVE else placement.assign_standby
            assign(number, numbers[task.id])
    return placement


def _take_over(placement: Placement, assignments: Assignments, role: TaskType) -> None:
    """Copy the tasks in this role from the placement to the assignments."""
    sets = placement.active if role is TaskType.ACTIVE else placement.standby
    placed = placement.by_name(sets)
    for name, own in placed.items():
        for removed in set(assignments[name].of_type(role)) - own:
            assignments[name].remove_task(AssignedTask(removed, role))
    for name, own in placed.items():
        for task in own:
            assignments[name].assign_task(AssignedTask(task, role))
