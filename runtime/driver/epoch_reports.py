"""What each epoch reports: figures, and parts of its time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ..progress.planner import Planner
from ..task_id import TaskId
from ..tasks.measured import TaskOutcome
from ..tasks.plan import EpochPlan
from ..timed_parts import Span, Spans, listening, now
from .counters import Counters, EpochTimes
from .epochs import EpochCommits, OpenEpoch
from .events import EpochCommitted, EpochTraced, Observer

# What an epoch did when: by the driver's clock, and by those of its tasks.


@dataclass(frozen=True)
class TaskTrace:
    """What a task did in an epoch: in each Python stage, in their order. Nothing of a task that came to nothing."""

    task: TaskId
    records: int
    stages: tuple[tuple[Span, ...], ...]


@dataclass(frozen=True)
class EpochTrace:
    """An epoch of a subtopology on a client. `threads`: of the client, with their tasks in order.

    By the driver's clock (`timed_parts.now`): planning from `started`, the job from `planned`, the commit from `begun`
    to `ended`. By the same, `driver`: what the loop's thread has done since it told of the epoch before, for whichever
    epochs. The clock of tasks is that of their machine.
    """

    subtopology: str
    client: str
    epoch: int
    started: float
    planned: float
    begun: float
    ended: float
    threads: tuple[tuple[TaskTrace, ...], ...]
    driver: tuple[Span, ...] = ()

    @property
    def seconds(self) -> float:
        """From the start of planning to the end of the commit."""
        return self.ended - self.started

    @property
    def committing(self) -> tuple[Span, ...]:
        """The parts of the commit."""
        within = [span for span in self.driver if self.begun <= span.start and span.end <= self.ended]
        return tuple(span for span in within if span.part != "commit")


def thread_traces(
    subtopology: int, plan: EpochPlan, outcomes: Sequence[TaskOutcome]
) -> tuple[tuple[TaskTrace, ...], ...]:
    """What the tasks of each thread did. `subtopology`: its number."""
    made = {outcome.partition: outcome for outcome in outcomes}
    return tuple(
        tuple(
            TaskTrace(
                TaskId(subtopology, task.key.partition),
                outcome.commit.records if outcome.commit is not None else 0,
                outcome.measured.spans,
            )
            for task in thread
            if (outcome := made.get(task.key.partition)) is not None
        )
        for thread in plan.threads
    )


# Tells and counts what each epoch has come to.

WORTH_A_SLICE = 0.001
"""Seconds: what takes the loop's thread less is not in a trace. It goes round up to fifty times a second."""

SAME_SLICE = 0.005
"""Seconds: waits with less between them are one in a trace."""


class EpochReports:
    """Used from the loop's thread only. `traced`: whether the observer is also told what each epoch did when."""

    def __init__(
        self,
        application: str,
        planner: Planner,
        commits: EpochCommits,
        counters: Counters,
        observer: Observer,
        *,
        traced: bool = False,
    ) -> None:
        self._spans = Spans(WORTH_A_SLICE, SAME_SLICE) if traced else None
        self._application = application
        self._planner = planner
        self._commits = commits
        self._counters = counters
        self._observer = observer

    def watching(self) -> AbstractContextManager[None]:
        """What the loop's thread does within, and says so (`timed`), is in the traces of epochs."""
        return listening(self._spans)

    def ended(self, opened: OpenEpoch, outcomes: Sequence[TaskOutcome], committed: int, begun: float) -> None:
        """An epoch is over. `committed`: how many tasks were committed; `begun`: when that began, in seconds."""
        unit, plan, ended = opened.unit, opened.plan, now()
        client, part = unit.member.client.name, unit.part.name
        times = EpochTimes(opened.planning, ended - begun, ended - opened.started)
        for outcome in outcomes:
            unit.member.note_sizes(outcome.partition, outcome.measured.stores)
        self._counters.epoch_ended(client, part, plan, outcomes, times)
        if committed > 0:
            commits = [outcome.commit for outcome in outcomes if outcome.commit is not None]
            advancing = {commit.partition for commit in plan.advancing(commits)}
            made = [outcome for outcome in outcomes if outcome.partition in advancing]
            self._counters.committed(client, part, made)
            last = self._commits.last
            self._observer.on(
                EpochCommitted(
                    application=self._application,
                    subtopology=part,
                    client=client,
                    commit=last.number,
                    records=last.records,
                    lag=self._planner.unread(unit.tasks),
                    seconds=times.total,
                    dropped=last.dropped,
                    bytes=sum(outcome.measured.taken for outcome in made),
                )
            )
        if self._spans is not None:
            trace = EpochTrace(
                part,
                client,
                plan.epoch,
                opened.started,
                opened.started + opened.planning,
                begun,
                ended,
                thread_traces(unit.part.number, plan, outcomes),
                self._spans.take(),
            )
            self._observer.on(EpochTraced(self._application, trace))
