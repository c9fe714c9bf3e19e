"""The copies of tasks' state on the clients, and their lags behind the committed changelogs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ..assignment.cluster import Lags, ProcessId
from ..ir.topology import Store, Subtopology
from ..log.state import LogState
from ..task_id import StoreId, TaskId
from ..tasks.task_manager import offset_sum
from .assigned import Assigned


class Copies:
    """Copies of the state of tasks, by client.

    `tasks`: all tasks. `held`: client -> store partition -> applied changelog offset. `own`: the committed state of
    the application. `applied`: client -> task -> sum of the applied offsets of its stores there; only tasks with a
    store there.
    """

    def __init__(
        self,
        tasks: Mapping[TaskId, Subtopology],
        held: Mapping[ProcessId, Mapping[StoreId, int]],
        own: LogState,
    ) -> None:
        self.tasks = tasks
        self.own = own
        # A store without changelog shows that its client owns the task. But no other client can catch up on it, so it
        # does not count for lags.
        everything = {
            StoreId(store.name, task.partition): task for task, part in tasks.items() for store in part.stores
        }
        logged = {StoreId(store.name, task.partition): task for task, part in tasks.items() for store in _logged(part)}
        useful = {client: _useful(own, stores) for client, stores in held.items()}
        self.applied = {client: _applied(everything, stores) for client, stores in useful.items()}
        self._of_changelogs = {client: _applied(logged, stores) for client, stores in useful.items()}

    @cached_property
    def recorded(self) -> dict[TaskId, ProcessId]:
        """The last client of each task, according to the log. That client may be gone."""
        application = self.own.application
        noted = Assigned.recorded(application, self.own.assignment)
        return {task: noted[key] for task in self.tasks if (key := task.key(application)) in noted}

    @cached_property
    def owners(self) -> dict[TaskId, ProcessId]:
        """The previous owner of each task: the client with the most applied records.

        Ties: the last client according to the log, otherwise the first by process id.
        """
        holders: dict[TaskId, list[ProcessId]] = {}
        for client in sorted(self.applied):
            for task in self.applied[client]:
                holders.setdefault(task, []).append(client)
        owners = {}
        for task in self.tasks:
            ran = self.recorded.get(task)
            had = holders.get(task, [])
            if ran in self.applied and ran not in had:
                # A task without stores has no copies. Only the log knows its previous owner.
                had = sorted([*had, ran])
            if had:
                owners[task] = max(had, key=lambda client: (self.applied[client].get(task, -1), client == ran))
        return owners

    def lags(self) -> Lags:
        """Client -> task -> lag in records, for all clients and all tasks with stores.

        Stores without changelog do not count. The lag of a missing copy is the end of the changelog.
        """
        ends = {task: self._end(task) for task, part in self.tasks.items() if part.stores}
        # Most clients have no copy of most tasks, so most lags are the ends of the changelogs.
        return {
            client: {**ends, **{task: _lag(position, ends[task]) for task, position in applied.items()}}
            for client, applied in self._of_changelogs.items()
        }

    def lags_of(self, task: TaskId) -> dict[ProcessId, int]:
        """Client -> lag in records, for the clients with a copy of the task."""
        end = self._end(task)
        found = sorted(self._of_changelogs.items())
        return {client: _lag(applied[task], end) for client, applied in found if task in applied}

    def _end(self, task: TaskId) -> int:
        return sum(self.own.store_end(StoreId(store.name, task.partition)) for store in _logged(self.tasks[task]))


def _logged(part: Subtopology) -> list[Store]:
    return [store for store in part.stores if store.changelog]


def _useful(own: LogState, held: Mapping[StoreId, int]) -> dict[StoreId, int]:
    """The offsets of copies, or 0 for a copy before the delete horizon, which must restart: see `Deletions.horizon`.

    It may lack deletions that are no longer in the changelog.
    """

    def useful(store: StoreId, position: int) -> int:
        return 0 if 0 < position < own.store_horizon(store) else position

    return {store: useful(store, position) for store, position in held.items()}


def _applied(task_of: Mapping[StoreId, TaskId], held: Mapping[StoreId, int]) -> dict[TaskId, int]:
    offsets: dict[TaskId, list[int]] = {}
    for store, offset in held.items():
        if store in task_of:
            offsets.setdefault(task_of[store], []).append(offset)
    return {task: total for task, each in offsets.items() if (total := offset_sum(each)) is not None}


def _lag(applied: int, end: int) -> int:
    """The lag of a copy in records. A copy ahead of the last commit is unusable, and counts as empty."""
    return end if applied > end else end - applied
