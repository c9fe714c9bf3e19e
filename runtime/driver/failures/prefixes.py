"""Finds the first record that fails where the job cannot tell: prefixes of a task's input are tried, many in one job.

And says which errors no record can cause.
"""

from __future__ import annotations

from dataclasses import replace

from ....errors import HeadwaterError
from ...tasks.errors import RecordsMissingError, TaskCorruptedError
from ...tasks.plan import EpochPlan
from ...topology import Subtopology
from ..cluster import MOST_TRIED, EpochJob
from ..errors import EpochCutOffError, JobError

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
