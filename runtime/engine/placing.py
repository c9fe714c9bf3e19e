"""From what the clients' state directories hold to an assignment: the question an assignor is asked at a start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..assignment.assignor import TaskAssignor, TaskType, assign
from ..assignment.cluster import ApplicationState, AssignmentConfigs, ClientState, ProcessId, TaskInfo
from ..state.directory import StateDirectory, StoreId
from ..tasks.task_id import TaskId
from ..topology import Assignment, Store, Topology
from .clients import Client
from .planner import Planner
from .plugged import Plugged


def place(
    topology: Topology,
    clients: Sequence[Client],
    directories: Mapping[str, StateDirectory],
    planner: Planner,
    plugged: Plugged,
) -> dict[str, tuple[TaskId, ...]]:
    """Client -> its active tasks, as the topology's assignor places them.

    A client is a task's previous owner if no other holds more of its changelogs. Raises TaskAssignmentError.
    """
    tasks = {
        TaskId(part.number, partition, part.name): part.stores
        for part in topology.subtopologies
        for partition in range(part.partitions)
    }
    sums = {client.name: _offset_sums(tasks, directories[client.name], plugged) for client in clients}
    ends = {
        task: sum(planner.store(store, task.partition, 0, {}).position for store in stores)
        for task, stores in tasks.items()
    }
    state = ApplicationState(
        {task: TaskInfo(task, frozenset(store.name for store in stores)) for task, stores in tasks.items()},
        {
            ProcessId(client.name): ClientState(
                process_id=ProcessId(client.name),
                num_processing_threads=client.threads,
                previous_active_tasks=frozenset(
                    task for task in sums[client.name] if _owner(task, sums) == client.name
                ),
                host=client.executor.host if client.executor else "",
                lags={task: ends[task] - sums[client.name].get(task, 0) for task, stores in tasks.items() if stores},
            )
            for client in clients
        },
        _configs(topology.assignment),
    )
    assignor: TaskAssignor = plugged.assignor(topology.assignment.assignor)
    assigned = assign(assignor, state)
    return {str(client): assignment.of_type(TaskType.ACTIVE) for client, assignment in assigned.items()}


def _offset_sums(
    tasks: Mapping[TaskId, Sequence[Store]], directory: StateDirectory, plugged: Plugged
) -> dict[TaskId, int]:
    stores = {store.name: store for of_task in tasks.values() for store in of_task}

    def position(store: StoreId) -> int:
        return plugged.backend(stores[store.store]).open(directory.store_path(store)).position

    wanted = {task: [StoreId(store.name, task.partition) for store in of_task] for task, of_task in tasks.items()}
    return directory.offset_sums({task: ids for task, ids in wanted.items() if ids}, position)


def _owner(task: TaskId, sums: Mapping[str, Mapping[TaskId, int]]) -> str:
    """The client that holds most of a task's state, the first by name among equals."""
    return max(sorted(sums), key=lambda client: sums[client].get(task, -1))


def _configs(assignment: Assignment) -> AssignmentConfigs:
    return AssignmentConfigs(
        acceptable_recovery_lag=assignment.acceptable_recovery_lag,
        max_warmup_replicas=assignment.max_warmup_replicas,
        num_standby_replicas=assignment.standby_replicas,
        probing_rebalance_interval_ms=assignment.probing_rebalance_interval_ms,
        rack_aware_assignment_tags=assignment.rack_aware_tags,
        rack_aware_assignment_strategy=assignment.rack_aware_strategy,
    )
