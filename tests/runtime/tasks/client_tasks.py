"""A client's tasks over real stores and a real log, with ways for a test to let things go wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from headwater.runtime.ir.topology import Store
from headwater.runtime.log.commit.records import TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.planner import Planner
from headwater.runtime.records.schema import CHANGELOG
from headwater.runtime.restore.linked_stores import LinkedStores
from headwater.runtime.restore.links import LocalLink, claim_stores
from headwater.runtime.restore.requests import StateLocation
from headwater.runtime.restore.store_changelog_reader import StoreChangelogReader
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.restore_listener import SuspendReason
from headwater.runtime.task_id import StoreId, TaskId, TopicPartition
from headwater.runtime.tasks.state import State, TaskType
from headwater.runtime.tasks.task import Task
from headwater.runtime.tasks.task_manager import DeclaredTask, TaskManager
from headwater.tests.runtime.driver.commits import Applications, part, topic, topology

TOTALS = Store("s", 3, "k string", "v bigint")
COUNTS = part("counts", (topic("events", 3),), stores=(TOTALS,))
PASSES = part("passes", (topic("others", 3),), number=1)
DECLARED = topology("t", COUNTS, PASSES)


def task_id(text: str) -> TaskId:
    """`0_1`: of the subtopology with a store; `1_1`: of the one without."""
    return TaskId.parse(text, "passes" if text.startswith("1") else "counts")


T00, T01, T02, T10 = map(task_id, ("0_0", "0_1", "0_2", "1_0"))


def at_once(work: Callable[[], dict[StoreId, Exception]]) -> Future[dict[StoreId, Exception]]:
    """Runs a slice before it is asked for its result."""
    future: Future[dict[StoreId, Exception]] = Future()
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)
    return future


class LaterSlices:
    """Runs a slice when the test says so."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], dict[StoreId, Exception]], Future[dict[StoreId, Exception]]]] = []

    def __call__(self, work: Callable[[], dict[StoreId, Exception]]) -> Future[dict[StoreId, Exception]]:
        future: Future[dict[StoreId, Exception]] = Future()
        self._waiting.append((work, future))
        return future

    def run(self) -> None:
        for work, future in self._waiting:
            future.set_result(work())
        self._waiting.clear()


