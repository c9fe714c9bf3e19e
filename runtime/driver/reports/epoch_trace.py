"""What an epoch did when: by the driver's clock, and by those of its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...task_id import TaskId
from ...tasks.outcome import TaskOutcome
from ...tasks.plan import EpochPlan
from ...timed_parts import Span


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
