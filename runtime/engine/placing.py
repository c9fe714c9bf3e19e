"""From what clients hold to an assignment: the question an assignor is asked, and what is made of its answer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..assignment.assignor import (
    AssignmentError,
    TaskAssignment,
    TaskAssignmentError,
    TaskAssignor,
    TaskType,
    assign,
)
from ..assignment.cluster import (
    ApplicationState,
    AssignmentConfigs,
    ClientState,
    Lags,
    ProcessId,
    TaskInfo,
    TaskTopicPartition,
)
from ..log.schema import changelog_topic
from ..log.state import LogState
from ..state.directory import MAX_OFFSET_SUM, StoreId
from ..tasks.task_id import TaskId
from ..topology import Assignment, Store, Subtopology, Topology
from .assigned import Assigned, AssignorFailure
from .clients import Client


@dataclass(frozen=True)
class Member:
    """A client that has a process id, and where the stores stand that it holds. `rack`, `tags`: of its host."""

    client: Client
    held: Mapping[StoreId, int] = field(default_factory=dict)
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> ProcessId:
        """Its name in the group."""
        return ProcessId(self.client.process_id)


def place(topology: Topology, members: Sequence[Member], own: LogState, assignor: TaskAssignor) -> Assigned:
    """Who runs what, as `assignor` says; `own`: what the application has committed.

    An answer that cannot be carried out, and an assignor that raises, leave all tasks where they were.
    """
    state = application_state(topology, members, own)
    heard = _Heard(assignor)
    failure = None
    try:
        answer = {
            client: (each.of_type(TaskType.ACTIVE), each.of_type(TaskType.STANDBY), each.followup_rebalance_deadline)
            for client, each in assign(heard, state).items()
        }
    except Exception as error:  # a project's own code may raise anything
        failure = _failure(error, heard.answer)
        answer = {client: (tasks, (), None) for client, tasks in _as_before(state).items()}
    names = {member.id: member.client.name for member in members}
    deadlines = [deadline for *_, deadline in answer.values() if deadline is not None]
    return Assigned(
        assignor=topology.assignment.assignor.name,
        options=topology.assignment.assignor.options,
        process_ids={name: process_id for process_id, name in names.items()},
        active={names[client]: active for client, (active, _, _) in answer.items()},
        standby={names[client]: standby for client, (_, standby, _) in answer.items()},
        followup_deadline=min(deadlines, default=None),
        **_moves(state, own, {task: client for client, (active, *_) in answer.items() for task in active}),
        failure=failure,
    )


def application_state(topology: Topology, members: Sequence[Member], own: LogState) -> ApplicationState:
    """What an assignor sees.

    A task's previous owner is who holds most of its changelogs, of equals who ran it last, then the first by process
    id; others that hold a part had it as standby.
    """
    tasks = {
        TaskId(part.number, partition, part.name): part
        for part in topology.subtopologies
        for partition in range(part.partitions)
    }
    sums = {member.id: _sums(tasks, member.held) for member in members}
    owners = _owners(tasks, sums, Assigned.recorded(own.assignment))
    clients = {
        member.id: ClientState(
            process_id=member.id,
            num_processing_threads=member.client.threads,
            previous_active_tasks=frozenset(task for task, owner in owners.items() if owner == member.id),
            previous_standby_tasks=frozenset(task for task in sums[member.id] if owners[task] != member.id),
            client_tags=member.tags,
            rack_id=member.rack,
            host=member.client.executor.host if member.client.executor else "",
            consumer_ids=tuple(f"{member.id}-{thread}" for thread in range(member.client.threads)),
        )
        for member in members
    }

    def lags() -> Lags:
        ends = {
            task: sum(_end(own, store, task.partition) for store in part.stores)
            for task, part in tasks.items()
            if part.stores
        }
        return {
            client: {task: _lag(held.get(task, 0), end) for task, end in ends.items()} for client, held in sums.items()
        }

    return ApplicationState(
        {task: _info(task, part, own) for task, part in tasks.items()},
        clients,
        _configs(topology.assignment),
        lookup_lags=lags,
        now_ms=time.time_ns() // 1_000_000,
    )


class _Heard:
    """A TaskAssignor that remembers what another one has answered."""

    def __init__(self, assignor: TaskAssignor) -> None:
        self._assignor = assignor
        self.answer: TaskAssignment | None = None

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        self.answer = self._assignor.assign(application_state)
        return self.answer

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        self._assignor.on_assignment_computed(assignment, error)


def _failure(error: Exception, answer: TaskAssignment | None) -> AssignorFailure:
    if not isinstance(error, TaskAssignmentError) or answer is None:
        return AssignorFailure("RAISED", f"the assignor raised {type(error).__name__}: {error}")
    concerned = [
        repr(client)
        for client in answer.assignment
        if error.subject == client.process_id or error.subject in map(str, client.tasks)
    ]
    return AssignorFailure(error.error.name, error.message, tuple(concerned) or (error.subject,))


def _as_before(state: ApplicationState) -> dict[ProcessId, tuple[TaskId, ...]]:
    """Each task where it was; one that was nowhere goes to the client with the fewest for each of its threads."""
    placed = {client: sorted(state.clients[client].previous_active_tasks) for client in sorted(state.clients)}
    for task in sorted(state.all_tasks.keys() - {task for tasks in placed.values() for task in tasks}):
        least = min(placed, key=lambda client: len(placed[client]) / state.clients[client].num_processing_threads)
        placed[least].append(task)
    return {client: tuple(sorted(tasks)) for client, tasks in placed.items()}


def _moves(state: ApplicationState, own: LogState, now: Mapping[TaskId, ProcessId]) -> dict[str, int]:
    """How many tasks stay with their previous owner, how many leave one (who may be gone), and how many had none."""
    recorded = Assigned.recorded(own.assignment)
    here = {task: name for name, client in state.clients.items() for task in client.previous_active_tasks}
    kinds: Counter[str] = Counter()
    for task, client in now.items():
        before = here.get(task, recorded.get((task.name, task.partition)))
        kinds["new" if before is None else "kept" if before == client else "moved"] += 1
    return {kind: kinds[kind] for kind in ("moved", "kept", "new")}


def _sums(tasks: Mapping[TaskId, Subtopology], held: Mapping[StoreId, int]) -> dict[TaskId, int]:
    """Changelog records applied, summed over the stores that are there of each task; without any, it is left out."""
    sums = {}
    for task, part in tasks.items():
        ids = (StoreId(store.name, task.partition) for store in part.stores)
        positions = [held[store] for store in ids if store in held]
        if positions:
            sums[task] = min(sum(positions), MAX_OFFSET_SUM)
    return sums


def _owners(
    tasks: Collection[TaskId],
    sums: Mapping[ProcessId, Mapping[TaskId, int]],
    recorded: Mapping[tuple[str, int], ProcessId],
) -> dict[TaskId, ProcessId | None]:
    owners: dict[TaskId, ProcessId | None] = {}
    for task in tasks:
        ran = recorded.get((task.name, task.partition))
        had = [client for client in sorted(sums) if task in sums[client] or client == ran]
        owners[task] = max(had, key=lambda client: (sums[client].get(task, -1), client == ran), default=None)
    return owners


def _info(task: TaskId, part: Subtopology, own: LogState) -> TaskInfo:
    topics = [
        TaskTopicPartition(topic.name, task.partition, is_source=True, is_changelog=False)
        for topic in part.sources
        if task.partition < topic.partitions
    ]
    changelogs = [changelog_topic(own.application, store.name) for store in part.stores if store.changelog]
    topics += [TaskTopicPartition(name, task.partition, is_source=False, is_changelog=True) for name in changelogs]
    return TaskInfo(
        task,
        frozenset(store.name for store in part.stores),
        frozenset(topics),
        state_bytes=sum(own.size(name, task.partition) for name in changelogs) if part.stores else None,
        records_per_second=own.records_per_second(task.name, task.partition),
    )


def _end(own: LogState, store: Store, partition: int) -> int:
    return own.lane_ends(changelog_topic(own.application, store.name), partition).get(partition, 0)


def _lag(applied: int, end: int) -> int:
    """A copy that is further than all commits is of no use, and counts as empty."""
    return end if applied > end else end - applied


def _configs(assignment: Assignment) -> AssignmentConfigs:
    return AssignmentConfigs(
        acceptable_recovery_lag=assignment.acceptable_recovery_lag,
        max_warmup_replicas=assignment.max_warmup_replicas,
        num_standby_replicas=assignment.standby_replicas,
        probing_rebalance_interval_ms=assignment.probing_rebalance_interval_ms,
        rack_aware_assignment_tags=assignment.rack_aware_tags,
        rack_aware_assignment_strategy=assignment.rack_aware_strategy,
    )