class Heard:
    """A restore listener that keeps what it hears, in words."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def started(self, role: TaskType, store: StoreId, position: int, end: int) -> None:
        self.words.append(f"{role.value} {store} started at {position} of {end}")

    def batch(self, role: TaskType, store: StoreId, position: int, end: int, records: int) -> None:
        self.words.append(f"{role.value} {store} at {position} of {end} by {records}")

    def ended(self, role: TaskType, store: StoreId, records: int) -> None:
        self.words.append(f"{role.value} {store} ended after {records}")

    def suspended(self, role: TaskType, store: StoreId, records: int, reason: SuspendReason) -> None:
        self.words.append(f"{role.value} {store} {reason.value} after {records}")


class FailingStores(LinkedStores):
    """The real stores; `closing`: what closing a task clean comes to. `closed`: what was asked for."""

    closing: dict[TaskId, Exception]
    closed: list[tuple[TaskId, bool]]
    gone: bool = False

    def close(self, tasks: Collection[Task], *, clean: bool) -> Mapping[TaskId, Exception]:
        if self.gone:
            raise OSError("gone")
        self.closed += [(task.id, clean) for task in tasks]
        failed = {task.id: self.closing[task.id] for task in tasks if clean and task.id in self.closing}
        return {**super().close([task for task in tasks if task.id not in failed], clean=clean), **failed}


class FailingReader(StoreChangelogReader):
    """The real reader; `opening`, `restoring`: what registering or restoring a task comes to."""

    opening: dict[TaskId, Exception]
    restoring: dict[TaskId, Exception]

    def register(self, task: Task) -> None:
        if task.id in self.opening:
            raise self.opening[task.id]
        super().register(task)

    def restore(self) -> Mapping[TaskId, Exception]:
        return {**super().restore(), **self.restoring}


class Commits:
    """Commits to the real log. `failure`: what the next commit comes to. `made`: task ids by commit."""

    def __init__(self, applications: Applications) -> None:
        self._applications = applications
        self.failure: Exception | None = None
        self.made: list[tuple[str, ...]] = []

    def commit(self, tasks: Sequence[TaskCommit]) -> int:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.made.append(tuple(f"{task.subtopology}_{task.partition}" for task in tasks))
        for task in tasks:
            self._applications.commit("t", task.subtopology, task.partition, task.positions)
        return len(self.made)


class ClientTasks:
    """One client and its TaskManager."""

    def __init__(
        self, root: Path, name: str = "client-1", submit: Callable[..., object] = at_once, backend: str = "lmdb"
    ) -> None:
        self.log = EmbeddedLog(root / "log")
        self.applications = Applications(self.log)
        own = self.log.commits("p-t")
        self.committed = Committed(self.log, DECLARED) if own.latest() else self.applications.start(DECLARED)
        self.planner = Planner(self.committed, 10)
        location = StateLocation(
            str(root / "state"),
            "p-t",
            folder=name,
            incarnation="1",
            log=("embedded", {"path": str(root / "log")}),
            stores=(replace(TOTALS, backend=backend),),
        )
        (root / "state" / name / "p-t").mkdir(parents=True, exist_ok=True)
        answer = claim_stores(LocalLink(), replace(location, folder=""))
        assert answer.failure is None
        location = replace(location, folder=answer.folder, process_id=answer.process_id)
        held = {each.store: each.position for each in answer.stores}
        self.directory = StateDirectory(root / "state", answer.folder, "p-t")
        self.stores = FailingStores(name, LocalLink(), location, self.planner, DECLARED.subtopologies, held)
        self.stores.closing, self.stores.closed = {}, []
        self.reader = FailingReader(self.stores, submit, Heard())  # type: ignore[arg-type]
        self.reader.opening, self.reader.restoring = {}, {}
        self.commits = Commits(self.applications)
        self.now_ms = 0
        self.manager = TaskManager(name, self.stores, self.reader, self.commits, declared, lambda: self.now_ms)

    def append(self, partition: int, count: int) -> None:
        """Commit `count` records to the store's changelog, in a segment of their own."""
        base = self.committed.own.lane_ends("p-t-s-changelog", partition).get(partition, 0)
        keys = [b"%d" % number for number in range(base, base + count)]
        table = pa.table([keys, keys, [0] * count], schema=CHANGELOG)
        name = f"{partition}-{base}"
        segments = self.log.write("p-t", "p-t-s-changelog", name, table, partition, partition)
        self.applications.commit("t", "counts", partition, {}, *segments)
        self.committed.own.refresh()

    def run(self, *active: TaskId, standby: Sequence[TaskId] = ()) -> None:
        """Assign tasks, and restore them."""
        self.manager.handle_assignment(active, standby)
        for _ in range(1000):
            if self.manager.try_to_complete_restoration():
                return
        raise AssertionError("never restored")

    def process(self, *tasks: TaskId) -> None:
        """Have tasks process an epoch, which is to be committed."""
        for each in tasks:
            task = self.manager.active.get(each)
            assert task is not None
            task.start_epoch(1)
            task.end_epoch(1, 0, TaskCommit(each.name, each.partition, {"events": {0: 1}}, 0, records=1))

    def states(self) -> dict[str, str]:
        """Task -> role and state."""
        return {str(each.id): f"{each.type.value} {each.state.value}" for each in self.manager.all}

    def state(self, task: TaskId) -> State:
        """Of an active task."""
        found = self.manager.active.get(task)
        assert found is not None
        return found.state


def declared(task: TaskId) -> DeclaredTask:
    source = DECLARED.subtopologies[task.subtopology].sources[0].name
    return DeclaredTask(("s",) if task.subtopology == 0 else (), frozenset({TopicPartition(source, task.partition)}))
