"""The tasks of a client."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...errors import HeadwaterError
from ..task_id import LATEST_OFFSET, MAX_OFFSET_SUM, TaskId, TopicPartition
from .assigned_tasks import AssignedTasks, ChangelogReader, Commits, Failures, RemoteStores, TaskDescription
from .errors import IllegalTaskStateError, LockError, TaskCorruptedError, TaskMigratedError
from .state import State
from .stream_task import StandbyTask, StreamTask
from .task import Task

# How tasks of a client end: clean, dirty, recycled for their other role, or to begin again.
#
# Whichever way it is: the reader leaves a task alone first, then the task moves, then its stores are let go.


class TaskCloser:
    """Closes tasks of `active` and `standby`, and takes them out there."""

    def __init__(
        self,
        active: AssignedTasks[StreamTask],
        standby: AssignedTasks[StandbyTask],
        stores: RemoteStores,
        reader: ChangelogReader,
    ) -> None:
        self._active = active
        self._standby = standby
        self._stores = stores
        self._reader = reader

    def checkpoint(self, due: Iterable[Task]) -> None:
        """Have the stores of tasks made durable, and their positions written down."""
        tasks = list(due)
        if tasks:
            self._stores.checkpoint(tasks)
        for task in tasks:
            task.checkpointed()

    def close(self, tasks: Sequence[Task], recycled: Collection[TaskId]) -> dict[TaskId, Exception]:
        """Close and forget tasks; of those that are `recycled` the stores stay open. What went wrong.

        A task that has something that is not committed is closed dirty, which is no error: what made that so was told.
        """
        failed: dict[TaskId, Exception] = {}
        self._stores.note(tasks)
        dirty: list[Task] = [task for task in tasks if isinstance(task, StreamTask) and task.commit_needed]
        uncommitted = {task.id for task in dirty}
        clean = [task for task in tasks if task.id not in uncommitted]
        self._reader.unregister([task.id for task in clean])
        halfway = [task for task in clean if task.state is State.RESTORING and task.id not in recycled]
        for task in clean:
            if task.state is not State.SUSPENDED:
                task.suspend()
        self.checkpoint(task for task in clean if task.id in recycled and task.post_commit(enforce_checkpoint=True))
        if halfway:  # Nobody waits for the end of a restore that is stopped: the next one goes on from there.
            with suppress(Exception):
                self._stores.close(halfway, clean=False)
        stopped = {task.id for task in halfway}
        released = [task for task in clean if task.id not in recycled and task.id not in stopped]
        if released:
            try:
                failed.update(self._stores.close(released, clean=True))
            except Exception as error:  # the client itself cannot be reached
                failed.update({task.id: error for task in released})
        for task in clean:
            if task.id in failed:
                dirty.append(task)
                continue
            if task.id in recycled:
                task.prepare_recycle()
            else:
                task.close_clean()
            self._remove(task)
        self.close_dirty(dirty)
        return {task_id: failed[task_id] for task_id in sorted(failed)}

    def close_dirty(self, tasks: Collection[Task]) -> None:
        """Close and forget tasks, whatever they have."""
        self._stores.note(tasks)
        self._reader.unregister([task.id for task in tasks])
        for task in tasks:
            task.suspend()
            task.close_dirty()
            self._remove(task)
        if tasks:
            with suppress(Exception):  # Nothing remains to be saved.
                self._stores.close(tasks, clean=False)

    def revive(self, corrupted: Iterable[Task]) -> None:
        """Have tasks begin again, with what of their stores is sound."""
        tasks = list(corrupted)
        if not tasks:
            return
        self._reader.unregister([task.id for task in tasks])
        for task in tasks:
            task.suspend()
            task.close_dirty()
            task.revive()
        with suppress(Exception):  # Their stores are looked at before anything else is done with them.
            self._stores.close(tasks, clean=False)
        self._reader.suspect([task.id for task in tasks])

    def _remove(self, task: Task) -> None:
        if isinstance(task, StreamTask):
            self._active.remove(task)
        elif isinstance(task, StandbyTask):
            self._standby.remove(task)


# How far a client's copy of a task is, as one number (KIP-441).

UNKNOWN_OFFSET = -4
"""Instead of an offset: nothing is known of the store, which counts as empty. Kafka Streams' `OFFSET_UNKNOWN`."""


