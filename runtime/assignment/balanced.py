"""The assignors that balance measured load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ..task_id import TaskId
from .assignor import AssignedTask, AssignmentError, ClientAssignment, TaskAssignment, TaskType
from .balanced_search import Estimates, Floats, Numbers, Search, estimates, with_lags
from .cluster import ApplicationState, AssignmentConfigs, ClientState, ProcessId
from .placement import Placement, followup

# The built-in assignor `balanced_count`: numbers of tasks follow threads, with as few moves as that allows.


class BalancedCount:
    """A TaskAssignor without standbys.

    Each client's number of tasks is its share by threads, rounded down or up. A client keeps as many of its tasks as
    its number allows, those with state first. The other tasks go, sorted by id, to the client that lacks most.
    """

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Assign all tasks as actives. Without clients the answer is empty."""
        clients = application_state.clients
        # With state first: moving those costs a restore.
        tasks = sorted(
            application_state.all_tasks, key=lambda task: (not application_state.all_tasks[task].is_stateful, task)
        )
        room = _numbers(len(tasks), clients)
        placed: dict[ProcessId, list[TaskId]] = {client: [] for client in sorted(clients)}
        homeless = []
        for task in tasks:
            home = next((client for client in placed if task in clients[client].previous_active_tasks), None)
            if home is not None and len(placed[home]) < room[home]:
                placed[home].append(task)
            else:
                homeless.append(task)
        for task in homeless if placed else ():
            placed[max(placed, key=lambda client: room[client] - len(placed[client]))].append(task)
        return TaskAssignment(
            [
                ClientAssignment(client, [AssignedTask(task, TaskType.ACTIVE) for task in own])
                for client, own in placed.items()
            ]
        )

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        """Nothing to remember."""


def _numbers(tasks: int, clients: Mapping[ProcessId, ClientState]) -> dict[ProcessId, int]:
    """How many of `tasks` each client has: shares by threads, rounded so that they add up.

    The largest fractions are rounded up. Of equal fractions, clients that would otherwise give a task away come first.
    """
    threads = sum(client.num_processing_threads for client in clients.values())
    shares = {name: divmod(tasks * client.num_processing_threads, threads) for name, client in clients.items()}
    numbers = {name: whole for name, (whole, _) in shares.items()}

    def claim(name: ProcessId) -> tuple[int, bool, str]:
        return -shares[name][1], len(clients[name].previous_active_tasks) <= numbers[name], name

    claims = sorted(clients, key=claim)
    for name in claims[: tasks - sum(numbers.values())]:
        numbers[name] += 1
    return numbers


# Where `balanced` puts standbys: apart from other copies, within limits, and where state already is.


