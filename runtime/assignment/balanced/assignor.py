"""The built-in assignor `balanced`: soonest all running again, with least state moved, by what was measured of tasks.

It wants every client's load (records a second) within limits of its share by threads. Within those it looks for a
placement that costs few seconds: restoring what nobody has a copy of, at the rate of each client; and, weighted, all
state moved and all partitions read from other racks. As with high availability, a task that somebody can run at once
runs there until the client that shall have it has caught up.
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
"""What it costs to close a task here and to open it there, whatever its state."""


class Balanced:
    """A TaskAssignor that uses lags, sizes, rates and racks, as far as they are known.

    `restore_bytes_per_second`: of one client. `movement_weight`: what a second of moving state counts against a second
    of waiting. `allowed_imbalance`: part of its share by which a client's load may differ. `cross_rack_seconds`: what a
    partition read from another rack counts; only with a rack-aware strategy and racks known.
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
        """All tasks, with standbys and warm-ups. Raises NoClientsError, and what looking up lags raises."""
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
        """The client that shall have each task after this round."""
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
    """Put tasks where they can run now and warm them up where they are wanted; whether some are not there yet.

    A standby at the place where the task runs meanwhile is not needed: the wanted client has it instead. Any other
    warm-up is one of `max_warmups`: those first that bring most load for the bytes.
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
