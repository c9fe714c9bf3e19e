"""When tasks are placed again while an application runs, and how that is carried out."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...placing.assigned import Assigned
from ...progress.committer import Committer
from ...task_id import TaskId
from .group import Group


class Rebalancer:
    """Carries out one rebalance after the other. Used from the loop's thread.

    `placed` is called with each new assignment.
    """

    def __init__(self, group: Group, committer: Committer, placed: Callable[[Assigned], None]) -> None:
        self._group = group
        self._committer = committer
        self._placed = placed
        self._next: Assigned | None = None
        self._leaving: dict[str, set[TaskId]] = {}

    @property
    def in_progress(self) -> bool:
        """Whether tasks are on their way."""
        return self._next is not None

    def leaves(self, client: str, task: TaskId) -> bool:
        """Whether a task begins no more epochs on a client, because it goes elsewhere."""
        return task in self._leaving.get(client, ())

    def advance(self, open_tasks: Callable[[str], Collection[TaskId]]) -> None:
        """Go on as far as possible without waiting. `open_tasks`: the tasks of a client whose epochs are open."""
        if self._group.watch():
            before = self._group.assigned
            placed = self._group.place()
            if self._next is not None or placed.differs(before) or not self._group.carried_out(placed):
                self._next, self._leaving = placed, self._group.leaving(placed)
        if self._next is None:
            return
        if any(tasks & set(open_tasks(client)) for client, tasks in self._leaving.items()):
            return  # what they have taken is committed first
        assigned, leaving = self._next, self._leaving
        self._next, self._leaving = None, {}
        self._group.revoke(leaving)
        number = self._committer.assign(assigned.to_json())
        self._group.assign(assigned, number)
        self._placed(assigned)
