"""Protocols of a cluster, which executes the epochs of a run: Spark (`cluster.spark`) or this process
(`cluster.local`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from ...errors import UnavailableError
from ..engine.failed_stage import Facts
from ..ir.topology import Settings, Subtopology
from ..placing.place import Client
from ..restore.links import StateLink
from ..state.process_file import Owner
from ..task_id import TaskKey
from ..tasks.measured import TaskOutcome
from ..tasks.plan import EpochPlan, TaskPlan
from .errors import ClusterEndedError

MOST_TRIED = 8
"""The most tasks in one trial job. On Spark a trial costs a Spark task and its records, so more would not be faster."""


@dataclass(frozen=True)
class Trial:
    """The result of a trial of parts of an epoch. A part in neither field may or may not fail.

    `passed`: indexes of the parts that passed. `failed`: index and error of one part that failed; None if all passed.
    """

    passed: tuple[int, ...]
    failed: tuple[int, Exception] | None


@dataclass(frozen=True)
class Failing:
    """A record that a step cannot process.

    `number`: index among the records that the task takes under the plan. `step`: `file:line`, empty if unknown.
    `certain`: it fails whichever other records are skipped; else an earlier record, already applied to a store, may be
    the cause. `waited`: the failing row had waited in a join of streams and was emitted with this record; None if
    unknown. `told_by`: the evidence against this record: an error of a step, the end of its worker, or an error outside
    steps. Only records with evidence from a step are skipped.
    """

    task: TaskKey
    number: int
    step: str
    cause: str
    certain: bool = True
    waited: bool | None = None
    told_by: Literal["step", "worker", "error"] = "step"

    @classmethod
    def numbered(cls, number: int, plan: EpochPlan, step: str, cause: str, certain: bool = True) -> Failing:
        """A failing record, from the row number of a trial."""
        return cls(*plan.locate(number), step, cause, certain, waited=number < 0)


def named_by(facts: Facts, plan: EpochPlan) -> tuple[Failing, ...]:
    """The failing records that the error of a trial names. Raises UnavailableError if the trial itself was cut off."""
    if facts.kind == "unavailable":
        raise UnavailableError(facts.cause, facts.hint or None)
    causes = facts.causes or (facts.cause,) * len(facts.numbers)
    return tuple(
        Failing.numbered(number, plan, facts.at, cause, facts.stateless)
        for number, cause in zip(facts.numbers, causes, strict=True)
    )


class EpochJob(Protocol):
    """Runs the tasks of one subtopology on one client. One thread at a time uses it."""

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        """Run one epoch. Returns the tasks' outcomes in plan order. They have no effect before the driver commits them.

        The outcome of a task reports damaged stores, and stores that another client has taken. It also reports records
        that steps could not process (`TaskOutcome.failed`), if the job can continue without them. Raises all other
        errors of tasks, which `facts` explains, and ClientLostError after `cancel`.
        """
        ...

    def reasons(self, plan: EpochPlan, failed: Mapping[TaskKey, Sequence[int]]) -> tuple[Failing, ...]:
        """The step and the cause of every record in `failed` (task -> record numbers). Writes nothing.

        Raises ClientLostError after `cancel`.
        """
        ...

    def try_each(self, plan: EpochPlan, tasks: Sequence[TaskPlan]) -> Trial:
        """Try tasks in parallel, at most MOST_TRIED. Writes nothing. The first failure ends the trial.

        Raises ClientLostError after `cancel`.
        """
        ...

    def failing(self, plan: EpochPlan) -> tuple[Failing, ...]:
        """Records that steps cannot process, as many as one job can find. Writes nothing.

        Empty if one job cannot find them; records may fail nevertheless. Raises ClientLostError after `cancel`.
        """
        ...

    def steps(self) -> Sequence[tuple[str, Callable[[EpochPlan], None]]]:
        """The steps that their errors do not name, in processing order.

        A pair is the step's `file:line` in the YAML, and a function that runs everything up to the step for its errors.
        """
        ...

    def facts(self, error: Exception) -> Facts:
        """Metadata of an error that `run`, a trial or a step has raised."""
        ...

    def cancel(self) -> None:
        """Cancel running work, because the client is gone. Nothing starts afterwards."""
        ...


class Cluster(Protocol):
    """Executes the epochs of all applications in a run."""

    def clients(self, count: int) -> tuple[Client, ...]:
        """The clients of the cluster; `count` virtual ones in local mode."""
        ...

    def present(self, count: int) -> tuple[Client, ...]:
        """The clients that are alive now. Called in every round of the loop: it is cheap and never waits."""
        ...

    def lost(self, client: Client) -> bool:
        """Whether a client is gone or treated as lost. Its uncommitted work is lost too."""
        ...

    def silent(self, client: Client) -> float | None:
        """Seconds since the last sign of life of a client that is treated as lost for its silence; None for others."""
        ...

    def owner(self) -> Owner | None:
        """The process that owns the stores of clients on this machine; None if the system does not tell.

        No other process takes these stores over while it lives.
        """
        ...

    def state_dir(self, settings: Settings) -> Path | None:
        """The directory of the stores if clients run on this machine; None if they run on machines of their own."""
        ...

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        """The job of a subtopology on a client."""
        ...

    def link(self, client: Client, application: str) -> StateLink:
        """The link to a client's stores."""
        ...

    def ended(self, error: Exception) -> ClusterEndedError | None:
        """The error to report if the end of the cluster has caused `error`; else None."""
        ...
