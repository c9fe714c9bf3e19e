"""Assigns tasks to clients with the assignor of a topology, and finds the rack and tags of each client's host."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

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
from ..assignment.cluster import ApplicationState, ClientState, Lags, ProcessId
from ..ir.topology import Settings, Store, Subtopology, Topology
from ..log.state import LogState
from ..task_id import StoreId, TaskId
from ..tasks.task_manager import offset_sum
from ..timed_parts import wall_ms
from .assigned import Assigned, AssignorFailure, Move, PlacedClient

# Clients are the members of the group of an application. The assignor assigns tasks to them.


@dataclass(frozen=True)
class Executor:
    """A live executor: its id in Spark, its host, and the number of tasks that it runs at once."""

    id: str
    host: str
    cores: int


@dataclass(frozen=True)
class Client:
    """An executor, or in local mode a virtual client in the driver (`executor` is None).

    `name`: for display. `threads`: the number of tasks that run at once. `folder`: its directory for state, below the
    state directory of the machine. `process_id`: its id in the group, stored in that directory. The last two are empty
    until an executor has claimed a directory (see `Group.place`).
    """

    name: str
    threads: int
    executor: Executor | None = None
    folder: str = ""
    process_id: str = ""


class ClientLostError(HeadwaterError):
    """The executor of a client has ended, and the client with it. Its uncommitted work is lost."""

    def __init__(self, application: str, client: str) -> None:
        super().__init__(
            f"{client} of {application} is gone: its executor has ended",
            "run again: tasks are placed on the present executors, and resume from the last commit",
        )
        self.application = application
        self.client = client


# Calls the assignor with the state of the clients, and converts its result to an `Assigned`.


@dataclass(frozen=True)
class Member:
    """A client with a process id.

    `held`: store partition -> applied changelog offset, of the stores on it. `rack`, `tags`: of its host. `unopened`:
    the stores that were not opened since they were closed.
    """

    client: Client
    held: Mapping[StoreId, int] = field(default_factory=dict)
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    unopened: tuple[StoreId, ...] = ()

    @property
    def id(self) -> ProcessId:
        """The id of the client in the group."""
        return ProcessId(self.client.process_id)


@dataclass(frozen=True)
class _Placed:
    """Tasks by client, and the time of the next assignment (ms since 1970)."""

    active: Mapping[ProcessId, tuple[TaskId, ...]]
    standby: Mapping[ProcessId, tuple[TaskId, ...]] = field(default_factory=dict)
    followup_deadline: int | None = None


def place(topology: Topology, members: Sequence[Member], own: LogState, assignor: TaskAssignor) -> Assigned:
    """Assign all tasks with `assignor`. `own`: the committed state of the application.

    If the assignor raises an error or returns an invalid assignment, all tasks stay where they were, and tasks without
    a previous owner are distributed evenly.
    """
    copies = copies_of(topology, members, own)
    state = application_state(topology, members, copies)
    failure = None
    try:
        placed = _placed(assignor, state)
    except Exception as error:  # a project's own code may raise anything
        failure, placed = _failure(error), _Placed(_as_before(state))
    names = {member.id: member.client.name for member in members}
    # The clients of the log, which may be gone, overridden by the owners among the present clients.
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
    """The copies of the topology's tasks on the members."""
    return Copies(tasks_of(topology), {member.id: member.held for member in members}, own)


def application_state(topology: Topology, members: Sequence[Member], copies: Copies) -> ApplicationState:
    """The input of an assignor.

    Copies of a task on clients other than its previous owner count as previous standby tasks.
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
        now_ms=wall_ms(),
    )


def _placed(assignor: TaskAssignor, state: ApplicationState) -> _Placed:
    """The result of the assignor, with our own TaskIds: an assignor may return TaskIds without names."""
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
    """Each task on its previous owner. A task without one goes to the client with the fewest tasks per thread."""
    placed = {client: sorted(state.clients[client].previous_active_tasks) for client in sorted(state.clients)}
    for task in sorted(state.all_tasks.keys() - {task for tasks in placed.values() for task in tasks}):
        least = min(placed, key=lambda client: len(placed[client]) / state.clients[client].num_processing_threads)
        placed[least].append(task)
    return {client: tuple(sorted(tasks)) for client, tasks in placed.items()}


# The copies of tasks' state on the clients, and their lags behind the committed changelogs.


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


# The rack and the tags of each client's host, as the profile defines them.

PATIENCE_S = 60.0
"""The timeout of the script for one host, in seconds."""

_SHOWN = 80


class RackScriptError(HeadwaterError):
    """The rack script of the profile failed for a host: `script`, `host`, `cause`."""

    def __init__(self, script: str, host: str, cause: str) -> None:
        super().__init__(f"{script} tells no rack of {host}: {cause}", "it is called with a host, and prints a rack")
        self.script = script
        self.host = host
        self.cause = cause


class Racks:
    """Racks and tags by host. A virtual client has no host of its own, so its name is used instead."""

    def __init__(self, settings: Settings, patience_s: float = PATIENCE_S) -> None:
        self._racks = settings.racks
        self._script = settings.rack_script
        self._tags = settings.client_tags
        self._patience_s = patience_s

    def rack(self, client: Client) -> str | None:
        """The rack of a client; None if the profile defines none. Raises RackScriptError."""
        host = _place(client)
        return _printed(self._script, host, self._patience_s) if self._script else self._racks.get(host)

    def tags(self, client: Client) -> Mapping[str, str]:
        """The tags of a client: tag -> value."""
        return self._tags.get(_place(client), {})


def _place(client: Client) -> str:
    return client.name if client.executor is None else client.executor.host


@cache
def _printed(script: str, host: str, patience_s: float) -> str:
    """The output of the script for a host. Cached, so it runs once for each host. Raises RackScriptError."""
    try:
        running = subprocess.Popen(
            [script, host],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            # A new process group, so that the script can be killed together with its children.
            start_new_session=True,
        )
    except OSError as error:
        raise RackScriptError(script, host, str(error)) from error
    with running:
        try:
            output, errors = running.communicate(timeout=patience_s)
        except BaseException as error:
            # Kill the whole process group: a child of the script would keep the pipe open, and `with` would wait.
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
