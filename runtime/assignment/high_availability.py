"""The built-in assignor `high_availability` (KIP-441): a task moves after its warm-up has caught up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from operator import is_

import numpy as np
import numpy.typing as npt

from ..task_id import TaskId
from .assignor import IN_ORDER, TaskAssignment, TaskAssignor
from .balance import balance_actives, balance_standbys
from .cluster import LATEST_OFFSET, UNBOUNDED_LAG, ApplicationState, ClientState, ProcessId, TaskInfo
from .placement import ConstrainedPrioritySet, Placement, followup
from .racks import STATELESS_COSTS, RackCosts, optimize_placed_actives, optimize_placed_standbys
from .standbys import assign_standbys, tags_allow, tags_allow_swap

# The lags of all tasks on all clients as an array.


class LagTable:
    """Lags of tasks (rows) on clients (columns), both by number.

    `lag[task, client]`; `caught_up[task, client]`: the client runs the task or its lag is acceptable. An unknown lag
    sorts before all others and is not caught up, as in Kafka Streams.

    With an acceptable lag of 10, the lags -2 (running), 5, 90 and -3 (unknown) are caught up: True, True, False, False.
    The most caught-up client is the last one, with -3.
    """

    def __init__(
        self,
        tasks: Sequence[TaskId],
        needed: Sequence[int],
        clients: Sequence[ClientState],
        acceptable_recovery_lag: int,
    ) -> None:
        """`needed`: the numbers of the tasks with needed lags. The rows of other tasks have no meaning.

        Raises UnknownLagError for the first missing lag that is needed, by task and then by client.
        """
        self.lag: npt.NDArray[np.int64] = np.ascontiguousarray(_by_client(tasks, needed, clients).T)
        self.caught_up: npt.NDArray[np.bool_] = (self.lag == LATEST_OFFSET) | (
            np.full(self.lag.shape, True)
            if acceptable_recovery_lag >= UNBOUNDED_LAG
            else (self.lag >= 0) & (self.lag <= acceptable_recovery_lag)
        )
        self.caught_up_clients: list[int] = self.caught_up.sum(axis=1).tolist()
        self._least: npt.NDArray[np.int64] = self.lag.min(axis=1)

    def should_move(self, task: int, client: int) -> bool:
        """Whether the client has not caught up on the task and another client has a smaller lag."""
        return not self.caught_up[task, client] and bool(self._least[task] < self.lag[task, client])

    def most_caught_up(self, task: int) -> int:
        """The first client with the smallest lag."""
        return int(self.lag[task].argmin())

    def most_caught_up_before(self, task: int, client: int, among: npt.NDArray[np.bool_]) -> int | None:
        """The client with the smallest lag before `client`, by lag and then by number. `among`: candidates by
        client."""
        lag = self.lag[task]
        before = lag < lag[client]
        before[:client] |= lag[:client] == lag[client]
        candidates = np.flatnonzero(before & among)
        return int(candidates[lag[candidates].argmin()]) if len(candidates) else None


def _by_client(tasks: Sequence[TaskId], needed: Sequence[int], clients: Sequence[ClientState]) -> npt.NDArray[np.int64]:
    """Lags by client (rows) and task (columns).

    The lags of all clients mostly have the same key objects in the same order. With thousands of tasks it is far
    cheaper to compare the keys by identity than to look them up.
    """
    table = np.zeros((len(clients), len(tasks)), np.int64)
    if not needed:
        return table
    numbers = {IN_ORDER(task): number for number, task in enumerate(tasks)}
    keys: list[TaskId] | None = None
    columns = existing = np.empty(0, np.int64)
    for row, client in zip(table, clients, strict=True):
        lags: Mapping[TaskId, int] = client.lags or {}
        own = list(lags)
        if keys is None or len(own) != len(keys) or not all(map(is_, own, keys)):
            keys = own
            columns = np.fromiter((numbers.get(key, -1) for key in map(IN_ORDER, own)), np.int64, len(own))
            existing = np.flatnonzero(columns >= 0)
            columns = columns[existing]
            has_lag = np.zeros(len(tasks), np.bool_)
            has_lag[columns] = True
            if not has_lag[needed].all():
                _raise_missing(tasks, needed, clients)
        row[columns] = np.fromiter(lags.values(), np.int64, len(own))[existing]
    return table


def _raise_missing(tasks: Sequence[TaskId], needed: Sequence[int], clients: Sequence[ClientState]) -> None:
    for task in needed:
        for client in clients:
            client.lag_for(tasks[task])


def clients_in_order(clients: Mapping[ProcessId, ClientState]) -> list[ClientState]:
    """Clients sorted by process id."""
    return [clients[client] for client in sorted(clients)]


# Turns the intended placement into one that can run now (KIP-441).
#
# If the intended client of a task has not caught up and another client has a smaller lag, the other client gets the
# task. The intended client gets a warm-up, as far as their number allows, so that a later assignment can move the task.


@dataclass
class Warmups:
    """The warm-ups of an assignment: (client, task). `budget`: the number of further ones."""

    budget: int
    tasks: set[tuple[int, int]] = field(default_factory=set)

    def take(self) -> bool:
        """Use one warm-up of the budget. Returns whether the budget allows it."""
        self.budget -= 1
        return self.budget >= 0


def move_actives(placement: Placement, lags: LagTable, warmups: Warmups) -> int:
    """Move active tasks to clients with smaller lags. Returns the number of moved tasks.

    Tasks with the fewest caught-up clients come first. The preferred client is, in this order: the least loaded
    caught-up one with a standby, because changing roles costs nothing; the least loaded caught-up one; the one with the
    smallest lag.
    """
    movements = sorted(
        (lags.caught_up_clients[task], task)
        for intended, tasks in enumerate(placement.active)
        for task in tasks
        if lags.should_move(task, intended)
    )
    for _, task in movements:
        standbys = [client for client in placement.holders(task) if lags.caught_up[task, client]]
        if standbys:
            placement.swap(task, min(standbys, key=lambda client: (placement.load[client], client)))
            continue
        client = placement.lightest(lags.caught_up[task])
        if client is None:
            client = lags.most_caught_up(task)
        if client in placement.holders(task):
            placement.swap(task, client)
        else:
            _move_active(placement, task, client, warmups)
    return len(movements)


def move_standbys(placement: Placement, lags: LagTable, warmups: Warmups) -> int:
    """Move standbys to clients with smaller lags. Returns the number of moved standbys.

    The intended clients keep their standbys as warm-ups while the budget lasts. Warm-ups of active tasks stay. Standbys
    of one task are visited by client.
    """
    movements = sorted(
        (lags.caught_up_clients[task], task, intended)
        for intended, tasks in enumerate(placement.standby)
        for task in tasks
        if (intended, task) not in warmups.tasks and lags.should_move(task, intended)
    )
    moved = 0
    for _, task, intended in movements:
        free = placement.lacking(task)
        client = placement.lightest(free & lags.caught_up[task])
        if client is None:
            client = lags.most_caught_up_before(task, intended, free)
        if client is None:
            continue
        placement.assign_standby(client, task)
        if not warmups.take():
            placement.unassign_standby(intended, task)
        moved += 1
    return moved


def _move_active(placement: Placement, task: int, client: int, warmups: Warmups) -> None:
    intended = placement.owner[task]
    placement.move_active(intended, client, task)
    if warmups.take():
        placement.assign_standby(intended, task)
        warmups.tasks.add((intended, task))


# The assignor.
#
# First it spreads the stateful tasks, then their standbys, as if all clients had caught up: the intended placement.
# Then it keeps tasks on caught-up clients, and adds warm-ups on their intended clients. Last it spreads the stateless
# tasks.

STATEFUL_COSTS = RackCosts(traffic=10, non_overlap=1)


class HighAvailability(TaskAssignor):
    """A TaskAssignor that needs lags. It requests follow-ups until all tasks are on their intended clients."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Assign all tasks.

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


