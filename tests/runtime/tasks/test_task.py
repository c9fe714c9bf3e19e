from __future__ import annotations

import pytest

from headwater.runtime.tasks.errors import IllegalTaskStateError, TaskMigratedError
from headwater.runtime.tasks.state import State
from headwater.runtime.tasks.task import LATEST_OFFSET, Task
from headwater.runtime.tasks.task_id import TaskId


def restoring(**positions: int) -> Task:
    task = Task(TaskId(0, 1), tuple(positions))
    task.initialize(positions)
    return task


def running(**positions: int) -> Task:
    task = restoring(**positions)
    task.complete_restoration()
    return task


def test_suspend_while_restoring_keeps_the_applied_position() -> None:
    task = restoring(a=5)
    task.suspend()

    assert task.positions == {"a": 5}
    assert task.offset_sum == 5


def test_initializing_again_keeps_the_positions_reached_meanwhile() -> None:
    task = restoring(a=5)
    task.positions["a"] = 8
    task.initialize({"a": 0})

    assert task.positions == {"a": 8}


def test_clean_close_with_an_open_epoch_is_refused_as_migrated() -> None:
    task = running(a=5)
    task.start_epoch()
    task.suspend()

    with pytest.raises(TaskMigratedError, match="0_1"):
        task.close_clean()

    assert task.state is State.SUSPENDED


def test_clean_close_of_a_running_task_is_refused_for_its_state_first() -> None:
    task = running(a=5)
    task.start_epoch()

    with pytest.raises(IllegalTaskStateError):
        task.close_clean()


def test_clean_close_after_the_commit_is_made() -> None:
    task = running(a=5)
    task.start_epoch()
    task.end_epoch({"a": 7})
    task.suspend()
    task.close_clean()

    assert task.state is State.CLOSED
    assert task.positions == {"a": 7}


def test_dirty_close_ends_an_open_epoch() -> None:
    task = running(a=5)
    task.start_epoch()
    task.suspend()
    task.close_dirty()

    assert (task.state, task.commit_needed) == (State.CLOSED, False)


def test_revived_task_knows_no_positions() -> None:
    task = running(a=5)
    task.suspend()
    task.close_dirty()
    task.revive()

    assert (task.state, task.positions) == (State.CREATED, {})


@pytest.mark.parametrize(
    ("positions", "expected"),
    [({"a": 5, "b": 10}, 15), ({"a": 2**62, "b": 2**62, "c": 2**62}, 2**63 - 1), ({}, None)],
)
def test_offset_sum_adds_the_stores_up_to_the_largest_number(positions: dict[str, int], expected: int | None) -> None:
    assert restoring(**positions).offset_sum == expected


def test_offset_sum_of_a_running_task_is_the_latest() -> None:
    assert running(a=50).offset_sum == LATEST_OFFSET


def test_offset_sum_of_a_task_without_its_stores_is_unknown() -> None:
    assert Task(TaskId(0, 1), ("a",)).offset_sum is None
