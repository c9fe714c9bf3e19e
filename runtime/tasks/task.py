"""One active task, as its owner keeps it: id, state, and how far its local stores are."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import TaskMigratedError
from .state import Operation, State, after
from .task_id import MAX_OFFSET_SUM, TaskId

LATEST_OFFSET = -2
"""The offset sum of a running task: at the end of its changelogs, whatever that is by now."""


class Task:
    """Changes state by the table in `state.py` only; an operation that is refused changes nothing.

    `stores`: names of its local stores. `positions`: changelog records each has applied, known from `initialize` to
    closing. `commit_needed`: an epoch has been started and neither committed nor given up.
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
        """Changelog records applied, over all stores (KIP-441); LATEST_OFFSET when running, None when unknown."""
        if not self.stores or self.state in (State.CREATED, State.CLOSED):
            return None
        if self.state is State.RUNNING:
            return LATEST_OFFSET
        return min(sum(self.positions.values()), MAX_OFFSET_SUM)

    def initialize(self, positions: Mapping[str, int]) -> None:
        """Has got its stores, which stand at `positions`."""
        if self._move(Operation.INITIALIZE):
            self.positions = dict(positions)

    def complete_restoration(self) -> None:
        """Its stores stand where the commits say."""
        self._move(Operation.COMPLETE_RESTORATION)

    def suspend(self) -> None:
        """Stop taking part in epochs, and keep the stores."""
        self._move(Operation.SUSPEND)

    def resume(self) -> None:
        """Take part again, once restored: another owner may have gone on meanwhile."""
        self._move(Operation.RESUME)

    def close_clean(self) -> None:
        """End with everything committed. Raises TaskMigratedError when an epoch is open: it may never be committed."""
        state = after(Operation.CLOSE_CLEAN, self.state, self.id)
        if self.commit_needed:
            raise TaskMigratedError(f"task {self.id}, closed while an epoch is open,")
        self.state = state

    def close_dirty(self) -> None:
        """End, whatever is open. The stores need no undoing: they hold committed records only."""
        if self._move(Operation.CLOSE_DIRTY):
            self.commit_needed = False

    def revive(self) -> None:
        """Begin anew, knowing nothing."""
        if self._move(Operation.REVIVE):
            self.positions = {}

    def start_epoch(self) -> None:
        """An epoch takes records for the task."""
        self.commit_needed = True

    def end_epoch(self, applied: Mapping[str, int] | None = None) -> None:
        """The epoch was committed, or given up. `applied`: positions that stores were seen at."""
        self.commit_needed = False
        self.positions.update(applied or {})

    def _move(self, operation: Operation) -> bool:
        """Whether the operation changed the state."""
        old, self.state = self.state, after(operation, self.state, self.id)
        return self.state is not old