def places_of(clients: Sequence[ClientState], configs: AssignmentConfigs) -> npt.NDArray[np.int64]:
    """The places that copies of a task should differ in, each value as a number: keys x clients.

    Places are the configured tags, or else the racks, if all clients have one. A client without a tag is a place of its
    own.
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
    found: Estimates, owner: npt.NDArray[np.int64], places: npt.NDArray[np.int64], replicas: int, tolerance: float
) -> list[list[int]]:
    """The clients with a standby, by task: as many as configured, but no more than there are other clients.

    The first choice is a client apart from the other copies, then one below its share of all standbys, then the one
    with the least state to move. Existing copies are placed first, so that no new copy takes their room. Then large
    tasks are placed before small ones.
    """
    tasks = np.flatnonzero(found.replicated)
    number = min(replicas, len(found.threads) - 1)
    result: list[list[int]] = [[] for _ in owner]
    share = len(tasks) * number * found.threads / found.threads.sum()
    room = np.ceil(share * (1 + tolerance) - 1e-9)
    has = np.zeros(found.bytes_moved.shape, np.bool_)
    has[tasks, owner[tasks]] = True
    biggest = np.lexsort((-found.bytes_moved[tasks].max(axis=1, initial=0),))
    for only_ready in (True, False):
        for task in tasks[biggest]:
            while len(result[task]) < number:
                client = _best(found, places, has[task], task, room)
                if only_ready and not (found.caught_up[task, client] and room[client] > 0):
                    break
                has[task, client] = True
                room[client] -= 1
                result[task].append(client)
    return result


def _best(found: Estimates, places: npt.NDArray[np.int64], has: npt.NDArray[np.bool_], task: int, room: Floats) -> int:
    alike = np.zeros(len(has))
    for row in places:
        alike += np.isin(row, row[has])
    keys = (-room / found.threads, found.bytes_moved[task], room <= 0, alike, has)
    return int(np.lexsort(keys)[0])


# The built-in assignor `balanced`, which places tasks by measured load and size.
#
# It keeps every client's load (records a second) within limits around its share by threads. Within these limits it
# looks for the placement that costs the fewest seconds. Restoring a task of which no client has a copy costs the time
# of the restore. With a lower weight count all state that moves and all partitions that are read from other racks.
#
# As with `high_availability`, a task whose new client has not caught up runs on a client that has, until the new one
# has caught up too.

MOVE_SECONDS = 0.01
"""The cost of closing a task on one client and opening it on another, whatever its state."""


class Balanced:
    """A TaskAssignor that uses lags, sizes, rates and racks, as far as they are known.

    `restore_bytes_per_second`: of one client. `movement_weight`: how much a second of moving state counts against a
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
        """Place all tasks, with standbys and warm-ups. Raises NoClientsError, and whatever looking up lags raises."""
        clients = with_lags(application_state)
        placement = Placement(application_state.all_tasks, clients)
        if not placement.tasks:
            return placement.to_assignment()
        configs = application_state.assignment_configs
        found = estimates(application_state, clients)
        wanted = self._wanted(found, configs.max_warmup_replicas)
        places = places_of([clients[name] for name in placement.clients], configs)
        standbys = place_standbys(found, wanted, places, configs.num_standby_replicas, self.allowed_imbalance)
        waiting = _place(placement, found, wanted, standbys, configs.max_warmup_replicas)
        return placement.to_assignment(followup(application_state) if waiting else None)

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        """Nothing to remember."""

    def _wanted(self, found: Estimates, max_warmups: int) -> Numbers:
        """The client that each task should end up on after this round."""
        seconds = found.bytes_moved / self.restore_bytes_per_second
        nobody = ~found.caught_up.any(axis=1, keepdims=True)
        before = found.previous[:, None]
        moved = np.logical_and(before >= 0, before != np.arange(len(found.threads)))
        runs = (found.previous >= 0) & found.caught_up[np.arange(len(found.load)), found.previous]
        search = Search(
            load=found.load,
            threads=found.threads,
            down=seconds * nobody,
            cost=self.movement_weight * seconds + self.cross_rack_seconds * found.far + MOVE_SECONDS * moved,
            late=~found.caught_up & ~nobody,
            tolerance=self.allowed_imbalance,
            warmups=max_warmups,
            running=np.where(runs, found.previous, -1),
        )
        search.run()
        return search.owner


def _place(
    placement: Placement, found: Estimates, wanted: Numbers, standbys: list[list[int]], max_warmups: int
) -> bool:
    """Put tasks where they can run now, and warm them up where they are wanted. Returns whether some still wait.

    If a task runs on the client of its standby, that standby goes to the wanted client instead. Every other warm-up
    counts against `max_warmups`; those that bring most load for their bytes come first.
    """
    loads = np.zeros(len(found.threads))
    np.add.at(loads, wanted, found.load)
    late = []
    for task, client in enumerate(wanted.tolist()):
        ready = np.flatnonzero(found.caught_up[task])
        runs = client
        if len(ready) and not found.caught_up[task, client]:
            late.append(task)
            running = found.previous[task]
            runs = int(running) if running in ready else int(ready[(loads[ready] / found.threads[ready]).argmin()])
        placement.assign_active(runs, task)
        for standby in standbys[task]:
            placement.assign_standby(client if standby == runs else standby, task)
    late.sort(key=lambda task: (found.bytes_moved[task, wanted[task]] / found.load[task], task))
    for task in late:
        client = int(wanted[task])
        if max_warmups and not placement.has(client, task):
            placement.assign_standby(client, task)
            max_warmups -= 1
    return bool(late)
