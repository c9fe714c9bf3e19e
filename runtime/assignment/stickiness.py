"""The steps that `sticky` and `fallback` share: tasks stay where they were, as far as quotas allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..task_id import TaskId
from .api.cluster import ClientState, ProcessId
from .least_loaded import Company, LeastLoaded
from .placement import Placement


class StickyPlacing:
    """A placement that grows task by task, first the actives, then the standbys.

    `preserve`: previously active tasks stay, whatever the quota. `threads_first`: of equally loaded clients, the one
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
        self._company: Company | None = None
        numbers = {task: number for number, task in enumerate(self.placement.tasks)}
        states = [clients[client] for client in self.placement.clients]
        # Of two clients that say they had a task, the last one is believed.
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
        """Place each task once: where it was, or where a standby of it was, or on the best client."""
        placement = self.placement
        threads = placement.threads
        each = len(placement.tasks) // sum(threads)
        room = [each * own for own in threads]
        for task in sorted(self._was_active):
            client = self._was_active[task]
            if self._preserve or len(placement.active[client]) < room[client]:
                placement.assign_active(client, task)
        for task in sorted(self._was_standby):
            if placement.owner[task] < 0:
                for client in self._was_standby[task]:
                    if len(placement.active[client]) < room[client]:
                        placement.assign_active(client, task)
                        break
        for task, owner in enumerate(placement.owner):
            if owner < 0:
                best = self._previous(task)
                placement.assign_active(self._least.for_active() if best is None else best, task)

    def optimize(self, step: Callable[[Placement], None]) -> None:
        """Let `step` exchange active tasks between clients once they are placed."""
        self._company = Company(self.placement)
        step(self.placement)
        self._company.actives_moved()

    def place_standbys(self, tasks: Sequence[int], replicas: int) -> None:
        """Place `replicas` standbys of each task, or fewer if no more clients are left."""
        company = self._company = self._company or Company(self.placement)
        for task in tasks if replicas else ():
            for _ in range(replicas):
                best = self._previous(task)
                if best is None:
                    best = self._least.for_standby(task, company)
                if best is None:
                    break
                self.placement.assign_standby(best, task)
                company.standby_added(task, best)

    def _previous(self, task: int) -> int | None:
        """A client that had the task and is not overloaded: its owner, or else the lightest that had a standby; None if
        none.
        """
        owner = self._was_active.get(task)
        standbys = self._was_standby.get(task, ())
        if owner is not None and not self.placement.has(owner, task) and not self._least.overloaded(owner):
            return owner
        client = self._least.among(task, standbys, self._company) if standbys else None
        return None if client is None or self._least.overloaded(client) else client
