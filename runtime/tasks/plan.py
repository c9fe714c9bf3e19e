"""The plan of an epoch, from the driver to a worker: plain data that travels as JSON in a job-local property.

A worker uses nothing else: the plan has what it reads, the positions of its stores, and the names it writes under.
Times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..log.commit_records import CommitMark, TaskCommit
from ..log.ranges import LogRange
from ..task_id import TaskKey


@dataclass(frozen=True)
class LaneInput:
    """Committed records of one lane that a task has not consumed yet.

    `position`: where reading continues. `ranges`: all committed ranges of the lane that reach beyond `position`, in
    order. If there are far more records than an epoch takes, only the first ranges, and `more` is set.
    `clock`: the writer's committed stream time. `idle`: no record can come unless some are appended from outside.
    """

    lane: int
    position: int
    ranges: tuple[LogRange, ...]
    clock: int = -1
    idle: bool = True
    more: bool = False

    @property
    def end(self) -> int:
        """The end of the last range."""
        return self.ranges[-1].end if self.ranges else self.position


@dataclass(frozen=True)
class TopicInput:
    """One partition of one source topic, by lanes in ascending order. A topic fed from outside has one lane.

    `commit`: of a global table's topic, the last commit of its writer that this plan has seen.
    """

    topic: str
    lanes: tuple[LaneInput, ...]
    commit: CommitMark | None = None


@dataclass(frozen=True)
class StoreInput:
    """The position that a store must have before the epoch: its changelog is applied up to `position`.

    `ranges`: committed ranges of the changelog from `applied` (what the client's copy is known to hold) to `position`.
    `clock`: the committed clock by which rows expire. `commit`: the last commit that this was read from.
    """

    store: str
    applied: int
    position: int
    ranges: tuple[LogRange, ...]
    clock: int = -1
    commit: CommitMark | None = None


@dataclass(frozen=True)
class TaskPlan:
    """One task's epoch."""

    key: TaskKey
    max_records: int
    stream_time: int
    clocks: Mapping[str, int]
    inputs: tuple[TopicInput, ...]
    stores: tuple[StoreInput, ...] = ()

    def advanced_by(self, commit: TaskCommit) -> bool:
        """Whether an epoch has made progress: it has taken records, or passed positions without records."""
        return commit.records > 0 or any(
            commit.positions.get(topic.topic, {}).get(lane.lane, 0) > lane.position
            for topic in self.inputs
            for lane in topic.lanes
        )


@dataclass(frozen=True)
class EpochPlan:
    """One job: the tasks of one subtopology on one client, by thread.

    `threads`: for each thread of the client the tasks it runs, in order; row i of the placed DataFrame is thread i.
    `now`: planned time of the epoch, what `current_timestamp()` means. `client`: its folder below `state_dir`, on its
    own machine. `log`: plugin name and options. `globals_`: global table -> pinned position per partition with the
    ranges to get there. `attempt` is part of the names of files, as an epoch may be tried again. `plugins`: where
    plugins are found, as the arguments of PluginManager: directory, modules, names left out. `incarnation`: of the
    application. `process_id`: the client process for which the plan was made. `assignment`: the number of the
    assignment that was the newest then, which is that of the commit that notes it. `trial`: everything is worked out,
    and nothing written; then several threads may have parts of one task.
    """

    application: str
    generation: int
    epoch: int
    attempt: int
    now: int
    client: str
    process_id: str
    assignment: int
    log: tuple[str, Mapping[str, Any]]
    state_dir: str
    threads: tuple[tuple[TaskPlan, ...], ...]
    globals_: Mapping[str, tuple[TopicInput, ...]] = field(default_factory=dict)
    plugins: tuple[str, tuple[str, ...], tuple[str, ...]] = ("", (), ())
    incarnation: str = ""
    trial: bool = False

    @property
    def tasks(self) -> dict[TaskKey, TaskPlan]:
        """The plan of each task."""
        return {task.key: task for thread in self.threads for task in thread}

    def limited(self, records: int) -> EpochPlan:
        """The same plan, in which each task takes no more than `records`."""
        threads = tuple(tuple(replace(task, max_records=records) for task in thread) for thread in self.threads)
        return replace(self, threads=threads)

    def advancing(self, commits: Iterable[TaskCommit]) -> tuple[TaskCommit, ...]:
        """The epoch's commits of tasks that made progress, see `TaskPlan.advanced_by`."""
        tasks = self.tasks
        return tuple(commit for commit in commits if tasks[commit.key(self.application)].advanced_by(commit))

    def pinned(self, table: str) -> dict[int, dict[int, int]]:
        """The positions of a client's copy of a global table after this epoch: partition -> lane -> end."""
        topics = self.globals_.get(table, ())
        return {partition: {lane.lane: lane.end for lane in topic.lanes} for partition, topic in enumerate(topics)}
