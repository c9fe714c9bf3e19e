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
    """Mutable: owned by the loop's thread.

    `threads`: the partitions that each thread of the client runs. `applied`: partition -> store -> changelog records
    that the client's copy holds. `blocked_at`: version of the committed state at which an epoch took no record though
    some are unread: there is no point in another before it changes. `held_globals`: global table -> partition -> lane
    -> records that the client's copy is known to hold. `recoveries`: how often its stores were restored, as an
    epoch found them damaged, since an epoch last went well.
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
        """The partitions of all its tasks that still run."""
        return sorted(partition for thread in self.threads for partition in thread if partition not in self.failed)

    def due(self, now: float, interval: float, version: tuple[int, ...], eager: bool) -> bool:
        """Whether to start an epoch: there may be something to take, and the commit interval has passed.

        A unit whose last epoch took all it may goes on at once; so does an `eager` one, for which nobody else works.
        """
        if self.blocked_at == version or not self.partitions:
            return False
        return self.full or eager or now >= self.started + interval

    def took(self, plan: EpochPlan, commits: Sequence[TaskCommit], version: tuple[int, ...]) -> None:
        """Note what an epoch's tasks have taken; `version` is the committed state it was planned from."""
        if commits:
            self.recoveries = 0
        for commit in commits:
            self.applied.setdefault(commit.partition, {}).update(commit.applied)
            self.held_globals.update({table: plan.pinned(table) for table in commit.globals_})
        full = {task.partition: task.max_records for thread in plan.threads for task in thread}
        self.full = any(commit.records >= full[commit.partition] for commit in commits)
        self.blocked_at = None if any(commit.records for commit in commits) else version

    def applied_of(self, partition: int) -> Mapping[str, int]:
        """Store -> changelog records applied, as last reported."""
        return self.applied.get(partition, {})