def _is_restorable(task: TaskInfo) -> bool:
    """Whether another client can restore the task's state.

    A store without a changelog has no lag and no copies. As in Kafka Streams, its task is placed like a stateless one.
    """
    return task.is_stateful and task.is_changelogged


def _spread(placement: Placement, tasks: Sequence[int]) -> None:
    """Assign the tasks to the clients in turn."""
    for task, client in zip(tasks, cycle(range(len(placement.clients)))):
        placement.assign_active(client, task)


def _move(
    placement: Placement, stateful: Sequence[int], clients: Sequence[ClientState], application_state: ApplicationState
) -> int:
    """Move tasks to clients with smaller lags. Returns the number of tasks that are not on their intended client."""
    configs = application_state.assignment_configs
    lags = LagTable(placement.tasks, stateful, clients, configs.acceptable_recovery_lag)
    warmups = Warmups(configs.max_warmup_replicas)
    return move_actives(placement, lags, warmups) + move_standbys(placement, lags, warmups)


def _place_stateless(placement: Placement, tasks: Sequence[int]) -> None:
    """Assign each task to the client with the fewest active tasks per thread."""
    loads = [len(own) / threads for own, threads in zip(placement.active, placement.threads, strict=True)]
    queue = ConstrainedPrioritySet(loads)
    queue.offer_all(range(len(loads)))
    for task in tasks:
        client = queue.poll()
        assert client is not None  # all clients are offered
        placement.assign_active(client, task)
        loads[client] = len(placement.active[client]) / placement.threads[client]
        queue.offer(client)
