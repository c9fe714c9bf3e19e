"""The built-in assignors `balanced_count` and `balanced`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ..task_id import TaskId
from .assignor import AssignedTask, ClientAssignment, TaskAssignment, TaskAssignor, TaskType
from .balanced_search import Estimates, Floats, Numbers, Search, estimates, with_lags
from .cluster import ApplicationState, AssignmentConfigs, ClientState, ProcessId
from .placement import Placement, followup

# The built-in assignor `balanced_count`: numbers of tasks in proportion to threads, with as few moves as possible.


class BalancedCount(TaskAssignor):
    """A TaskAssignor without standbys.

    The number of tasks of a client is its share by threads, rounded down or up. A client keeps as many of its tasks as
    that allows, stateful ones first. The other tasks go, sorted by id, to the client with the most missing tasks.
    """

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Assign all tasks as active tasks. Without clients the assignment is empty."""
        clients = application_state.clients
        # Stateful tasks first, because a move costs a restore.
        tasks = sorted(
            application_state.all_tasks, key=lambda task: (not application_state.all_tasks[task].is_stateful, task)
        )
        quotas = _quotas(len(tasks), clients)
        placed: dict[ProcessId, list[TaskId]] = {client: [] for client in sorted(clients)}
        unplaced = []
        for task in tasks:
            previous = next((client for client in placed if task in clients[client].previous_active_tasks), None)
            if previous is not None and len(placed[previous]) < quotas[previous]:
                placed[previous].append(task)
            else:
                unplaced.append(task)
        for task in unplaced if placed else ():
            placed[max(placed, key=lambda client: quotas[client] - len(placed[client]))].append(task)
        return TaskAssignment(
            [
                ClientAssignment(client, [AssignedTask(task, TaskType.ACTIVE) for task in own])
                for client, own in placed.items()
            ]
        )


def _quotas(tasks: int, clients: Mapping[ProcessId, ClientState]) -> dict[ProcessId, int]:
    """The number of tasks of each client: shares by threads, rounded so that the sum is `tasks`.

    The largest fractions are rounded up. Of equal fractions, clients that would otherwise lose a task come first.
    """
    threads = sum(client.num_processing_threads for client in clients.values())
    shares = {name: divmod(tasks * client.num_processing_threads, threads) for name, client in clients.items()}
    quotas = {name: whole for name, (whole, _) in shares.items()}

    def priority(name: ProcessId) -> tuple[int, bool, str]:
        return -shares[name][1], len(clients[name].previous_active_tasks) <= quotas[name], name

    by_priority = sorted(clients, key=priority)
    for name in by_priority[: tasks - sum(quotas.values())]:
        quotas[name] += 1
    return quotas


# Standbys of `balanced`: on clients with other tags or racks, within limits, and where the state already is.


def tag_numbers(clients: Sequence[ClientState], configs: AssignmentConfigs) -> npt.NDArray[np.int64]:
    """The values in which copies of a task should differ, as numbers: an array of keys x clients.

    Keys are the configured tags; without them the rack, if all clients have one. A client without a tag has a value of
    its own. Clients with the zones x, y, none, x give [[0, 1, -3, 0]].
    """
    if configs.rack_aware_assignment_tags:
        rows = [[client.client_tags.get(key) for client in clients] for key in configs.rack_aware_assignment_tags]
    elif all(client.rack_id is not None for client in clients):
        rows = [[client.rack_id for client in clients]]
    else:
        rows = []
    numbered = [
        [row.index(value) if value is not None else -1 - column for column, value in enumerate(row)] for row in rows
    ]
    return np.array(numbered, np.int64).reshape(len(rows), len(clients))


def place_standbys(
    estimated: Estimates, owner: npt.NDArray[np.int64], tags: npt.NDArray[np.int64], replicas: int, tolerance: float
) -> list[list[int]]:
    """The clients with a standby, by task. The number of standbys is as configured, or that of the other clients.

    The first choice is a client with other `tags` (see `tag_numbers`) than the other copies, then one below its share
    of all standbys, then the one with the least state to move. Existing copies are placed first, so that no new copy
    uses up their client's capacity. Then large tasks are placed before small ones. `owner`: client of each active task.
    """
    tasks = np.flatnonzero(estimated.replicated)
    number = min(replicas, len(estimated.threads) - 1)
    result: list[list[int]] = [[] for _ in owner]
    share = len(tasks) * number * estimated.threads / estimated.threads.sum()
    capacity = np.ceil(share * (1 + tolerance) - 1e-9)
    has = np.zeros(estimated.bytes_moved.shape, np.bool_)
    has[tasks, owner[tasks]] = True
    by_size = np.lexsort((-estimated.bytes_moved[tasks].max(axis=1, initial=0),))
    for only_caught_up in (True, False):
        for task in tasks[by_size]:
            while len(result[task]) < number:
                client = _best(estimated, tags, has[task], task, capacity)
                if only_caught_up and not (estimated.caught_up[task, client] and capacity[client] > 0):
                    break
                has[task, client] = True
                capacity[client] -= 1
                result[task].append(client)
    return result


