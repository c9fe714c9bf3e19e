"""Finds the record that made a job fail.

The first error ends the whole job. So the epoch's tasks are run again one by one, and those that succeed are committed.
For a task that fails, the cluster may find the first failing record at once. Otherwise prefixes of the task's input are
tried, many in one job, until the record is known. Then the steps that do not name themselves in errors are run one
after another, until the first failing step is known. If a worker says that no record is the cause (a full disk), none
is looked for.

A worker that the system ends says nothing. A damaged page of a store can do that, so the stores of a task whose worker
has ended twice are looked at first, and a record is blamed only if it happens again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import Any

from ....errors import HeadwaterError
from ...chosen_plugins import ChosenPlugins
from ...progress.last_record import last_record
from ...task_id import TaskKey
from ...tasks.errors import TaskCorruptedError
from ...tasks.outcome import TaskOutcome, Trouble
from ...tasks.plan import EpochPlan, TaskPlan
from ...topology import PluginRef, Subtopology
from ..cluster import MOST_TRIED, EpochJob
from ..errors import JobError, RecordError

_LADDER = 8
"""The factor by which the first prefixes grow. A trial costs as much as its records, so short prefixes come first."""


Outcomes = tuple[tuple[TaskOutcome, ...], tuple[RecordError, ...]]
"""What the tasks of an epoch have come to, and the record that stops one of them."""


def isolate(
    job: EpochJob, part: Subtopology, plan: EpochPlan, error: Exception, examined: Container[TaskKey] = ()
) -> Outcomes:
    """Run each task of a failed epoch alone. Returns the outcomes of those that have one, and what stops the others.

    A task whose worker is ended by the system has a trouble, unless its stores are `examined`. Raises the error itself
    if it is one of Headwater's own, JobError if no task fails because of a record.
    """
    outcomes: list[TaskOutcome] = []
    failed: list[tuple[EpochPlan, Exception]] = []
    _refuse_outside(job, part, plan, error)
    for alone in _alone(plan):
        task = _task(alone)
        try:
            outcomes.extend(job.run(alone))
        except Exception as again:
            _refuse_outside(job, part, alone, again)
            facts = job.facts(again)
            if facts.kind == "crashed" and task.stores and task.key not in examined:
                outcomes.append(
                    TaskOutcome.troubled(task.key, Trouble("corrupted", f"its worker was ended twice: {facts.cause}"))
                )
            else:
                failed.append((alone, again))
    failures: list[RecordError] = []
    for alone, first in failed[:1]:  # one failed record ends the run, so only the first failed task is searched
        try:
            failures.append(_blame(job, part, alone, first))
        except TaskCorruptedError as damaged:
            outcomes.append(TaskOutcome.troubled(_task(alone).key, Trouble.of(damaged)))
    return tuple(outcomes), tuple(failures)


def _refuse_outside(job: EpochJob, part: Subtopology, plan: EpochPlan, error: Exception) -> None:
    """Raise an error that no record can cause: one of Headwater's own, of the machine, or of a cluster that is gone."""
    if isinstance(error, HeadwaterError):
        raise error
    facts = job.facts(error)
    match facts.kind:
        case "corrupted":
            raise TaskCorruptedError(facts.cause, way_out=facts.hint or None) from error
        case "outside":
            raise JobError(plan.application, part.name, facts.cause, facts.hint or None) from error
        case "ended":
            cause = f"{facts.cause} It worked on {_in_flight(plan)}"
            raise JobError(plan.application, part.name, cause, facts.hint or None) from error


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


def _alone(plan: EpochPlan) -> list[EpochPlan]:
    """One plan for each task, on its own thread. It has the next attempt, so that no file is written twice."""
    return [
        replace(
            plan,
            attempt=plan.attempt + 1,
            threads=tuple((task,) if number == thread else () for number in range(len(plan.threads))),
        )
        for thread, tasks in enumerate(plan.threads)
        for task in tasks
    ]


def _blame(job: EpochJob, part: Subtopology, plan: EpochPlan, error: Exception) -> RecordError:
    task = _task(plan)
    bad = _first_failing(job, part, plan)
    if bad is None:  # the failure was not a record's: for example, a worker was killed
        raise JobError(plan.application, part.name, job.facts(error).cause) from error
    # Each try has an attempt of its own, because attempts are part of file names.
    attempts = iter(range(plan.attempt + 1, 1_000_000))

    def error_of(run: Callable[[EpochPlan], Any]) -> Exception | None:
        try:
            _refuse_trouble(run(replace(plan.limited(bad), attempt=next(attempts))))
        except Exception as failed:
            _refuse_outside(job, part, plan, failed)
            return failed
        return None

    found = error_of(job.run)
    if bad == 0 or found is None:
        raise JobError(plan.application, part.name, job.facts(found or error).cause) from error
    error = found
    record = last_record(part, _task(plan.limited(bad)), ChosenPlugins(plan.plugins).log(PluginRef(*plan.log)))
    if record is None or record.number < bad:  # it is one more where `bad` would part a change of a regrouped table
        raise JobError(plan.application, part.name, job.facts(error).cause) from error
    facts = job.facts(error)
    step = facts.at
    if not step:
        step = next((at for at, run in job.steps() if error_of(run) is not None), "")
    return RecordError(
        task=task.key,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        step=step,
        value=record.json,
        cause=facts.cause,
    )


def _refuse_trouble(outcomes: Iterable[TaskOutcome] | None) -> None:
    for outcome in outcomes or ():
        if (trouble := outcome.trouble) is not None:
            raise TaskCorruptedError(trouble.cause, store=trouble.store or None, way_out=trouble.way_out or None)


def _first_failing(job: EpochJob, part: Subtopology, plan: EpochPlan) -> int | None:
    """The length of the shortest prefix of records that fails; None if none does.

    The cluster is asked first. If it cannot tell, growing prefixes are tried, and then the gap between the last that
    passed and the first that failed. Each job divides the gap into as many parts as it can try. A length counts as good
    once its prefix, or a longer one, has passed.
    """
    task = _task(plan)
    number = job.first_failing(replace(plan, trial=True))
    # The answer counts only if the epoch itself fails with the records up to there.
    if number is not None and job.try_each(plan, [replace(task, max_records=number + 1)]).failed is not None:
        return number + 1
    most = min(task.max_records, sum(lane.end - lane.position for topic in task.inputs for lane in topic.lanes))
    good, bad = -1, most + 1
    while counts := _ladder(good, most) if bad > most else _between(good, bad):
        trial = job.try_each(plan, [replace(task, max_records=count) for count in counts])
        if trial.failed is not None:
            number, error = trial.failed
            _refuse_outside(job, part, plan, error)
            bad = counts[number]
        good = max([good, *(counts[number] for number in trial.passed if counts[number] < bad)])
    return None if bad > most else bad


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


def _task(plan: EpochPlan) -> TaskPlan:
    return next(task for thread in plan.threads for task in thread)
