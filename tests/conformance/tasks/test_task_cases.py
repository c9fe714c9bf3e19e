"""What Kafka Streams' own tests ask of tasks and their manager, numbered as the table in README.md has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.task_id import LATEST_OFFSET, MAX_OFFSET_SUM, StoreId
from headwater.runtime.tasks.errors import IllegalTaskStateError, LockError, TaskCorruptedError, TaskMigratedError
from headwater.runtime.tasks.state import State
from headwater.runtime.tasks.task import TASK_TIMEOUT_MS, StreamTask, TaskTimeoutError
from headwater.runtime.tasks.task_manager import REBALANCING, offset_sum
from headwater.tests.runtime.tasks.client_tasks import T00, T01, T02, T10, ClientTasks, LaterSlices, task_id


@pytest.fixture
def client(tmp_path: Path) -> ClientTasks:
    return ClientTasks(tmp_path)


@pytest.mark.parametrize("state", [State.CREATED, State.RESTORING, State.RUNNING, State.CLOSED])
def test_05_only_a_suspended_task_is_recycled(state: State) -> None:
    task = StreamTask(T00)
    task.state = state
    with pytest.raises(IllegalTaskStateError, match="prepare_recycle"):
        task.prepare_recycle()


def test_06_offsets_are_real_while_restoring_and_the_latest_while_running(tmp_path: Path) -> None:
    slices = LaterSlices()
    client = ClientTasks(tmp_path, submit=slices)
    client.append(0, 50)
    client.manager.handle_assignment([T00])
    client.manager.try_to_complete_restoration()
    client.append(0, 5)
    for reached in (0, 50):
        assert (client.state(T00), client.manager.offset_sums()) == (State.RESTORING, {T00: reached})
        slices.run()
        client.manager.try_to_complete_restoration()
    assert (client.state(T00), client.manager.offset_sums()) == (State.RUNNING, {T00: LATEST_OFFSET})


def test_07_offset_sums() -> None:
    given = [(5, 10), (-2, -2), (-4, 10), (MAX_OFFSET_SUM // 2,) * 3]
    assert [offset_sum(each) for each in given] == [15, -2, 10, MAX_OFFSET_SUM]


def test_08_offset_sums_tell_of_stores_that_no_task_here_has(client: ClientTasks) -> None:
    client.append(0, 15)
    client.append(1, 3)
    client.run(T00, T01)
    client.manager.handle_assignment([T01])
    assert client.manager.offset_sums() == {T00: 15, T01: LATEST_OFFSET}

    client.manager.handle_assignment([T00, T01])
    assert client.state(T00) is State.CREATED
    assert client.manager.offset_sums() == {T00: 15, T01: LATEST_OFFSET}


def test_08_stores_that_are_worked_on_are_left_out(tmp_path: Path) -> None:
    slices = LaterSlices()
    client = ClientTasks(tmp_path, submit=slices)
    client.append(0, 15)
    client.manager.handle_assignment([T00])
    client.manager.try_to_complete_restoration()
    client.manager.handle_lost_all()
    assert client.manager.offset_sums() == {}

    slices.run()
    client.manager.try_to_complete_restoration()
    assert client.manager.offset_sums() == {T00: 15}


def test_11_same_assignment_again_commits_and_creates_nothing(client: ClientTasks) -> None:
    client.run(T00)
    client.process(T00)
    task = client.manager.active.get(T00)
    client.manager.handle_assignment([T00])
    assert client.manager.active.get(T00) is task
    assert (client.commits.made, task.commit_needed) == ([], True)


def test_12_revocation_commits_all_that_is_to_be_committed_at_once(client: ClientTasks) -> None:
    client.run(T00, T01, T02, standby=[])
    client.process(T00, T01)
    client.manager.handle_revocation([T00])
    assert client.commits.made == [("counts_0", "counts_1")]
    assert [client.state(task) for task in (T00, T01, T02)] == [State.SUSPENDED, State.RUNNING, State.RUNNING]


def test_12_revocation_of_a_task_without_anything_to_commit_commits_nothing(client: ClientTasks) -> None:
    client.run(T00, T01)
    client.process(T01)
    client.manager.handle_revocation([T00])
    assert client.commits.made == []
    task = client.manager.active.get(T01)
    assert task is not None
    assert task.commit_needed


def test_13_commit_that_times_out_in_a_revocation_has_its_tasks_begin_again(client: ClientTasks) -> None:
    client.run(T00, T01, T02)
    client.process(T00, T01)
    client.commits.failure = TimeoutError("no answer")
    client.manager.handle_revocation([T00])
    assert [client.state(task) for task in (T00, T01, T02)] == [State.SUSPENDED, State.CREATED, State.RUNNING]


def test_14_task_that_is_not_here_is_no_error_in_a_revocation(client: ClientTasks) -> None:
    client.run(T00)
    client.manager.handle_revocation([T00, task_id("0_7")])
    assert client.states() == {"0_0": "active suspended"}


def test_15_other_error_of_the_commit_is_raised_once_all_are_suspended(client: ClientTasks) -> None:
    client.run(T00, T01)
    client.process(T00)
    client.commits.failure = ValueError("bad")
    with pytest.raises(ValueError, match="bad"):
        client.manager.handle_revocation([T00, T01])
    assert client.states() == {"0_0": "active suspended", "0_1": "active suspended"}

    client.manager.handle_assignment([])
    assert client.stores.closed == [(T01, True), (T00, False)]


def test_16_corrupted_task_begins_again_and_the_others_are_committed(client: ClientTasks) -> None:
    client.append(0, 4)
    client.run(T00, T01)
    client.process(T00, T01)
    assert client.manager.handle_corruption([T00])
    assert (client.state(T00), client.commits.made) == (State.CREATED, [("counts_1",)])
    assert client.manager.try_to_complete_restoration() or client.manager.try_to_complete_restoration()
    assert client.stores.offsets(T00) == {"s": 4}


def test_16_corruption_without_anything_to_commit_commits_nothing(client: ClientTasks) -> None:
    client.run(T00, T01)
    assert client.manager.handle_corruption([T00])
    assert client.commits.made == []


def test_17_corrupted_standby_begins_again_before_the_commit_that_says_all_has_migrated(client: ClientTasks) -> None:
    client.run(T00, standby=[T01])
    client.process(T00)
    client.commits.failure = TaskMigratedError("the application")
    with pytest.raises(TaskMigratedError, match="the application was advanced by another owner"):
        client.manager.handle_corruption([T01])
    assert client.states()["0_1"] == "standby created"


def test_18_corruption_in_a_rebalance_commits_nothing(client: ClientTasks) -> None:
    client.run(T00, T01)
    client.process(T01)
    client.manager.handle_rebalance_start()
    client.manager.handle_corruption([T00])
    assert (client.state(T01), client.commits.made) == (State.RUNNING, [])
    assert client.manager.commit_all() == REBALANCING


def test_19_last_of_two_migrated_tasks_is_raised(client: ClientTasks) -> None:
    client.run(T00, T01)
    client.stores.closing = {T00: TaskMigratedError("first"), T01: TaskMigratedError("second")}
    with pytest.raises(TaskMigratedError, match="second"):
        client.manager.handle_assignment([])


def test_19_error_that_is_not_about_ownership_is_raised_before_migrated_ones(client: ClientTasks) -> None:
    client.run(T00, T01, T02)
    client.stores.closing = {T00: TaskMigratedError("a"), T01: TaskMigratedError("b"), T02: ValueError("fatal")}
    with pytest.raises(ValueError, match="fatal") as caught:
        client.manager.handle_assignment([task_id("0_3")])
    assert caught.value.__notes__ == ["in task 0_2"]
    assert client.states() == {}


def test_20_lost_client_closes_its_active_tasks_and_keeps_its_standbys(client: ClientTasks) -> None:
    client.run(T00, standby=[T01])
    client.process(T00)
    client.manager.handle_lost_all()
    assert (client.states(), client.commits.made) == ({"0_1": "standby running"}, [])


@pytest.mark.parametrize("error", [LockError("state", 1), TimeoutError("no answer")])
def test_21_task_whose_stores_cannot_be_had_yet_stays_created_while_others_run(
    client: ClientTasks, error: Exception
) -> None:
    client.reader.opening = {T00: error, T01: error}
    client.manager.handle_assignment([T00, T01, T10])
    assert not client.manager.try_to_complete_restoration()
    assert client.states() == {"0_0": "active created", "0_1": "active created", "1_0": "active running"}

    client.reader.opening = {}
    client.run(T00, T01, T10)
    assert client.state(T00) is State.RUNNING


def test_21_stores_that_cannot_be_had_for_too_long_end_their_task(client: ClientTasks) -> None:
    client.reader.opening = {T00: TimeoutError("no answer")}
    client.manager.handle_assignment([T00])
    client.manager.try_to_complete_restoration()
    client.now_ms = TASK_TIMEOUT_MS
    client.manager.try_to_complete_restoration()
    client.now_ms += 1
    with pytest.raises(TaskTimeoutError, match="task 0_0 has made no progress for 300 s: no answer"):
        client.manager.try_to_complete_restoration()


def test_22_commit_that_times_out_corrupts_the_tasks_that_took_part_in_it(client: ClientTasks) -> None:
    client.run(T00, T01, T02)
    client.process(T00, T01)
    client.commits.failure = TimeoutError("no answer")
    with pytest.raises(TaskCorruptedError) as caught:
        client.manager.commit_all()
    assert caught.value.tasks == {T00, T01}


def test_22_commit_counts_the_tasks_that_had_something(client: ClientTasks) -> None:
    client.run(T00, T01, T02)
    client.process(T00, T02)
    assert client.manager.commit_all() == 2
    assert client.manager.commit_all() == 0
    assert client.commits.made == [("counts_0", "counts_2")]


def test_store_that_is_whole_is_kept_when_its_neighbour_is_corrupted(client: ClientTasks) -> None:
    client.append(0, 4)
    client.append(1, 2)
    client.run(T00, T01)
    LmdbStore(client.directory.store_path(StoreId("s", 0))).apply((), 4, 40)
    inodes = [client.directory.store_path(StoreId("s", number)).stat().st_ino for number in (0, 1)]
    client.manager.handle_corruption([T00, T01])
    client.run(T00, T01)
    assert [client.stores.offsets(task) for task in (T00, T01)] == [{"s": 4}, {"s": 2}]
    kept = [client.directory.store_path(StoreId("s", number)).stat().st_ino for number in (0, 1)]
    assert [old == new for old, new in zip(inodes, kept, strict=True)] == [False, True]
