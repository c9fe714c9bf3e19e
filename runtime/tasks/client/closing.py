"""How tasks of a client end: clean, dirty, recycled for their other role, or to begin again.

Whichever way it is: the reader leaves a task alone first, then the task moves, then its stores are let go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from ...task_id import TaskId
from ..standby_task import StandbyTask
from ..state import State
from ..stream_task import StreamTask
from ..task import Task
from .assigned_tasks import AssignedTasks
from .interfaces import ChangelogReader, RemoteStores


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
