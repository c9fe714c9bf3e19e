"""The protocol of an assignor, and the validation of assignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter, index
from pathlib import Path
from traceback import extract_tb
from typing import Any, Protocol

from ...errors import HeadwaterError
from ...plugins.errors import error_text, wrapping_errors
from ..task_id import TaskId
from ..tasks.state import TaskType as TaskType  # a name of KIP-924 too, for projects
from .cluster import ApplicationState, ProcessId

# The result of an assignor, and its validation. Names are those of KIP-924.

IN_ORDER = attrgetter("subtopology", "partition")
"""A sort key of task ids. This is faster than comparing TaskIds."""


@dataclass(frozen=True, order=True)
class AssignedTask:
    """A task in a role."""

    id: TaskId
    type: TaskType


class AssignmentError(Enum):
    """The possible errors of an assignment."""

    NONE = "none"
    UNKNOWN_TASK_ID = "a task that does not exist"
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "an active task on two clients"
    INVALID_STANDBY_TASK = "a standby of a task without state"
    MISSING_PROCESS_ID = "no entry for a client"
    UNKNOWN_PROCESS_ID = "an entry for a client that does not exist"


class TaskAssignmentError(HeadwaterError):
    """An invalid assignment. `error`: its first error. `subject`: the task or client with the error. `entries`: the
    entries of the assignment with that task or client.
    """

    def __init__(self, error: AssignmentError, subject: str, entries: Iterable[ClientAssignment] = ()) -> None:
        super().__init__(f"the assignment has {error.value}: {subject}")
        self.error = error
        self.subject = subject
        self.entries = tuple(entries)


class NotAnAssignmentError(HeadwaterError):
    """An assignor returned something that is not an assignment: `answer`."""

    def __init__(self, problem: str, answer: Any) -> None:
        super().__init__(f"the assignor {problem}")
        self.answer = answer


class ClientAssignment:
    """The tasks of one client (KIP-924: KafkaStreamsAssignment).

    `followup_rebalance_deadline`: when the client requests another assignment, in ms since 1970; None: never.
    """

    def __init__(
        self,
        process_id: ProcessId,
        tasks: Iterable[AssignedTask] = (),
        followup_rebalance_deadline: int | None = None,
    ) -> None:
        """Raises ValueError if a task is twice in `tasks`, in any roles."""
        self.process_id = process_id
        self.followup_rebalance_deadline = followup_rebalance_deadline
        all_tasks = list(tasks)
        self._tasks: dict[TaskId, AssignedTask] = {task.id: task for task in all_tasks}
        if len(self._tasks) < len(all_tasks):
            twice, _ = Counter(task.id for task in all_tasks).most_common(1)[0]
            raise ValueError(f"task {twice} is twice on {process_id}")

    def __repr__(self) -> str:
        tasks = ", ".join(f"{task.type.value} {task.id}" for task in self.tasks.values())
        return f"ClientAssignment({self.process_id}: {tasks})"

    @property
    def tasks(self) -> Mapping[TaskId, AssignedTask]:
        """The tasks by id, sorted."""
        return {task: self._tasks[task] for task in sorted(self._tasks, key=IN_ORDER)}

    def placed(self) -> tuple[AssignedTask, ...]:
        """The tasks in the order in which they were added."""
        return tuple(self._tasks.values())

    def of_type(self, role: TaskType) -> tuple[TaskId, ...]:
        """The ids of the tasks in this role, sorted."""
        return tuple(task.id for task in self.tasks.values() if task.type is role)

    def assign_task(self, task: AssignedTask) -> None:
        """Add a task, or change its role."""
        self._tasks[task.id] = task

    def remove_task(self, task: AssignedTask) -> None:
        """Remove a task, in any role."""
        self._tasks.pop(task.id, None)


@dataclass(frozen=True)
class TaskAssignment:
    """The result of an assignor: one ClientAssignment per client."""

    assignment: Collection[ClientAssignment]

    def __post_init__(self) -> None:
        """Raises TypeError for an entry that is not a ClientAssignment, ValueError if a client has two entries."""
        entries = tuple(self.assignment)
        for entry in entries:
            if not isinstance(entry, ClientAssignment):
                raise TypeError(f"a TaskAssignment has a ClientAssignment for each client, not {entry!r}")
        names = Counter(entry.process_id for entry in entries)
        if len(names) < len(entries):
            twice, _ = names.most_common(1)[0]
            raise ValueError(f"client {twice} has two entries")
        object.__setattr__(self, "assignment", entries)


class TaskAssignor(Protocol):
    """Assigns tasks to clients. Plugins register assignors with `headwater_register_assignors`."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Assign all tasks. It should be deterministic."""
        ...

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:  # noqa: ARG002
        """Called with the assignment and its first error, before the error is raised.

        If a task is unknown, the assignment is empty. A subclass need not override it.
        """
        return


