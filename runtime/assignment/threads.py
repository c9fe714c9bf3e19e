"""Which thread of a client runs which of its tasks."""

from __future__ import annotations

from collections.abc import Collection

from ..tasks.task_id import TaskId


def deal_to_threads(tasks: Collection[TaskId], threads: int) -> tuple[tuple[TaskId, ...], ...]:
    """The tasks of each thread, in the order in which they run: dealt out by id, so numbers differ by at most one.

    The same tasks are always dealt alike, and partitions of one subtopology go to different threads.
    """
    in_order = sorted(tasks)
    return tuple(tuple(in_order[thread::threads]) for thread in range(threads))
