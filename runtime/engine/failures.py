"""From a job that failed to the record that did it.

Spark aborts the whole job on the first error, so the epoch's tasks are run again one by one: those that succeed are
committed. Of one that fails, ever smaller prefixes of its input are run until the first failing record is known; then
ever longer prefixes of the query plan, until the first failing step is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JNetworkError

from ...errors import HeadwaterError
from ..log.records import TaskCommit
from ..tasks.errors import TaskCorruptedError
from ..tasks.plan import EpochPlan, TaskPlan
from ..topology import PluginRef, Subtopology
from .errors import JobError, RecordError
from .job import EpochJob
from .last_record import last_record
from .plugged import Plugged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STEP = re.compile(r"\bStepError: (?P<at>[^\s:]+:\d+): (?P<cause>[^\n]*)")
"""How an error of a Python step (`operators.stage.StepError`) stands in Spark's error text."""

TEXT = re.compile(r"\bTextError: (?P<cause>[^\n]*)")
"""The same of a text that came out of Spark SQL (`operators.pipe.TextError`); which step made it is looked for."""

CORRUPTION = re.compile(r"\b(?:StoreDamagedError|TaskCorruptedError): (?P<reason>[^\n]*)")
"""How a store that has to be restored stands in Spark's error text."""

RAISED = re.compile(r"^[A-Za-z_][\w.]*: \S")
"""The last line of a Python traceback."""

CRASHED = "Python worker exited unexpectedly"
"""What Spark says of a worker that was killed, or crashed."""


@dataclass(frozen=True)
class Failure:
    """A task that cannot go on."""

    partition: int
    error: RecordError


def corruption_in(error: Exception) -> TaskCorruptedError | None:
    """The error of a store that has to be restored, where that is what has failed an epoch's job."""
    found = CORRUPTION.search(str(error))
    return None if found is None else TaskCorruptedError(found["reason"])


def isolate(
    job: EpochJob, part: Subtopology, plan: EpochPlan, error: Exception
) -> tuple[tuple[TaskCommit, ...], tuple[Failure, ...]]:
    """Run each task of a failed epoch alone: the commits of those that succeed, and what stops the others.

    Raises the error itself when it is one of Headwater's own, JobError when no task fails for a record,
    TaskCorruptedError when one has found a store damaged.
    """
    if isinstance(error, HeadwaterError):
        raise error
    commits: list[TaskCommit] = []
    failed: list[tuple[EpochPlan, Exception]] = []
    for alone in _alone(plan):
        try:
            commits.extend(job.run(alone))
        except Exception as again:
            if (found := corruption_in(again)) is not None:
                raise found from again
            failed.append((alone, again))
    return tuple(commits), tuple(_blame(job, part, alone, again) for alone, again in failed[:1])


def _alone(plan: EpochPlan) -> list[EpochPlan]:
    """One plan for each task, which stays on its thread; under the next attempt, so that no file is written twice."""
    return [
        replace(
            plan,
            attempt=plan.attempt + 1,
            threads=tuple((task,) if number == thread else () for number in range(len(plan.threads))),
        )
        for thread, tasks in enumerate(plan.threads)
        for task in tasks
    ]


def _blame(job: EpochJob, part: Subtopology, plan: EpochPlan, error: Exception) -> Failure:
    task = _task(plan)
    attempts = iter(range(plan.attempt + 1, 1_000_000))

    def error_of(records: int, run: Callable[[EpochPlan], Any] = job.run) -> Exception | None:
        try:
            run(_limited(plan, records, next(attempts)))
        except Exception as failed:
            return failed
        return None

    if (other := error_of(0)) is not None:  # no record is to blame: a store, a file, the machine
        raise JobError(plan.application, part.name, cause_of(other)) from other
    good, bad, middle = 0, task.max_records, 1
    while bad - good > 1:
        failed = error_of(middle)
        if failed is None:
            good = middle
        else:
            bad, error = middle, failed
        # Short prefixes first: a run costs what its records cost.
        middle = min(2 * good, (good + bad) // 2) if good else 1
    if error_of(bad) is None:  # what failed before was not the record: a worker was killed, say
        raise JobError(plan.application, part.name, cause_of(error)) from error
    record = last_record(
        part, _task(_limited(plan, bad, next(attempts))), Plugged(plan.plugins).log(PluginRef(*plan.log))
    )
    if record is None or record.number < bad:  # it is one more where `bad` would part a change of a regrouped table
        raise JobError(plan.application, part.name, cause_of(error)) from error
    step, cause = _step(error)
    if not step:
        for at, rows in steps(job.rows):
            failed = error_of(bad, partial(job.drain, rows))
            if failed is not None:
                step = at
                break
    return Failure(
        task.partition,
        RecordError(
            subtopology=part.name,
            task_partition=task.partition,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            step=step,
            value=record.json,
            cause=cause,
        ),
    )


def steps(rows: DataFrame) -> list[tuple[str, DataFrame]]:
    """The named SQL steps of a query plan in order, each as the DataFrame that ends with it."""
    from pyspark.sql import DataFrame as Frame

    session = rows.sparkSession
    dataset: Any = session.sparkContext._jvm.org.apache.spark.sql.classic.Dataset
    found: list[tuple[str, DataFrame]] = []

    def visit(plan: Any) -> None:
        children = plan.children()
        for number in range(children.size()):
            visit(children.apply(number))
        if plan.getClass().getSimpleName() == "SubqueryAlias":
            found.append((plan.identifier().name(), Frame(dataset.ofRows(session._jsparkSession, plan), session)))

    visit(rows._jdf.queryExecution().analyzed())
    return found


def _task(plan: EpochPlan) -> TaskPlan:
    return next(task for thread in plan.threads for task in thread)


def _limited(plan: EpochPlan, records: int, attempt: int) -> EpochPlan:
    threads = tuple(tuple(replace(task, max_records=records) for task in thread) for thread in plan.threads)
    return replace(plan, threads=threads, attempt=attempt)


def _step(error: Exception) -> tuple[str, str]:
    """Position and cause, as far as the error's text has them."""
    found = STEP.search(str(error))
    if found is not None:
        return found["at"], found["cause"]
    text = TEXT.search(str(error))
    return "", cause_of(error) if text is None else text["cause"]


def cause_of(error: Exception) -> str:
    """The first line of the error that means something to a user."""
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return "Spark's JVM has ended; was it killed, for want of memory?"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    crashed = next((line for line in lines if CRASHED in line), None)
    if crashed is not None:
        return crashed[crashed.index(CRASHED) :]
    if any(line.startswith("Traceback ") for line in lines):
        raised = [line for line in lines if RAISED.match(line)]
        return raised[-1] if raised else lines[0]
    return lines[0] if lines else type(error).__name__
