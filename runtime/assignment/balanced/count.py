"""The built-in assignor `balanced_count`: numbers of tasks follow threads, with as few moves as that allows."""

from __future__ import annotations

from collections.abc import Mapping

from ...task_id import TaskId
from ..api.assignor import AssignedTask, AssignmentError, ClientAssignment, TaskAssignment, TaskType
from ..api.cluster import ApplicationState, ClientState, ProcessId


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
