"""The tasks of a client."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...errors import HeadwaterError
from ..task_id import LATEST_OFFSET, MAX_OFFSET_SUM, UNKNOWN_OFFSET, TaskId, TopicPartition
from .assigned_tasks import AssignedTasks, ChangelogReader, Commits, Failures, RemoteStores
from .errors import IllegalTaskStateError, LockError, TaskCorruptedError, TaskMigratedError
from .state import State
from .task import StandbyTask, StreamTask, Task

# The offset sum of a task on a client (KIP-441).


class OffsetError(HeadwaterError):
    """An invalid offset of a store: `offset`."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"{offset} is not a valid offset of a store")
        self.offset = offset


def offset_sum(offsets: Iterable[int]) -> int | None:
    """The sum of a task's offsets, at most MAX_OFFSET_SUM. LATEST_OFFSET if one of them is; None without offsets.

    An unknown one counts as empty. Raises OffsetError for any other negative number.
    """
    all_offsets = list(offsets)
    known = [offset for offset in all_offsets if offset != UNKNOWN_OFFSET]
    if LATEST_OFFSET in known:
        return LATEST_OFFSET
    for offset in known:
        if offset < 0:
            raise OffsetError(offset)
    return min(sum(known), MAX_OFFSET_SUM) if all_offsets else None


# The tasks of one client: created, restored, committed, suspended, recycled and closed as assignments change.
#
# Source: `TaskManager` of Kafka Streams 4.0 with its state updater: a task runs as soon as it is restored. The driver
# has one manager per client, with all metadata of its tasks. The stores are on the client. Work on them goes through
# `RemoteStores` and `ChangelogReader`, with one call for many tasks.

REBALANCING = -1
"""The result of `commit` during a rebalance: nothing was committed; call it again later."""


@dataclass(frozen=True)
class DeclaredTask:
    """A task as its subtopology declares it. `stores`: names of local stores. `inputs`: the partitions it reads."""

    stores: tuple[str, ...] = ()
    inputs: frozenset[TopicPartition] = frozenset()


