"""Finds the records that have failed a job, and runs the epoch again without those that `on_error` skips.

The first error ends the whole job. Then the job is asked for the failing records of all tasks at once, which it knows
for most steps. `on_error` decides: a task with a record that must not be skipped stops, and the others run again
without their failing records, of which no step sees anything. If the job cannot name the records, the tasks run one by
one. For a failing task, prefixes of its input are tried, many in one job, until its first failing record is known.

- If the rows of a task are too large together, no record is at fault: the task gets smaller epochs. A record fails only
  if it is too large alone.
- A record is at fault only if a step raises an error for it. If a worker reports another cause (a full disk), no record
  is searched for. A record for which the system ends the worker is named, but never skipped.
- A step that fails once, and not when the epoch runs again, depends on more than its records, such as a function that
  reads from an iterator of an earlier call. Its results of the second run are not accepted.
- A service that does not answer ends the search: nothing of the epoch counts, and the next one begins it again.
- A worker that the system ends reports no cause. It may be a damaged page of a store. So the stores of a task whose
  worker has ended twice are checked first, and a record is blamed only if it happens again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ...errors import HeadwaterError, UnavailableError
from ..chosen_plugins import ChosenPlugins
from ..ir.topology import PluginRef, Subtopology
from ..log.errors import RangeMissingError
from ..log.log import Log
from ..log.ranges import RangeReader
from ..progress.named_records import taken_count
from ..task_id import TaskKey
from ..tasks.errors import RecordsMissingError, TaskCorruptedError
from ..tasks.measured import TaskOutcome, Trouble
from ..tasks.plan import EpochPlan, TaskPlan
from .cluster import MOST_TRIED, EpochJob, Failing
from .errors import MOST_NAMED, EpochCutOffError, JobError, RecordError
from .failures import (
    FailurePolicy,
    apply_on_error,
    may_fail_again,
    record_error,
    skipped_records,
    with_skipped,
)

Outcomes = tuple[tuple[TaskOutcome, ...], tuple[RecordError, ...]]
"""The outcomes of the tasks of an epoch, and the errors that stop some of them."""


def settled(job: EpochJob, part: Subtopology, plan: EpochPlan, outcomes: Sequence[TaskOutcome]) -> Outcomes:
    """The outcomes of an epoch in which the job itself has skipped failing records.

    `on_error` decides: the records are counted and kept as dead letters, or they stop their tasks. Raises the errors of
    the job and the log.
    """
    if not any(outcome.failed for outcome in outcomes):
        return tuple(outcomes), ()
    search = _Search(job, part, plan, ())
    search.settle_skipped(plan, outcomes)
    return tuple(search.outcomes), tuple(search.failures.values())


def isolate(
    job: EpochJob, part: Subtopology, plan: EpochPlan, error: Exception, examined: Container[TaskKey] = ()
) -> Outcomes:
    """Run a failed epoch again without the failing records. Returns outcomes of tasks, and the errors that stop others.

    If the system ends the worker of a task, the outcome is a trouble, unless its stores are `examined`. Raises `error`
    if it is a HeadwaterError, and JobError if no record has failed a task.
    """
    return _Search(job, part, plan, examined).settle(error)


@dataclass
class _Search:
    """The search in one failed epoch. `plan`: its remaining tasks, with the last attempt; file names
    contain attempts.
    """

    job: EpochJob
    part: Subtopology
    plan: EpochPlan
    examined: Container[TaskKey]
    outcomes: list[TaskOutcome] = field(default_factory=list)
    failures: dict[TaskKey, RecordError] = field(default_factory=dict)
    fails_again: bool = False
    """Whether the epoch has failed again since the first error."""

    def settle(self, error: Exception) -> Outcomes:
        raise_if_no_record(self.job, self.part, self.plan, error)
        facts = self.job.facts(error)
        # If the rows of a task are too large together, no step can name a record.
        if facts.records or facts.kind == "crashed" or not self._settle_together():
            for alone in _alone(self.plan):
                self._settle_alone(alone)
        if facts.kind == "step" and not facts.too_large and not self.fails_again:
            raise JobError(self.plan.application, self.part.name, *_not_repeated(facts.at, facts.cause)) from error
        return tuple(self.outcomes), tuple(self.failures.values())

    def settle_skipped(self, plan: EpochPlan, outcomes: Sequence[TaskOutcome]) -> None:
        """Accept outcomes, after asking for the steps and causes of records that the job has skipped."""
        failed = {outcome.key(plan.application): outcome.failed for outcome in outcomes if outcome.failed}
        failing_records = self.job.reasons(replace(plan, trial=True), failed) if failed else ()
        rest = apply_on_error(self.part, plan, failing_records, self._reader)
        written = [
            with_skipped(self.part, plan, outcome, rest.skipped[key], self._log, self._reader)
            if key in rest.skipped
            else outcome
            for outcome in outcomes
            if (key := outcome.key(plan.application)) not in rest.stopped
        ]
        for task, failing in rest.stopped.items():
            self._stop(plan.for_tasks([task]), task, failing)
        self.outcomes.extend(written)

    def _run(self, plan: EpochPlan) -> None:
        self.settle_skipped(plan, self.job.run(plan))

    def _settle_together(self) -> bool:
        """Whether all tasks have an outcome, without the failing records that the job can name."""
        try:
            while failing := self._failing(self.plan):
                self.fails_again = True
                self._skip(failing)
                if not self.plan.tasks or self._runs(self.plan):
                    return True
        except (TaskCorruptedError, RangeMissingError):  # of one task, which raises it again when it runs alone
            pass
        return False

    def _runs(self, plan: EpochPlan) -> bool:
        """Whether the plan runs without an error that a record may cause."""
        try:
            self._run(self._next(plan))
        except Exception as error:
            raise_if_no_record(self.job, self.part, plan, error)
            return False
        return True

    def _settle_alone(self, plan: EpochPlan) -> None:
        """Run a single task until it has an outcome or stops, where the job cannot name all failing records.

        If its rows are too large together, it takes half as many records, until they fit or a single one does not.
        """
        task = _task(plan)
        most = 0
        while True:
            try:
                self._run(self._next(plan))
                self.outcomes = [
                    replace(outcome, most=most) if outcome.key(plan.application) == task.key else outcome
                    for outcome in self.outcomes
                ]
                return
            except Exception as error:
                raise_if_no_record(self.job, self.part, plan, error)
                self.fails_again = True
                try:
                    self._suspect_stores(task, error)
                    facts = self.job.facts(error)
                    if facts.too_large and (fewer := self._fewer(plan, facts.records)):
                        plan, most = plan.with_max_records(fewer), fewer
                        continue
                    rest = self._without_first(plan, error)
                except TaskCorruptedError as damaged:
                    self.outcomes.append(TaskOutcome.troubled(task.key, Trouble.from_error(damaged)))
                    return
                except RangeMissingError as error_of_log:  # raised when the failing record was read for the message
                    missing = RecordsMissingError(error_of_log.message, error_of_log.path, way_out=error_of_log.hint)
                    self.outcomes.append(TaskOutcome.troubled(task.key, Trouble.from_error(missing)))
                    return
                if rest is None:
                    return
                plan = rest

    def _fewer(self, plan: EpochPlan, records: int) -> int:
        """Half of the records that the only task has consumed; 0 if that was one. `records`: their number, 0 if
        unknown.
        """
        task = _task(plan)
        return min(records or taken_count(self.part, task, self._reader), task.max_records) // 2

    def _without_first(self, plan: EpochPlan, error: Exception) -> EpochPlan | None:
        """The plan of a task without its first failing records; None if they stop the task. Raises JobError."""
        first = self._blame(plan, error)
        by_a_step = all(record.told_by == "step" for record in first)
        rest = (
            apply_on_error(self.part, plan, first, self._reader)
            if by_a_step
            else FailurePolicy({}, {_task(plan).key: first})
        )
        for task, failing in rest.stopped.items():
            self._stop(plan, task, failing)
        return None if rest.stopped else plan.skipping(rest.skipped)

    def _blame(self, plan: EpochPlan, error: Exception) -> list[Failing]:
        """The first failing records. Raises JobError."""
        failing = self._failing(plan)
        if failing:
            return list(failing)
        task = _task(plan)
        if not task.takes_records:
            first = next(iter(self._reported(plan)), None)
            facts = self.job.facts(error)
            at, cause = (facts.at, facts.cause) if first is None else (first.step, first.cause)
            raise JobError(plan.application, self.part.name, *_of_no_record(at, cause)) from error
        bad = first_failing(self.job, self.part, plan)
        if bad is None:  # no record has caused the failure: a worker was killed, for example
            raise self._of_job(error) from error
        limited = plan.with_max_records(bad)
        again = self._error_of(limited, self.job.run)
        self._suspect_stores(task, again or error)
        number = taken_count(self.part, _task(limited), self._reader) - 1
        if bad == 0 or again is None or number + 1 < bad:
            # One record more than `bad` is taken where that would split a change of a regrouped table.
            raise self._of_job(again or error) from error
        facts = self.job.facts(again)
        step = facts.at
        if not step:
            step = next((at for at, run in self.job.steps() if self._error_of(limited, run) is not None), "")
        told_by: dict[str, Literal["step", "worker"]] = {"step": "step", "crashed": "worker"}
        return [Failing(task.key, number, step, facts.cause, told_by=told_by.get(facts.kind, "error"))]

    def _of_job(self, error: Exception) -> JobError:
        """The error of an epoch that no record has failed."""
        facts = self.job.facts(error)
        return JobError(self.plan.application, self.part.name, facts.cause, facts.hint or None)

    def _suspect_stores(self, task: TaskPlan, error: Exception) -> None:
        """Raise TaskCorruptedError if the task's worker has crashed and its stores were not checked yet."""
        facts = self.job.facts(error)
        if facts.kind == "crashed" and task.stores and task.key not in self.examined:
            raise TaskCorruptedError(f"its worker was ended twice: {facts.cause}")

    def _error_of(self, plan: EpochPlan, run: Callable[[EpochPlan], Any]) -> Exception | None:
        try:
            _raise_trouble(run(self._next(plan)))
        except Exception as failed:
            raise_if_no_record(self.job, self.part, plan, failed)
            return failed
        return None

    def _failing(self, plan: EpochPlan) -> list[Failing]:
        """The records that certainly fail, as far as the job can name them. Raises errors that no record can cause.

        For a step behind a store that is only the first record, if no step fails for the records before it.
        """
        # A task without records fails for work that time made due: no record is the cause.
        failing: Sequence[Failing] = [
            record for record in self._reported(plan) if plan.tasks[record.task].takes_records
        ]
        certain: list[Failing] = []
        while failing and not (certain := [record for record in failing if record.certain]):
            first = min(failing, key=lambda record: (record.number, not record.waited))
            before = plan.for_tasks([first.task]).with_max_records(first.number)
            failing = self._reported(before)
            if not failing:
                return [first]
        return certain

    def _reported(self, plan: EpochPlan) -> Sequence[Failing]:
        try:
            return self.job.failing(replace(plan, trial=True))
        except Exception as error:
            raise_if_no_record(self.job, self.part, plan, error)
            return ()

    def _skip(self, failing: Sequence[Failing]) -> None:
        """Remove failing records from the plan, and the tasks that they stop."""
        plan, rest = self.plan, apply_on_error(self.part, self.plan, failing, self._reader)
        self.plan = plan.skipping(rest.skipped).for_tasks([key for key in plan.tasks if key not in rest.stopped])
        for task, failing in rest.stopped.items():
            self._stop(plan.for_tasks([task]), task, failing)

    def _stop(self, plan: EpochPlan, task: TaskKey, failing: Sequence[Failing]) -> None:
        """Note the error of a task that stops. It names all failing records of the epoch that the job can name."""
        failing = list(failing)
        # A buffered row would be emitted with the next record, and fail again.
        further = [] if any(may_fail_again(self.part, record) for record in failing) else failing
        while further and len(failing) < MOST_NAMED:
            plan = plan.skipping(skipped_records(self.part, plan, further, self._reader))
            try:
                further = self._failing(plan)
            except HeadwaterError:  # another error, which the next run reports
                break
            failing = [*failing, *further]
        self.failures[task] = record_error(self.part, plan.tasks[task], failing, self._reader)

    def _next(self, plan: EpochPlan) -> EpochPlan:
        self.plan = replace(self.plan, attempt=self.plan.attempt + 1)
        return replace(plan, attempt=self.plan.attempt)

    @property
    def _log(self) -> Log:
        return ChosenPlugins(self.plan.plugins).log(PluginRef(*self.plan.log), self.plan.places)

    @property
    def _reader(self) -> RangeReader:
        return ChosenPlugins(self.plan.plugins).reader(self.plan)


