"""Failed tasks, and the records that made them fail."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from ...errors import HeadwaterError, MachineError, shortened
from ..engine.failed_stage import counted, letters_of, volume_of, write_letters
from ..ir.topology import Subtopology, Topic, Topology
from ..log.log import Log
from ..progress.committed import Committed
from ..progress.named_records import named_records, taken_again
from ..task_id import TaskKey
from ..tasks.errors import RecordsMissingError, TaskCorruptedError
from ..tasks.measured import TaskOutcome, Trouble
from ..tasks.plan import EpochPlan, SkippedRecord, TaskPlan
from ..tasks.stream_task import StreamTask
from .cluster import MOST_TRIED, Cluster, EpochJob, Failing
from .errors import (
    ENDS_WORKER,
    HELD_BACK,
    LEAVING_OUT,
    MAY_HAVE_WAITED,
    MOST_NAMED,
    NO_CHANGE,
    NO_LEAVING_OUT,
    NO_STEP,
    EpochCutOffError,
    FailedRecord,
    JobError,
    RecordError,
    RecordErrors,
    Stop,
)
from .events import Observer, TaskBeginsAgain, TaskFailed
from .group import Group
from .member import GroupMember

# The tasks that have stopped in a run, and when that leaves nothing to do.
#
# A task stops for a record that must not be left out (`record_search`): the others go on, in this application and in
# others. It also stops if its stores cannot be restored, or records are missing: then the run ends once all open epochs
# are committed, as the machine may be the cause.


class FailedTasks:
    """The tasks that have failed in this run. Used from the loop's thread only.

    `tasks`: those that have stopped; they begin no more epochs. `ends_run`: whether the run ends because of them.
    """

    def __init__(self, application: str, observer: Observer) -> None:
        self._application = application
        self._observer = observer
        self._stops: dict[TaskKey, Stop] = {}
        self._errors: list[HeadwaterError] = []
        self.ends_run = False

    @property
    def tasks(self) -> Set[TaskKey]:
        """The tasks that have stopped."""
        return self._stops.keys()

    @property
    def stops(self) -> Mapping[TaskKey, Stop]:
        """Why each of them has."""
        return self._stops

    @property
    def error(self) -> HeadwaterError | None:
        """What to tell of them: the first error that ends the run, or all errors of records; None if there is none."""
        of_records = [error for error in self._errors if isinstance(error, RecordError)]
        if self.ends_run:
            return next(error for error in self._errors if not isinstance(error, RecordError))
        return RecordErrors(of_records) if len(of_records) > 1 else next(iter(of_records), None)

    def add(self, tasks: Iterable[TaskKey], error: HeadwaterError) -> None:
        """Stop tasks."""
        self._errors.append(error)
        self.ends_run = self.ends_run or not isinstance(error, RecordError)
        for task in tasks:
            self._stops[task] = Stop.of(error)
            self._observer.on(
                TaskFailed(self._application, task.subtopology, task.partition, error.message, error.hint)
            )


def stranded(topology: Topology, failed: Collection[TaskKey], ended: Collection[str]) -> bool:
    """Whether no task can get a record any more: it has stopped, or all that it reads is written by tasks that have.

    `ended`: the applications of the run that have ended.
    """
    going: set[str] = set()

    def comes(topic: Topic, written: dict[str, str]) -> bool:
        if topic.name in written:
            return written[topic.name] in going
        return topic.writer is None or topic.writer not in ended

    written = {topic.name: part.name for part in topology.subtopologies for topic in part.sinks}
    while True:
        more = {
            part.name
            for part in topology.subtopologies
            if any(TaskKey(topology.application, part.name, task) not in failed for task in range(part.partitions))
            and any(comes(topic, written) for topic in part.sources)
        }
        if more == going:
            return not going
        going = more


# What `on_error` says of records that fail: which tasks they stop, and which records are left out instead.

MOST_OF_AN_ERROR = 1_000
"""The most characters of an error in a dead letter."""


@dataclass(frozen=True)
class Sorted:
    """Records that fail, by task: those that are left out, and those of tasks that stop."""

    left_out: Mapping[TaskKey, Sequence[SkippedRecord]]
    stopped: Mapping[TaskKey, Sequence[Failing]]


def sorted_out(part: Subtopology, plan: EpochPlan, found: Sequence[Failing], log: Log) -> Sorted:
    """What becomes of the records that fail. One that may not be left out stops its task. Raises errors of the log."""
    left: dict[TaskKey, Sequence[SkippedRecord]] = {}
    stopped: dict[TaskKey, Sequence[Failing]] = {}
    for task, records in left_out(part, plan, found, log).items():
        policies = [part.policy(each.topic, each.step) for each in records]
        failing = [each for each in found if each.task == task]
        if "fail" in policies or any(may_come_again(part, each) for each in failing):
            stopped[task] = failing
        else:
            left[task] = [
                replace(each, dead_letter=policy == "dead_letter")
                for each, policy in zip(records, policies, strict=True)
            ]
    return Sorted(left, stopped)


def may_come_again(part: Subtopology, failing: Failing) -> bool:
    """Whether what fails may be a row that would come out with the next record, and fail again, without this record."""
    return failing.step in part.held_back or (failing.step in part.waited and failing.waited is not False)


def left_out(
    part: Subtopology, plan: EpochPlan, found: Sequence[Failing], log: Log
) -> dict[TaskKey, Sequence[SkippedRecord]]:
    """The records that fail, by task, as a plan leaves them out. Raises errors of the log."""
    by_task: dict[TaskKey, list[Failing]] = defaultdict(list)
    for each in found:
        by_task[each.task].append(each)
    return {task: list(_left_out(part, plan.tasks[task], failing, log)) for task, failing in by_task.items()}


def _left_out(part: Subtopology, task: TaskPlan, failing: Sequence[Failing], log: Log) -> Iterator[SkippedRecord]:
    named = named_records(part, task, [each.number for each in failing], log, 0)
    places = {each.number: each.place for each in named}
    for each in failing:
        place = places[each.number]
        yield SkippedRecord(place.topic, place.lane, place.position, each.step, shortened(each.cause, MOST_OF_AN_ERROR))


def with_left_out(
    part: Subtopology, plan: EpochPlan, outcome: TaskOutcome, left_out: Sequence[SkippedRecord], log: Log
) -> TaskOutcome:
    """An outcome of a job that has left out records itself, with their counts and dead letters. Raises errors of the
    log.
    """
    task = plan.tasks[outcome.key(plan.application)]
    taken = taken_again(part, task, log)
    by_place = {(each.topic, each.lane, each.position): each for each in left_out}
    numbers = {number: taken.record(number) for number in outcome.failed}
    by_number = {number: by_place[place.topic, place.lane, place.position] for number, place in numbers.items()}
    letters = letters_of(task, taken, by_number, part.sources, log)
    listed = tuple(write_letters(plan, task.key, letters, part.dead_letters, log, "-left"))
    assert outcome.commit is not None
    commit = replace(
        outcome.commit,
        segments=(*listed, *outcome.commit.segments),
        dropped=dict(Counter(outcome.commit.dropped) + Counter(counted(left_out))),
    )
    measured = replace(outcome.measured, volume=outcome.measured.volume + volume_of(listed))
    return replace(outcome, commit=commit, measured=measured)


def record_error(part: Subtopology, task: TaskPlan, failing: Sequence[Failing], log: Log) -> RecordError:
    """The error of a task that records stop. Raises errors of the log."""
    # What had waited comes out before what is new of the same record.
    by_number = {each.number: each for each in sorted(failing, key=lambda each: bool(each.waited))}
    first = sorted(by_number)[:MOST_NAMED]
    records = []
    for named in named_records(part, task, first, log):
        each = by_number[named.number]
        join = part.waited.get(each.step, "")
        records.append(
            FailedRecord(
                named.place.topic,
                named.place.partition,
                named.offset,
                each.step,
                named.json,
                each.cause,
                held_at=part.held_back.get(each.step) or (join if each.waited else ""),
                waited_at=join if each.waited is None else "",
            )
        )
    tellers = {each.told_by for each in failing}
    way_on = ENDS_WORKER if "worker" in tellers else NO_LEAVING_OUT if "error" in tellers else _way_on(part, records)
    return RecordError(task.key, records, len(by_number), way_on)


def _way_on(part: Subtopology, records: Sequence[FailedRecord]) -> str:
    """How to go on without records that have stopped their task."""
    deciding = [
        each for each in records if each.held_at or each.waited_at or part.policy(each.topic, each.step) == "fail"
    ]
    if not deciding:
        return NO_LEAVING_OUT
    if any(each.held_at for each in deciding):
        return HELD_BACK
    if any(each.topic in part.never_left_out for each in deciding):
        return NO_CHANGE
    if any(each.waited_at for each in deciding):
        return MAY_HAVE_WAITED
    unknown = all(not each.step for each in deciding)
    return NO_STEP if unknown and set(part.on_error.values()) - {"fail"} else LEAVING_OUT


# Finds the first record that fails where the job cannot tell: prefixes of a task's input are tried, many in one job.
#
# And says which errors no record can cause.

_LADDER = 8
"""The factor by which the first prefixes grow. A trial costs as much as its records, so short prefixes come first."""


def refuse_outside(job: EpochJob, part: Subtopology, plan: EpochPlan, error: Exception) -> None:
    """Raise an error that no record can cause: one of Headwater's own, of the machine, or of a cluster that is gone."""
    if isinstance(error, HeadwaterError):
        raise error
    facts = job.facts(error)
    match facts.kind:
        case "missing":
            raise RecordsMissingError(facts.cause, facts.path, way_out=facts.hint or None) from error
        case "corrupted":
            raise TaskCorruptedError(facts.cause, way_out=facts.hint or None) from error
        case "outside":
            raise JobError(plan.application, part.name, facts.cause, facts.hint or None) from error
        case "ended":
            cause = f"{facts.cause} (it worked on {_in_flight(plan)})"
            raise EpochCutOffError(plan.application, part.name, cause, facts.hint or None) from error


