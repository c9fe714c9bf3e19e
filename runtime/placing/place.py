"""Which client runs which task."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from ...errors import HeadwaterError
from ..assignment.assignor import (
    NotAnAssignmentError,
    TaskAssignmentError,
    TaskAssignor,
    TaskType,
    assign,
    earliest_followup,
    raised_at,
)
from ..assignment.balance import configs_of, measured, task_info, tasks_of
from ..assignment.cluster import ApplicationState, ClientState, ProcessId
from ..ir.topology import Settings, Topology
from ..log.state import LogState
from ..task_id import StoreId, TaskId
from .assigned import Assigned, AssignorFailure, Move, PlacedClient
from .copies import Copies

# Clients, the members of an application's group, on which the assignor places the tasks.


@dataclass(frozen=True)
class Executor:
    """A live executor: its id in Spark, its host, and how many tasks it runs at once."""

    id: str
    host: str
    cores: int


@dataclass(frozen=True)
class Client:
    """An executor, or in local mode a virtual client inside of the driver (`executor` is None).

    `name` is for people. `threads`: how many tasks run at once. `folder`: where it keeps state, below the state
    directory of its machine. `process_id`: its name in the group, which belongs to that folder. Those of an executor
    are empty until it has claimed a folder (see `Group.place`).
    """

    name: str
    threads: int
    executor: Executor | None = None
    folder: str = ""
    process_id: str = ""


class ClientLostError(HeadwaterError):
    """An executor is gone, and with it the client whose tasks it ran. What it had not committed does not exist."""

    def __init__(self, application: str, client: str) -> None:
        super().__init__(
            f"{client} of {application} is gone: its executor has ended",
            "run again: tasks are placed on the present executors, and resume from the last commit",
        )
        self.application = application
        self.client = client


# Asks the assignor where tasks should run, from what clients hold, and turns its answer into an assignment.


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


# The rack and the tags of each client's host, as the profile defines them.

PATIENCE_S = 60.0
"""How long a script may take for one host, in seconds."""

_SHOWN = 80


class RackScriptError(HeadwaterError):
    """The profile's script did not print the rack of a host: `script`, `host`, `cause`."""

    def __init__(self, script: str, host: str, cause: str) -> None:
        super().__init__(f"{script} tells no rack of {host}: {cause}", "it is called with a host, and prints a rack")
        self.script = script
        self.host = host
        self.cause = cause


class Racks:
    """Racks and tags by host. A virtual client has no host of its own; its name stands for one."""

    def __init__(self, settings: Settings, patience_s: float = PATIENCE_S) -> None:
        self._racks = settings.racks
        self._script = settings.rack_script
        self._tags = settings.client_tags
        self._patience_s = patience_s

    def rack(self, client: Client) -> str | None:
        """The rack; None if the profile has none. Raises RackScriptError."""
        host = _place(client)
        return _printed(self._script, host, self._patience_s) if self._script else self._racks.get(host)

    def tags(self, client: Client) -> Mapping[str, str]:
        """Tag -> value."""
        return self._tags.get(_place(client), {})


def _place(client: Client) -> str:
    return client.name if client.executor is None else client.executor.host


@cache
def _printed(script: str, host: str, patience_s: float) -> str:
    """The output of the script, which is called once for each host."""
    try:
        running = subprocess.Popen(
            [script, host],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            # A process group of its own, which can be killed with all children.
            start_new_session=True,
        )
    except OSError as error:
        raise RackScriptError(script, host, str(error)) from error
    with running:
        try:
            output, errors = running.communicate(timeout=patience_s)
        except BaseException as error:
            # The whole process group: a child of the script would keep the pipe open, and `with` would wait for it.
            os.killpg(running.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RackScriptError(script, host, f"no answer within {patience_s:g} s") from error
            raise
    rack = output.strip()
    if running.returncode or not rack:
        raise RackScriptError(script, host, errors.strip() or f"exit code {running.returncode}, nothing printed")
    if not rack.isprintable() or "\ufffd" in rack:
        raise RackScriptError(script, host, f"{rack[:_SHOWN]!r} is not one line of text")
    return rack