def _best(
    estimated: Estimates, tags: npt.NDArray[np.int64], has: npt.NDArray[np.bool_], task: int, capacity: Floats
) -> int:
    """The first client by, in this order: without the task, fewest common tags, capacity left, least state to move."""
    common = np.zeros(len(has))
    for row in tags:
        common += np.isin(row, row[has])
    keys = (-capacity / estimated.threads, estimated.bytes_moved[task], capacity <= 0, common, has)
    return int(np.lexsort(keys)[0])


# The built-in assignor `balanced`, which places tasks by measured load and size.
#
# It keeps the load (records a second) of every client within limits around its share by threads. Within these limits it
# minimises the cost in seconds: the time to restore tasks without a caught-up copy, and with a lower weight all state
# that moves and all partitions that are read from other racks.
#
# As in `high_availability`, a task runs on a caught-up client until its new client has caught up.

MOVE_SECONDS = 0.01
"""The cost of closing a task on one client and opening it on another, whatever its state."""


class Balanced(TaskAssignor):
    """A TaskAssignor that uses lags, sizes, rates and racks, as far as they are known.

    `restore_bytes_per_second`: of one client. `movement_weight`: the weight of a second of moving state, relative to a
    second of waiting. `allowed_imbalance`: the part of its share by which a client's load may differ.
    `cross_rack_seconds`: the cost of a partition read from another rack, used only with a rack-aware strategy and known
    racks.
    """

    def __init__(
        self,
        restore_bytes_per_second: float = 50_000_000,
        movement_weight: float = 0.1,
        allowed_imbalance: float = 0.1,
        cross_rack_seconds: float = 1.0,
    ) -> None:
        self.restore_bytes_per_second = restore_bytes_per_second
        self.movement_weight = movement_weight
        self.allowed_imbalance = allowed_imbalance
        self.cross_rack_seconds = cross_rack_seconds

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Assign all tasks, with standbys and warm-ups. Raises NoClientsError, and all errors of looking up lags."""
        clients = with_lags(application_state)
        placement = Placement(application_state.all_tasks, clients)
        if not placement.tasks:
            return placement.to_assignment()
        configs = application_state.assignment_configs
        estimated = estimates(application_state, clients)
        targets = self._targets(estimated, configs.max_warmup_replicas)
        tags = tag_numbers([clients[name] for name in placement.clients], configs)
        standbys = place_standbys(estimated, targets, tags, configs.num_standby_replicas, self.allowed_imbalance)
        waiting = _place(placement, estimated, targets, standbys, configs.max_warmup_replicas)
        return placement.to_assignment(followup(application_state) if waiting else None)

    def _targets(self, estimated: Estimates, max_warmups: int) -> Numbers:
        """The client where each task should run after this round, by task."""
        seconds = estimated.bytes_moved / self.restore_bytes_per_second
        no_copy = ~estimated.caught_up.any(axis=1, keepdims=True)
        before = estimated.previous[:, None]
        moved = np.logical_and(before >= 0, before != np.arange(len(estimated.threads)))
        runs = (estimated.previous >= 0) & estimated.caught_up[np.arange(len(estimated.load)), estimated.previous]
        search = Search(
            load=estimated.load,
            threads=estimated.threads,
            down=seconds * no_copy,
            cost=self.movement_weight * seconds + self.cross_rack_seconds * estimated.far + MOVE_SECONDS * moved,
            late=~estimated.caught_up & ~no_copy,
            tolerance=self.allowed_imbalance,
            warmups=max_warmups,
            running=np.where(runs, estimated.previous, -1),
        )
        search.run()
        return search.owner


def _place(
    placement: Placement, estimated: Estimates, targets: Numbers, standbys: list[list[int]], max_warmups: int
) -> bool:
    """Assign tasks to clients that can run them now, and warm-ups to their target clients. Returns whether some wait.

    If a task runs on the client of its standby, that standby goes to the target client instead. Every other warm-up
    counts against `max_warmups`; those with the most load for their bytes come first.
    """
    loads = np.zeros(len(estimated.threads))
    np.add.at(loads, targets, estimated.load)
    late = []
    for task, target in enumerate(targets.tolist()):
        ready = np.flatnonzero(estimated.caught_up[task])
        runs = target
        if len(ready) and not estimated.caught_up[task, target]:
            late.append(task)
            previous = estimated.previous[task]
            lightest = ready[(loads[ready] / estimated.threads[ready]).argmin()]
            runs = int(previous) if previous in ready else int(lightest)
        placement.assign_active(runs, task)
        for standby in standbys[task]:
            placement.assign_standby(target if standby == runs else standby, task)
    late.sort(key=lambda task: (estimated.bytes_moved[task, targets[task]] / estimated.load[task], task))
    for task in late:
        client = int(targets[task])
        if max_warmups and not placement.has(client, task):
            placement.assign_standby(client, task)
            max_warmups -= 1
    return bool(late)
