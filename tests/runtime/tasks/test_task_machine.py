"""Two clients and their tasks, driven at random against a model, over real stores and a real log.

Assignments, revocations, slices at any moment, commits that fail or whose answer is lost, corruption, deleted stores,
clients that crash: a task is here once, in one role, and active on one client. Committed positions never go back, and
each record that was taken is in exactly one committed epoch.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.runtime.log.commit.records import TaskCommit
from headwater.runtime.records.schema import CHANGELOG
from headwater.runtime.state.catch_up import catch_up
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.task_id import StoreId, TaskId
from headwater.runtime.tasks.errors import TaskCorruptedError, TaskMigratedError
from headwater.runtime.tasks.state import State
from headwater.tests.runtime.tasks.client_tasks import T00, T01, T02, TOTALS, ClientTasks, Commits, LaterSlices

TASKS = (T00, T01, T02)
CLIENTS = ("client-1", "client-2")
clients = st.sampled_from(CLIENTS)
tasks = st.sampled_from(TASKS)


class LogFailedError(Exception):
    """The log refuses a commit."""


class LossyCommits(Commits):
    """Commits whole epochs. `answer_lost`: the next commit is made, and nobody is told."""

    answer_lost = False

    def commit(self, tasks: Sequence[TaskCommit]) -> int:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        for task in tasks:
            self._applications.commit("t", task.subtopology, task.partition, task.positions, *task.segments)
        if self.answer_lost:
            self.answer_lost = False
            raise TimeoutError("no answer")
        return 1


class TaskMachine(RuleBasedStateMachine):
    """The rules are what a driver does, and what happens to it."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.slices: dict[str, LaterSlices] = {}
        self.clients: dict[str, ClientTasks] = {}
        self.files = 0
        self.positions = dict.fromkeys(TASKS, 0)
        self.active: dict[TaskId, str] = {}
        self.standby: dict[TaskId, str] = {}
        for name in CLIENTS:
            self._come(name)

    def teardown(self) -> None:
        if not hasattr(self, "root"):
            return
        try:
            self._all_run_in_the_end()
        finally:
            for each in self.clients.values():
                with suppress(Exception):
                    each.manager.shutdown(clean=False)
            shutil.rmtree(self.root)

    @rule(owners=st.lists(st.sampled_from([*CLIENTS, None]), min_size=3, max_size=3), copies=st.lists(st.booleans()))
    def rebalance(self, owners: list[str | None], copies: list[bool]) -> None:
        self.active = {task: owner for task, owner in zip(TASKS, owners, strict=True) if owner is not None}
        self.standby = {
            task: next(name for name in CLIENTS if name != self.active.get(task))
            for task, copied in zip(TASKS, copies, strict=False)
            if copied
        }
        for name, each in self.clients.items():
            leaving = [task.id for task in each.manager.active if self.active.get(task.id) != name]
            with suppress(LogFailedError):  # a driver would end
                each.manager.handle_revocation(leaving)
        for name in CLIENTS:
            self._assign(name)

    @rule(name=clients)
    def restore(self, name: str) -> None:
        try:
            self._client(name).manager.try_to_complete_restoration()
        except TaskCorruptedError as error:
            self._begin_again(name, error)

    @rule(name=clients)
    def end_slice(self, name: str) -> None:
        self.slices[name].run()

    @rule(task=tasks, records=st.integers(1, 5), ended=st.booleans())
    def process(self, task: TaskId, records: int, ended: bool) -> None:
        """An epoch as a worker does it: the store comes to its planned position, the changes become a segment."""
        if task not in self.active:
            return
        client = self._client(self.active[task])
        found = client.manager.active.get(task)
        if found is None or not found.processable:
            return
        planned = client.planner.store(TOTALS, task.partition, client.stores.position(_store(task)), {})
        try:
            catch_up(LmdbStore(client.directory.store_path(_store(task))), planned, client.log)
        except (TaskCorruptedError, TaskMigratedError) as error:
            self._begin_again(self.active[task], TaskCorruptedError(error.message, [task]))
            return
        self.files += 1
        found.start_epoch(self.files)
        if not ended:
            return
        position = self._position(client, task)
        keys = [b"%d" % number for number in range(position, position + records)]
        table = pa.table([keys, keys, [0] * records], schema=CHANGELOG)
        segments = client.log.write("p-t", "p-t-s-changelog", f"e{self.files}", table, task.partition, task.partition)
        taken = {"events": {0: position + records}}
        applied = {"s": planned.position}
        found.end_epoch(
            self.files,
            found.assignment,
            TaskCommit("counts", task.partition, taken, 0, segments=segments, records=records, applied=applied),
        )

    @rule(name=clients)
    def commit(self, name: str) -> None:
        client = self._client(name)
        try:
            client.manager.commit_all()
        except TaskCorruptedError as error:
            self._begin_again(name, error)
        except LogFailedError:
            self._crash(name)

    @rule(name=clients, failure=st.sampled_from(["failed", "timeout", "answer lost"]))
    def fail_next_commit(self, name: str, failure: str) -> None:
        commits = self.clients[name].commits
        assert isinstance(commits, LossyCommits)
        if failure == "answer lost":
            commits.answer_lost = True
        else:
            commits.failure = LogFailedError() if failure == "failed" else TimeoutError("no answer")

    @rule(name=clients, corrupted=st.sets(tasks, max_size=2))
    def corrupt(self, name: str, corrupted: set[TaskId]) -> None:
        if corrupted:
            self._begin_again(name, TaskCorruptedError("said to be", corrupted))

    @rule(name=clients, task=tasks)
    def delete_store(self, name: str, task: TaskId) -> None:
        shutil.rmtree(self.clients[name].directory.store_path(_store(task)), ignore_errors=True)

    @rule(name=clients)
    def lose(self, name: str) -> None:
        self.clients[name].manager.handle_lost_all()
        self._assign(name)

    @rule(name=clients)
    def crash(self, name: str) -> None:
        self._crash(name)

    @invariant()
    def each_task_is_in_one_registry(self) -> None:
        for each in getattr(self, "clients", {}).values():
            assert not {task.id for task in each.manager.active} & {task.id for task in each.manager.standby}
            for registry in (each.manager.active, each.manager.standby):
                by_state = [registry.created, registry.restoring, registry.running, registry.suspended]
                assert sum(map(len, by_state)) == len(registry)
        for task in TASKS:
            assert sum(task in each.manager.active for each in getattr(self, "clients", {}).values()) <= 1

    @invariant()
    def committed_positions_never_go_back_and_each_record_is_in_one_epoch(self) -> None:
        if not hasattr(self, "clients"):
            return
        client = self._client(CLIENTS[0])
        for task in TASKS:
            position = self._position(client, task)
            assert position >= self.positions[task]
            assert client.planner.end(_store(task)) == position
            self.positions[task] = position

    def _all_run_in_the_end(self) -> None:
        """Nothing is locked for ever, and the stores hold what was committed."""
        for name in CLIENTS:
            for _ in range(20):
                self.slices[name].run()
                self.restore(name)
            client = self._client(name)
            for task in (task for task, owner in self.active.items() if owner == name):
                found = client.manager.active.get(task)
                assert found is not None
                assert found.state is State.RUNNING, (name, found)
                if found.commit_needed or found.epoch is not None:
                    continue
                self.process(task, 1, ended=False)
            for _ in range(20):
                self.slices[name].run()
                self.restore(name)
            for task in (task for task, owner in self.active.items() if owner == name):
                store = LmdbStore(client.directory.store_path(_store(task)))
                planned = client.planner.store(TOTALS, task.partition, store.position, {})
                catch_up(store, planned, client.log)
                rows = {int(key) for key, _ in store.range(None, None)}
                assert rows == set(range(self._position(client, task)))

    def _client(self, name: str) -> ClientTasks:
        """With what both have committed."""
        client = self.clients[name]
        client.committed.own.refresh()
        return client

    def _position(self, client: ClientTasks, task: TaskId) -> int:
        return client.committed.own.tasks.last_commit(task.key("p-t")).positions.get("events", {}).get(0, 0)

    def _come(self, name: str) -> None:
        self.slices[name] = LaterSlices()
        client = self.clients[name] = ClientTasks(self.root, name, self.slices[name])
        client.commits = LossyCommits(client.applications)
        client.manager._commits = client.commits

    def _crash(self, name: str) -> None:
        """The process is gone with all that it remembered; its stores are there."""
        self._come(name)
        self._assign(name)

    def _assign(self, name: str) -> None:
        manager = self._client(name).manager
        active = [task for task, owner in self.active.items() if owner == name]
        standby = [task for task, owner in self.standby.items() if owner == name]
        manager.handle_rebalance_start()
        try:
            manager.handle_assignment(active, standby)
        except (TaskCorruptedError, TaskMigratedError):
            manager.handle_assignment(active, standby)
        finally:
            manager.handle_rebalance_complete()

    def _begin_again(self, name: str, error: TaskCorruptedError) -> None:
        try:
            self._client(name).manager.handle_corruption(error.tasks)
        except LogFailedError:
            self._crash(name)


def _store(task: TaskId) -> StoreId:
    return StoreId("s", task.partition)


TestTaskMachine = TaskMachine.TestCase
TestTaskMachine.settings = settings(
    max_examples=max(6, settings.default.max_examples // 10),
    stateful_step_count=30,
)
