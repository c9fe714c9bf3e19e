"""A client's tasks over real stores: what an assignment, a loss, a corruption leave behind."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.ranges import LogRange
from headwater.runtime.records.schema import CHANGELOG
from headwater.runtime.restore.changelog import ChangelogRestore
from headwater.runtime.state.changelog import apply_slice
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.restore_strategy import RestoreRequest
from headwater.runtime.tasks.errors import LockError, TaskCorruptedError, TaskMigratedError
from headwater.runtime.tasks.state import State
from headwater.runtime.tasks.task import LATEST_OFFSET
from headwater.runtime.tasks.task_id import StoreId, TaskId
from headwater.runtime.tasks.task_manager import Progress, TaskManager

T00, T01, T02, T10 = TaskId(0, 0), TaskId(0, 1), TaskId(0, 2), TaskId(1, 0)


@dataclass
class Restorer:
    """LMDB stores of one client, restored from an embedded log. `locked`, `failing`: what goes wrong, by task."""

    directory: StateDirectory
    log: EmbeddedLog
    changelogs: dict[StoreId, list[LogRange]] = field(default_factory=dict)
    reachable: bool = True
    locked: set[TaskId] = field(default_factory=set)
    failing: dict[TaskId, Exception] = field(default_factory=dict)
    held: dict[TaskId, dict[str, LmdbStore]] = field(default_factory=dict)
    closed: list[tuple[TaskId, bool]] = field(default_factory=list)

    def append(self, store: StoreId, count: int) -> None:
        """Commit `count` records to the store's changelog."""
        ranges = self.changelogs.setdefault(store, [])
        base = sum(each.records for each in ranges)
        keys = [b"%d" % number for number in range(base, base + count)]
        table = pa.table([keys, keys, [0] * count], schema=CHANGELOG)
        name = f"{store.partition}-{base}"
        (segment,) = self.log.write("a", f"{store.store}-changelog", name, table, store.partition, store.partition)
        ranges.append(replace(segment, base_offset=base, base_position=base).range())

    def open(self, tasks: Collection[TaskId]) -> Mapping[TaskId, Mapping[str, int] | Exception]:
        opened: dict[TaskId, Mapping[str, int] | Exception] = {}
        for task in tasks:
            if task in self.locked:
                opened[task] = LockError("state", 1)
                continue
            ids = [StoreId("s", task.partition)] if task.subtopology == 0 else []
            self.held[task] = {store.store: LmdbStore(self.directory.store_path(store)) for store in ids}
            opened[task] = {name: store.position for name, store in self.held[task].items()}
        return opened

    def restore(self, tasks: Collection[TaskId]) -> Mapping[TaskId, Progress | Exception]:
        return {task: self.failing.get(task) or self.restored(task) for task in tasks}

    def restored(self, task: TaskId) -> Progress:
        done = True
        for name, store in self.held[task].items():
            ranges = tuple(self.changelogs.get(StoreId(name, task.partition), ()))
            target = sum(each.records for each in ranges)
            request = RestoreRequest(name, task.partition, store.position, target, ranges)
            step = next(ChangelogRestore(slice_records=4).slices(request), None)
            if step is not None:
                apply_slice(store, step, self.log)
            done = done and store.position == target
        return Progress({name: store.position for name, store in self.held[task].items()}, done)

    def close(self, tasks: Collection[TaskId], *, clean: bool) -> Mapping[TaskId, Exception]:
        if not self.reachable:
            raise OSError("gone")
        failed = {task: self.failing[task] for task in tasks if clean and task in self.failing}
        for task in tasks:
            if task not in failed:
                for store in self.held.pop(task, {}).values():
                    if clean:
                        store.close()
                self.closed.append((task, clean))
        return failed

    def wipe(self, tasks: Collection[TaskId]) -> None:
        for task in tasks:
            self.directory.remove(StoreId("s", task.partition))


@pytest.fixture
def restorer(tmp_path: Path) -> Restorer:
    return Restorer(StateDirectory(tmp_path / "state", "client", "app"), EmbeddedLog(tmp_path / "log"))


@pytest.fixture
def manager(restorer: Restorer) -> TaskManager:
    """Subtopology 0 has a store `s`, the others have none."""
    return TaskManager("client", restorer, lambda task: ("s",) if task.subtopology == 0 else ())


