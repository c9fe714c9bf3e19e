"""Failed tasks, and the records that have failed them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from ...errors import HeadwaterError, MachineError, shortened
from ..engine.failed_stage import counted, letters_of, volume_of, write_letters
from ..ir.topology import Subtopology, Topic, Topology
from ..log.log import RecordWriter
from ..log.ranges import RangeReader
from ..progress.committed import Committed
from ..progress.named_records import named_records, taken_again
from ..task_id import TaskKey
from ..tasks.errors import TaskCorruptedError
from ..tasks.measured import TaskOutcome, Trouble
from ..tasks.plan import EpochPlan, SkippedRecord, TaskPlan
from ..tasks.task import StreamTask
from .cluster import Cluster, Failing
from .errors import (
    ENDS_WORKER,
    HELD_BACK,
    MAY_HAVE_WAITED,
    MOST_NAMED,
    NO_CHANGE,
    NO_SKIPPING,
    NO_STEP,
    SKIPPING,
    FailedRecord,
    JobError,
    RecordError,
    RecordErrors,
    Stop,
)
from .events import Observer, TaskBeginsAgain, TaskFailed
from .group import Group
from .member import GroupMember
from .service_events import ServiceAvailable, ServiceUnavailable


class FailedTasks:
    """The stopped tasks of a run. Used from the loop's thread only.

    A task stops at a record that must not be skipped (`record_search`): the other tasks continue, in this application
    and in others. It also stops if its stores cannot be restored or records are missing: then the run ends once all
    open epochs are committed (`ends_run`), as the machine may be the cause.
    """

    def __init__(self, application: str, observer: Observer) -> None:
        self._application = application
        self._observer = observer
        self._stops: dict[TaskKey, Stop] = {}
        self._errors: list[HeadwaterError] = []
        self.ends_run = False

    @property
    def tasks(self) -> Set[TaskKey]:
        """The stopped tasks; they start no more epochs."""
        return self._stops.keys()

    @property
    def stops(self) -> Mapping[TaskKey, Stop]:
        """The stopped tasks with their causes."""
        return self._stops

    @property
    def error(self) -> HeadwaterError | None:
        """The error to report: the first one that ends the run, else all errors of records; None if no task stopped."""
        of_records = [error for error in self._errors if isinstance(error, RecordError)]
        if self.ends_run:
            return next(error for error in self._errors if not isinstance(error, RecordError))
        return RecordErrors(of_records) if len(of_records) > 1 else next(iter(of_records), None)

    def add(self, tasks: Iterable[TaskKey], error: HeadwaterError) -> None:
        """Stop tasks."""
        self._errors.append(error)
        self.ends_run = self.ends_run or not isinstance(error, RecordError)
        for task in tasks:
            self._stops[task] = Stop.from_error(error)
            self._observer.on(
                TaskFailed(self._application, task.subtopology, task.partition, error.message, error.hint)
            )


def stranded(topology: Topology, failed: Collection[TaskKey], ended: Collection[str]) -> bool:
    """Whether no task can get a record any more, because all have stopped or read only from stopped tasks.

    `ended`: the applications of the run that have ended.
    """
    running: set[str] = set()

    def gets_records(topic: Topic, written: dict[str, str]) -> bool:
        if topic.name in written:
            return written[topic.name] in running
        return topic.writer is None or topic.writer not in ended

    written = {topic.name: part.name for part in topology.subtopologies for topic in part.sinks}
    while True:
        more = {
            part.name
            for part in topology.subtopologies
            if any(TaskKey(topology.application, part.name, task) not in failed for task in range(part.partitions))
            and any(gets_records(topic, written) for topic in part.sources)
        }
        if more == running:
            return not running
        running = more


# `on_error`: the failing records that stop their tasks, and those that are skipped.

MOST_OF_AN_ERROR = 1_000
"""The most characters of an error in a dead letter."""


@dataclass(frozen=True)
class FailurePolicy:
    """Failing records by task: those to skip, and those of tasks that stop."""

    skipped: Mapping[TaskKey, Sequence[SkippedRecord]]
    stopped: Mapping[TaskKey, Sequence[Failing]]


def apply_on_error(part: Subtopology, plan: EpochPlan, failing: Sequence[Failing], log: RangeReader) -> FailurePolicy:
    """Apply `on_error` to failing records. One that must not be skipped stops its task. Raises LogError."""
    skipped: dict[TaskKey, Sequence[SkippedRecord]] = {}
    stopped: dict[TaskKey, Sequence[Failing]] = {}
    for task, records in skipped_records(part, plan, failing, log).items():
        policies = [part.policy(record.topic, record.step) for record in records]
        own = [record for record in failing if record.task == task]
        if "fail" in policies or any(may_fail_again(part, record) for record in own):
            stopped[task] = own
        else:
            skipped[task] = [
                replace(record, dead_letter=policy == "dead_letter")
                for record, policy in zip(records, policies, strict=True)
            ]
    return FailurePolicy(skipped, stopped)


def may_fail_again(part: Subtopology, failing: Failing) -> bool:
    """Whether the failing row may have been buffered: without this record, the next one would emit it, and fail."""
    return failing.step in part.held_back or (failing.step in part.waited and failing.waited is not False)


def skipped_records(
    part: Subtopology, plan: EpochPlan, failing: Sequence[Failing], log: RangeReader
) -> dict[TaskKey, Sequence[SkippedRecord]]:
    """Task -> its failing records in the form of a plan's skipped records. Raises LogError."""
    by_task: dict[TaskKey, list[Failing]] = defaultdict(list)
    for record in failing:
        by_task[record.task].append(record)
    return {task: list(_skipped_records(part, plan.tasks[task], failing, log)) for task, failing in by_task.items()}


