"""A unit of work of the epoch loop: the tasks of one subtopology on one client, and when they are due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..task_id import TaskId
from ..tasks.outcome import TaskOutcome
from ..tasks.plan import EpochPlan, TaskPlan
from ..tasks.stream_task import StreamTask
from ..topology import Subtopology
from .cluster import EpochJob
from .group.member import GroupMember

SMALLER_EPOCHS = 4
"""Epochs of a task that had to have fewer records, before twice as many are tried."""


@dataclass
class Unit:
    """Mutable: owned by the loop's thread. Which tasks it has is the member's to say, and changes.

    `blocked_at`: version of the committed state at which an epoch stayed where it was though records are unread: there
    is no point in another before it changes. `held_globals`: global table -> partition -> lane -> position that the
    client's copy is known to have reached: of the client, shared by its units. `smaller`: partition -> how many records
    its task takes in an epoch, where the rows of more were too large, and for how many epochs that holds.
    """

    part: Subtopology
    member: GroupMember
    job: EpochJob
    started: float = float("-inf")
    full: bool = False
    blocked_at: tuple[int, ...] | None = None
    lost: bool = False
    held_globals: dict[str, dict[int, dict[int, int]]] = field(default_factory=dict)
    smaller: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def tasks(self) -> list[TaskId]:
        """All its tasks, whatever state they are in."""
        return [task.id for task in self.member.tasks.active if task.id.subtopology == self.part.number]

    def due(self, now: float, interval: float, version: tuple[int, ...], *, eager: bool, timely: bool = False) -> bool:
        """Whether to start an epoch: there may be something to take, and the commit interval has passed.

        A unit whose last epoch took all it may goes on at once; so does an `eager` one, for which nobody else works.
        `timely`: whether one of its tasks has something to do, as time passes, though it may have nothing to take.
        """
        if self.blocked_at == version and not timely:
            return False
        return self.full or eager or now >= self.started + interval

    def bounded(self, task: TaskPlan) -> TaskPlan:
        """The plan of one of its tasks, with as many records as its last epochs could have."""
        most, _ = self.smaller.get(task.key.partition, (task.max_records, 0))
        return replace(task, max_records=min(task.max_records, most))

    def took(self, plan: EpochPlan, outcomes: Sequence[TaskOutcome], version: tuple[int, ...]) -> None:
        """Note what an epoch's tasks have taken; `version` is the committed state it was planned from."""
        commits = [outcome.commit for outcome in outcomes if outcome.commit is not None]
        troubled = len(commits) < len(outcomes)
        for commit in commits:
            self.held_globals.update({table: plan.pinned(table) for table in commit.globals_})
        self.full = any(outcome.full for outcome in outcomes)
        for outcome in outcomes:
            self._bound(outcome)
        self.blocked_at = None if troubled or plan.advancing(commits) else version
        for trouble in (outcome.trouble for outcome in outcomes if outcome.trouble is not None):
            if trouble.kind in ("corrupted", "missing"):
                self._distrust(trouble.store)

    def _bound(self, outcome: TaskOutcome) -> None:
        """Have a task go on with fewer records for a while, and then with more again."""
        most, left = self.smaller.pop(outcome.partition, (0, 0))
        if outcome.most:
            self.smaller[outcome.partition] = outcome.most, SMALLER_EPOCHS
        elif outcome.full and most:
            self.smaller[outcome.partition] = (most, left - 1) if left > 1 else (most * 2, SMALLER_EPOCHS)

    def _distrust(self, store: str) -> None:
        """A store is damaged, by its name if that is known. Of a global table: it is loaded again before tasks run."""
        names = {table.name for table in self.part.global_tables if table.store.name == store} if store else set()
        if names or store not in {each.name for each in self.part.stores}:
            for name in names or list(self.held_globals):
                self.held_globals.pop(name, None)


@dataclass(frozen=True)
class OpenEpoch:
    """An epoch that a job works on. `version`: of the committed state that it was planned from.

    `started`: when, in seconds; `planning`: how many of them that took.
    """

    unit: Unit
    plan: EpochPlan
    tasks: tuple[StreamTask, ...]
    started: float
    planning: float
    version: tuple[int, ...]