def states(manager: TaskManager) -> dict[TaskId, State]:
    return {task.id: task.state for task in manager.tasks.values()}


def run(manager: TaskManager, *tasks: TaskId) -> None:
    manager.handle_assignment(tasks)
    while not manager.try_to_complete_restoration():
        pass


def test_assigned_tasks_are_created_and_run_once_restored(manager: TaskManager, restorer: Restorer) -> None:
    restorer.append(StoreId("s", 0), 3)
    restorer.append(StoreId("s", 0), 3)

    manager.handle_assignment({T10, T00})
    assert states(manager) == {T00: State.CREATED, T10: State.CREATED}

    assert not manager.try_to_complete_restoration()
    assert states(manager) == {T00: State.RESTORING, T10: State.RUNNING}
    assert manager.running() == (T10,)
    assert manager.offset_sums() == {T00: 4}

    assert manager.try_to_complete_restoration()
    assert manager.running() == (T00, T10)
    assert manager.offset_sums() == {T00: LATEST_OFFSET}
    assert LmdbStore(restorer.directory.store_path(StoreId("s", 0))).position == 6


def test_task_whose_stores_are_locked_is_tried_again(manager: TaskManager, restorer: Restorer) -> None:
    restorer.locked = {T00, T01}
    manager.handle_assignment({T00, T01, T02})

    assert not manager.try_to_complete_restoration()
    assert states(manager) == {T00: State.CREATED, T01: State.CREATED, T02: State.RUNNING}

    restorer.locked = {T01}
    assert not manager.try_to_complete_restoration()
    assert states(manager) == {T00: State.RUNNING, T01: State.CREATED, T02: State.RUNNING}


def test_same_assignment_again_changes_nothing_even_with_an_open_epoch(manager: TaskManager) -> None:
    run(manager, T00)
    task = manager.tasks[T00]
    task.start_epoch()

    manager.handle_assignment({T00})

    assert manager.tasks[T00] is task
    assert (task.state, task.commit_needed) == (State.RUNNING, True)


def test_tasks_that_are_not_assigned_any_more_are_closed_clean(manager: TaskManager, restorer: Restorer) -> None:
    run(manager, T00, T01)
    gone = manager.tasks[T01]

    manager.handle_assignment({T00})

    assert states(manager) == {T00: State.RUNNING}
    assert gone.state is State.CLOSED
    assert restorer.closed == [(T01, True)]


def test_created_task_that_is_not_assigned_any_more_is_closed_too(manager: TaskManager, restorer: Restorer) -> None:
    manager.handle_assignment({T00})
    manager.handle_assignment(())

    assert states(manager) == {}
    assert restorer.closed == [(T00, True)]


def test_revoked_task_is_suspended_and_restores_when_assigned_again(manager: TaskManager, restorer: Restorer) -> None:
    run(manager, T00, T01)
    manager.handle_revocation({T00, TaskId(7, 7)})
    assert states(manager) == {T00: State.SUSPENDED, T01: State.RUNNING}
    restorer.append(StoreId("s", 0), 2)

    manager.handle_assignment({T00, T01})
    assert states(manager) == {T00: State.RESTORING, T01: State.RUNNING}

    assert manager.try_to_complete_restoration()
    assert manager.tasks[T00].positions == {"s": 2}


def test_suspended_tasks_do_not_hold_up_that_all_run(manager: TaskManager) -> None:
    run(manager, T00, T01)
    manager.handle_revocation({T00})

    assert manager.try_to_complete_restoration()


def test_task_with_an_open_epoch_is_closed_dirty_as_migrated(manager: TaskManager, restorer: Restorer) -> None:
    run(manager, T00)
    manager.tasks[T00].start_epoch()

    with pytest.raises(TaskMigratedError, match="0_0"):
        manager.handle_assignment({T01})

    assert states(manager) == {}
    assert restorer.closed == [(T00, False)]


def test_failing_close_creates_nothing_and_the_next_assignment_does(manager: TaskManager, restorer: Restorer) -> None:
    run(manager, T00)
    restorer.failing[T00] = OSError("disk")

    with pytest.raises(OSError, match="disk") as caught:
        manager.handle_assignment({T01})
    assert caught.value.__notes__ == ["in task 0_0"]
    assert states(manager) == {}

    manager.handle_assignment({T01})
    assert states(manager) == {T01: State.CREATED}