def _skipped_records(
    part: Subtopology, task: TaskPlan, failing: Sequence[Failing], log: RangeReader
) -> Iterator[SkippedRecord]:
    named = named_records(part, task, [record.number for record in failing], log, 0)
    locations = {record.number: record.place for record in named}
    for record in failing:
        at = locations[record.number]
        yield SkippedRecord(at.topic, at.lane, at.position, record.step, shortened(record.cause, MOST_OF_AN_ERROR))


def with_skipped(
    part: Subtopology,
    plan: EpochPlan,
    outcome: TaskOutcome,
    skipped: Sequence[SkippedRecord],
    log: RecordWriter,
    reader: RangeReader,
) -> TaskOutcome:
    """The outcome of a job that has skipped records, with their counts and dead letters added. Raises LogError."""
    task = plan.tasks[outcome.key(plan.application)]
    taken = taken_again(part, task, reader)
    by_position = {(record.topic, record.lane, record.position): record for record in skipped}
    numbers = {number: taken.record(number) for number in outcome.failed}
    by_number = {number: by_position[at.topic, at.lane, at.position] for number, at in numbers.items()}
    letters = letters_of(task, taken, by_number, part.sources, reader)
    listed = tuple(write_letters(plan, task.key, letters, part.dead_letters, log, "-left"))
    assert outcome.commit is not None
    commit = replace(
        outcome.commit,
        segments=(*listed, *outcome.commit.segments),
        dropped=dict(Counter(outcome.commit.dropped) + Counter(counted(skipped))),
    )
    measured = replace(outcome.measured, volume=outcome.measured.volume + volume_of(listed))
    return replace(outcome, commit=commit, measured=measured)


def record_error(part: Subtopology, task: TaskPlan, failing: Sequence[Failing], log: RangeReader) -> RecordError:
    """The error of a task that failing records stop. Raises LogError."""
    # Rows that had waited are emitted before new rows of the same record.
    by_number = {failed.number: failed for failed in sorted(failing, key=lambda record: bool(record.waited))}
    first = sorted(by_number)[:MOST_NAMED]
    records = []
    for named in named_records(part, task, first, log):
        failed = by_number[named.number]
        join = part.waited.get(failed.step, "")
        records.append(
            FailedRecord(
                named.place.topic,
                named.place.partition,
                named.offset,
                failed.step,
                named.json,
                failed.cause,
                held_at=part.held_back.get(failed.step) or (join if failed.waited else ""),
                waited_at=join if failed.waited is None else "",
            )
        )
    evidence = {record.told_by for record in failing}
    way_on = ENDS_WORKER if "worker" in evidence else NO_SKIPPING if "error" in evidence else _way_on(part, records)
    return RecordError(task.key, records, len(by_number), way_on)


def _way_on(part: Subtopology, records: Sequence[FailedRecord]) -> str:
    """How to skip records that have stopped their task, or why they are never skipped."""
    deciding = [
        record
        for record in records
        if record.held_at or record.waited_at or part.policy(record.topic, record.step) == "fail"
    ]
    if not deciding:
        return NO_SKIPPING
    if any(record.held_at for record in deciding):
        return HELD_BACK
    if any(record.topic in part.never_skipped for record in deciding):
        return NO_CHANGE
    if any(record.waited_at for record in deciding):
        return MAY_HAVE_WAITED
    unknown = all(not record.step for record in deciding)
    return NO_STEP if unknown and set(part.on_error.values()) - {"fail"} else SKIPPING


class Outages:
    """Reports that services outside do not answer, once until all of them do. So an application that waits for one of
    them is not said to go on because of another one, or of a task that does not need it.
    """

    def __init__(self, application: str, observer: Observer) -> None:
        self._application = application
        self._observer = observer
        self._silent: set[object] = set()

    def begin(self, service: object, cause: str) -> None:
        """A service does not answer. `service`: a cluster that the driver asks, or a task that cannot use its own."""
        if not self._silent:
            self._observer.on(ServiceUnavailable(self._application, cause))
        self._silent.add(service)

    def end(self, service: object) -> None:
        """The service has answered."""
        if service in self._silent:
            self._silent.remove(service)
            if not self._silent:
                self._observer.on(ServiceAvailable(self._application))


