"""What a client's tasks do beyond the conformance cases: roles that change, clients that are gone, shutdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.task_id import StoreId
from headwater.runtime.tasks.errors import IllegalTaskStateError, TaskCorruptedError, TaskMigratedError
from headwater.runtime.tasks.state import State
from headwater.tests.runtime.tasks.client_tasks import T00, T01, T02, T10, ClientTasks, LaterSlices


@pytest.fixture
def client(tmp_path: Path) -> ClientTasks:
    return ClientTasks(tmp_path)


def test_tasks_run_as_soon_as_they_are_restored_and_do_not_wait_for_others(tmp_path: Path) -> None:
    slices = LaterSlices()
    client = ClientTasks(tmp_path, submit=slices)
    client.append(0, 6)
    client.manager.handle_assignment([T00, T01, T10])
    assert not client.manager.try_to_complete_restoration()
    assert client.states() == {"0_0": "active restoring", "0_1": "active running", "1_0": "active running"}

    slices.run()
    assert client.manager.try_to_complete_restoration()
    assert client.state(T00) is State.RUNNING
    assert LmdbStore(client.directory.store_path(StoreId("s", 0))).position == 6


def test_standby_becomes_active_with_its_stores_open_and_needs_no_restoring(client: ClientTasks) -> None:
    client.append(0, 6)
    client.run(standby=[T00])
    client.run(standby=[T00])
    assert client.states() == {"0_0": "standby running"}
    assert client.stores.offsets(T00) == {"s": 6}

    client.manager.handle_assignment([T00])
    assert client.states() == {"0_0": "active created"}
    assert client.stores.closed == []
    assert client.manager.try_to_complete_restoration()
    assert client.states() == {"0_0": "active running"}


def test_active_task_becomes_a_standby_with_its_stores_open(client: ClientTasks) -> None:
    client.append(0, 6)
    client.run(T00)
    client.manager.handle_revocation([T00])
    client.manager.handle_assignment([], [T00])
    assert client.stores.closed == []
    client.append(0, 2)
    for _ in range(3):
        client.manager.try_to_complete_restoration()
    assert client.states() == {"0_0": "standby running"}
    assert client.stores.offsets(T00) == {"s": 8}


def test_task_without_stores_has_no_standby(client: ClientTasks) -> None:
    client.run(standby=[T00, T10])
    assert client.states() == {"0_0": "standby running"}


def test_task_in_both_roles_is_refused(client: ClientTasks) -> None:
    with pytest.raises(IllegalTaskStateError, match="task 0_0 is active here: cannot be a standby"):
        client.manager.handle_assignment([T00], [T00])


def test_task_that_is_not_assigned_any_more_is_closed_clean(client: ClientTasks) -> None:
    client.run(T00, T01)
    client.manager.handle_assignment([T00])
    assert client.states() == {"0_0": "active running"}
    assert client.stores.closed == [(T01, True)]


def test_created_task_that_is_not_assigned_any_more_is_closed_too(client: ClientTasks) -> None:
    client.manager.handle_assignment([T00])
    client.manager.handle_assignment([])
    assert client.states() == {}


def test_revoked_task_restores_what_came_meanwhile_when_it_is_assigned_again(client: ClientTasks) -> None:
    client.run(T00, T01)
    client.manager.handle_revocation([T00])
    client.append(0, 2)
    client.manager.handle_assignment([T00, T01])
    assert client.states() == {"0_0": "active restoring", "0_1": "active running"}
    client.run(T00, T01)
    assert client.stores.offsets(T00) == {"s": 2}


def test_failing_close_creates_nothing_and_the_next_assignment_does(client: ClientTasks) -> None:
    client.run(T00)
    client.stores.closing = {T00: OSError("disk")}
    with pytest.raises(OSError, match="disk") as caught:
        client.manager.handle_assignment([T01])
    assert caught.value.__notes__ == ["in task 0_0"]
    assert client.states() == {}

    client.manager.handle_assignment([T01])
    assert client.states() == {"0_1": "active created"}


def test_corrupted_tasks_are_raised_together_while_the_others_go_on(client: ClientTasks) -> None:
    client.manager.handle_assignment([T00, T01, T02])
    torn, gap = TaskCorruptedError("torn", store="s"), TaskCorruptedError("gap", store="s")
    client.reader.restoring = {T00: torn, T02: gap}
    with pytest.raises(TaskCorruptedError, match="torn; gap") as caught:
        client.manager.try_to_complete_restoration()
    assert caught.value.tasks == {T00, T02}
    assert client.state(T01) is State.RUNNING


def test_corruption_of_tasks_that_are_elsewhere_concerns_nobody_here(client: ClientTasks) -> None:
    client.run(T00)
    assert not client.manager.handle_corruption([T01])
    assert client.states() == {"0_0": "active running"}


def test_clean_shutdown_commits_and_closes_all(client: ClientTasks) -> None:
    client.run(T00, standby=[T01])
    client.process(T00)
    client.manager.shutdown(clean=True)
    assert client.commits.made == [("counts_0",)]
    assert client.stores.closed == [(T00, True), (T01, True)]
    assert client.states() == {}


def test_clean_shutdown_raises_the_first_error_after_closing_all(client: ClientTasks) -> None:
    client.run(T00, T01, T02)
    client.stores.closing = {
        T00: TaskMigratedError("none of ours"),
        T01: OSError("first"),
        T02: OSError("second"),
    }
    with pytest.raises(OSError, match="first"):
        client.manager.shutdown(clean=True)
    assert client.states() == {}


def test_commit_that_fails_at_shutdown_closes_its_tasks_dirty_and_the_others_clean(client: ClientTasks) -> None:
    client.run(T00, T01)
    client.process(T01)
    client.commits.failure = OSError("full")
    with pytest.raises(OSError, match="full"):
        client.manager.shutdown(clean=True)
    assert client.stores.closed == [(T00, True), (T01, False)]


def test_client_that_cannot_be_reached_has_its_tasks_closed_all_the_same(client: ClientTasks) -> None:
    client.run(T00, T01)
    client.stores.gone = True
    with pytest.raises(OSError, match="gone"):
        client.manager.shutdown(clean=True)
    assert client.states() == {}


def test_dirty_shutdown_commits_nothing(client: ClientTasks) -> None:
    client.run(T00)
    client.process(T00)
    client.manager.shutdown(clean=False)
    assert (client.commits.made, client.stores.closed) == ([], [(T00, False)])


def test_tasks_taken_over_by_a_second_client_are_restored_from_the_log(client: ClientTasks, tmp_path: Path) -> None:
    client.append(0, 5)
    client.run(T00)
    client.manager.handle_lost_all()
    client.append(0, 5)
    second = ClientTasks(tmp_path, "client-2")
    second.run(T00)
    assert second.stores.offsets(T00) == {"s": 10}


def test_clean_end_of_a_restore_leaves_the_store_where_it_is_and_the_next_one_goes_on(tmp_path: Path) -> None:
    slices = LaterSlices()
    client = ClientTasks(tmp_path, submit=slices)
    client.append(0, 10)
    client.manager.handle_assignment([T00])
    assert not client.manager.try_to_complete_restoration()
    client.manager.shutdown(clean=True)
    again = ClientTasks(tmp_path)
    assert again.manager.offset_sums().get(T00, 0) == 0
    again.run(T00)
    assert again.reader.offsets(T00) == {"s": 10}