def first_failing(job: EpochJob, part: Subtopology, plan: EpochPlan) -> int | None:
    """The length of the shortest prefix of the only task's records that fails; None if none does.

    Growing prefixes are tried, then the gap between the last that passed and the first that failed. Each job divides
    the gap into as many parts as it can try. A length counts as good once its prefix, or a longer one, has passed.
    """
    ((task,),) = [thread for thread in plan.threads if thread]
    most = min(task.max_records, sum(lane.end - lane.position for topic in task.inputs for lane in topic.lanes))
    good, bad = -1, most + 1
    while counts := _ladder(good, most) if bad > most else _between(good, bad):
        trial = job.try_each(plan, [replace(task, max_records=count) for count in counts])
        if trial.failed is not None:
            number, error = trial.failed
            refuse_outside(job, part, plan, error)
            bad = counts[number]
        good = max([good, *(counts[number] for number in trial.passed if counts[number] < bad)])
    return None if bad > most else bad


def _in_flight(plan: EpochPlan) -> str:
    """The records of a plan: `words[0]@0 to 19`."""
    ranges = [
        f"{topic.topic}[{task.key.partition}]@{lane.ranges[0].start_offset} to {lane.ranges[-1].end_offset - 1}"
        for thread in plan.threads
        for task in thread
        for topic in task.inputs
        for lane in topic.lanes
        if lane.ranges
    ]
    return ", ".join(ranges) or "no records"


