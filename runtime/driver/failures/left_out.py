"""What `on_error` says of records that fail: which tasks they stop, and which records are left out instead."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ....errors import shortened
from ...log.log import Log
from ...progress.named_records import named_records, taken_again
from ...stages.dead_letters import counted, letters_of, volume_of, write_letters
from ...task_id import TaskKey
from ...tasks.outcome import TaskOutcome
from ...tasks.plan import EpochPlan, LeftOut, TaskPlan
from ...topology import Subtopology
from ..cluster import Failing
from ..errors import (
    ENDS_WORKER,
    HELD_BACK,
    LEAVING_OUT,
    MAY_HAVE_WAITED,
    MOST_NAMED,
    NO_CHANGE,
    NO_LEAVING_OUT,
    NO_STEP,
    FailedRecord,
    RecordError,
)

MOST_OF_AN_ERROR = 1_000
"""The most characters of an error in a dead letter."""


@dataclass(frozen=True)
class Sorted:
    """Records that fail, by task: those that are left out, and those of tasks that stop."""

    left_out: Mapping[TaskKey, Sequence[LeftOut]]
    stopped: Mapping[TaskKey, Sequence[Failing]]


def sorted_out(part: Subtopology, plan: EpochPlan, found: Sequence[Failing], log: Log) -> Sorted:
    """What becomes of the records that fail. One that may not be left out stops its task. Raises errors of the log."""
    left: dict[TaskKey, Sequence[LeftOut]] = {}
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
) -> dict[TaskKey, Sequence[LeftOut]]:
    """The records that fail, by task, as a plan leaves them out. Raises errors of the log."""
    by_task: dict[TaskKey, list[Failing]] = defaultdict(list)
    for each in found:
        by_task[each.task].append(each)
    return {task: list(_left_out(part, plan.tasks[task], failing, log)) for task, failing in by_task.items()}


def _left_out(part: Subtopology, task: TaskPlan, failing: Sequence[Failing], log: Log) -> Iterator[LeftOut]:
    named = named_records(part, task, [each.number for each in failing], log, 0)
    places = {each.number: each.place for each in named}
    for each in failing:
        place = places[each.number]
        yield LeftOut(place.topic, place.lane, place.position, each.step, shortened(each.cause, MOST_OF_AN_ERROR))


def with_left_out(
    part: Subtopology, plan: EpochPlan, outcome: TaskOutcome, left_out: Sequence[LeftOut], log: Log
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
