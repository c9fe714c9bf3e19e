"""The plan of an epoch, from the driver to a worker: plain data that travels as JSON in a job-local property.

A worker uses nothing else: the plan has what it reads, the positions of its stores, and the names it writes under.
Times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ..log.commit.records import CommitMark, Scheduled, TaskCommit
from ..log.ranges import LogRange
from ..task_id import TaskKey

_NUMBER_BITS = 40
"""A task takes fewer records than this many bits can count."""


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

    `commit`: of a global table's topic, the last commit of its writer that this plan has seen. `answers`: whether it
    brings back what the task has asked for, so that its records do not move the task's stream time.
    """

    topic: str
    lanes: tuple[LaneInput, ...]
    commit: CommitMark | None = None
    answers: bool = False

    seldom: ClassVar = ("answers",)


@dataclass(frozen=True)
class StoreInput:
    """The position that a store must have before the epoch: its changelog is applied up to `position`.

    `ranges`: committed ranges of the changelog from `applied` (what the client's copy is known to hold) to `position`.
    `clock`: the committed clock by which rows expire. `commit`: the last commit that this was read from. `horizon`: up
    to where the changelog may lack deletions, see `state/closed_stores.py`.
    """

    store: str
    applied: int
    position: int
    ranges: tuple[LogRange, ...]
    clock: int = -1
    commit: CommitMark | None = None
    horizon: int = 0


@dataclass(frozen=True)
class LeftOut:
    """A record that a step (`file:line`, empty if unknown) cannot process: its epoch is worked out without it.

    `dead_letter`: whether the record is kept in the dead-letter topic of its source. `error`: why it failed.
    """

    topic: str
    lane: int
    position: int
    step: str = ""
    error: str = ""
    dead_letter: bool = False

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class Shown:
    """The records that steps get in a trial, by their numbers in the order of taking: only these, or all but these."""

    numbers: tuple[int, ...]
    only: bool


@dataclass(frozen=True)
class TaskPlan:
    """One task's epoch. `left_out`: records that it consumes without giving them to any step. `shown`: in a trial, what
    steps get of the others; None: all. `scheduled`: the punctuations of its processors. `time_passes`: whether the
    clocks of its steps move to `stream_time` without a record, see `engine/execution/order/partition_group.py`.
    `max_bytes`: the most bytes of the records that it takes, as they are in memory; at least one record is taken. None:
    no bound.
    """

    key: TaskKey
    max_records: int
    stream_time: int
    clocks: Mapping[str, int]
    inputs: tuple[TopicInput, ...]
    stores: tuple[StoreInput, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    shown: Shown | None = None
    scheduled: tuple[Scheduled, ...] = ()
    time_passes: bool = False
    max_bytes: int | None = None

    seldom: ClassVar = ("scheduled", "time_passes")

    @property
    def takes_records(self) -> bool:
        """Whether there may be records for it to take."""
        return any(lane.end > lane.position for topic in self.inputs for lane in topic.lanes)

    def advanced_by(self, commit: TaskCommit) -> bool:
        """Whether an epoch has made progress: it has taken records, passed positions without records, or punctuated; or
        time has passed.
        """
        return (
            commit.records > 0
            or self.time_passes
            or commit.scheduled != self.scheduled
            or any(
                commit.positions.get(topic.topic, {}).get(lane.lane, 0) > lane.position
                for topic in self.inputs
                for lane in topic.lanes
            )
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
    and nothing written; then several threads may have parts of one task, and rows have the numbers of their records
    instead of `_order`, so that a row that fails names its record. `place`: of the application in the log, if it
    is not its name. `traced`: whether workers note when they did what.
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
    place: str = ""
    traced: bool = False

    @property
    def places(self) -> dict[str, str]:
        """What a worker has to know of the log's places, so that it need not look."""
        return {self.application: self.place or self.application}

    @property
    def tasks(self) -> dict[TaskKey, TaskPlan]:
        """The plan of each task."""
        return {task.key: task for thread in self.threads for task in thread}

    def first_number(self, task: TaskKey) -> int:
        """In a trial, the number of a task's first record: the tasks' numbers lie apart, in the order of the plan."""
        return list(self.tasks).index(task) << _NUMBER_BITS

    def numbered(self, number: int) -> tuple[TaskKey, int]:
        """The inverse: the task of a number, and that of the record among those that the task takes, from 0. Rows that
        had waited in a join have the number of the record with which they come out, as
        `~number`.
        """
        number = max(number, ~number)
        return list(self.tasks)[number >> _NUMBER_BITS], number & ((1 << _NUMBER_BITS) - 1)

    def without(self, left_out: Mapping[TaskKey, Sequence[LeftOut]]) -> EpochPlan:
        """The same plan, in which tasks leave out these records too."""
        return self.changed(lambda task: replace(task, left_out=(*task.left_out, *left_out.get(task.key, ()))))

    def showing(self, numbers: Iterable[int], *, only: bool) -> EpochPlan:
        """The plan of a trial in which steps get only these records, or all but these, by `numbered`."""
        by_task: dict[TaskKey, list[int]] = {key: [] for key in self.tasks}
        for task, number in map(self.numbered, numbers):
            by_task[task].append(number)
        return self.changed(lambda task: replace(task, shown=Shown(tuple(by_task[task.key]), only)))

    def only(self, tasks: Collection[TaskKey]) -> EpochPlan:
        """The same plan without the other tasks."""
        threads = tuple(tuple(task for task in thread if task.key in tasks) for thread in self.threads)
        return replace(self, threads=threads)

    def changed(self, change: Callable[[TaskPlan], TaskPlan]) -> EpochPlan:
        """The same plan with other plans of its tasks."""
        return replace(self, threads=tuple(tuple(map(change, thread)) for thread in self.threads))

    def limited(self, records: int) -> EpochPlan:
        """The same plan, in which each task takes no more than `records`."""
        return self.changed(lambda task: replace(task, max_records=records))

    def limited_to(self, task: TaskKey, records: int) -> EpochPlan:
        """The same plan, in which one task takes no more than `records`, and the others none."""
        return self.changed(lambda each: replace(each, max_records=records if each.key == task else 0))

    def advancing(self, commits: Iterable[TaskCommit]) -> tuple[TaskCommit, ...]:
        """The epoch's commits of tasks that made progress, see `TaskPlan.advanced_by`."""
        tasks = self.tasks
        return tuple(commit for commit in commits if tasks[commit.key(self.application)].advanced_by(commit))

    def pinned(self, table: str) -> dict[int, dict[int, int]]:
        """The positions of a client's copy of a global table after this epoch: partition -> lane -> end."""
        topics = self.globals_.get(table, ())
        return {partition: {lane.lane: lane.end for lane in topic.lanes} for partition, topic in enumerate(topics)}
