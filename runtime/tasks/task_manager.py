"""The tasks of one client, which are created, restored, suspended and closed as assignments come.

It knows which tasks there are and what is asked of each. It does not know where stores lie or how they are restored; a
TaskRestorer does. Tasks are visited in the order of their ids.
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
    """How far restoring has come: the positions of the stores, and whether all are at the committed position."""

    positions: Mapping[str, int]
    done: bool


class TaskRestorer(Protocol):
    """Holds the stores of a client's tasks. They may lie on another machine, so one call handles many tasks.

    The error of a task is its entry in the answer and does not affect the others.
    """

    def open(self, tasks: Collection[TaskId]) -> Mapping[TaskId, Mapping[str, int] | Exception]:
        """Get the tasks' stores. Returns their positions, or LockError for stores that are not free yet."""
        ...

    def restore(self, tasks: Collection[TaskId]) -> Mapping[TaskId, Progress | Exception]:
        """Bring stores forward by a limited amount of work.

        TaskMigratedError, TaskCorruptedError for those that cannot be.
        """
        ...

    def close(self, tasks: Collection[TaskId], *, clean: bool) -> Mapping[TaskId, Exception]:
        """Release the tasks' stores; if `clean`, make them durable first. Returns the errors."""
        ...

    def wipe(self, tasks: Collection[TaskId]) -> None:
        """Remove the tasks' stores, which nobody holds any more."""
        ...


class TaskManager:
    """The tasks of `client`. `stores_of`: names of the local stores of a task, none for a stateless one.

    It is used by one thread at a time.
    """

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
        """Own exactly the tasks `active`. Other tasks are closed, suspended ones are resumed, and new ones are created.

        Raises the worst error of closing (see Failures). New tasks are created only if there was none.
        """
        failures = Failures()
        for task in self.tasks.values():
            if task.id in active:
                task.resume()
        revoked = [task for task in self.tasks.values() if task.id not in active]
        for task_id, error in self._close(revoked, clean=True).items():
            failures.add(task_id, error)
        failures.raise_worst()
        for task_id in sorted(set(active) - self._tasks.keys()):
            self._tasks[task_id] = Task(task_id, self._stores_of(task_id))

    def handle_revocation(self, revoked: Collection[TaskId]) -> None:
        """Suspend those of `revoked` that are here. The next assignment closes or resumes them."""
        for task in self.tasks.values():
            if task.id in revoked:
                task.suspend()

    def try_to_complete_restoration(self) -> bool:
        """Get the stores of new tasks, and restore one slice further. Returns whether all tasks that may run do.

        A task whose stores are locked is tried again next time. Raises the worst error of all tasks (see Failures),
        after the others have progressed.
        """
        failures = Failures()
        for task_id, positions in self._restorer.open(self._in(State.CREATED)).items():
            match positions:
                case LockError():
                    pass
                case Exception() as error:
                    failures.add(task_id, error)
                case _:
                    self._tasks[task_id].initialize(positions)
        for task_id, progress in self._restorer.restore(self._in(State.RESTORING)).items():
            task = self._tasks[task_id]
            match progress:
                case Progress():
                    task.positions.update(progress.positions)
                    if progress.done:
                        task.complete_restoration()
                case error:
                    failures.add(task_id, error)
        failures.raise_worst()
        return all(task.state in (State.RUNNING, State.SUSPENDED) for task in self._tasks.values())

    def handle_corruption(self, corrupted: Collection[TaskId]) -> bool:
        """Wipe the `corrupted` tasks and start them again from nothing. Returns whether any of them is here.

        Other tasks are not touched.
        """
        found = [task for task in self.tasks.values() if task.id in corrupted]
        self._close(found, clean=False)
        self._restorer.wipe([task.id for task in found])
        for task in found:
            task.revive()
            self._tasks[task.id] = task
        return bool(found)

    def handle_lost_all(self) -> None:
        """Close all tasks and commit nothing: this client is no longer a member, and others may own its tasks."""
        self._close(self.tasks.values(), clean=False)

    def shutdown(self, *, clean: bool) -> None:
        """Close all tasks. Raises the first error. A migrated task counts as closed."""
        for error in self._close(self.tasks.values(), clean=clean).values():
            if not isinstance(error, TaskMigratedError):
                raise error

    def offset_sums(self) -> dict[TaskId, int]:
        """The offset sums of the tasks that know theirs, from which an assignor's lags are computed."""
        sums = {task.id: task.offset_sum for task in self.tasks.values()}
        return {task_id: offset_sum for task_id, offset_sum in sums.items() if offset_sum is not None}

    def _in(self, state: State) -> list[TaskId]:
        return [task.id for task in self.tasks.values() if task.state is state]

    def _close(self, tasks: Collection[Task], *, clean: bool) -> dict[TaskId, Exception]:
        """Close and forget `tasks`. Returns the errors of a clean close. The tasks are closed in any case."""
        failed: dict[TaskId, Exception] = {}
        for task in tasks:
            task.suspend()
            if clean:
                try:
                    task.close_clean()
                except Exception as error:
                    failed[task.id] = error
        dirty = [task.id for task in tasks if not clean or task.id in failed]
        if clean and (closed := [task.id for task in tasks if task.id not in failed]):
            try:
                failed.update(self._restorer.close(closed, clean=True))
            except Exception as error:  # the client itself cannot be reached
                failed.update(dict.fromkeys(closed, error))
            dirty = [task.id for task in tasks if task.id in failed]
        for task in tasks:
            if task.id in dirty:
                task.close_dirty()
        if dirty:
            with suppress(Exception):  # There is nothing left to save.
                self._restorer.close(dirty, clean=False)
        for task in tasks:
            del self._tasks[task.id]
        return {task_id: failed[task_id] for task_id in sorted(failed)}
