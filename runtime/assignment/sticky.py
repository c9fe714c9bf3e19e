"""The built-in assignors `sticky` and `fallback`, which keep tasks on their clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..task_id import TaskId
from .assignor import TaskAssignment, TaskAssignor
from .cluster import ApplicationState, ClientState, ProcessId
from .placement import LeastLoaded, Placement, TaskPairs, followup
from .racks import NO_STRATEGY, STATELESS_COSTS, RackCosts, optimize_placed_actives, optimize_placed_standbys

# The common part of `sticky` and `fallback`: tasks stay on their previous clients, as far as quotas allow.


class StickyPlacing:
    """A placement that grows task by task, first active tasks, then standbys.

    `preserve`: previously active tasks stay, regardless of quotas. `threads_first`: of equally loaded clients, the one
    with more threads comes first.
    """

    def __init__(
        self,
        tasks: Mapping[TaskId, object],
        clients: Mapping[ProcessId, ClientState],
        preserve: bool = False,
        threads_first: bool = False,
    ) -> None:
        """Raises NoClientsError."""
        self.placement = Placement(tasks, clients)
        self._preserve = preserve
        self._least = LeastLoaded(self.placement, threads_first)
        self._pairs: TaskPairs | None = None
        numbers = {task: number for number, task in enumerate(self.placement.tasks)}
        states = [clients[client] for client in self.placement.clients]
        # If two clients report a previous task, the last one counts.
        self._was_active = {
            numbers[task]: client
            for client, state in enumerate(states)
            for task in state.previous_active_tasks
            if task in numbers
        }
        self._was_standby: dict[int, list[int]] = {}
        for client, state in enumerate(states):
            for task in state.previous_standby_tasks:
                if task in numbers:
                    self._was_standby.setdefault(numbers[task], []).append(client)

    def place_actives(self) -> None:
        """Place each task once: on its previous client, on a client with a previous standby, or on the best client."""
        placement = self.placement
        threads = placement.threads
        tasks_per_thread = len(placement.tasks) // sum(threads)
        quotas = [tasks_per_thread * number for number in threads]
        for task in sorted(self._was_active):
            client = self._was_active[task]
            if self._preserve or len(placement.active[client]) < quotas[client]:
                placement.assign_active(client, task)
        for task in sorted(self._was_standby):
            if placement.owner[task] < 0:
                for client in self._was_standby[task]:
                    if len(placement.active[client]) < quotas[client]:
                        placement.assign_active(client, task)
                        break
        for task, owner in enumerate(placement.owner):
            if owner < 0:
                best = self._previous(task)
                placement.assign_active(self._least.for_active() if best is None else best, task)

    def optimize(self, step: Callable[[Placement], None]) -> None:
        """Let `step` exchange active tasks between clients after they are placed."""
        self._pairs = TaskPairs(self.placement)
        step(self.placement)
        self._pairs.actives_moved()

    def place_standbys(self, tasks: Sequence[int], replicas: int) -> None:
        """Place `replicas` standbys of each task, or fewer if there are not enough clients."""
        pairs = self._pairs = self._pairs or TaskPairs(self.placement)
        for task in tasks if replicas else ():
            for _ in range(replicas):
                best = self._previous(task)
                if best is None:
                    best = self._least.for_standby(task, pairs)
                if best is None:
                    break
                self.placement.assign_standby(best, task)
                pairs.standby_added(task, best)

    def _previous(self, task: int) -> int | None:
        """The previous client of a task, else the lightest one with a previous standby, if not overloaded; or None."""
        owner = self._was_active.get(task)
        standbys = self._was_standby.get(task, ())
        if owner is not None and not self.placement.has(owner, task) and not self._least.overloaded(owner):
            return owner
        client = self._least.among(task, standbys, self._pairs) if standbys else None
        return None if client is None or self._least.overloaded(client) else client


# The built-in assignor `sticky`: as few moves as quotas by threads allow, without lags.

STICKY_COSTS = RackCosts(traffic=1, non_overlap=10)


class Sticky(TaskAssignor):
    """A TaskAssignor: tasks stay, or move to a client with a standby, or to the lightest client.

    It uses racks only if both costs are configured, like the utility functions of KIP-924.
    """

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Assign all tasks. Raises NoClientsError."""
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
                for stateful, kind_costs in ((True, costs), (False, STATELESS_COSTS)):
                    tasks = [task for task, info in enumerate(infos) if info.is_stateful is stateful]
                    optimize_placed_actives(application_state, placement, tasks, kind_costs, as_utility=True)

            placing.optimize(optimize)
        if configs.num_standby_replicas:
            changelogged = [task for task, info in enumerate(infos) if info.is_changelogged]
            placing.place_standbys(changelogged, configs.num_standby_replicas)
            if by_racks:
                optimize_placed_standbys(application_state, placing.placement, None, costs, as_utility=True)
        return placing.placement.to_assignment()


# The built-in assignor `fallback`, for unknown lags.
#
# Tasks stay on their previous clients. The leader always requests a follow-up, which may have lags.


class Fallback(TaskAssignor):
    """A TaskAssignor that keeps previously active tasks, regardless of the balance, and needs no lags."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Keep tasks on their previous clients and assign the others. Raises NoClientsError."""
        tasks, configs = application_state.all_tasks, application_state.assignment_configs
        clients = application_state.client_states(compute_task_lags=False)
        placing = StickyPlacing(tasks, clients, preserve=True, threads_first=True)
        placing.place_actives()
        changelogged = [number for number, task in enumerate(placing.placement.tasks) if tasks[task].is_changelogged]
        placing.place_standbys(changelogged, configs.num_standby_replicas)
        return placing.placement.to_assignment(followup(application_state))
