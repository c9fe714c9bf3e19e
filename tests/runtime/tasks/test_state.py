from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from headwater.runtime.tasks.errors import IllegalTaskStateError
from headwater.runtime.tasks.state import Operation, State, diagram, moves, table
from headwater.runtime.tasks.task import Task
from headwater.runtime.tasks.task_id import TaskId

DOCS = Path(__file__).parents[3] / "docs" / "tasks.md"
CREATED, RESTORING, RUNNING, SUSPENDED, CLOSED = State


def test_moves_are_those_of_kafka_streams() -> None:
    assert {(old, new) for old, _, new in moves()} == {
        (CREATED, RESTORING),
        (CREATED, SUSPENDED),
        (RESTORING, RUNNING),
        (RESTORING, SUSPENDED),
        (RUNNING, SUSPENDED),
        (SUSPENDED, RESTORING),
        (SUSPENDED, CLOSED),
        (CLOSED, CREATED),
    }


def test_only_revive_leaves_closed() -> None:
    assert [operation for old, operation, _ in moves() if old is CLOSED] == [Operation.REVIVE]


OPERATIONS: dict[Operation, Callable[[Task], None]] = {
    Operation.INITIALIZE: lambda task: task.initialize({}),
    Operation.COMPLETE_RESTORATION: Task.complete_restoration,
    Operation.SUSPEND: Task.suspend,
    Operation.RESUME: Task.resume,
    Operation.CLOSE_CLEAN: Task.close_clean,
    Operation.CLOSE_DIRTY: Task.close_dirty,
    Operation.REVIVE: Task.revive,
}


AFTER: dict[Operation, dict[State, State]] = {
    Operation.INITIALIZE: {CREATED: RESTORING, RESTORING: RESTORING, RUNNING: RUNNING, SUSPENDED: SUSPENDED},
    Operation.COMPLETE_RESTORATION: {RESTORING: RUNNING, RUNNING: RUNNING},
    Operation.SUSPEND: {CREATED: SUSPENDED, RESTORING: SUSPENDED, RUNNING: SUSPENDED, SUSPENDED: SUSPENDED},
    Operation.RESUME: {CREATED: CREATED, RESTORING: RESTORING, RUNNING: RUNNING, SUSPENDED: RESTORING},
    Operation.CLOSE_CLEAN: {SUSPENDED: CLOSED, CLOSED: CLOSED},
    Operation.CLOSE_DIRTY: {SUSPENDED: CLOSED, CLOSED: CLOSED},
    Operation.REVIVE: {CLOSED: CREATED},
}
"""What Kafka Streams does: `StreamTask` (`initializeIfNeeded`, `completeRestoration`, `suspend`, `resume`, `close`) and
`AbstractTask.revive`, read in 4.0.0-SNAPSHOT (commit 1eb7644). Where a state is missing Kafka throws
IllegalStateException; but it passes over the initialization of a closed task, which is refused here."""


def task_in(state: State) -> Task:
    task = Task(TaskId(0, 1))
    task.state = state
    return task


@pytest.mark.parametrize(("old", "operation"), list(product(State, Operation)))
def test_operation_moves_the_task_or_is_refused_without_a_trace(old: State, operation: Operation) -> None:
    task = task_in(old)
    new = AFTER[operation].get(old)

    if new is None:
        with pytest.raises(IllegalTaskStateError) as caught:
            OPERATIONS[operation](task)
        assert (caught.value.task, caught.value.operation, caught.value.state) == (
            task.id,
            operation.value,
            old.value,
        )
    else:
        OPERATIONS[operation](task)
    assert task.state is (new or old)


@pytest.mark.parametrize(("name", "drawn"), [("table", table()), ("diagram", f"```mermaid\n{diagram()}\n```")])
def test_docs_show_the_table_as_it_is(name: str, drawn: str) -> None:
    start = f"<!-- {name}: generated from runtime/tasks/state.py -->\n"
    shown = DOCS.read_text().split(start)[1].split("\n<!-- end -->")[0]

    assert shown == drawn, f"put this between the marks of the {name} in docs/tasks.md:\n{drawn}"
