"""Counters of a run, and who observes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ..log.commit.records import TaskCommit
from ..tasks.measured import PHASES, Measured, Seconds, TaskOutcome, Volume
from ..tasks.plan import EpochPlan
from .events import Event, Observer

# What the epochs of an application have come to and cost, added up over a run: by task, and by unit.

EPOCH_PHASES = ("planning", *PHASES, "scheduling", "commit")
"""The parts of an epoch's time, from the start of its planning to the end of its commit. What is in between is that of
the slowest thread; `scheduling` is the rest: starting the job and its workers, and bringing back the answers.
"""


@dataclass(frozen=True)
class TaskCounts:
    """One task: what was committed, and what it has cost. `dropped`: `<step>:<reason>` -> records."""

    epochs: int = 0
    records: int = 0
    seconds: Seconds = field(default_factory=Seconds)
    volume: Volume = field(default_factory=Volume)
    dropped: Mapping[str, int] = field(default_factory=dict)

    as_list: ClassVar[bool] = True

    def spent(self, seconds: Seconds) -> TaskCounts:
        """The same after an epoch that took so long."""
        return TaskCounts(self.epochs + 1, self.records, self.seconds + seconds, self.volume, self.dropped)

    def committed(self, commit: TaskCommit, volume: Volume) -> TaskCounts:
        """The same after a commit."""
        dropped = Counter(self.dropped) + Counter(commit.dropped) if commit.dropped else self.dropped
        return TaskCounts(self.epochs, self.records + commit.records, self.seconds, self.volume + volume, dropped)


@dataclass(frozen=True)
class EpochCounts:
    """The epochs of a subtopology on a client. `commits`: those with a commit. `seconds`: in the order of EPOCH_PHASES.

    `records`: that were consumed. `bytes`: of these, as they are in memory.
    """

    subtopology: str
    epochs: int = 0
    commits: int = 0
    records: int = 0
    seconds: tuple[float, ...] = (0.0,) * len(EPOCH_PHASES)
    bytes: int = 0

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class EpochTimes:
    """When the driver worked on an epoch, in seconds: `planning`, `commit` are parts of `total`."""

    planning: float
    commit: float
    total: float

    def split(self, threads: Sequence[Seconds]) -> tuple[float, ...]:
        """The seconds in the order of EPOCH_PHASES; they add up to `total`. `threads`: what each has measured.

        Stages of one thread may work at the same time on different tasks. Then there may be no rest.
        """
        slowest = max(threads, key=lambda each: each.total, default=Seconds())
        rest = max(0.0, self.total - self.planning - self.commit - slowest.total)
        return (self.planning, *slowest.values, rest, self.commit)


class Counters:
    """Counts the epochs of an application. Used from the loop's thread only. No number ever falls during a run."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, int], TaskCounts] = {}
        self._units: dict[tuple[str, str], EpochCounts] = {}

    def epoch_ended(
        self, client: str, subtopology: str, plan: EpochPlan, outcomes: Sequence[TaskOutcome], times: EpochTimes
    ) -> None:
        """Count an epoch's time, whether it is committed or not."""
        measured = {outcome.partition: outcome.measured for outcome in outcomes}
        for partition, each in measured.items():
            self._tasks[subtopology, partition] = self.of(subtopology, partition).spent(each.seconds)
        nothing = Measured()
        threads = [
            sum((measured.get(task.key.partition, nothing).seconds for task in thread), Seconds())
            for thread in plan.threads
        ]
        unit = self.unit(client, subtopology)
        seconds = tuple(map(sum, zip(unit.seconds, times.split(threads), strict=True)))
        self._units[client, subtopology] = replace(unit, epochs=unit.epochs + 1, seconds=seconds)

    def committed(self, client: str, subtopology: str, outcomes: Sequence[TaskOutcome]) -> None:
        """Count what an epoch's tasks have committed."""
        records = taken = 0
        for outcome in outcomes:
            if outcome.commit is not None:
                task = subtopology, outcome.partition
                self._tasks[task] = self.of(*task).committed(outcome.commit, outcome.measured.volume)
                records += outcome.commit.records
                taken += outcome.measured.taken
        unit = self.unit(client, subtopology)
        self._units[client, subtopology] = replace(
            unit, commits=unit.commits + 1, records=unit.records + records, bytes=unit.bytes + taken
        )

    def of(self, subtopology: str, partition: int) -> TaskCounts:
        """The numbers of a task, on whichever clients it has been."""
        return self._tasks.get((subtopology, partition), TaskCounts())

    def shown(self, subtopology: str, partition: int) -> TaskCounts:
        """The same for people, and for the log's status."""
        counts = self.of(subtopology, partition)
        return replace(counts, seconds=counts.seconds.rounded())

    def unit(self, client: str, subtopology: str) -> EpochCounts:
        """The numbers of a subtopology on a client."""
        return self._units.get((client, subtopology), EpochCounts(subtopology))

    def seconds(self) -> dict[str, float]:
        """The seconds of all epochs by phase, on all clients that there have been."""
        added = [sum(each) for each in zip(*(unit.seconds for unit in self._units.values()), strict=True)]
        return dict(zip(EPOCH_PHASES, added or [0.0] * len(EPOCH_PHASES), strict=True))

    @property
    def epochs(self) -> int:
        """All epochs, with commits or without."""
        return sum(unit.epochs for unit in self._units.values())


# Several observers of a run as one.


class Observers:
    """Several observers as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def on(self, event: Event) -> None:
        """Hand an event to each, in their order."""
        for each in self._observers:
            each.on(event)