class Troubles:
    """Restarts tasks with a trouble that no record has caused, see `docs/tasks.md`. Used from the loop's thread only.

    The other tasks of the epoch are not touched. `examined`: tasks whose stores were checked since their last commit.
    If the system ends the worker of such a task, the stores are not the cause. `outages`: of a lasting run, which waits
    for services; None: their outages fail tasks.
    """

    def __init__(
        self,
        application: str,
        group: Group,
        committed: Committed,
        failed: FailedTasks,
        observer: Observer,
        outages: Outages | None = None,
    ) -> None:
        self._outages = outages
        self._application = application
        self._observer = observer
        self._group = group
        self._committed = committed
        self._failed = failed
        self.examined: frozenset[TaskKey] = frozenset()

    def settle(self, member: GroupMember, tasks: Sequence[StreamTask], outcomes: Sequence[TaskOutcome]) -> None:
        """Handle the troubles in the outcomes of an epoch. Raises DamagedAgainError.

        - Corrupted or migrated: the stores are checked and restored, as far as their changelogs can be read. Migrated
          means here that a store is ahead of its plan; as no other driver has this generation, its position is read
          again.
        - Missing records: nothing, if other segments have replaced them since the epoch was planned, as the next plan
          has these; else the task fails, or the store that lacks them is checked.
        - An unavailable service: a lasting run waits, as the next epoch tries again; else the task fails.
        - An old assignment: nothing, as the next plan has the new one.
        - The wrong client: all of the client's tasks are lost, and it joins again. Kafka Streams does the same for
          TaskMigratedException.
        """
        troubled = {
            outcome.key(self._application): outcome.trouble for outcome in outcomes if outcome.trouble is not None
        }
        fine = [task.id for task in tasks if task.id.key(self._application) not in troubled]
        self._group.went_well(fine)
        self.examined -= {task.key(self._application) for task in fine}
        if any(trouble.kind == "wrong_client" for trouble in troubled.values()):
            self._group.lose(member)
            return
        unavailable = {key: trouble for key, trouble in troubled.items() if trouble.kind == "unavailable"}
        self._wait_or_fail(unavailable)
        if self._outages is not None:
            for key in {task.id.key(self._application) for task in tasks} - unavailable.keys():
                self._outages.end(key)
        missing = self._missing(troubled)
        for key in [key for key, trouble in missing.items() if not trouble.store]:
            trouble = missing.pop(key)
            error = JobError(self._application, key.subtopology, trouble.cause, trouble.way_out or None)
            self._failed.add([key], error)
        damaged = missing | {
            key: trouble for key, trouble in troubled.items() if trouble.kind in ("corrupted", "migrated")
        }
        self.examined |= damaged.keys()
        for key, trouble in damaged.items():
            self._observer.on(
                TaskBeginsAgain(self._application, key.subtopology, key.partition, member.client.name, trouble.cause)
            )
        for way_out in dict.fromkeys(trouble.way_out for trouble in damaged.values()):
            causes = {key: trouble.cause for key, trouble in damaged.items() if trouble.way_out == way_out}
            ids = [task.id for task in tasks if task.id.key(self._application) in causes]
            cause = "; ".join(dict.fromkeys(causes.values()))
            self._group.recover(member, ids, TaskCorruptedError(cause, ids, way_out=way_out or None))

    def _wait_or_fail(self, unavailable: Mapping[TaskKey, Trouble]) -> None:
        for key, trouble in unavailable.items():
            if self._outages is None:
                error = JobError(self._application, key.subtopology, trouble.cause, trouble.way_out or None)
                self._failed.add([key], error)
            else:
                self._outages.begin(key, trouble.cause)

    def _missing(self, troubled: Mapping[TaskKey, Trouble]) -> dict[TaskKey, Trouble]:
        """The tasks with missing records that commits still list."""
        missing = {key: trouble for key, trouble in troubled.items() if trouble.kind == "missing"}
        return {key: trouble for key, trouble in missing.items() if self._committed.lists(trouble.path)}


def user_error(error: Exception, cluster: Cluster | None = None) -> HeadwaterError | None:
    """An error of Headwater, of a cluster that has ended or of the machine, in a form that a user can act on.

    None for any other error: it is a bug in Headwater, and keeps its traceback.
    """
    if isinstance(error, HeadwaterError):
        return error
    if cluster is not None and (ended := cluster.ended(error)) is not None:
        return ended
    return MachineError.from_error(error) if isinstance(error, OSError | MemoryError) else None