def test_last_of_two_migrated_tasks_is_raised(manager: TaskManager, restorer: Restorer) -> None:
    run(manager, T00, T01)
    restorer.failing = {T00: TaskMigratedError("first"), T01: TaskMigratedError("second")}

    with pytest.raises(TaskMigratedError, match="second"):
        manager.handle_assignment(())


def test_error_that_is_not_about_ownership_wins_over_migrated(manager: TaskManager, restorer: Restorer) -> None:
    run(manager, T00, T01, T02)
    restorer.failing = {
        T00: TaskMigratedError("first"),
        T01: ValueError("fatal"),
        T02: TaskMigratedError("last"),
    }

    with pytest.raises(ValueError, match="fatal") as caught:
        manager.handle_assignment(())

    assert caught.value.__notes__ == ["in task 0_1"]
    assert states(manager) == {}


def test_corrupted_tasks_are_raised_together_while_the_others_go_on(manager: TaskManager, restorer: Restorer) -> None:
    manager.handle_assignment({T00, T01, T02})
    restorer.failing = {T00: TaskCorruptedError("torn", store="s"), T02: TaskCorruptedError("gap", store="s")}

    with pytest.raises(TaskCorruptedError, match="torn; gap") as caught:
        manager.try_to_complete_restoration()

    assert caught.value.tasks == {T00, T02}
    assert manager.running() == (T01,)


def test_corrupted_task_begins_anew_with_nothing_and_is_restored(manager: TaskManager, restorer: Restorer) -> None:
    restorer.append(StoreId("s", 0), 4)
    run(manager, T00, T01)
    other = manager.tasks[T01]
    other.start_epoch()

    assert manager.handle_corruption({T00})

    assert states(manager) == {T00: State.CREATED, T01: State.RUNNING}
    assert other.commit_needed
    assert restorer.directory.stores() == [StoreId("s", 1)]
    assert manager.try_to_complete_restoration()
    assert manager.tasks[T00].positions == {"s": 4}


def test_corruption_of_tasks_that_are_elsewhere_concerns_nobody_here(manager: TaskManager) -> None:
    run(manager, T00)

    assert not manager.handle_corruption({T01})
    assert manager.running() == (T00,)


def test_lost_client_closes_everything_dirty(manager: TaskManager, restorer: Restorer) -> None:
    run(manager, T00, T10)
    manager.tasks[T00].start_epoch()

    manager.handle_lost_all()

    assert states(manager) == {}
    assert restorer.closed == [(T00, False), (T10, False)]


def test_clean_shutdown_raises_the_first_error_after_closing_all(manager: TaskManager, restorer: Restorer) -> None:
    run(manager, T00, T01, T02)
    restorer.failing = {T00: TaskMigratedError("none of ours"), T01: OSError("first"), T02: OSError("second")}

    with pytest.raises(OSError, match="first"):
        manager.shutdown(clean=True)

    assert states(manager) == {}
    assert restorer.held == {}


def test_client_that_cannot_be_reached_has_its_tasks_closed_all_the_same(
    manager: TaskManager, restorer: Restorer
) -> None:
    run(manager, T00, T01)
    restorer.reachable = False

    with pytest.raises(OSError, match="gone"):
        manager.shutdown(clean=True)

    assert states(manager) == {}


def test_clean_shutdown_does_not_mind_migrated_tasks(manager: TaskManager) -> None:
    run(manager, T00)
    manager.tasks[T00].start_epoch()

    manager.shutdown(clean=True)

    assert states(manager) == {}


def test_tasks_taken_over_by_a_second_client_are_restored_from_the_log(
    manager: TaskManager, restorer: Restorer, tmp_path: Path
) -> None:
    restorer.append(StoreId("s", 0), 5)
    run(manager, T00)
    manager.handle_lost_all()
    restorer.append(StoreId("s", 0), 5)
    elsewhere = replace(restorer, directory=StateDirectory(tmp_path / "state", "client-2", "app"), held={}, closed=[])
    second = TaskManager("client-2", elsewhere, lambda _: ("s",))

    run(second, T00)

    assert second.tasks[T00].positions == {"s": 10}