def validate_task_assignment(
    application_state: ApplicationState, assignment: TaskAssignment
) -> tuple[AssignmentError, str]:
    """The first error of an assignment and its task or client; `(NONE, "")` for a valid one.

    Unassigned tasks are valid, and so are other numbers of standbys than configured (as in KIP-924).
    """
    tasks, owners = application_state.all_tasks, dict[TaskId, ProcessId]()
    for client in assignment.assignment:
        for task in client.tasks.values():
            if task.id not in tasks:
                return AssignmentError.UNKNOWN_TASK_ID, str(task.id)
            if task.type is TaskType.ACTIVE and owners.setdefault(task.id, client.process_id) != client.process_id:
                return AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES, str(task.id)
    for client in assignment.assignment:
        for standby in client.of_type(TaskType.STANDBY):
            if not tasks[standby].is_stateful:
                return AssignmentError.INVALID_STANDBY_TASK, str(standby)
    entries = {client.process_id for client in assignment.assignment}
    for missing in sorted(application_state.clients.keys() - entries):
        return AssignmentError.MISSING_PROCESS_ID, missing
    for unknown in sorted(entries - application_state.clients.keys()):
        return AssignmentError.UNKNOWN_PROCESS_ID, unknown
    return AssignmentError.NONE, ""


def run_assignor(
    assignor: TaskAssignor, application_state: ApplicationState
) -> tuple[TaskAssignment, AssignmentError, str]:
    """The assignment of `assignor`, its first error, and the task or client of that. `on_assignment_computed` is
    called.

    The assignment is a copy, so the assignor cannot change it later. Raises NotAnAssignmentError, and all errors of the
    assignor.
    """
    for method in ("assign", "on_assignment_computed"):
        if not callable(getattr(assignor, method, None)):
            raise NotAnAssignmentError(f"has no method {method}: it is of {type(assignor)}", assignor)

    def ended(end: BaseException) -> NotAnAssignmentError:
        return NotAnAssignmentError(f"wants to end the process: {end!r}", None)

    with wrapping_errors(ended, passing=Exception):  # a SystemExit would end this process, and may look like success
        result = assignor.assign(application_state)
        assignment = _copy(result)
        error, subject = validate_task_assignment(application_state, assignment)
        # As Kafka Streams: an empty assignment if a task is unknown.
        assignor.on_assignment_computed(
            TaskAssignment(()) if error is AssignmentError.UNKNOWN_TASK_ID else result, error
        )
    return assignment, error, subject


def assign(assignor: TaskAssignor, application_state: ApplicationState) -> dict[ProcessId, ClientAssignment]:
    """A valid assignment, by client. Raises TaskAssignmentError, after `on_assignment_computed`."""
    assignment, error, subject = run_assignor(assignor, application_state)
    if error is not AssignmentError.NONE:
        entries = (
            client
            for client in assignment.assignment
            if subject == client.process_id or subject in map(str, client.tasks)
        )
        raise TaskAssignmentError(error, subject, entries)
    return {client.process_id: client for client in assignment.assignment}


def earliest_followup(clients: Iterable[ClientAssignment]) -> int | None:
    """The earliest follow-up deadline of all clients, in ms since 1970, or None."""
    deadlines = (client.followup_rebalance_deadline for client in clients)
    return min((deadline for deadline in deadlines if deadline is not None), default=None)


def _copy(result: Any) -> TaskAssignment:
    if not isinstance(result, TaskAssignment):
        raise NotAnAssignmentError(f"returned {type(result).__name__}, not a TaskAssignment", result)
    return TaskAssignment([_copy_entry(client) for client in result.assignment])


def _copy_entry(client: ClientAssignment) -> ClientAssignment:
    if not isinstance(client.process_id, str):
        raise NotAnAssignmentError(f"returned an entry for {client.process_id!r}, which is not a process id", client)
    for task in client.placed():
        if not isinstance(task, AssignedTask) or not isinstance(task.id, TaskId) or not isinstance(task.type, TaskType):
            raise NotAnAssignmentError(
                f"gave {client.process_id} {task!r}, which is not an AssignedTask of a TaskId and a TaskType", client
            )
    return ClientAssignment(client.process_id, client.placed(), _deadline(client.followup_rebalance_deadline))


def _deadline(value: Any) -> int | None:
    try:
        return None if value is None else index(value)
    except TypeError:
        raise NotAnAssignmentError(f"asks for a follow-up at {value!r}, not in whole ms since 1970", value) from None


# Errors that an assignor raised, with the line of its own code: it may belong to a project.

_RUNTIME = Path(__file__).parents[1]


class AssignorRaisedError(HeadwaterError):
    """An assignor raised an error, which is chained. `assignor`: its name."""

    def __init__(self, assignor: str, application: str, error: Exception) -> None:
        super().__init__(
            f"assignor {assignor} raised {raised_at(error)} when it assigned the tasks of {application}",
            "fix that line; a run would leave tasks where they were and spread new ones evenly",
        )
        self.assignor = assignor
        self.application = application


def raised_at(error: Exception) -> str:
    """The error and its last line outside this package, which is the useful one for the assignor's author."""
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if not Path(frame.filename).is_relative_to(_RUNTIME)]
    return error_text(error) + (f" ({own[-1].filename}:{own[-1].lineno})" if own else "")
