"""Standbys, by load or by tags, step by step as described."""

from __future__ import annotations

from headwater.runtime.assignment.cluster import ApplicationState, ProcessId
from headwater.runtime.task_id import TaskId
from headwater.tests.runtime.assignment.plain.working import Clients, ConstrainedPrioritySet, changelogged


def assign_standbys(state: ApplicationState, clients: Clients) -> None:
    replicas = state.assignment_configs.num_standby_replicas
    if replicas == 0:
        return
    remaining = dict.fromkeys(changelogged(state), replicas)
    queue = ConstrainedPrioritySet(lambda name: clients[name].load, lambda name, task: not clients[name].has(task))
    tags = state.assignment_configs.rack_aware_assignment_tags
    if tags:
        for task in list(remaining):
            for name in clients:
                if task in clients[name].active:
                    remaining[task] = _different_tags(task, name, replicas, tags, clients, queue)
    queue.offer(*clients)
    for task, number in remaining.items():
        for _ in range(number):
            name = queue.poll(task)
            if name is None:
                break
            clients[name].standby.add(task)
            queue.offer(name)


def _different_tags(
    task: TaskId,
    owner: ProcessId,
    remaining: int,
    keys: tuple[str, ...],
    clients: Clients,
    queue: ConstrainedPrioritySet,
) -> int:
    queue.offer(*clients)
    used_clients, last = 1, owner
    used: set[tuple[str, str]] = set()
    while remaining > 0:
        for key, value in clients[last].state.client_tags.items():
            if key not in keys:
                continue
            values = {client.state.client_tags[key] for client in clients.values() if key in client.state.client_tags}
            if len(values) <= used_clients:
                used -= {(key, each) for each in values}
            else:
                used.add((key, value))
        unused = [name for name, client in clients.items() if not used & set(client.state.client_tags.items())]
        name = queue.poll(task, unused.__contains__)
        if name is None:
            break
        clients[name].standby.add(task)
        last = name
        used_clients += 1
        remaining -= 1
    return remaining


def tags_match(clients: Clients, state: ApplicationState, source: ProcessId, destination: ProcessId) -> bool:
    if not state.assignment_configs.rack_aware_assignment_tags:
        return True
    there = clients[destination].state.client_tags
    return all(there.get(key) == value for key, value in clients[source].state.client_tags.items())
