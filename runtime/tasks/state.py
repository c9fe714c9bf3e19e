"""The state machine of a task: one table of what each operation does in each state, including repeats.

Everything about changes of state is here. What an operation does besides (to stores, to clients) is in `task.py` and
its callers. `docs/tasks.md` is generated from this table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from .errors import IllegalTaskStateError
from .task_id import TaskId


class State(Enum):
    """The states of a task."""

    CREATED = "created"
    """Assigned; holds nothing yet."""
    RESTORING = "restoring"
    """Holds its stores, which are being brought to the committed position."""
    RUNNING = "running"
    """Takes part in epochs."""
    SUSPENDED = "suspended"
    """Takes no part in epochs; still holds its stores, because it may be resumed."""
    CLOSED = "closed"
    """Holds nothing. The end, unless it is revived."""


class Operation(Enum):
    """What an owner can ask of a task."""

    INITIALIZE = "initialize"
    COMPLETE_RESTORATION = "complete_restoration"
    SUSPEND = "suspend"
    RESUME = "resume"
    CLOSE_CLEAN = "close_clean"
    CLOSE_DIRTY = "close_dirty"
    REVIVE = "revive"


_CREATED, _RESTORING, _RUNNING, _SUSPENDED, _CLOSED = State

ACTIVE: Mapping[Operation, Mapping[State, State]] = {
    Operation.INITIALIZE: {
        _CREATED: _RESTORING,
        _RESTORING: _RESTORING,
        _RUNNING: _RUNNING,
        _SUSPENDED: _SUSPENDED,
    },
    Operation.COMPLETE_RESTORATION: {_RESTORING: _RUNNING, _RUNNING: _RUNNING},
    Operation.SUSPEND: {
        _CREATED: _SUSPENDED,
        _RESTORING: _SUSPENDED,
        _RUNNING: _SUSPENDED,
        _SUSPENDED: _SUSPENDED,
    },
    Operation.RESUME: {
        _CREATED: _CREATED,
        _RESTORING: _RESTORING,
        _RUNNING: _RUNNING,
        _SUSPENDED: _RESTORING,
    },
    Operation.CLOSE_CLEAN: {_SUSPENDED: _CLOSED, _CLOSED: _CLOSED},
    Operation.CLOSE_DIRTY: {_SUSPENDED: _CLOSED, _CLOSED: _CLOSED},
    Operation.REVIVE: {_CLOSED: _CREATED},
}
"""For an active task, by operation and state: the state after it. The same state: nothing happens. Missing: refused."""


def after(operation: Operation, state: State, task: TaskId) -> State:
    """The state to which `operation` leads from `state`. Raises IllegalTaskStateError if the table has none."""
    try:
        return ACTIVE[operation][state]
    except KeyError:
        raise IllegalTaskStateError(task, operation.value, state.value) from None


def moves() -> Iterator[tuple[State, Operation, State]]:
    """All changes of state, in the order of the table."""
    for operation, by_state in ACTIVE.items():
        for old, new in by_state.items():
            if old is not new:
                yield old, operation, new


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    by_pair: dict[tuple[State, State], list[str]] = {}
    for old, operation, new in moves():
        by_pair.setdefault((old, new), []).append(operation.value)
    arrows = [f"    {old.name} --> {new.name}: {', '.join(names)}" for (old, new), names in by_pair.items()]
    return "\n".join(["stateDiagram-v2", "    [*] --> CREATED", *arrows])


def table() -> str:
    """The table as Markdown: the state after each operation; `-`: nothing happens; empty: refused."""
    lines = [" | ".join(["| operation", *(state.name for state in State)]) + " |", "|---" * (len(State) + 1) + "|"]
    for operation, by_state in ACTIVE.items():
        cells = [_cell(state, by_state.get(state)) for state in State]
        lines.append(f"| `{operation.value}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(old: State, new: State | None) -> str:
    if new is None:
        return ""
    return "-" if new is old else new.name
