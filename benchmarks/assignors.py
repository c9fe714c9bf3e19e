"""How long the assignors take for thousands of tasks, beside what Kafka Streams' own take (4.1.0, warmed up).

    python -m benchmarks.assignors [--runs 5]

`cold`: nobody has anything. `steady`: everyone has what the cold run gave. `joined`: one client more than that. States
are built beforehand, racks are off; the figure is the median of the runs in seconds, of the slower of both builds:
clients of one thread each, and clients of one to three threads.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from statistics import median

from headwater.runtime.assignment.assignor import TaskAssignment, TaskAssignor, TaskType
from headwater.runtime.assignment.balanced import Balanced
from headwater.runtime.assignment.cluster import (
    LATEST_OFFSET,
    ApplicationState,
    AssignmentConfigs,
    ClientState,
    ProcessId,
    TaskInfo,
    TaskTopicPartition,
)
from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.assignment.sticky import Fallback, Sticky
from headwater.runtime.task_id import TaskId

from .common import seconds

SIZES = ((10_000, 200), (10_000, 50), (1_000, 200))
KAFKA = {"high_availability": (3.3, 0.55, 0.24), "sticky": (1.3, 8.5, 0.02)}
"""Seconds, by size; the lower ends of what was measured."""

ASSIGNORS: dict[str, TaskAssignor] = {
    "high_availability": HighAvailability(),
    "sticky": Sticky(),
    "fallback": Fallback(),
    "balanced": Balanced(),
}
FAR = 1_000_000


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args(arguments)
    titles = " ".join(f"{title:>7}" for title in ("cold", "steady", "joined", "Kafka"))
    print(f"{'assignor':18} {'tasks':>6} {'clients':>7} {'standbys':>8} {titles}")
    for name, assignor in ASSIGNORS.items():
        for size, (tasks, clients) in enumerate(SIZES):
            for standbys in (0, 1):
                figures = [
                    measure(assignor, tasks, clients, standbys, each, options.runs) for each in ((1,), (1, 2, 3))
                ]
                shown = " ".join(f"{max(of_state):7.3f}" for of_state in zip(*figures, strict=True))
                kafka = f"{KAFKA[name][size]:7}" if name in KAFKA else ""
                print(f"{name:18} {tasks:6} {clients:7} {standbys:8} {shown} {kafka}", flush=True)


def measure(
    assignor: TaskAssignor, tasks: int, clients: int, standbys: int, threads: Sequence[int], runs: int
) -> list[float]:
    """Median seconds of a cold, a steady and a joined state."""
    cold = state_of(tasks, clients, standbys, threads)
    steady = after(cold, assignor.assign(cold))
    more = state_of(tasks, clients + 1, standbys, threads)
    joined = replace(more, clients={**more.clients, **steady.clients})
    return [median(seconds(partial(assignor.assign, state)) for _ in range(runs)) for state in (cold, steady, joined)]


def state_of(tasks: int, clients: int, standbys: int, threads: Sequence[int]) -> ApplicationState:
    """Ten subtopologies of tasks with state, and clients that have nothing."""
    ids = [TaskId(number % 10, number // 10) for number in range(tasks)]
    names = [ProcessId(f"client-{number:05}") for number in range(clients)]
    return ApplicationState(
        {each: TaskInfo(each, frozenset({"store"}), frozenset(partitions_of(each))) for each in ids},
        {
            name: ClientState(name, of_client, lags=dict.fromkeys(ids, FAR))
            for name, of_client in zip(names, cycle(threads), strict=False)
        },
        AssignmentConfigs(num_standby_replicas=standbys),
    )


def partitions_of(task: TaskId) -> list[TaskTopicPartition]:
    """One that it reads, and a changelog."""
    return [
        TaskTopicPartition(f"in{task.subtopology}", task.partition, is_source=True, is_changelog=False),
        TaskTopicPartition(f"log{task.subtopology}", task.partition, is_source=False, is_changelog=True),
    ]


def after(state: ApplicationState, assignment: TaskAssignment) -> ApplicationState:
    """The state when all copies that were placed have caught up."""
    clients = {}
    for client in assignment.assignment:
        active, standby = client.of_type(TaskType.ACTIVE), client.of_type(TaskType.STANDBY)
        before = state.clients[client.process_id]
        clients[client.process_id] = replace(
            before,
            previous_active_tasks=frozenset(active),
            previous_standby_tasks=frozenset(standby),
            lags={**(before.lags or {}), **dict.fromkeys(active, LATEST_OFFSET), **dict.fromkeys(standby, 0)},
        )
    return replace(state, clients=clients)


if __name__ == "__main__":
    main()
