"""Reports of epochs: counters, events and traces."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ..task_id import TaskId
from ..tasks.measured import TaskOutcome
from ..tasks.plan import EpochPlan
from ..timed_parts import Span, Spans, listening, now
from .counters import Counters, EpochTimes
from .epoch_plans import ClaimedApplication
from .epochs import OpenEpoch
from .events import EpochCommitted, EpochTraced, Observer


@dataclass(frozen=True)
class TaskTrace:
    """The spans of a task in an epoch, by Python stage in processing order. A task without an outcome has none."""

    task: TaskId
    records: int
    stages: tuple[tuple[Span, ...], ...]


@dataclass(frozen=True)
class EpochTrace:
    """The trace of an epoch of a subtopology on a client. `threads`: of the client, with their tasks in order.

    Times of the driver's clock (`timed_parts.now`): planning from `started`, the job from `planned`, the commit from
    `begun` to `ended`. `driver`: spans of the loop's thread since the last trace, of any epoch, by the same clock.
    Tasks use the clock of their machine.
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
    """The traces of the tasks by thread. `subtopology`: its number."""
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


WORTH_A_SLICE = 0.001
"""Seconds. Shorter spans of the loop's thread are not in a trace, as it makes up to fifty rounds a second."""

SAME_SLICE = 0.005
"""Seconds. Waits that are closer than this are one span in a trace."""


class EpochReports:
    """Counts finished epochs and reports them to the observer. Used from the loop's thread only.

    Where the settings ask for a trace, the observer gets one of every epoch.
    """

    def __init__(self, app: ClaimedApplication, counters: Counters, observer: Observer) -> None:
        self._spans = Spans(WORTH_A_SLICE, SAME_SLICE) if app.settings.traced else None
        self._app = app
        self._counters = counters
        self._observer = observer

    def watching(self) -> AbstractContextManager[None]:
        """A context in which spans of the loop's thread (`timed`) are recorded for traces."""
        return listening(self._spans)

    def ended(self, opened: OpenEpoch, outcomes: Sequence[TaskOutcome], committed: int, begun: float) -> None:
        """Report a finished epoch. `committed`: number of committed tasks; `begun`: start of the commit, seconds."""
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
            last = self._app.commits.last
            self._observer.on(
                EpochCommitted(
                    application=self._app.name,
                    subtopology=part,
                    client=client,
                    commit=last.number,
                    records=last.records,
                    lag=self._app.planner.unread(unit.tasks),
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
            self._observer.on(EpochTraced(self._app.name, trace))