class TaskManager:
    """The tasks of `client`. `declared`: stores and inputs of a task. `now_ms`: a monotonic clock. Not thread-safe."""

    def __init__(
        self,
        client: str,
        stores: RemoteStores,
        reader: ChangelogReader,
        commits: Commits,
        declared: Callable[[TaskId], DeclaredTask] = lambda _: DeclaredTask(),
        now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self.client = client
        self.active: AssignedTasks[StreamTask] = AssignedTasks()
        self.standby: AssignedTasks[StandbyTask] = AssignedTasks()
        self.rebalance_in_progress = False
        self._stores = stores
        self._reader = reader
        self._commits = commits
        self._declared = declared
        self._now_ms = now_ms

    @property
    def all(self) -> list[Task]:
        """All tasks, the active ones first."""
        return [*self.active, *self.standby]

    def handle_rebalance_start(self) -> None:
        """A rebalance starts: nothing is committed until it is complete."""
        self.rebalance_in_progress = True

    def handle_rebalance_complete(self) -> None:
        """The rebalance is complete."""
        self.rebalance_in_progress = False

    def handle_assignment(self, active: Collection[TaskId], standby: Collection[TaskId] = (), number: int = 0) -> None:
        """Create, resume, recycle and close tasks so that the client has exactly these. `number`: of the assignment.

        A task that keeps its role continues or is resumed. A task with a new role is recycled: it ends in the old role,
        its stores stay open, and it is created in the new role. All others are closed. Nothing is committed here,
        because `handle_revocation` did that before; a task with uncommitted results is closed dirty.

        Raises the worst error of closing (see Failures), and creates no task then.
        """
        active, standby = frozenset(active), frozenset(standby)  # looked up once per task
        failures = Failures()
        for task in self.active:
            if task.id in active and self.active.maybe_resume_suspended(task.id, self._declared(task.id).inputs):
                task.assignment = number
        closing = [task for task in self.all if not _stays(task, active, standby)]
        recycled = {task.id for task in closing if task.id in active or task.id in standby}
        for task_id, error in self._close(closing, recycled).items():
            failures.add(task_id, error)
        failures.raise_worst()
        for task_id in sorted(active):
            if task_id not in self.active:
                declared = self._declared(task_id)
                self.active.add(StreamTask(task_id, declared.stores, declared.inputs, number))
        for task_id in sorted(standby):
            declared = self._declared(task_id)
            if task_id not in self.standby and declared.stores:
                self.standby.add(StandbyTask(task_id, declared.stores, declared.inputs))
        self._reject_two_roles()

    def handle_revocation(self, revoked: Collection[TaskId]) -> None:
        """Suspend the active tasks among `revoked`. The next assignment closes or resumes them.

        Their results are committed first, together with those of all other tasks. If stores are corrupted, their tasks
        are revived. Any other error is raised after all are suspended; the next assignment closes tasks with
        uncommitted results dirty.
        """
        suspending = [task for task in self.active if task.id in revoked]
        first: Exception | None = None
        if any(task.prepare_commit() for task in suspending):
            participants = [task for task in self.active if task.commit_needed]
            try:
                self._commit(participants)
            except TaskCorruptedError as error:
                self._revive(task for task in participants if task.id in error.tasks)
            except Exception as error:  # the log may raise anything
                first = error
        self.active.suspend([task.id for task in suspending])
        self._reader.unregister([task.id for task in suspending])
        if first is not None:
            raise first

    def handle_corruption(self, corrupted: Collection[TaskId]) -> bool:
        """Revive the `corrupted` tasks and commit the others. Returns whether an active task was revived.

        Of their stores only those are wiped that are damaged or ahead of the commits.
        """
        standbys = [task for task in self.standby if task.id in corrupted]
        self._revive(standbys)
        ids = {task.id for task in self.active if task.id in corrupted}
        try:
            self.commit([task for task in self.active.running if task.id not in ids])
        except TaskCorruptedError as error:
            ids |= {task.id for task in self.active if task.id in error.tasks}
        self._revive(task for task in self.active if task.id in ids)
        return bool(ids)

    def handle_lost_all(self) -> None:
        """The client has left the group, and its active tasks may run elsewhere. They are closed without a commit.
        Standby tasks continue: a copy does no harm."""
        lost = list(self.active)
        self._reader.unregister([task.id for task in lost])
        for task in lost:
            self.active.close_zombie(task)
        with suppress(Exception):  # There is nothing to save, and the client may be gone.
            self._stores.close(lost, clean=False)

    def try_to_complete_restoration(self) -> bool:
        """Open the stores of new tasks and restore for a bounded time. Returns whether no task waits for its stores.

        Raises the worst error of all tasks (see Failures), after all others were handled.
        """
        failures = Failures()
        opened = {
            **self.active.initialize_new(self._reader.register, self._now_ms()),
            **self.standby.initialize_new(self._reader.register, self._now_ms()),
        }
        self._register_resumed()
        for task_id, error in {**opened, **self._reader.restore()}.items():
            failures.add(task_id, error)
        self.active.update_restored(self._reader.completed())
        failures.raise_worst()
        return self.active.all_running and self.standby.all_running

    def _register_resumed(self) -> None:
        """Register resumed tasks for a restore: another owner may have advanced their state meanwhile."""
        for task in self.active.restoring:
            if task.stores and not self._reader.has(task.id):
                with suppress(LockError):  # the next call tries again
                    self._reader.register(task)

    def commit_all(self) -> int:
        """Commit the results of all tasks; see `commit`."""
        return self.commit(list(self.active))

    def commit(self, tasks: Sequence[StreamTask]) -> int:
        """Commit the results of tasks in one commit. Returns the number of tasks committed, or REBALANCING."""
        if self.rebalance_in_progress:
            return REBALANCING
        return self._commit([task for task in tasks if task.commit_needed])

    def offset_sums(self) -> Mapping[TaskId, int]:
        """The offset sums of all tasks of the client, and of all others with stores there (KIP-441).

        LATEST_OFFSET for a running task. Tasks without known offsets are missing.
        """
        offsets = {task_id: [*by_store.values()] for task_id, by_store in self._reader.stored().items()}
        for task in self.all:
            if task.state is State.RUNNING and isinstance(task, StreamTask):
                offsets[task.id] = [LATEST_OFFSET] * len(task.stores)
            elif task.state not in (State.CREATED, State.CLOSED):
                offsets[task.id] = [*self._reader.offsets(task.id).values()]
        sums = {task_id: offset_sum(each) for task_id, each in sorted(offsets.items())}
        return {task_id: total for task_id, total in sums.items() if total is not None}

    def shutdown(self, *, clean: bool) -> None:
        """Close all tasks. `clean`: commit their results first.

        Raises the first error. Migrated tasks belong to another client, so a TaskMigratedError is ignored.
        """
        first: Exception | None = None
        dirty: set[TaskId] = set()
        if clean:
            uncommitted = [task for task in self.active if task.commit_needed]
            try:
                self._commit(uncommitted)
            except TaskCorruptedError as error:
                first, dirty = error, set(error.tasks)
            except Exception as error:  # the log may raise anything
                first, dirty = error, {task.id for task in uncommitted}
        closing = [task for task in self.all if clean and task.id not in dirty]
        errors = self._close(closing, ()).values()
        self._close_dirty(self.all)
        first = first or next((error for error in errors if not isinstance(error, TaskMigratedError)), None)
        if first is not None:
            raise first

    def _commit(self, tasks: Sequence[StreamTask]) -> int:
        prepared = [(task, commit) for task in tasks if (commit := task.prepare_commit()) is not None]
        if not prepared:
            return 0
        try:
            self._commits.commit([commit for _, commit in prepared])
        except TimeoutError as error:  # the commit may have been made or not
            raise TaskCorruptedError(str(error), tasks=[task.id for task, _ in prepared]) from error
        for task, commit in prepared:
            task.timeout.clear()
            task.post_commit()
            self._stores.advance(task.id, commit.applied)
        return len(prepared)

    # How tasks end: closed clean or dirty, recycled for their other role, or revived. The order is always the same:
    # unregister the task from the changelog reader, change its state, close its stores.

    def _close(self, tasks: Sequence[Task], recycled: Collection[TaskId]) -> dict[TaskId, Exception]:
        """Close and remove tasks. The stores of `recycled` ones stay open. Returns errors by task.

        A task with uncommitted results is closed dirty. This is no error here: its cause was raised before.
        """
        failed: dict[TaskId, Exception] = {}
        dirty: list[Task] = [task for task in tasks if isinstance(task, StreamTask) and task.commit_needed]
        uncommitted = {task.id for task in dirty}
        clean = [task for task in tasks if task.id not in uncommitted]
        self._reader.unregister([task.id for task in clean])
        restoring = [task for task in clean if task.state is State.RESTORING and task.id not in recycled]
        for task in clean:
            if task.state is not State.SUSPENDED:
                task.suspend()
        if restoring:  # A stopped restore need not be flushed: the next one resumes from what is on the disk.
            with suppress(Exception):
                self._stores.close(restoring, clean=False)
        stopped = {task.id for task in restoring}
        closing = [task for task in clean if task.id not in recycled and task.id not in stopped]
        if closing:
            try:
                failed.update(self._stores.close(closing, clean=True))
            except Exception as error:  # the client cannot be reached
                failed.update({task.id: error for task in closing})
        for task in clean:
            if task.id in failed:
                dirty.append(task)
                continue
            if task.id in recycled:
                task.prepare_recycle()
            else:
                task.close_clean()
            self._remove(task)
        self._close_dirty(dirty)
        return {task_id: failed[task_id] for task_id in sorted(failed)}

    def _close_dirty(self, tasks: Collection[Task]) -> None:
        """Close and remove tasks, and drop what is not committed."""
        self._reader.unregister([task.id for task in tasks])
        for task in tasks:
            task.suspend()
            task.close_dirty()
            self._remove(task)
        if tasks:
            with suppress(Exception):  # There is nothing to save.
                self._stores.close(tasks, clean=False)

    def _revive(self, corrupted: Iterable[Task]) -> None:
        """Restart corrupted tasks from CREATED. Their sound stores are kept."""
        tasks = list(corrupted)
        if not tasks:
            return
        self._reader.unregister([task.id for task in tasks])
        for task in tasks:
            task.suspend()
            task.close_dirty()
            task.revive()
        with suppress(Exception):  # The stores are verified as soon as the tasks are registered again.
            self._stores.close(tasks, clean=False)
        self._reader.verify_on_register([task.id for task in tasks])

    def _remove(self, task: Task) -> None:
        if isinstance(task, StreamTask):
            self.active.remove(task)
        elif isinstance(task, StandbyTask):
            self.standby.remove(task)

    def _reject_two_roles(self) -> None:
        for task in self.active:
            if task.id in self.standby:
                raise IllegalTaskStateError(task.id, "be a standby", "active here")


def _stays(task: Task, active: Collection[TaskId], standby: Collection[TaskId]) -> bool:
    """Whether a task keeps its role in the new assignment."""
    return task.id in (active if isinstance(task, StreamTask) else standby)