def _alone(plan: EpochPlan) -> Iterator[EpochPlan]:
    """One plan per task."""
    return (plan.for_tasks([task]) for task in plan.tasks)


def _task(plan: EpochPlan) -> TaskPlan:
    (task,) = plan.tasks.values()
    return task


def _of_no_record(at: str, cause: str) -> tuple[str, str]:
    """Cause and way out of a task that fails in an epoch without records. `at`: the step, empty if unknown."""
    return (
        f"{at}{': ' if at else ''}{cause}; it was raised as time passed, without a record",
        "have the step handle it: there is no record that `on_error` could skip",
    )


def _not_repeated(at: str, cause: str) -> tuple[str, str]:
    """Cause and way out of a step that fails once, and not when the epoch runs again. `at`: the step."""
    return (
        f"{at}{': ' if at else ''}{cause}; when the same records were processed again, nothing failed",
        "have the step depend only on its records and its stores, and on no state of an earlier call, such as an "
        "iterator; then run again",
    )


def _raise_trouble(outcomes: Iterable[TaskOutcome] | None) -> None:
    for outcome in outcomes or ():
        if (trouble := outcome.trouble) is not None:
            if trouble.kind == "unavailable":
                raise UnavailableError(trouble.cause, trouble.way_out or None)
            raise TaskCorruptedError(trouble.cause, store=trouble.store or None, way_out=trouble.way_out or None)


