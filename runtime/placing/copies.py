"""Compares the copies of tasks' state on the clients with what the application has committed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ..assignment.api.cluster import Lags, ProcessId
from ..log.state import LogState
from ..records.schema import changelog_topic
from ..task_id import StoreId, TaskId
from ..tasks.offset_sums import offset_sum
from ..topology import Store, Subtopology
from .assigned import Assigned


class Copies:
    """Copies of the state of tasks, by client.

    `applied`: client -> task -> applied changelog positions, summed over the stores of the task that the client has. A
    task without any store there is left out. `tasks`: all tasks. `own`: what the application has committed.
    """

    def __init__(
        self,
        tasks: Mapping[TaskId, Subtopology],
        held: Mapping[ProcessId, Mapping[StoreId, int]],
        own: LogState,
    ) -> None:
        self.tasks = tasks
        self.own = own
        self.applied = {client: _applied(tasks, stores) for client, stores in held.items()}

    @cached_property
    def recorded(self) -> dict[TaskId, ProcessId]:
        """The client that ran each task last, according to the log. That client may be gone."""
        application = self.own.application
        noted = Assigned.recorded(application, self.own.assignment)
        return {task: noted[key] for task in self.tasks if (key := task.key(application)) in noted}

    @cached_property
    def owners(self) -> dict[TaskId, ProcessId]:
        """The previous owner of each task: the client with the most applied records.

        Of several the one that ran the task last counts, and else the first by process id.
        """
        owners = {}
        for task in self.tasks:
            ran = self.recorded.get(task)
            # A task without stores has no copies. Its previous owner is known from the log only.
            had = [client for client in sorted(self.applied) if task in self.applied[client] or client == ran]
            if had:
                owners[task] = max(had, key=lambda client: (self.applied[client].get(task, -1), client == ran))
        return owners

    def lags(self) -> Lags:
        """The lags of all tasks with state on all clients."""
        ends = {task: self._end(task) for task, part in self.tasks.items() if part.stores}
        return {
            client: {task: _lag(applied.get(task, 0), end) for task, end in ends.items()}
            for client, applied in self.applied.items()
        }

    def lags_of(self, task: TaskId) -> dict[ProcessId, int]:
        """How many records each copy of a task is behind, by client."""
        end = self._end(task)
        return {client: _lag(applied[task], end) for client, applied in sorted(self.applied.items()) if task in applied}

    def _end(self, task: TaskId) -> int:
        return sum(_end(self.own, store, task.partition) for store in self.tasks[task].stores)


def _applied(tasks: Mapping[TaskId, Subtopology], held: Mapping[StoreId, int]) -> dict[TaskId, int]:
    sums = {}
    for task, part in tasks.items():
        ids = (StoreId(store.name, task.partition) for store in part.stores)
        total = offset_sum(held[store] for store in ids if store in held)
        if total is not None:
            sums[task] = total
    return sums


def _end(own: LogState, store: Store, partition: int) -> int:
    return own.lane_ends(changelog_topic(own.application, store.name), partition).get(partition, 0)


def _lag(applied: int, end: int) -> int:
    """How many records a copy is behind. A copy that is ahead of all commits is useless and counts as empty."""
    return end if applied > end else end - applied
