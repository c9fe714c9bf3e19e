"""The protocol of an assignor."""

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

# What an assignor answers, and how an answer is checked. Names are those of KIP-924.

_IN_ORDER = attrgetter("subtopology", "partition")


@dataclass(frozen=True, order=True)
class AssignedTask:
    """A task in a role."""

    id: TaskId
    type: TaskType


class AssignmentError(Enum):
    """What can be wrong with an assignment."""

    NONE = "none"
    UNKNOWN_TASK_ID = "a task that does not exist"
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "an active task on two clients"
    INVALID_STANDBY_TASK = "a standby of a task without state"
    MISSING_PROCESS_ID = "no entry for a client"
    UNKNOWN_PROCESS_ID = "an entry for a client that does not exist"


class TaskAssignmentError(HeadwaterError):
    """An assignor's answer that cannot be carried out.

    `error`: the first fault. `subject`: the task or client that it is about. `entries`: the answer's entries about it.
    """

    def __init__(self, error: AssignmentError, subject: str, entries: Iterable[ClientAssignment] = ()) -> None:
        super().__init__(f"the assignment has {error.value}: {subject}")
        self.error = error
        self.subject = subject
        self.entries = tuple(entries)


class NotAnAssignmentError(HeadwaterError):
    """An assignor's answer that is not an assignment at all. `answer`: what it was."""

    def __init__(self, problem: str, answer: Any) -> None:
        super().__init__(f"the assignor {problem}")
        self.answer = answer


class ClientAssignment:
    """The tasks of one client (KIP-924: KafkaStreamsAssignment).

    `followup_rebalance_deadline`: when the client asks for another assignment, in ms since 1970; None: never.
    """

    def __init__(
        self,
        process_id: ProcessId,
        tasks: Iterable[AssignedTask] = (),
        followup_rebalance_deadline: int | None = None,
    ) -> None:
        """Raises ValueError if a task is in `tasks` twice, in any roles."""
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
        return {task: self._tasks[task] for task in sorted(self._tasks, key=_IN_ORDER)}

    def placed(self) -> tuple[AssignedTask, ...]:
        """The tasks in the order in which they were added."""
        return tuple(self._tasks.values())

    def of_type(self, role: TaskType) -> tuple[TaskId, ...]:
        """The ids of the tasks in this role, sorted."""
        return tuple(task.id for task in self.tasks.values() if task.type is role)

    def assign_task(self, task: AssignedTask) -> None:
        """Add a task, or change the role of a task that is here."""
        self._tasks[task.id] = task

    def remove_task(self, task: AssignedTask) -> None:
        """Remove a task, whatever its role here."""
        self._tasks.pop(task.id, None)


@dataclass(frozen=True)
class TaskAssignment:
    """An assignor's answer: one ClientAssignment for each client."""

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
    """Decides which client has which tasks. Plugins of `headwater_register_assignors` make such objects."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Place all tasks. The same state should give the same answer."""
        ...

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        """Called with the answer and its first fault, before an error is raised.

        An answer with unknown tasks comes empty.
        """
        ...


def validate_task_assignment(
    application_state: ApplicationState, assignment: TaskAssignment
) -> tuple[AssignmentError, str]:
    """The first fault of an assignment and what it is about; `(NONE, "")` if there is none.

    Tasks that nobody has are no fault, and neither are other numbers of standbys than configured (as in KIP-924).
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


def ask(assignor: TaskAssignor, application_state: ApplicationState) -> tuple[TaskAssignment, AssignmentError, str]:
    """What `assignor` answers, and its first fault, about which the assignor has been told.

    The answer is a copy, so nothing that the assignor does later changes it. Raises NotAnAssignmentError, and whatever
    the assignor raises.
    """
    for method in ("assign", "on_assignment_computed"):
        if not callable(getattr(assignor, method, None)):
            raise NotAnAssignmentError(f"has no method {method}: it is of {type(assignor)}", assignor)

    def ended(end: BaseException) -> NotAnAssignmentError:
        return NotAnAssignmentError(f"wants to end the process: {end!r}", None)

    with wrapping_errors(ended, passing=Exception):  # a SystemExit would end this process, and may look like success
        given = assignor.assign(application_state)
        answer = _copied(given)
        error, subject = validate_task_assignment(application_state, answer)
        # Kafka Streams, too, passes an empty assignment if a task is unknown.
        told = TaskAssignment(()) if error is AssignmentError.UNKNOWN_TASK_ID else given
        assignor.on_assignment_computed(told, error)
    return answer, error, subject


def assign(assignor: TaskAssignor, application_state: ApplicationState) -> dict[ProcessId, ClientAssignment]:
    """A valid assignment, by client. Raises TaskAssignmentError, once the assignor has been told."""
    answer, error, subject = ask(assignor, application_state)
    if error is not AssignmentError.NONE:
        concerned = (
            client for client in answer.assignment if subject == client.process_id or subject in map(str, client.tasks)
        )
        raise TaskAssignmentError(error, subject, concerned)
    return {client.process_id: client for client in answer.assignment}


def earliest_followup(clients: Iterable[ClientAssignment]) -> int | None:
    """The first time at which a client asks for another assignment, in ms since 1970; None: nobody asks."""
    return min((at for client in clients if (at := client.followup_rebalance_deadline) is not None), default=None)


def _copied(answer: Any) -> TaskAssignment:
    if not isinstance(answer, TaskAssignment):
        raise NotAnAssignmentError(f"answered with {type(answer).__name__}, not with a TaskAssignment", answer)
    return TaskAssignment([_entry(client) for client in answer.assignment])


def _entry(client: ClientAssignment) -> ClientAssignment:
    if not isinstance(client.process_id, str):
        raise NotAnAssignmentError(f"answered for {client.process_id!r}, which is no process id", client)
    for task in client.placed():
        if not isinstance(task, AssignedTask) or not isinstance(task.id, TaskId) or not isinstance(task.type, TaskType):
            raise NotAnAssignmentError(
                f"gave {client.process_id} {task!r}, which is no AssignedTask of a TaskId and a TaskType", client
            )
    return ClientAssignment(client.process_id, client.placed(), _deadline(client.followup_rebalance_deadline))


def _deadline(asked: Any) -> int | None:
    try:
        return None if asked is None else index(asked)
    except TypeError:
        raise NotAnAssignmentError(f"asks for a follow-up at {asked!r}, not in whole ms since 1970", asked) from None


# Describes an error that an assignor raised, with the line of its own code: a project may bring its own assignor.

_RUNTIME = Path(__file__).parents[1]


class AssignorRaisedError(HeadwaterError):
    """An assignor raised an error, which is chained. `assignor`: its name."""

    def __init__(self, assignor: str, application: str, error: Exception) -> None:
        super().__init__(
            f"assignor {assignor} raised {raised_at(error)} when it was to place the tasks of {application}",
            "fix that line; a run would leave tasks where they were and spread new ones evenly",
        )
        self.assignor = assignor
        self.application = application


def raised_at(error: Exception) -> str:
    """The error and the last line outside this package.

    A line inside the package would tell the assignor's author little.
    """
    own = [each for each in extract_tb(error.__traceback__) if not Path(each.filename).is_relative_to(_RUNTIME)]
    return error_text(error) + (f" ({own[-1].filename}:{own[-1].lineno})" if own else "")
