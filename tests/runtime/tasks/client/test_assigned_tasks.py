from __future__ import annotations

import pytest

from headwater.runtime.log.commit.records import TaskCommit
from headwater.runtime.task_id import StoreId, TaskId, TopicPartition
from headwater.runtime.tasks.assigned_tasks import AssignedTasks
from headwater.runtime.tasks.errors import IllegalTaskStateError, LockError, TaskMigratedError
from headwater.runtime.tasks.state import State
from headwater.runtime.tasks.task import StreamTask

EVENTS = [TopicPartition("events", number) for number in range(3)]
IDS = [TaskId(0, number) for number in range(3)]


def task(number: int, *stores: str) -> StreamTask:
    return StreamTask(IDS[number], stores, frozenset({EVENTS[number]}))


def at_nothing(created: StreamTask) -> None:
    pass


def restored(*tasks: StreamTask) -> AssignedTasks[StreamTask]:
    """All of them run."""
    found: AssignedTasks[StreamTask] = AssignedTasks()
    for each in tasks:
        found.add(each)
    assert found.initialize_new(at_nothing, 0) == {}
    found.update_restored([StoreId(store, each.id.partition) for each in tasks for store in each.stores])
    return found


def test_tasks_are_visited_in_the_order_of_their_ids() -> None:
    found = restored(task(2), task(0), task(1))
    assert [each.id for each in found] == IDS
    assert (len(found), IDS[1] in found, found.get(TaskId(7, 7))) == (3, True, None)


def test_task_that_is_here_already_is_refused() -> None:
    found = restored(task(0))
    with pytest.raises(IllegalTaskStateError, match="task 0_0 is here already, and running: cannot be added"):
        found.add(task(0))


def test_task_that_has_not_ended_is_not_removed() -> None:
    found = restored(task(0))
    with pytest.raises(IllegalTaskStateError, match="cannot be removed"):
        found.remove(found.running[0])
    found.suspend(IDS)
    found.remove(found.suspended[0])
    assert len(found) == 0


def test_task_is_found_by_what_it_reads_in_the_registry_of_its_state() -> None:
    found: AssignedTasks[StreamTask] = AssignedTasks()
    for each in (task(0, "s"), task(1)):
        found.add(each)
    assert found.uninitialized_partitions == {EVENTS[0]}
    assert not found.all_running

    found.initialize_new(at_nothing, 0)
    found.update_restored(())
    assert dict(found.restoring_by_partition) == {EVENTS[0]: found.get(IDS[0])}
    assert dict(found.running_by_partition) == {EVENTS[1]: found.get(IDS[1])}
    assert found.uninitialized_partitions == frozenset()

    found.update_restored([StoreId("s", 0)])
    assert found.running_task_for(EVENTS[0]) is found.get(IDS[0])
    assert found.running_task_for(EVENTS[2]) is None
    assert found.all_running


def test_task_runs_once_all_of_its_stores_are_restored() -> None:
    found: AssignedTasks[StreamTask] = AssignedTasks()
    found.add(task(0, "a", "b"))
    found.initialize_new(at_nothing, 0)
    states = []
    for stores in ([StoreId("a", 0)], [StoreId("b", 0)], [StoreId("b", 0), StoreId("a", 0)]):
        found.update_restored(stores)
        states.append(next(iter(found)).state)
    assert states == [State.RESTORING, State.RESTORING, State.RUNNING]


def test_task_that_cannot_have_its_stores_stays_created_and_others_go_on() -> None:
    found: AssignedTasks[StreamTask] = AssignedTasks()
    for number in range(3):
        found.add(task(number, "s"))
    errors = {IDS[0]: LockError("state", 7), IDS[1]: OSError("disk")}

    def opened(each: StreamTask) -> None:
        if each.id in errors:
            raise errors[each.id]

    assert found.initialize_new(opened, 0) == {IDS[1]: errors[IDS[1]]}
    assert [each.state for each in found] == [State.CREATED, State.CREATED, State.RESTORING]


def test_suspending_notes_what_ran() -> None:
    found = restored(task(0), task(1))
    found.add(task(2, "s"))
    found.suspend([IDS[0], IDS[2]])
    assert [each.state for each in found] == [State.SUSPENDED, State.RUNNING, State.SUSPENDED]
    assert found.previous == {IDS[0], IDS[1]}


@pytest.mark.parametrize(
    ("inputs", "state"), [(frozenset({EVENTS[0]}), State.RESTORING), (frozenset({EVENTS[1]}), State.SUSPENDED)]
)
def test_suspended_task_is_resumed_only_with_the_inputs_that_it_has(
    inputs: frozenset[TopicPartition], state: State
) -> None:
    found = restored(task(0))
    assert not found.maybe_resume_suspended(IDS[0], inputs)
    found.suspend(IDS)
    assert found.maybe_resume_suspended(IDS[0], inputs) is (state is State.RESTORING)
    assert next(iter(found)).state is state
    assert not found.maybe_resume_suspended(IDS[1], inputs)


def test_suspended_tasks_to_close_are_those_that_are_assigned_no_more_or_otherwise() -> None:
    found = restored(task(0), task(1), task(2))
    found.suspend(IDS)
    assignment = {IDS[0]: frozenset({EVENTS[0]}), IDS[1]: frozenset({EVENTS[2]})}
    assert [each.id for each in found.non_assigned_suspended(assignment)] == [IDS[1], IDS[2]]


def test_action_visits_all_running_tasks_and_raises_the_first_error() -> None:
    found = restored(task(0), task(1), task(2))
    seen = []

    def action(each: StreamTask) -> None:
        seen.append(each.id)
        if each.id != IDS[0]:
            raise ValueError(str(each.id))

    with pytest.raises(ValueError, match="0_1"):
        found.apply_to_running(action)
    assert seen == IDS


def test_task_that_has_migrated_is_closed_as_a_zombie_at_once() -> None:
    found = restored(task(0), task(1), task(2))
    zombie = found.running[1]
    zombie.start_epoch(1)
    zombie.end_epoch(1, 0, TaskCommit("s", 1, {}, 0))
    seen = []

    def action(each: StreamTask) -> None:
        seen.append(each.id)
        if each is zombie:
            raise TaskMigratedError("it")

    with pytest.raises(TaskMigratedError):
        found.apply_to_running(action)
    assert seen == IDS[:2]
    assert (zombie.state, IDS[1] in found, zombie.commit_needed) == (State.CLOSED, False, False)