def _ladder(good: int, most: int) -> list[int]:
    """The lengths above `good` that the next job tries, from 0, 1, 8, 64 and so on, and `most`."""
    rungs, count = [0], 1
    while count < most:
        rungs.append(count)
        count *= _LADDER
    return [rung for rung in dict.fromkeys([*rungs, most]) if rung > good][:MOST_TRIED]


def _between(good: int, bad: int) -> list[int]:
    """Lengths between the two, evenly spaced, as many as one job tries."""
    gap = bad - good
    if gap - 1 <= MOST_TRIED:
        return list(range(good + 1, bad))
    return [good + gap * part // (MOST_TRIED + 1) for part in range(1, MOST_TRIED + 1)]


# What happens to tasks that came to nothing in an epoch for a reason that is no record's. See `docs/tasks.md`.


class Troubles:
    """Has troubled tasks begin again; the others of the epoch are not touched. Used from the loop's thread only.

    `examined`: tasks whose stores have been looked at since they committed last. If the worker of such a task is ended
    by the system, the stores are not the cause.
    """

    def __init__(
        self, application: str, group: Group, committed: Committed, failed: FailedTasks, observer: Observer
    ) -> None:
        self._application = application
        self._observer = observer
        self._group = group
        self._committed = committed
        self._failed = failed
        self.examined: frozenset[TaskKey] = frozenset()

    def settle(self, member: GroupMember, tasks: Sequence[StreamTask], outcomes: Sequence[TaskOutcome]) -> None:
        """Do what the outcomes of an epoch ask for. Raises DamagedAgainError.

        Corrupted or migrated: the stores are examined and restored, as far as their changelogs can be read. Migrated
        means here that a store is further than its plan, and as no other driver has this one's generation, its position
        is to be looked up again. Missing records: nothing, if others have taken their place since the epoch was
        planned, as the next plan has these; else the task fails, or the store that lacks them is examined. An old
        assignment: nothing, as the next plan has the new one. The wrong client: all of the client's tasks are lost, and
        it joins again, which is what Kafka Streams does about TaskMigratedException.
        """
        troubled = {each.key(self._application): each.trouble for each in outcomes if each.trouble is not None}
        fine = [task.id for task in tasks if task.id.key(self._application) not in troubled]
        self._group.went_well(fine)
        self.examined -= {task.key(self._application) for task in fine}
        if any(trouble.kind == "wrong_client" for trouble in troubled.values()):
            self._group.lose(member)
            return
        missing = self._missing(troubled)
        for key in [key for key, each in missing.items() if not each.store]:
            gone = missing.pop(key)
            error = JobError(self._application, key.subtopology, gone.cause, gone.way_out or None)
            self._failed.add([key], error)
        damaged = missing | {key: each for key, each in troubled.items() if each.kind in ("corrupted", "migrated")}
        self.examined |= damaged.keys()
        for key, each in damaged.items():
            self._observer.on(
                TaskBeginsAgain(self._application, key.subtopology, key.partition, member.client.name, each.cause)
            )
        for way_out in dict.fromkeys(each.way_out for each in damaged.values()):
            alike = {key: each.cause for key, each in damaged.items() if each.way_out == way_out}
            ids = [task.id for task in tasks if task.id.key(self._application) in alike]
            causes = "; ".join(dict.fromkeys(alike.values()))
            self._group.recover(member, ids, TaskCorruptedError(causes, ids, way_out=way_out or None))

    def _missing(self, troubled: Mapping[TaskKey, Trouble]) -> dict[TaskKey, Trouble]:
        """The tasks for which records are missing that commits list."""
        missing = {key: each for key, each in troubled.items() if each.kind == "missing"}
        return {key: each for key, each in missing.items() if self._committed.lists(each.path)}


# Which errors of a run are for the user, and which are bugs of Headwater.


def user_error(error: Exception, cluster: Cluster | None = None) -> HeadwaterError | None:
    """An error of the driver in a form that a user can act on: Headwater's own, of a cluster that is gone, or the
    machine's.

    None for any other error, which is a bug in Headwater and keeps its traceback.
    """
    if isinstance(error, HeadwaterError):
        return error
    if cluster is not None and (ended := cluster.ended(error)) is not None:
        return ended
    return MachineError.from_error(error) if isinstance(error, OSError | MemoryError) else None
