"""A unit of work of the epoch loop: the tasks of one subtopology on one client, and when they are due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..log.records import TaskCommit
from ..placing.client import Client
from ..tasks.plan import EpochPlan
from ..topology import Subtopology
from .cluster import EpochJob


@dataclass
class Unit:
    """The tasks of one subtopology on one client. It is mutable; only the loop's thread uses it.

    `threads`: the partitions that each thread of the client runs. `applied`: partition -> store -> changelog position
    that the client's copy has reached. `blocked_at`: the version of the committed state at which an epoch stayed where
    it was although records were unread. Another epoch makes no sense before that version changes. `held_globals`:
    global table -> partition -> lane -> position that the client has surely reached. `recoveries`: how often
    its stores were restored after damage since the last epoch that succeeded.
    """

    part: Subtopology
    client: Client
    threads: tuple[tuple[int, ...], ...]
    job: EpochJob
    applied: dict[int, dict[str, int]] = field(default_factory=dict)
    started: float = float("-inf")
    full: bool = False
    blocked_at: tuple[int, ...] | None = None
    failed: set[int] = field(default_factory=set)
    lost: bool = False
    held_globals: dict[str, dict[int, dict[int, int]]] = field(default_factory=dict)
    recoveries: int = 0

    @property
    def name(self) -> str:
        """Subtopology and client."""
        return f"{self.part.name} on {self.client.name}"

    @property
    def partitions(self) -> list[int]:
        """The partitions of those of its tasks that have not failed."""
        return sorted(partition for thread in self.threads for partition in thread if partition not in self.failed)

    def due(self, now: float, interval: float, version: tuple[int, ...], eager: bool) -> bool:
        """Whether to start an epoch: there may be something to take, and the commit interval has passed.

        A unit whose last epoch took as many records as allowed continues at once. So does an `eager` one, if nobody
        else works.
        """
        if self.blocked_at == version or not self.partitions:
            return False
        return self.full or eager or now >= self.started + interval

    def took(self, plan: EpochPlan, commits: Sequence[TaskCommit], version: tuple[int, ...]) -> None:
        """Record what an epoch's tasks have taken. `version`: the committed state from which it was planned."""
        if commits:
            self.recoveries = 0
        for commit in commits:
            self.applied.setdefault(commit.partition, {}).update(commit.applied)
            self.held_globals.update({table: plan.pinned(table) for table in commit.globals_})
        full = {task.partition: task.max_records for thread in plan.threads for task in thread}
        self.full = any(commit.records >= full[commit.partition] for commit in commits)
        self.blocked_at = None if plan.advancing(commits) else version

    def applied_of(self, partition: int) -> Mapping[str, int]:
        """Store -> applied changelog position, as last reported."""
        return self.applied.get(partition, {})
