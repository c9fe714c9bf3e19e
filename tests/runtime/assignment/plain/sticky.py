"""The sticky assignors, step by step as described, without racks."""

from __future__ import annotations

from collections.abc import Collection

from headwater.runtime.assignment.cluster import ApplicationState, ProcessId
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.assignment.plain.working import Result, changelogged, clients_of, result_of


def sticky(state: ApplicationState) -> Result:
    return _Sticky(state, legacy=False).run()


def fallback(state: ApplicationState) -> Result:
    return _Sticky(state, legacy=True).run()


class _Sticky:
    """`legacy`: actives stay at all costs, and of equally loaded clients the one with more threads is lighter."""

    def __init__(self, state: ApplicationState, legacy: bool) -> None:
        self.state = state
        self.legacy = legacy
        self.clients = clients_of(state, lags=False)
        self.pairs: set[frozenset[TaskId]] = set()
        self.was_active: dict[TaskId, ProcessId] = {}
        self.was_standby: dict[TaskId, list[ProcessId]] = {}
        for name, client in self.clients.items():
            for task in client.state.previous_active_tasks:
                self.was_active[task] = name
            for task in client.state.previous_standby_tasks:
                self.was_standby.setdefault(task, []).append(name)

    def run(self) -> Result:
        tasks = sorted(self.state.all_tasks)
        quota = len(tasks) // sum(client.threads for client in self.clients.values())
        unassigned = []
        for task in tasks:
            owner = self.was_active.get(task)
            if owner is not None and (self.legacy or self.has_room(owner, quota)):
                self.place(task, owner, "active")
            else:
                unassigned.append(task)
        left = []
        for task in unassigned:
            holder = next((name for name in self.was_standby.get(task, ()) if self.has_room(name, quota)), None)
            if holder is None:
                left.append(task)
            else:
                self.place(task, holder, "active")
        for task in left:
            self.place(task, self.best(task, list(self.clients)), "active")
        for task in changelogged(self.state):
            for _ in range(self.state.assignment_configs.num_standby_replicas):
                free = [name for name, client in self.clients.items() if not client.has(task)]
                if not free:
                    break
                self.place(task, self.best(task, free), "standby")
        return result_of(self.clients)

    def has_room(self, name: ProcessId, quota: int) -> bool:
        return len(self.clients[name].active) < self.clients[name].threads * quota

    def place(self, task: TaskId, name: ProcessId, role: str) -> None:
        client = self.clients[name]
        self.pairs |= {frozenset((task, other)) for other in client.active | client.standby}
        getattr(client, role).add(task)

    def best(self, task: TaskId, within: list[ProcessId]) -> ProcessId:
        if len(within) == 1:
            return within[0]
        holders = [name for name in self.was_standby.get(task, ()) if name in within]
        previous = self.was_active.get(task)
        if previous not in within:
            previous = self.least_loaded(task, holders)
        if previous is not None and self.overloaded(previous):
            previous = self.least_loaded(task, holders)
            if previous is not None and self.overloaded(previous):
                previous = None
        if previous is None:
            previous = self.least_loaded(task, within)
        assert previous is not None
        return previous

    def overloaded(self, name: ProcessId) -> bool:
        return self.clients[name].load >= 1 and any(self.lighter(other, name) for other in self.clients)

    def lighter(self, one: ProcessId, other: ProcessId) -> bool:
        first, second = self.clients[one], self.clients[other]
        if self.legacy and first.load == second.load:
            return first.threads > second.threads
        return first.load < second.load

    def least_loaded(self, task: TaskId, within: Collection[ProcessId]) -> ProcessId | None:
        for only_new_pairs in (True, False):
            least: ProcessId | None = None
            for name in within:
                client = self.clients[name]
                if client.count == 0:
                    return name
                if (least is None or self.lighter(name, least)) and (
                    not only_new_pairs
                    or any(frozenset((task, other)) not in self.pairs for other in client.active | client.standby)
                ):
                    least = name
            if least is not None:
                return least
        return None
