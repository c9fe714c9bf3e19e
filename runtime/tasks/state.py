"""The state machine of a task: one table of what each operation does in each state, for active and standby tasks.

The table has every transition, also those that keep the state. Side effects (stores, clients) belong to the task and
its owner. The tables and diagrams of `docs/tasks.md` are made from it, see `tests/runtime/tasks/test_state.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ..task_id import TaskId
from .errors import IllegalTaskStateError


class TaskType(Enum):
    """The role of a task on a client."""

    ACTIVE = "active"
    """It processes records: Kafka Streams' StreamTask."""
    STANDBY = "standby"
    """It keeps copies of stores up to date from their changelogs: Kafka Streams' StandbyTask."""


class State(Enum):
    """The state of a task."""

    CREATED = "created"
    """Assigned, without stores so far."""
    RESTORING = "restoring"
    """Its stores are being restored to their committed positions."""
    RUNNING = "running"
    """An active task takes part in epochs, a standby task follows its changelogs."""
    SUSPENDED = "suspended"
    """It takes no part in epochs and keeps its stores, because it may be resumed."""
    CLOSED = "closed"
    """Its stores are closed. Only `revive` leaves this state."""


class Operation(Enum):
    """The operations on a task."""

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
"""By operation, role and state: the next state, which may be the same. No entry: the operation is illegal.

Source: `StreamTask`, `StandbyTask` and `AbstractTask` of Kafka Streams 4.0 (commit 1eb7644). There `initialize` takes a
standby task through RESTORING, which nothing can observe.
"""


def after(operation: Operation, role: TaskType, state: State, task: TaskId) -> State:
    """The state after `operation`. Raises IllegalTaskStateError if the table has no entry."""
    try:
        return MOVES[operation][role][state]
    except KeyError:
        raise IllegalTaskStateError(task, operation.value, f"{role.value} and {state.value}") from None
