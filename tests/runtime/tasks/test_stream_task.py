from __future__ import annotations

import pytest

from headwater.runtime.log.commit.records import TaskCommit
from headwater.runtime.task_id import TaskId
from headwater.runtime.tasks.errors import IllegalTaskStateError, TaskMigratedError
from headwater.runtime.tasks.state import State
from headwater.runtime.tasks.task import StreamTask

COMMIT = TaskCommit("counts", 1, {"events": {0: 5}}, 0, applied={"a": 9}, records=5)


def restoring() -> StreamTask:
    task = StreamTask(TaskId(0, 1), ("a",))
    task.initialize_if_needed()
    return task


def running() -> StreamTask:
    task = restoring()
    task.complete_restoration()
    return task


def prepared() -> StreamTask:
    task = running()
    task.start_epoch(3)
    task.end_epoch(3, 0, COMMIT)
    return task


def test_epoch_is_open_then_prepared_then_committed() -> None:
    task = running()
    task.start_epoch(3)
    assert (task.processable, task.commit_needed, task.prepare_commit()) == (False, False, None)

    task.end_epoch(3, 0, COMMIT)
    assert (task.processable, task.commit_needed, task.prepare_commit()) == (False, True, COMMIT)

    task.post_commit()
    assert (task.processable, task.commit_needed, task.prepare_commit()) == (True, False, None)


def test_epoch_that_took_nothing_needs_no_commit() -> None:
    task = running()
    task.start_epoch(3)
    task.end_epoch(3, 0, None)
    assert (task.processable, task.commit_needed) == (True, False)


@pytest.mark.parametrize(("planned_under", "committed"), [(6, False), (7, True), (8, True)])
def test_epoch_that_was_planned_under_an_older_assignment_of_the_task_is_not_committed(
    planned_under: int, committed: bool
) -> None:
    task = StreamTask(TaskId(0, 1), assignment=7)
    task.initialize_if_needed()
    task.complete_restoration()
    task.start_epoch(3)
    task.end_epoch(3, planned_under, COMMIT)
    assert (task.commit_needed, task.processable) == (committed, not committed)


@pytest.mark.parametrize("task", [restoring(), prepared()], ids=["restoring", "prepared"])
def test_task_that_may_not_begin_an_epoch_refuses_to(task: StreamTask) -> None:
    with pytest.raises(IllegalTaskStateError, match="start an epoch"):
        task.start_epoch(4)


def test_open_epoch_is_given_up_without_an_error_and_its_result_is_worth_nothing() -> None:
    task = running()
    task.start_epoch(3)
    task.suspend()
    assert not task.end_epoch(3, 0, COMMIT)
    task.close_clean()
    assert (task.state, task.commit_needed) == (State.CLOSED, False)


def test_result_of_an_epoch_before_the_task_was_revived_is_worth_nothing() -> None:
    task = running()
    task.start_epoch(3)
    task.suspend()
    task.close_dirty()
    task.revive()
    task.initialize_if_needed()
    task.complete_restoration()
    task.start_epoch(4)
    assert not task.end_epoch(3, 0, COMMIT)
    assert (task.epoch, task.commit_needed) == (4, False)


@pytest.mark.parametrize("end", [StreamTask.close_clean, StreamTask.prepare_recycle])
def test_task_with_something_to_commit_does_not_end_clean(end: object) -> None:
    task = prepared()
    task.suspend()
    with pytest.raises(TaskMigratedError, match="with an epoch that is not committed"):
        end(task)  # type: ignore[operator]
    assert (task.state, task.commit_needed) == (State.SUSPENDED, True)

    task.close_dirty()
    assert (task.state, task.commit_needed) == (State.CLOSED, False)


def test_what_is_prepared_may_be_committed_while_the_task_is_suspended() -> None:
    task = prepared()
    task.suspend()
    assert task.prepare_commit() == COMMIT
