"""The tasks of one client: made, restored, suspended and closed as assignments come.

Owns which tasks there are and what is asked of each. Does not know where stores lie nor how they are restored: a
TaskRestorer does that. Tasks are visited in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from .errors import LockError, TaskMigratedError
from .failures import Failures
from .state import State
from .task import Task
from .task_id import TaskId


@dataclass(frozen=True)
class Progress:
    """How far restoring has come: positions of the stores, and whether all stand where the commits say."""

    positions: Mapping[str, int]
    done: bool


class TaskRestorer(Protocol):
    """Holds the stores of a client's tasks."""

    def open(self, task: TaskId, stores: tuple[str, ...]) -> Mapping[str, int]:
        """Get hold of the stores; their positions. Raises LockError when they are not free yet."""
        ...

    def restore(self, task: TaskId, stores: tuple[str, ...]) -> Progress:
        """Bring the stores forward by a slice. Raises TaskMigratedError, TaskCorruptedError."""
        ...

    def close(self, task: TaskId, *, clean: bool) -> None:
        """Let go of the stores; when clean, make them durable first."""
        ...

    def wipe(self, task: TaskId, stores: tuple[str, ...]) -> None:
        """Remove the stores, which nobody holds any more."""
        ...


class TaskManager:
    """The tasks of `client`. `stores_of`: names of the local stores of a task, none for a stateless one."""

    def __init__(
        self, client: str, restorer: TaskRestorer, stores_of: Callable[[TaskId], tuple[str, ...]] = lambda _: ()
    ) -> None:
        self.client = client
        self._restorer = restorer
        self._stores_of = stores_of
        self._tasks: dict[TaskId, Task] = {}

    @property
    def tasks(self) -> Mapping[TaskId, Task]:
        """All tasks that are not closed, by id."""
        return {task_id: self._tasks[task_id] for task_id in sorted(self._tasks)}

    def running(self) -> tuple[TaskId, ...]:
        """The tasks that take part in epochs."""
        return tuple(task.id for task in self.tasks.values() if task.state is State.RUNNING)

    def handle_assignment(self, active: Collection[TaskId]) -> None:
        """Own exactly the tasks `active`: the others are closed, suspended ones go on, new ones are made.

        Raises the worst error of closing (see Failures); new tasks are made only when there was none.
        """
        failures = Failures()
        for task in self.tasks.values():
            if task.id in active:
                task.resume()
            elif error := self._close(task, clean=True):
                failures.add(task.id, error)
        failures.raise_worst()
        for task_id in sorted(set(active) - self._tasks.keys()):
            self._tasks[task_id] = Task(task_id, self._stores_of(task_id))

    def handle_revocation(self, revoked: Collection[TaskId]) -> None:
        """Suspend those of `revoked` that are here; the next assignment closes or resumes them."""
        for task in self.tasks.values():
            if task.id in revoked:
                task.suspend()

    def try_to_complete_restoration(self) -> bool:
        """Get new tasks their stores, and restoring ones a slice further; whether all tasks that may run do.

        A task whose stores are locked is tried again next time. Raises the worst error of all tasks (see Failures);
        the others have moved on by then.
        """
        failures = Failures()
        for task in self.tasks.values():
            try:
                self._restore(task)
            except Exception as error:
                failures.add(task.id, error)
        failures.raise_worst()
        return all(task.state in (State.RUNNING, State.SUSPENDED) for task in self._tasks.values())

    def handle_corruption(self, corrupted: Collection[TaskId]) -> bool:
        """Begin the `corrupted` tasks anew, with nothing; whether any of them is here. The others are left alone."""
        found = [task for task in self.tasks.values() if task.id in corrupted]
        for task in found:
            self._close(task, clean=False)
            self._restorer.wipe(task.id, task.stores)
            task.revive()
            self._tasks[task.id] = task
        return bool(found)

    def handle_lost_all(self) -> None:
        """This client is no longer a member: another one may own its tasks already. Close all, commit nothing."""
        for task in self.tasks.values():
            self._close(task, clean=False)

    def shutdown(self, *, clean: bool) -> None:
        """Close all tasks. Raises the first error; a migrated task is none any more."""
        errors = [self._close(task, clean=clean) for task in self.tasks.values()]
        for error in errors:
            if error is not None and not isinstance(error, TaskMigratedError):
                raise error

    def offset_sums(self) -> dict[TaskId, int]:
        """Offset sums of the tasks that know theirs: what an assignor computes lags from."""
        sums = {task.id: task.offset_sum for task in self.tasks.values()}
        return {task_id: offset_sum for task_id, offset_sum in sums.items() if offset_sum is not None}

    def _restore(self, task: Task) -> None:
        if task.state is State.CREATED:
            with suppress(LockError):
                task.initialize(self._restorer.open(task.id, task.stores))
        if task.state is State.RESTORING:
            progress = self._restorer.restore(task.id, task.stores)
            task.positions.update(progress.positions)
            if progress.done:
                task.complete_restoration()

    def _close(self, task: Task, *, clean: bool) -> Exception | None:
        """Close and forget `task`; what went wrong, if it was to be clean. It is closed in any case."""
        task.suspend()
        failure: Exception | None = None
        if clean:
            try:
                task.close_clean()
                self._restorer.close(task.id, clean=True)
            except Exception as error:
                failure = error
        if failure is not None or not clean:
            task.close_dirty()
            with suppress(Exception):  # There is nothing left to save.
                self._restorer.close(task.id, clean=False)
        del self._tasks[task.id]
        return failure
