"""Records, bytes and seconds of the epochs of an application, added up over a run, by task and by unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ..log.commit.records import TaskCommit
from ..tasks.measured import PHASES, Measured, Seconds, TaskOutcome, Volume
from ..tasks.plan import EpochPlan

EPOCH_PHASES = ("planning", *PHASES, "scheduling", "commit")
"""The parts of an epoch's time, from the start of its planning to the end of its commit. PHASES are those of the
slowest thread; `scheduling` is the rest: the start of the job and its workers, and the transfer of the outcomes.
"""


@dataclass(frozen=True)
class TaskCounts:
    """Committed records and the cost of one task. `dropped`: `<step>:<reason>` -> records."""

    epochs: int = 0
    records: int = 0
    seconds: Seconds = field(default_factory=Seconds)
    volume: Volume = field(default_factory=Volume)
    dropped: Mapping[str, int] = field(default_factory=dict)

    as_list: ClassVar[bool] = True

    def spent(self, seconds: Seconds) -> TaskCounts:
        """The counts after one more epoch of this duration."""
        return TaskCounts(self.epochs + 1, self.records, self.seconds + seconds, self.volume, self.dropped)

    def committed(self, commit: TaskCommit, volume: Volume) -> TaskCounts:
        """The counts after one more commit."""
        dropped = Counter(self.dropped) + Counter(commit.dropped) if commit.dropped else self.dropped
        return TaskCounts(self.epochs, self.records + commit.records, self.seconds, self.volume + volume, dropped)


@dataclass(frozen=True)
class EpochCounts:
    """The epochs of a subtopology on a client.

    `commits`: epochs with a commit. `records`: consumed. `bytes`: of these records in memory. `seconds`: in the order
    of EPOCH_PHASES.
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
    """The duration of an epoch in seconds. `planning` and `commit` are parts of `total`."""

    planning: float
    commit: float
    total: float

    def split(self, threads: Sequence[Seconds]) -> tuple[float, ...]:
        """The seconds in the order of EPOCH_PHASES, which add up to `total`. `threads`: the seconds of each thread.

        Stages of one thread may work at the same time on different tasks. Then the rest, `scheduling`, may be 0.
        """
        slowest = max(threads, key=lambda seconds: seconds.total, default=Seconds())
        rest = max(0.0, self.total - self.planning - self.commit - slowest.total)
        return (self.planning, *slowest.values, rest, self.commit)


class Counters:
    """Counts the epochs of an application. Used from the loop's thread only. No counter falls during a run."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, int], TaskCounts] = {}
        self._units: dict[tuple[str, str], EpochCounts] = {}

    def epoch_ended(
        self, client: str, subtopology: str, plan: EpochPlan, outcomes: Sequence[TaskOutcome], times: EpochTimes
    ) -> None:
        """Add an epoch's time, committed or not."""
        measured = {outcome.partition: outcome.measured for outcome in outcomes}
        for partition, measurement in measured.items():
            self._tasks[subtopology, partition] = self.task(subtopology, partition).spent(measurement.seconds)
        nothing = Measured()
        threads = [
            sum((measured.get(task.key.partition, nothing).seconds for task in thread), Seconds())
            for thread in plan.threads
        ]
        unit = self.unit(client, subtopology)
        seconds = tuple(map(sum, zip(unit.seconds, times.split(threads), strict=True)))
        self._units[client, subtopology] = replace(unit, epochs=unit.epochs + 1, seconds=seconds)

    def committed(self, client: str, subtopology: str, outcomes: Sequence[TaskOutcome]) -> None:
        """Add the committed records of an epoch's tasks."""
        records = taken = 0
        for outcome in outcomes:
            if outcome.commit is not None:
                task = subtopology, outcome.partition
                self._tasks[task] = self.task(*task).committed(outcome.commit, outcome.measured.volume)
                records += outcome.commit.records
                taken += outcome.measured.taken
        unit = self.unit(client, subtopology)
        self._units[client, subtopology] = replace(
            unit, commits=unit.commits + 1, records=unit.records + records, bytes=unit.bytes + taken
        )

    def task(self, subtopology: str, partition: int) -> TaskCounts:
        """The counts of a task on all clients that have run it."""
        return self._tasks.get((subtopology, partition), TaskCounts())

    def task_rounded(self, subtopology: str, partition: int) -> TaskCounts:
        """The counts of a task with rounded seconds, for the status in the log."""
        counts = self.task(subtopology, partition)
        return replace(counts, seconds=counts.seconds.rounded())

    def unit(self, client: str, subtopology: str) -> EpochCounts:
        """The counts of a subtopology on a client."""
        return self._units.get((client, subtopology), EpochCounts(subtopology))

    def seconds(self) -> dict[str, float]:
        """Phase -> seconds of all epochs on all clients of the run, lost ones included."""
        totals = [sum(phase) for phase in zip(*(unit.seconds for unit in self._units.values()), strict=True)]
        return dict(zip(EPOCH_PHASES, totals or [0.0] * len(EPOCH_PHASES), strict=True))

    @property
    def epochs(self) -> int:
        """The number of epochs, committed or not."""
        return sum(unit.epochs for unit in self._units.values())
