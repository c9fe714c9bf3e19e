"""Finds the records that made a job fail, and has the epoch worked out without those that may be left out.

The first error ends the whole job. The job is asked which records fail, of all tasks at once; it knows that of most
steps. What `on_error` says of each of them decides: a task with a record that must not be left out has failed, the
others go on without theirs, and no step has seen anything of such a record. If the job cannot tell, the tasks are run
one by one, and of a task that fails prefixes of its input are tried, many in one job, until the first record is known.

If the rows of a task together are more bytes than can be held, no record is at fault: the task has smaller epochs. Only
a record that is too large by itself is one that fails.

Only a step that raises an error for a record is that record's fault. If a worker says that no record is the cause (a
full disk), none is looked for; and a record whose worker the system ends is named, but never left out.

A step that has failed and does not fail when the epoch is worked out again depends on more than its records, as a
function does that reads from an iterator of an earlier call. What it comes to then is not taken for right.

A worker that the system ends says nothing. A damaged page of a store can do that, so the stores of a task whose worker
has ended twice are looked at first, and a record is blamed only if it happens again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ...errors import HeadwaterError
from ..chosen_plugins import ChosenPlugins
from ..ir.topology import PluginRef, Subtopology
from ..log.errors import RangeMissingError
from ..log.log import Log
from ..progress.named_records import taken_count
from ..task_id import TaskKey
from ..tasks.errors import RecordsMissingError, TaskCorruptedError
from ..tasks.measured import TaskOutcome, Trouble
from ..tasks.plan import EpochPlan, TaskPlan
from .cluster import EpochJob, Failing
from .errors import MOST_NAMED, JobError, RecordError
from .failures import (
    Sorted,
    first_failing,
    left_out,
    may_come_again,
    record_error,
    refuse_outside,
    sorted_out,
    with_left_out,
)

Outcomes = tuple[tuple[TaskOutcome, ...], tuple[RecordError, ...]]
"""What the tasks of an epoch have come to, and the records that stop some of them."""


def settled(job: EpochJob, part: Subtopology, plan: EpochPlan, outcomes: Sequence[TaskOutcome]) -> Outcomes:
    """The outcomes of an epoch in which the job itself has left out records that fail: by what `on_error` says, they
    are counted and kept as dead letters, or they stop their tasks. Raises whatever the job and the log raise.
    """
    if not any(each.failed for each in outcomes):
        return tuple(outcomes), ()
    search = _Search(job, part, plan, ())
    search.settle_left_out(plan, outcomes)
    return tuple(search.outcomes), tuple(search.failures.values())


def isolate(
    job: EpochJob, part: Subtopology, plan: EpochPlan, error: Exception, examined: Container[TaskKey] = ()
) -> Outcomes:
    """Work out a failed epoch without the records that fail. Returns the outcomes of tasks that have one, and what
    stops the others.

    A task whose worker is ended by the system has a trouble, unless its stores are `examined`. Raises the error itself
    if it is one of Headwater's own, JobError if no task fails because of a record.
    """
    return _Search(job, part, plan, examined).settle(error)


@dataclass
class _Search:
    """One failed epoch. `plan`: what is left of it, with the next attempt, as attempts are part of file names."""

    job: EpochJob
    part: Subtopology
    plan: EpochPlan
    examined: Container[TaskKey]
    outcomes: list[TaskOutcome] = field(default_factory=list)
    failures: dict[TaskKey, RecordError] = field(default_factory=dict)
    fails_again: bool = False
    """Whether anything has failed since the first error."""

    def settle(self, error: Exception) -> Outcomes:
        refuse_outside(self.job, self.part, self.plan, error)
        facts = self.job.facts(error)
        # Where the rows that a task has taken are too large together, no step can tell of a record.
        if facts.records or facts.kind == "crashed" or not self._settle_together():
            for alone in _alone(self.plan):
                self._settle_alone(alone)
        if facts.kind == "step" and not facts.too_large and not self.fails_again:
            raise JobError(self.plan.application, self.part.name, *_of_chance(facts.at, facts.cause)) from error
        return tuple(self.outcomes), tuple(self.failures.values())

    def settle_left_out(self, plan: EpochPlan, outcomes: Sequence[TaskOutcome]) -> None:
        """Take outcomes. The steps and reasons of records that the job has left out are asked for first."""
        failed = {each.key(plan.application): each.failed for each in outcomes if each.failed}
        found = self.job.reasons(replace(plan, trial=True), failed) if failed else ()
        rest = sorted_out(self.part, plan, found, self._log)
        written = [
            with_left_out(self.part, plan, each, rest.left_out[key], self._log) if key in rest.left_out else each
            for each in outcomes
            if (key := each.key(plan.application)) not in rest.stopped
        ]
        for task, failing in rest.stopped.items():
            self._stop(plan.for_tasks([task]), task, failing)
        self.outcomes.extend(written)

    def _run(self, plan: EpochPlan) -> None:
        self.settle_left_out(plan, self.job.run(plan))

    def _settle_together(self) -> bool:
        """Whether all tasks have come to something, without the records of which the job can tell that they fail."""
        try:
            while found := self._failing(self.plan):
                self.fails_again = True
                self._leave_out(found)
                if not self.plan.tasks or self._runs(self.plan):
                    return True
        except (TaskCorruptedError, RangeMissingError):  # of one task: which one, it says when it is alone
            pass
        return False

    def _runs(self, plan: EpochPlan) -> bool:
        """Whether the tasks come to something as they are planned now."""
        try:
            self._run(self._next(plan))
        except Exception as error:
            refuse_outside(self.job, self.part, plan, error)
            return False
        return True

    def _settle_alone(self, plan: EpochPlan) -> None:
        """The same for a single task, of which the job cannot tell the records that fail.

        Where its rows together are too large, it takes half as many records, until they are not, or one record is.
        """
        task = _task(plan)
        most = 0
        while True:
            try:
                self._run(self._next(plan))
                self.outcomes = [
                    replace(each, most=most) if each.key(plan.application) == task.key else each
                    for each in self.outcomes
                ]
                return
            except Exception as error:
                refuse_outside(self.job, self.part, plan, error)
                self.fails_again = True
                try:
                    self._suspect_stores(task, error)
                    facts = self.job.facts(error)
                    if facts.too_large and (fewer := self._fewer(plan, facts.records)):
                        plan, most = plan.with_max_records(fewer), fewer
                        continue
                    left = self._without_first(plan, error)
                except TaskCorruptedError as damaged:
                    self.outcomes.append(TaskOutcome.troubled(task.key, Trouble.from_error(damaged)))
                    return
                except RangeMissingError as gone:  # found here, when the record was to be told
                    missing = RecordsMissingError(gone.message, gone.path, way_out=gone.hint)
                    self.outcomes.append(TaskOutcome.troubled(task.key, Trouble.from_error(missing)))
                    return
                if left is None:
                    return
                plan = left

    def _fewer(self, plan: EpochPlan, records: int) -> int:
        """Half as many records as the only task has taken; 0 if it takes one at most. `records`: their number, 0 if it
        is not known.
        """
        task = _task(plan)
        return min(records or taken_count(self.part, task, self._log), task.max_records) // 2

    def _without_first(self, plan: EpochPlan, error: Exception) -> EpochPlan | None:
        """The plan of a task without the records that fail first; None if they stop the task. Raises JobError."""
        found = self._blame(plan, error)
        by_a_step = all(each.told_by == "step" for each in found)
        rest = sorted_out(self.part, plan, found, self._log) if by_a_step else Sorted({}, {_task(plan).key: found})
        for task, failing in rest.stopped.items():
            self._stop(plan, task, failing)
        return None if rest.stopped else plan.skipping(rest.left_out)

    def _blame(self, plan: EpochPlan, error: Exception) -> list[Failing]:
        """The records that fail first. Raises JobError."""
        found = self._failing(plan)
        if found:
            return list(found)
        task = _task(plan)
        if not task.takes_records:
            told = next(iter(self._told(plan)), None)
            facts = self.job.facts(error)
            at, cause = (facts.at, facts.cause) if told is None else (told.step, told.cause)
            raise JobError(plan.application, self.part.name, *_of_no_record(at, cause)) from error
        bad = first_failing(self.job, self.part, plan)
        if bad is None:  # the failure was not a record's: for example, a worker was killed
            raise self._of_job(error) from error
        limited = plan.with_max_records(bad)
        again = self._error_of(limited, self.job.run)
        self._suspect_stores(task, again or error)
        number = taken_count(self.part, _task(limited), self._log) - 1
        if bad == 0 or again is None or number + 1 < bad:
            # It is one more than `bad` where that would part a change of a regrouped table.
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
        """Raise TaskCorruptedError if the task's worker has crashed and its stores have not been examined yet."""
        facts = self.job.facts(error)
        if facts.kind == "crashed" and task.stores and task.key not in self.examined:
            raise TaskCorruptedError(f"its worker was ended twice: {facts.cause}")

    def _error_of(self, plan: EpochPlan, run: Callable[[EpochPlan], Any]) -> Exception | None:
        try:
            _refuse_trouble(run(self._next(plan)))
        except Exception as failed:
            refuse_outside(self.job, self.part, plan, failed)
            return failed
        return None

    def _failing(self, plan: EpochPlan) -> list[Failing]:
        """What the job can tell, of records that fail certainly. Raises errors that no record can cause.

        Of a step behind a store that is only the first record, if no step fails for those before it.
        """
        # Of what comes as time passes, without records, none is the cause.
        found: Sequence[Failing] = [each for each in self._told(plan) if plan.tasks[each.task].takes_records]
        certain: list[Failing] = []
        while found and not (certain := [each for each in found if each.certain]):
            first = min(found, key=lambda each: (each.number, not each.waited))
            before = plan.for_tasks([first.task]).with_max_records(first.number)
            found = self._told(before)
            if not found:
                return [first]
        return certain

    def _told(self, plan: EpochPlan) -> Sequence[Failing]:
        try:
            return self.job.failing(replace(plan, trial=True))
        except Exception as error:
            refuse_outside(self.job, self.part, plan, error)
            return ()

    def _leave_out(self, found: Sequence[Failing]) -> None:
        """Go on without the records that may be left out, and without the tasks that others stop."""
        plan, rest = self.plan, sorted_out(self.part, self.plan, found, self._log)
        self.plan = plan.skipping(rest.left_out).for_tasks([key for key in plan.tasks if key not in rest.stopped])
        for task, failing in rest.stopped.items():
            self._stop(plan.for_tasks([task]), task, failing)

    def _stop(self, plan: EpochPlan, task: TaskKey, failing: Sequence[Failing]) -> None:
        """Note the error of a task that stops. It names all records of the epoch of which the job can tell."""
        failing = list(failing)
        # A row that was held back, or had waited, would come out with the next record, and fail again.
        found = [] if any(may_come_again(self.part, each) for each in failing) else failing
        while found and len(failing) < MOST_NAMED:
            plan = plan.skipping(left_out(self.part, plan, found, self._log))
            try:
                found = self._failing(plan)
            except HeadwaterError:  # there is something else as well, and the next run says so
                break
            failing = [*failing, *found]
        self.failures[task] = record_error(self.part, plan.tasks[task], failing, self._log)

    def _next(self, plan: EpochPlan) -> EpochPlan:
        self.plan = replace(self.plan, attempt=self.plan.attempt + 1)
        return replace(plan, attempt=self.plan.attempt)

    @property
    def _log(self) -> Log:
        return ChosenPlugins(self.plan.plugins).log(PluginRef(*self.plan.log), self.plan.places)