class OffsetError(HeadwaterError):
    """An offset that cannot be one. `offset`: it."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"a store cannot stand at offset {offset}")
        self.offset = offset


def offset_sum(offsets: Iterable[int]) -> int | None:
    """The sum, at most MAX_OFFSET_SUM; LATEST_OFFSET if one is; None where there are none.

    Raises OffsetError for any other negative number.
    """
    given = list(offsets)
    known = [offset for offset in given if offset != UNKNOWN_OFFSET]
    if LATEST_OFFSET in known:
        return LATEST_OFFSET
    for offset in known:
        if offset < 0:
            raise OffsetError(offset)
    return min(sum(known), MAX_OFFSET_SUM) if given else None


# The tasks of one client: created, restored, committed, suspended, recycled and closed as assignments come.
#
# Source: `TaskManager` of Kafka Streams 4.0 with its state updater: each task runs as soon as it is restored. The
# driver has one for each client. It remembers everything about tasks; what has to be done with stores, which lie on the
# client, goes through `RemoteStores` and `ChangelogReader`, many tasks with one call.

REBALANCING = -1
"""What `commit` answers while tasks are being assigned: nothing was committed, and it is to be tried again."""


@dataclass(frozen=True)
class DeclaredTask:
    """What a task has by its subtopology. `stores`: names of local stores, `inputs`: what it reads."""

    stores: tuple[str, ...] = ()
    inputs: frozenset[TopicPartition] = frozenset()


class TaskManager:
    """The tasks of `client`. `declared`: what each task has. Called from one thread at a time."""

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
        self._closer = TaskCloser(self.active, self.standby, stores, reader)

    def describe(self) -> tuple[TaskDescription, ...]:
        """All tasks, the active ones first."""
        return self.active.describe() + self.standby.describe()

    def handle_rebalance_start(self) -> None:
        """Tasks are about to be assigned: nothing is committed until that is done."""
        self.rebalance_in_progress = True

    def handle_rebalance_complete(self) -> None:
        """Tasks have been assigned."""
        self.rebalance_in_progress = False

    def handle_assignment(self, active: Collection[TaskId], standby: Collection[TaskId] = (), number: int = 0) -> None:
        """Have exactly these tasks, in these roles. `number`: of the assignment.

        A task that stays in its role goes on, or is resumed. One that changes its role is recycled: it ends in the old
        role, its stores stay open, and it begins in the new one. All others are closed. Nothing is committed here: what
        was to be committed is what `handle_revocation` has committed; a task that still has something is closed dirty.

        Raises the worst error of closing (see Failures), and creates no task then.
        """
        active, standby = frozenset(active), frozenset(standby)  # looked up for each task
        failures = Failures()
        for own in self.active:
            if own.id in active and self.active.maybe_resume_suspended(own.id, self._declared(own.id).inputs):
                own.assignment = number
        closing = [task for task in self._all() if not _stays(task, active, standby)]
        recycled = {task.id for task in closing if task.id in active or task.id in standby}
        for task, error in self._closer.close(closing, recycled).items():
            failures.add(task, error)
        failures.raise_worst()
        for task_id in sorted(active):
            if task_id not in self.active:
                has = self._declared(task_id)
                self.active.add(StreamTask(task_id, has.stores, has.inputs, number))
        for task_id in sorted(standby):
            has = self._declared(task_id)
            if task_id not in self.standby and has.stores:
                self.standby.add(StandbyTask(task_id, has.stores, has.inputs))
        self._refuse_both()

    def handle_revocation(self, revoked: Collection[TaskId]) -> None:
        """Suspend those of `revoked` that are here; the next assignment closes or resumes them.

        What they have is committed first, together with what all other tasks have. When that fails for corrupted
        stores, those tasks begin again. Any other error is raised once all are suspended; the next assignment closes
        those that still have something dirty.
        """
        mine = [task for task in self.active if task.id in revoked]
        first: Exception | None = None
        if any(task.prepare_commit() for task in mine):
            participants = [task for task in self.active if task.commit_needed]
            try:
                self._commit(participants)
            except TaskCorruptedError as error:
                self._closer.revive(task for task in participants if task.id in error.tasks)
            except Exception as error:  # of the log, whatever it is
                first = error
        saved = [task for task in mine if not task.commit_needed]
        self._closer.checkpoint(task for task in saved if task.post_commit(enforce_checkpoint=True))
        self.active.suspend([task.id for task in mine])
        self._reader.unregister([task.id for task in mine])
        if first is not None:
            raise first

    def handle_corruption(self, corrupted: Collection[TaskId]) -> bool:
        """Begin the `corrupted` tasks again, and commit the others; whether an active task was among them.

        Only those of their stores are wiped that are found damaged, or ahead of the commits.
        """
        standbys = [task for task in self.standby if task.id in corrupted]
        self._closer.revive(standbys)
        ids = {task.id for task in self.active if task.id in corrupted}
        try:
            self.commit([task for task in self.active.running if task.id not in ids])
        except TaskCorruptedError as error:
            ids |= {task.id for task in self.active if task.id in error.tasks}
        self._closer.revive(task for task in self.active if task.id in ids)
        return bool(ids)

    def handle_lost_all(self) -> None:
        """This client is no member any more: active tasks may run elsewhere already. They are closed, and nothing of
        them is committed. Standby tasks go on: copies harm nobody."""
        lost = list(self.active)
        self._reader.unregister([task.id for task in lost])
        for task in lost:
            self.active.close_zombie(task)
        with suppress(Exception):  # Nothing remains to be saved, and the client may be gone.
            self._stores.close(lost, clean=False)

    def try_to_complete_restoration(self) -> bool:
        """Give new tasks their stores, and bring stores forward by a step; whether all tasks that may run do.

        Raises the worst error of all tasks (see Failures); the others have moved on by then.
        """
        failures = Failures()
        opened = {
            **self.active.initialize_new(self._reader.register, self._now_ms()),
            **self.standby.initialize_new(self._reader.register, self._now_ms()),
        }
        self._register_resumed()
        for task_id, error in {**opened, **self._reader.restore()}.items():
            failures.add(task_id, error)
        for task in self._all():
            if task.state is State.RESTORING or isinstance(task, StandbyTask):
                task.offsets.update(self._reader.offsets(task.id))
        self.active.update_restored(self._reader.completed())
        self._closer.checkpoint(task for task in self.standby.running if task.post_commit(enforce_checkpoint=False))
        failures.raise_worst()
        return self.active.all_running and self.standby.all_running

    def _register_resumed(self) -> None:
        """Have tasks restored that were suspended, and resumed since: others may have gone on with them meanwhile."""
        for task in self.active.restoring:
            if task.stores and not self._reader.has(task.id):
                with suppress(LockError):  # It is tried again next time.
                    self._reader.register(task)

    def commit_all(self) -> int:
        """Commit what all tasks have; see `commit`."""
        return self.commit(list(self.active))

    def commit(self, tasks: Sequence[StreamTask]) -> int:
        """Commit what the tasks have, as one commit; how many there were, or REBALANCING."""
        if self.rebalance_in_progress:
            return REBALANCING
        return self._commit([task for task in tasks if task.commit_needed])

    def offset_sums(self) -> Mapping[TaskId, int]:
        """Changelog records applied of each task that is here or has stores here, summed over its stores (KIP-441).

        LATEST_OFFSET for a task that runs. Without those of which nothing is known.
        """
        owned = {task.id: task for task in self._all() if task.state not in (State.CREATED, State.CLOSED)}
        found = {**self._reader.stored(), **{task: each.changelog_offsets() for task, each in owned.items()}}
        sums = {task: offset_sum(offsets.values()) for task, offsets in sorted(found.items())}
        return {task: total for task, total in sums.items() if total is not None}

    def shutdown(self, *, clean: bool) -> None:
        """Close all tasks; when clean, after committing what they have.

        Raises the first error. Tasks that have migrated are none of this client's any more, and no error here.
        """
        first: Exception | None = None
        dirty: set[TaskId] = set()
        if clean:
            uncommitted = [task for task in self.active if task.commit_needed]
            try:
                self._commit(uncommitted)
            except TaskCorruptedError as error:
                first, dirty = error, set(error.tasks)
            except Exception as error:  # of the log, whatever it is
                first, dirty = error, {task.id for task in uncommitted}
        saved = [task for task in self._all() if clean and task.id not in dirty]
        closed = self._closer.close(saved, ()).values()
        self._closer.close_dirty(self._all())
        first = first or next((each for each in closed if not isinstance(each, TaskMigratedError)), None)
        if first is not None:
            raise first

    def _commit(self, tasks: Sequence[StreamTask]) -> int:
        prepared = [(task, commit) for task in tasks if (commit := task.prepare_commit()) is not None]
        if not prepared:
            return 0
        try:
            self._commits.commit([commit for _, commit in prepared])
        except TimeoutError as error:  # nobody knows whether it was made
            raise TaskCorruptedError(str(error), tasks=[task.id for task, _ in prepared]) from error
        for task, _ in prepared:
            task.timeout.clear()
        self._closer.checkpoint(task for task, _ in prepared if task.post_commit(enforce_checkpoint=False))
        return len(prepared)

    def _all(self) -> list[Task]:
        return [*self.active, *self.standby]

    def _refuse_both(self) -> None:
        for task in self.active:
            if task.id in self.standby:
                raise IllegalTaskStateError(task.id, "be a standby", "active here")


def _stays(task: Task, active: Collection[TaskId], standby: Collection[TaskId]) -> bool:
    """Whether a task keeps its role."""
    return task.id in (active if isinstance(task, StreamTask) else standby)