# The search for the first failing record where the job does not name it: trials of prefixes of a task's input.

_LADDER = 8
"""The factor by which the first prefixes grow. A trial costs as much as its records, so short prefixes come first."""


def raise_if_no_record(job: EpochJob, part: Subtopology, plan: EpochPlan, error: Exception) -> None:
    """Raise an error that no record can cause: one of Headwater, of the machine, of a cluster that has ended, or of a
    service that does not answer.
    """
    if isinstance(error, HeadwaterError):
        raise error
    facts = job.facts(error)
    match facts.kind:
        case "missing":
            raise RecordsMissingError(facts.cause, facts.path, way_out=facts.hint or None) from error
        case "corrupted":
            raise TaskCorruptedError(facts.cause, way_out=facts.hint or None) from error
        case "unavailable":
            raise UnavailableError(facts.cause, facts.hint or None) from error
        case "outside":
            raise JobError(plan.application, part.name, facts.cause, facts.hint or None) from error
        case "ended":
            cause = f"{facts.cause} (it was processing {_in_flight(plan)})"
            raise EpochCutOffError(plan.application, part.name, cause, facts.hint or None) from error


def first_failing(job: EpochJob, part: Subtopology, plan: EpochPlan) -> int | None:
    """The length of the shortest failing prefix of the only task's records; None if no prefix fails.

    Growing prefixes are tried, then lengths between the last that passed (good) and the first that failed (bad): every
    job divides the gap into as many parts as it can try. A length is good once its prefix, or a longer one, has passed.
    """
    ((task,),) = [thread for thread in plan.threads if thread]
    most = min(task.max_records, sum(lane.end - lane.position for topic in task.inputs for lane in topic.lanes))
    good, bad = -1, most + 1
    while counts := _ladder(good, most) if bad > most else _between(good, bad):
        trial = job.try_each(plan, [replace(task, max_records=count) for count in counts])
        if trial.failed is not None:
            number, error = trial.failed
            raise_if_no_record(job, part, plan, error)
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
    """The lengths above `good` for the next job: of 0, 1, 8, 64 and so on, and `most`."""
    rungs, count = [0], 1
    while count < most:
        rungs.append(count)
        count *= _LADDER
    return [rung for rung in dict.fromkeys([*rungs, most]) if rung > good][:MOST_TRIED]


def _between(good: int, bad: int) -> list[int]:
    """Evenly spaced lengths between the two, as many as one job tries."""
    gap = bad - good
    if gap - 1 <= MOST_TRIED:
        return list(range(good + 1, bad))
    return [good + gap * part // (MOST_TRIED + 1) for part in range(1, MOST_TRIED + 1)]
