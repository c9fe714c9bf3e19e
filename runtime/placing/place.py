"""Asks the assignor where tasks should run, from what clients hold, and turns its answer into an assignment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..assignment.api.assignor import (
    NotAnAssignmentError,
    TaskAssignmentError,
    TaskAssignor,
    TaskType,
    assign,
    earliest_followup,
)
from ..assignment.api.cluster import ApplicationState, ClientState, ProcessId
from ..assignment.api.raised import raised_at
from ..assignment.measured_tasks import configs_of, measured, task_info, tasks_of
from ..log.state import LogState
from ..task_id import StoreId, TaskId
from ..topology import Topology
from .assigned import Assigned, AssignorFailure, Move, PlacedClient
from .client import Client
from .copies import Copies


@dataclass(frozen=True)
class Member:
    """A client with a process id, and the positions of the stores that it holds. `rack`, `tags`: of its host.

    `unopened`: those of the stores that nobody has opened since they were closed.
    """

    client: Client
    held: Mapping[StoreId, int] = field(default_factory=dict)
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    unopened: tuple[StoreId, ...] = ()

    @property
    def id(self) -> ProcessId:
        """Its name in the group."""
        return ProcessId(self.client.process_id)


@dataclass(frozen=True)
class _Placed:
    """Tasks by client, and when to ask again."""

    active: Mapping[ProcessId, tuple[TaskId, ...]]
    standby: Mapping[ProcessId, tuple[TaskId, ...]] = field(default_factory=dict)
    followup_deadline: int | None = None


def place(topology: Topology, members: Sequence[Member], own: LogState, assignor: TaskAssignor) -> Assigned:
    """The assignment by `assignor`. `own`: what the application has committed.

    If the answer cannot be carried out or the assignor raises an error, all tasks stay where they were. Tasks that were
    nowhere are spread evenly.
    """
    copies = copies_of(topology, members, own)
    state = application_state(topology, members, copies)
    failure = None
    try:
        placed = _placed(assignor, state)
    except Exception as error:  # a project's own code may raise anything
        failure, placed = _failure(error), _Placed(_as_before(state))
    names = {member.id: member.client.name for member in members}
    # What the log says of clients that are gone, replaced by what present clients hold.
    now = {task: client for client, tasks in placed.active.items() for task in tasks}
    before = copies.recorded | copies.owners
    called = Assigned.names(own.assignment)
    emptied = {id_: name for id_, name in called.items() if id_ not in names and name in names.values()}
    return Assigned(
        assignor=topology.assignment.assignor.name,
        options=topology.assignment.assignor.options,
        clients={member.client.name: PlacedClient(member.id, member.rack, member.tags) for member in members},
        active={name: placed.active[client] for client, name in names.items()},
        standby={name: placed.standby.get(client, ()) for client, name in names.items()},
        followup_deadline=placed.followup_deadline,
        kept=sum(before.get(task) == client for task, client in now.items()),
        new=len(now.keys() - before.keys()),
        moves=tuple(
            Move(
                task,
                names.get(before[task]),
                names[now[task]],
                {names[client]: lag for client, lag in copies.lags_of(task).items()},
                emptied.get(before[task]),
            )
            for task in sorted(now.keys() & before.keys())
            if before[task] != now[task]
        ),
        unassigned=tuple(sorted(state.all_tasks.keys() - now.keys())),
        failure=failure,
    )


def copies_of(topology: Topology, members: Sequence[Member], own: LogState) -> Copies:
    """The copies that the members hold of the topology's tasks."""
    return Copies(tasks_of(topology), {member.id: member.held for member in members}, own)


def application_state(topology: Topology, members: Sequence[Member], copies: Copies) -> ApplicationState:
    """The state that an assignor is given.

    Copies of a task on other clients than its previous owner count as standbys.
    """
    owners = copies.owners
    owned: dict[ProcessId, set[TaskId]] = {}
    for task, owner in owners.items():
        owned.setdefault(owner, set()).add(task)
    clients = {
        member.id: ClientState(
            process_id=member.id,
            num_processing_threads=member.client.threads,
            previous_active_tasks=frozenset(owned.get(member.id, ())),
            previous_standby_tasks=frozenset(task for task in copies.applied[member.id] if owners[task] != member.id),
            client_tags=member.tags,
            rack_id=member.rack,
            host=member.client.executor.host if member.client.executor else "",
            consumer_ids=tuple(f"{member.id}-{thread}" for thread in range(member.client.threads)),
        )
        for member in members
    }
    own = copies.own
    tasks = {task: measured(task_info(own.application, task, part), own) for task, part in copies.tasks.items()}
    return ApplicationState(
        tasks,
        clients,
        configs_of(topology.assignment),
        lookup_lags=copies.lags,
        now_ms=time.time_ns() // 1_000_000,
    )


def _placed(assignor: TaskAssignor, state: ApplicationState) -> _Placed:
    """The answer with the application's own TaskIds. An assignor may have left out the names of subtopologies."""
    answer = assign(assignor, state)
    known = {task: task for task in state.all_tasks}
    active, standby = (
        {client: tuple(known[task] for task in each.of_type(role)) for client, each in answer.items()}
        for role in (TaskType.ACTIVE, TaskType.STANDBY)
    )
    return _Placed(active, standby, earliest_followup(answer.values()))


def _failure(error: Exception) -> AssignorFailure:
    match error:
        case TaskAssignmentError():
            return AssignorFailure(error.error.name, error.message, tuple(map(repr, error.entries)) or (error.subject,))
        case NotAnAssignmentError():
            return AssignorFailure("NO_ASSIGNMENT", error.message)
    return AssignorFailure("RAISED", f"the assignor raised {raised_at(error)}")


def _as_before(state: ApplicationState) -> dict[ProcessId, tuple[TaskId, ...]]:
    """Each task where it was. A task that was nowhere goes to the client with the fewest tasks for each thread."""
    placed = {client: sorted(state.clients[client].previous_active_tasks) for client in sorted(state.clients)}
    for task in sorted(state.all_tasks.keys() - {task for tasks in placed.values() for task in tasks}):
        least = min(placed, key=lambda client: len(placed[client]) / state.clients[client].num_processing_threads)
        placed[least].append(task)
    return {client: tuple(sorted(tasks)) for client, tasks in placed.items()}
