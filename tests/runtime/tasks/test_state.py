from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from headwater.runtime.task_id import TaskId
from headwater.runtime.tasks.errors import IllegalTaskStateError
from headwater.runtime.tasks.state import MOVES, Operation, State, TaskType
from headwater.runtime.tasks.task import StandbyTask, StreamTask, Task

DOCS = Path(__file__).parents[3] / "docs" / "tasks.md"
CREATED, RESTORING, RUNNING, SUSPENDED, CLOSED = State


def moves(role: TaskType) -> Iterator[tuple[State, Operation, State]]:
    """All transitions to another state for a task in `role`, in the order of the table."""
    for operation, by_role in MOVES.items():
        for old, new in by_role[role].items():
            if old is not new:
                yield old, operation, new


def diagram(role: TaskType) -> str:
    """The transitions of a role as a Mermaid state diagram."""
    by_pair: dict[tuple[State, State], list[str]] = {}
    for old, operation, new in moves(role):
        by_pair.setdefault((old, new), []).append(operation.value)
    arrows = [f"    {old.name} --> {new.name}: {', '.join(names)}" for (old, new), names in by_pair.items()]
    return "\n".join(["stateDiagram-v2", "    [*] --> CREATED", *arrows])


def table(role: TaskType) -> str:
    """The transitions of a role as a Markdown table of next states; `-`: the same state, empty: illegal."""
    lines = [" | ".join(["| operation", *(state.name for state in State)]) + " |", "|---" * (len(State) + 1) + "|"]
    for operation, by_role in MOVES.items():
        cells = [_cell(state, by_role[role].get(state)) for state in State]
        lines.append(f"| `{operation.value}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(old: State, new: State | None) -> str:
    if new is None:
        return ""
    return "-" if new is old else new.name


def test_moves_of_an_active_task_are_those_of_kafka_streams() -> None:
    assert {(old, new) for old, _, new in moves(TaskType.ACTIVE)} == {
        (CREATED, RESTORING),
        (CREATED, SUSPENDED),
        (RESTORING, RUNNING),
        (RESTORING, SUSPENDED),
        (RUNNING, SUSPENDED),
        (SUSPENDED, RESTORING),
        (SUSPENDED, CLOSED),
        (CLOSED, CREATED),
    }


def test_standby_task_runs_as_soon_as_it_is_initialized_and_is_never_resumed() -> None:
    assert {(old, new) for old, _, new in moves(TaskType.STANDBY)} == {
        (CREATED, RUNNING),
        (CREATED, SUSPENDED),
        (RUNNING, SUSPENDED),
        (SUSPENDED, CLOSED),
        (CLOSED, CREATED),
    }


@pytest.mark.parametrize("role", TaskType)
def test_only_revive_leaves_closed(role: TaskType) -> None:
    assert [operation for old, operation, _ in moves(role) if old is CLOSED] == [Operation.REVIVE]


OPERATIONS: dict[Operation, Callable[[Task], object]] = {
    Operation.INITIALIZE: lambda task: task.initialize_if_needed(),
    Operation.COMPLETE_RESTORATION: lambda task: task.complete_restoration(),
    Operation.SUSPEND: lambda task: task.suspend(),
    Operation.RESUME: lambda task: task.resume(),
    Operation.PREPARE_COMMIT: lambda task: task.prepare_commit(),
    Operation.POST_COMMIT: lambda task: task.post_commit(),
    Operation.PREPARE_RECYCLE: lambda task: task.prepare_recycle(),
    Operation.CLOSE_CLEAN: lambda task: task.close_clean(),
    Operation.CLOSE_DIRTY: lambda task: task.close_dirty(),
    Operation.REVIVE: lambda task: task.revive(),
}

ALL = "CREATED RESTORING RUNNING SUSPENDED CLOSED"
AFTER = {
    TaskType.ACTIVE: {
        Operation.INITIALIZE: "RESTORING RESTORING RUNNING SUSPENDED CLOSED",
        Operation.COMPLETE_RESTORATION: "- RUNNING RUNNING - -",
        Operation.SUSPEND: "SUSPENDED SUSPENDED SUSPENDED SUSPENDED -",
        Operation.RESUME: "CREATED RESTORING RUNNING RESTORING -",
        Operation.PREPARE_COMMIT: "CREATED RESTORING RUNNING SUSPENDED -",
        Operation.POST_COMMIT: "CREATED RESTORING RUNNING SUSPENDED -",
        Operation.PREPARE_RECYCLE: "- - - CLOSED -",
        Operation.CLOSE_CLEAN: "- - - CLOSED CLOSED",
        Operation.CLOSE_DIRTY: "- - - CLOSED CLOSED",
        Operation.REVIVE: "- - - - CREATED",
    },
    TaskType.STANDBY: {
        Operation.INITIALIZE: "RUNNING - RUNNING SUSPENDED CLOSED",
        Operation.COMPLETE_RESTORATION: "- - - - -",
        Operation.SUSPEND: "SUSPENDED - SUSPENDED SUSPENDED -",
        Operation.RESUME: "CREATED - RUNNING SUSPENDED CLOSED",
        Operation.PREPARE_COMMIT: "CREATED - RUNNING SUSPENDED -",
        Operation.POST_COMMIT: "CREATED - RUNNING SUSPENDED -",
        Operation.PREPARE_RECYCLE: "- - - CLOSED -",
        Operation.CLOSE_CLEAN: "- - - CLOSED CLOSED",
        Operation.CLOSE_DIRTY: "- - - CLOSED CLOSED",
        Operation.REVIVE: "- - - - CREATED",
    },
}
"""The state after each operation, for each state in the order of `ALL`; `-`: refused. What Kafka Streams does: read in
`StreamTask`, `StandbyTask` and `AbstractTask` of 4.0.0-SNAPSHOT (commit 1eb7644)."""


def task_in(role: TaskType, state: State) -> Task:
    task: StreamTask | StandbyTask = StreamTask(TaskId(0, 1)) if role is TaskType.ACTIVE else StandbyTask(TaskId(0, 1))
    task.state = state
    return task


@pytest.mark.parametrize(("role", "old", "operation"), list(product(TaskType, State, Operation)))
def test_operation_moves_the_task_or_is_refused_without_a_trace(
    role: TaskType, old: State, operation: Operation
) -> None:
    task = task_in(role, old)
    expected = dict(zip(ALL.split(), AFTER[role][operation].split(), strict=True))[old.name]

    if expected == "-":
        with pytest.raises(IllegalTaskStateError) as caught:
            OPERATIONS[operation](task)
        assert (caught.value.task, caught.value.operation) == (task.id, operation.value)
        assert str(caught.value) == f"task 0_1 is {role.value} and {old.value}: cannot {operation.value}"
        assert task.state is old
    else:
        OPERATIONS[operation](task)
        assert task.state is State[expected]


DRAWN = {
    f"{kind} of {role.value} tasks": table(role) if kind == "table" else f"```mermaid\n{diagram(role)}\n```"
    for kind in ("table", "diagram")
    for role in TaskType
}


@pytest.mark.parametrize("name", DRAWN)
def test_docs_show_the_table_as_it_is(name: str) -> None:
    start = f"<!-- {name}: generated from runtime/tasks/state.py -->\n"
    shown = DOCS.read_text().split(start)[1].split("\n<!-- end -->")[0]

    assert shown == DRAWN[name], f"put this between the marks of the {name} in docs/tasks.md:\n{DRAWN[name]}"
