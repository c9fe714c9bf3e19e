"""One active task, as its owner keeps it: id, state, and the positions of its local stores."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import TaskMigratedError
from .state import Operation, State, after
from .task_id import MAX_OFFSET_SUM, TaskId

LATEST_OFFSET = -2
"""The offset sum of a running task: it is at the end of its changelogs, wherever that is."""


class Task:
    """Changes its state only by the table in `state.py`. A refused operation changes nothing.

    `stores`: names of its local stores. `positions`: up to where the changelog of each is applied, known from
    `initialize` to the close. `commit_needed`: an epoch has been started and neither committed nor abandoned.
    """

    def __init__(self, task_id: TaskId, stores: tuple[str, ...] = ()) -> None:
        self.id = task_id
        self.stores = stores
        self.state = State.CREATED
        self.positions: dict[str, int] = {}
        self.commit_needed = False

    def __repr__(self) -> str:
        return f"Task({self.id} {self.state.value})"

    @property
    def offset_sum(self) -> int | None:
        """Applied changelog positions over all stores (KIP-441); LATEST_OFFSET when running, None when unknown."""
        if not self.stores or self.state in (State.CREATED, State.CLOSED):
            return None
        if self.state is State.RUNNING:
            return LATEST_OFFSET
        return min(sum(self.positions.values()), MAX_OFFSET_SUM)

    def initialize(self, positions: Mapping[str, int]) -> None:
        """Take over its stores, which are at `positions`."""
        if self._move(Operation.INITIALIZE):
            self.positions = dict(positions)

    def complete_restoration(self) -> None:
        """Begin to run: its stores are at the committed position."""
        self._move(Operation.COMPLETE_RESTORATION)

    def suspend(self) -> None:
        """Stop taking part in epochs, and keep the stores."""
        self._move(Operation.SUSPEND)

    def resume(self) -> None:
        """Take part again after restoring: another owner may have run it meanwhile."""
        self._move(Operation.RESUME)

    def close_clean(self) -> None:
        """End with everything committed. Raises TaskMigratedError if an epoch is open, as it may never be committed."""
        state = after(Operation.CLOSE_CLEAN, self.state, self.id)
        if self.commit_needed:
            raise TaskMigratedError(f"task {self.id}, closed while an epoch is open,")
        self.state = state

    def close_dirty(self) -> None:
        """End, whatever is open. The stores need no undoing, because they have committed records only."""
        if self._move(Operation.CLOSE_DIRTY):
            self.commit_needed = False

    def revive(self) -> None:
        """Start again from nothing."""
        if self._move(Operation.REVIVE):
            self.positions = {}

    def start_epoch(self) -> None:
        """Record that an epoch takes records for the task."""
        self.commit_needed = True

    def end_epoch(self, applied: Mapping[str, int] | None = None) -> None:
        """Record that the epoch was committed or abandoned. `applied`: positions at which its stores were seen."""
        self.commit_needed = False
        self.positions.update(applied or {})

    def _move(self, operation: Operation) -> bool:
        """Do an operation. Returns whether the state changed."""
        old, self.state = self.state, after(operation, self.state, self.id)
        return self.state is not old
