"""The built-in assignor `balanced`, which places tasks by measured load and size.

It keeps every client's load (records a second) within limits around its share by threads. Within these limits it looks
for the placement that costs the fewest seconds. Restoring a task of which no client has a copy costs the time of the
restore. With a lower weight count all state that moves and all partitions that are read from other racks.

As with `high_availability`, a task whose new client has not caught up runs on a client that has, until the new one has
caught up too.
"""

from __future__ import annotations

import numpy as np

from ..api.assignor import AssignmentError, TaskAssignment
from ..api.cluster import ApplicationState
from ..placement import Placement, followup
from .estimates import Estimates, estimates, with_lags
from .search import Numbers, Search
from .standbys import place_standbys, places_of

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