def _alone(plan: EpochPlan) -> Iterator[EpochPlan]:
    """One plan for each task, on its own thread."""
    return (plan.for_tasks([task]) for task in plan.tasks)


def _task(plan: EpochPlan) -> TaskPlan:
    (task,) = plan.tasks.values()
    return task


def _of_no_record(at: str, cause: str) -> tuple[str, str]:
    """Cause and way out where a task fails in an epoch in which it takes no record. `at`: the step, if it is known."""
    return (
        f"{at}{': ' if at else ''}{cause}; this came up as time passed, without a record",
        "have the step cope with it: there is no record that `on_error` could leave out",
    )


def _of_chance(at: str, cause: str) -> tuple[str, str]:
    """Cause and way out where a step fails, and does not when the epoch is worked out again. `at`: the step."""
    return (
        f"{at}{': ' if at else ''}{cause}; when the same records were processed again, nothing failed",
        "have what the step makes of records depend on these and its stores alone, and on nothing that an earlier call "
        "has left, such as an iterator; then run again",
    )


def _refuse_trouble(outcomes: Iterable[TaskOutcome] | None) -> None:
    for outcome in outcomes or ():
        if (trouble := outcome.trouble) is not None:
            raise TaskCorruptedError(trouble.cause, store=trouble.store or None, way_out=trouble.way_out or None)
