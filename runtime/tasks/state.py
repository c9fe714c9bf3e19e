"""The state machine of a task: one table of what each operation does in each state, for active and standby tasks.

Everything about moves must be here, repeats included: what an operation does beside (stores, clients) is the task's and
its owner's. `docs/tasks.md` is drawn from this table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NoReturn

from ..task_id import TaskId
from .errors import IllegalTaskStateError


class TaskType(Enum):
    """What a client has a task for: its role."""

    ACTIVE = "active"
    """To process records: Kafka Streams' StreamTask."""
    STANDBY = "standby"
    """To keep a copy of its stores, from their changelogs: Kafka Streams' StandbyTask."""


class State(Enum):
    """Where a task is in its life."""

    CREATED = "created"
    """Assigned; holds nothing yet."""
    RESTORING = "restoring"
    """Holds its stores, which are being brought to the committed position."""
    RUNNING = "running"
    """An active task takes part in epochs, a standby task follows its changelogs."""
    SUSPENDED = "suspended"
    """Takes no part; still holds its stores, as it may be resumed."""
    CLOSED = "closed"
    """Has let go of everything. The end, unless it is revived."""


class Operation(Enum):
    """What its owner may ask of a task."""

    INITIALIZE = "initialize"
    COMPLETE_RESTORATION = "complete_restoration"
    SUSPEND = "suspend"
    RESUME = "resume"
    PREPARE_COMMIT = "prepare_commit"
    POST_COMMIT = "post_commit"
    PREPARE_RECYCLE = "prepare_recycle"
    CLOSE_CLEAN = "close_clean"
    CLOSE_DIRTY = "close_dirty"
    REVIVE = "revive"


_CREATED, _RESTORING, _RUNNING, _SUSPENDED, _CLOSED = State


def _stay(*states: State) -> Mapping[State, State]:
    return {state: state for state in states}


_CLOSE: Mapping[State, State] = {_SUSPENDED: _CLOSED, _CLOSED: _CLOSED}
_RECYCLE: Mapping[State, State] = {_SUSPENDED: _CLOSED}
_REVIVE: Mapping[State, State] = {_CLOSED: _CREATED}

MOVES: Mapping[Operation, Mapping[TaskType, Mapping[State, State]]] = {
    Operation.INITIALIZE: {
        TaskType.ACTIVE: {**_stay(*State), _CREATED: _RESTORING},
        TaskType.STANDBY: {**_stay(_RUNNING, _SUSPENDED, _CLOSED), _CREATED: _RUNNING},
    },
    Operation.COMPLETE_RESTORATION: {
        TaskType.ACTIVE: {_RESTORING: _RUNNING, _RUNNING: _RUNNING},
        TaskType.STANDBY: {},
    },
    Operation.SUSPEND: {
        TaskType.ACTIVE: dict.fromkeys((_CREATED, _RESTORING, _RUNNING, _SUSPENDED), _SUSPENDED),
        TaskType.STANDBY: dict.fromkeys((_CREATED, _RUNNING, _SUSPENDED), _SUSPENDED),
    },
    Operation.RESUME: {
        TaskType.ACTIVE: {**_stay(_CREATED, _RESTORING, _RUNNING), _SUSPENDED: _RESTORING},
        TaskType.STANDBY: _stay(_CREATED, _RUNNING, _SUSPENDED, _CLOSED),
    },
    Operation.PREPARE_COMMIT: {
        TaskType.ACTIVE: _stay(_CREATED, _RESTORING, _RUNNING, _SUSPENDED),
        TaskType.STANDBY: _stay(_CREATED, _RUNNING, _SUSPENDED),
    },
    Operation.POST_COMMIT: {
        TaskType.ACTIVE: _stay(_CREATED, _RESTORING, _RUNNING, _SUSPENDED),
        TaskType.STANDBY: _stay(_CREATED, _RUNNING, _SUSPENDED),
    },
    Operation.PREPARE_RECYCLE: {TaskType.ACTIVE: _RECYCLE, TaskType.STANDBY: _RECYCLE},
    Operation.CLOSE_CLEAN: {TaskType.ACTIVE: _CLOSE, TaskType.STANDBY: _CLOSE},
    Operation.CLOSE_DIRTY: {TaskType.ACTIVE: _CLOSE, TaskType.STANDBY: _CLOSE},
    Operation.REVIVE: {TaskType.ACTIVE: _REVIVE, TaskType.STANDBY: _REVIVE},
}
"""By operation, role and state: the state after it. The same state: the task does not move. None: refused.

Source: `StreamTask`, `StandbyTask` and `AbstractTask` of Kafka Streams 4.0 (commit 1eb7644). A standby task that is
initialized passes RESTORING, where nobody can see it.
"""


def after(operation: Operation, role: TaskType, state: State, task: TaskId) -> State:
    """The state that `operation` leads to from `state`. Raises IllegalTaskStateError where the table has none."""
    try:
        return MOVES[operation][role][state]
    except KeyError:
        raise IllegalTaskStateError(task, operation.value, f"{role.value} and {state.value}") from None


def moves(role: TaskType) -> Iterator[tuple[State, Operation, State]]:
    """All changes of state of a task in `role`, in the order of the table."""
    for operation, by_role in MOVES.items():
        for old, new in by_role[role].items():
            if old is not new:
                yield old, operation, new


def diagram(role: TaskType) -> str:
    """The moves of a role as a Mermaid state diagram."""
    by_pair: dict[tuple[State, State], list[str]] = {}
    for old, operation, new in moves(role):
        by_pair.setdefault((old, new), []).append(operation.value)
    arrows = [f"    {old.name} --> {new.name}: {', '.join(names)}" for (old, new), names in by_pair.items()]
    return "\n".join(["stateDiagram-v2", "    [*] --> CREATED", *arrows])


def table(role: TaskType) -> str:
    """The moves of a role as Markdown: the state after each operation; `-` it stays, empty: refused."""
    lines = [" | ".join(["| operation", *(state.name for state in State)]) + " |", "|---" * (len(State) + 1) + "|"]
    for operation, by_role in MOVES.items():
        cells = [_cell(state, by_role[role].get(state)) for state in State]
        lines.append(f"| `{operation.value}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(old: State, new: State | None) -> str:
    if new is None:
        return ""
    return "-" if new is old else new.name


class Lifecycle:
    """The state of one task in one role; only the table changes it."""

    def __init__(self, task: TaskId, role: TaskType) -> None:
        self.task = task
        self.role = role
        self.state = State.CREATED

    def move(self, operation: Operation) -> bool:
        """Whether the operation changed the state. Raises IllegalTaskStateError, and changes nothing then."""
        old, self.state = self.state, after(operation, self.role, self.state, self.task)
        return self.state is not old

    def require(self, operation: Operation) -> None:
        """Make sure that the operation is allowed. Raises IllegalTaskStateError."""
        after(operation, self.role, self.state, self.task)

    def refuse(self, what: str) -> NoReturn:
        """Raise IllegalTaskStateError for something that is no operation of the table."""
        raise IllegalTaskStateError(self.task, what, f"{self.role.value} and {self.state.value}")
