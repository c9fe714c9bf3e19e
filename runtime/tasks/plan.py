"""The plan of an epoch, from the driver to a worker: plain data that travels as JSON in a job-local property.

A worker needs nothing else: the plan names the records to read, the positions of stores, and the files to write. Times
are milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from ..ir.topology import KafkaCluster
from ..log.commit.records import CommitMark, Scheduled, TaskCommit
from ..log.ranges import LogRange
from ..log.state import LogState
from ..records.schema import changelog_topic
from ..task_id import StoreId, TaskKey

_NUMBER_BITS = 40
"""The bits of a record's number within its task. A task takes fewer than 2^40 records."""


Positions = Mapping[int, Mapping[int, int]]
"""Positions in a topic: partition -> lane -> position."""


@dataclass(frozen=True)
class LaneInput:
    """Committed records of one lane that a task has not consumed yet.

    `position`: the next position to read. `ranges`: the committed ranges of the lane that end after `position`, in
    order. If there are far more records than an epoch takes, only the first ranges, and `more` is set. `clock`: the
    writer's committed stream time. `idle`: no record can come before the next append to an external topic.
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
    """One partition of one source topic, by lanes in ascending order. An external topic has one lane.

    `commit`: for a global table's topic, the last commit of its writer that the plan includes. `responses`: whether the
    topic has responses to the task's own subscriptions (foreign-key join). They do not advance the task's stream time.
    """

    topic: str
    lanes: tuple[LaneInput, ...]
    commit: CommitMark | None = None
    responses: bool = False

    seldom: ClassVar = ("responses",)


@dataclass(frozen=True)
class StoreInput:
    """Where a copy of a store stands, at `applied`, and how it gets to `position`: by applying `ranges` in between.

    Epochs, restores and queries all plan by it. Positions are those of the store's changelog. `clock`: the committed
    clock by which rows expire. `commit`: the last commit included. `horizon`: the position up to which the changelog
    may lack deletions, see `state/closed_stores.py`.
    """

    store: str
    applied: int
    position: int
    ranges: tuple[LogRange, ...]
    clock: int = -1
    commit: CommitMark | None = None
    horizon: int = 0

    @classmethod
    def committed(
        cls, own: LogState, store: StoreId, applied: int = 0, clock: int = -1, records: int | None = None
    ) -> Self:
        """How a copy at `applied` gets to the committed position of its store. `own`: the application's state.

        `records`: only as many ranges as it takes for this number of changelog records.
        """
        topic, partition = changelog_topic(own.application, store.store), store.partition
        with own.lock:  # all values of one moment
            position = own.store_end(store)
            ranges = own.lane_ranges(topic, partition, partition, applied, records) if applied < position else ()
            horizon, mark = own.store_horizon(store), own.mark
        # With fewer records these are all, and later positions may have no records any more.
        if records is not None and ranges and sum(within.records for within in ranges) >= records:
            position = ranges[-1].end
        return cls(store.store, applied, position, ranges, clock, mark, horizon)


@dataclass(frozen=True)
class SkippedRecord:
    """A record that failed in a step (`file:line`, empty if unknown). Its epoch is processed without it.

    `dead_letter`: whether the record goes to the dead-letter topic of its source. `error`: why it failed.
    """

    topic: str
    lane: int
    position: int
    step: str = ""
    error: str = ""
    dead_letter: bool = False

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class TrialRecords:
    """The records that steps get in a trial, as indexes into the records taken: only these, or all but these."""

    numbers: tuple[int, ...]
    only: bool


@dataclass(frozen=True)
class TaskPlan:
    """One task's epoch.

    `skipped`: records that it consumes and passes to no step. `trial_records`: in a trial, which of the others its
    steps get; None: all. `scheduled`: the punctuations of its processors. `time_passes`: whether the clocks of its
    steps advance to `stream_time` without a record, see `engine/execution/order/partition_group.py`. `max_bytes`: the
    most bytes in memory of the records taken, at least one record; None: no bound. `whole`: whether it has to take all
    records at once, even if there are none.
    """

    key: TaskKey
    max_records: int
    stream_time: int
    clocks: Mapping[str, int]
    inputs: tuple[TopicInput, ...]
    stores: tuple[StoreInput, ...] = ()
    skipped: tuple[SkippedRecord, ...] = ()
    trial_records: TrialRecords | None = None
    scheduled: tuple[Scheduled, ...] = ()
    time_passes: bool = False
    max_bytes: int | None = None
    whole: bool = False

    seldom: ClassVar = ("skipped", "trial_records", "scheduled", "time_passes", "whole")

    @property
    def takes_records(self) -> bool:
        """Whether its lanes have records to take."""
        return any(lane.end > lane.position for topic in self.inputs for lane in topic.lanes)

    def is_taken_by(self, positions: Mapping[str, Mapping[int, int]]) -> bool:
        """Whether all of its records are before these positions, by topic and lane."""
        lanes = ((positions.get(topic.topic, {}), lane) for topic in self.inputs for lane in topic.lanes)
        return all(taken.get(lane.lane, 0) >= lane.end for taken, lane in lanes)

    @property
    def begins(self) -> bool:
        """Whether no epoch has taken a record yet."""
        return all(lane.position == 0 for topic in self.inputs for lane in topic.lanes)

    def advanced_by(self, commit: TaskCommit) -> bool:
        """Whether an epoch has made progress: it has taken records, passed positions without records, punctuated,
        advanced time, or has seen that there is nothing.
        """
        return (
            commit.records > 0
            or self.time_passes
            or self.whole
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

    `threads`: for each thread of the client its tasks, in order; row i of the placed DataFrame is thread i. `now`: the
    planned time of the epoch, which is its `current_timestamp()`. `client`: its folder below `state_dir`, on its own
    machine. `log`: plugin name and options. `globals_`: global table -> pinned position per partition with the ranges
    to get there. `attempt` is part of the names of files, because an epoch may be repeated. `plugins`: the arguments of
    PluginManager: directory, modules, excluded names. `incarnation`: of the application. `process_id`: the client
    process of the plan. `assignment`: the number of the newest assignment, which is the number of its commit. `trial`:
    everything is computed and nothing is written; then several threads may share one task, and rows have the numbers of
    their records instead of `_order`, so that a failed row identifies its record. `place`: of the application in the
    log, if it is not its name. `traced`: whether workers record timed spans. `kafka`: the clusters of the target.
    `results`: source that is written to Kafka -> the incarnation of the application whose result it is. `targets`: the
    same -> the id of the topic there, if it is known.
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
    kafka: Mapping[str, KafkaCluster] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)

    seldom: ClassVar = ("kafka", "results", "targets")

    @property
    def places(self) -> dict[str, str]:
        """The application's place in the log, so that a worker need not look it up."""
        return {self.application: self.place or self.application}

    @property
    def tasks(self) -> dict[TaskKey, TaskPlan]:
        """The plans of all tasks."""
        return {task.key: task for thread in self.threads for task in thread}

    def first_number(self, task: TaskKey) -> int:
        """In a trial, the number of a task's first record. Each task has its own range of 2^40 numbers."""
        return list(self.tasks).index(task) << _NUMBER_BITS

    def locate(self, number: int) -> tuple[TaskKey, int]:
        """The task of a number, and the index of the record among those that the task takes, from 0.

        This is the inverse of `first_number`. A row that waited in a join has `~number` of the record that released it.
        """
        number = max(number, ~number)
        return list(self.tasks)[number >> _NUMBER_BITS], number & ((1 << _NUMBER_BITS) - 1)

    def skipping(self, skipped: Mapping[TaskKey, Sequence[SkippedRecord]]) -> EpochPlan:
        """This plan with more skipped records."""
        return self.map_tasks(lambda task: replace(task, skipped=(*task.skipped, *skipped.get(task.key, ()))))

    def with_trial_records(self, numbers: Iterable[int], *, only: bool) -> EpochPlan:
        """This plan for a trial in which steps get only these records, or all but these; numbers as in `locate`."""
        by_task: dict[TaskKey, list[int]] = {key: [] for key in self.tasks}
        for task, number in map(self.locate, numbers):
            by_task[task].append(number)
        return self.map_tasks(lambda task: replace(task, trial_records=TrialRecords(tuple(by_task[task.key]), only)))

    def for_tasks(self, tasks: Collection[TaskKey]) -> EpochPlan:
        """This plan with these tasks only."""
        threads = tuple(tuple(task for task in thread if task.key in tasks) for thread in self.threads)
        return replace(self, threads=threads)

    def map_tasks(self, change: Callable[[TaskPlan], TaskPlan]) -> EpochPlan:
        """This plan with `change` applied to the plan of every task."""
        return replace(self, threads=tuple(tuple(map(change, thread)) for thread in self.threads))

    def with_max_records(self, records: int) -> EpochPlan:
        """This plan with at most `records` records per task."""
        return self.map_tasks(lambda task: replace(task, max_records=records))

    def with_max_records_of(self, key: TaskKey, records: int) -> EpochPlan:
        """This plan with at most `records` records for one task and none for the others."""
        return self.map_tasks(lambda task: replace(task, max_records=records if task.key == key else 0))

    def advancing(self, commits: Iterable[TaskCommit]) -> tuple[TaskCommit, ...]:
        """The commits of tasks with progress, see `TaskPlan.advanced_by`."""
        tasks = self.tasks
        return tuple(commit for commit in commits if tasks[commit.key(self.application)].advanced_by(commit))

    def pinned(self, table: str) -> dict[int, dict[int, int]]:
        """The positions of a client's global table after this epoch: partition -> lane -> end."""
        topics = self.globals_.get(table, ())
        return {partition: {lane.lane: lane.end for lane in topic.lanes} for partition, topic in enumerate(topics)}
