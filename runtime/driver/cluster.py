"""The protocols of whatever executes the epochs of a run: Spark (`runtime.spark`) or this process (`runtime.local`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

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
"""How many tasks a job tries at once. On Spark each costs a Spark task and its records, so more would not be faster."""


@dataclass(frozen=True)
class Trial:
    """The result of trying parts of an epoch. Parts that are in neither field may or may not fail.

    `passed`: numbers of the parts that passed. `failed`: number and error of one that failed; None if all passed.
    """

    passed: tuple[int, ...]
    failed: tuple[int, Exception] | None


@dataclass(frozen=True)
class Failing:
    """A record that a step cannot process. `number`: of those that the task takes under the plan, from 0. `step`:
    `file:line`, empty if unknown. `certain`: it fails whichever others are left out; else it may be an earlier one's
    fault, which a store has seen before it. `waited`: whether what fails is a row that had waited in a join of streams
    and came out with this record; None if that is not known. `told_by`: what has told that this record is the cause: a
    step, the end of its worker, or an error that is no step's. Only a step's records are left out.
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
        """Of a record as the rows of a trial are numbered."""
        return cls(*plan.locate(number), step, cause, certain, waited=number < 0)


def named_by(facts: Facts, plan: EpochPlan) -> tuple[Failing, ...]:
    """The records that the error of a trial names, with the step that cannot process them."""
    causes = facts.causes or (facts.cause,) * len(facts.numbers)
    return tuple(
        Failing.numbered(number, plan, facts.at, cause, facts.stateless)
        for number, cause in zip(facts.numbers, causes, strict=True)
    )


class EpochJob(Protocol):
    """Runs the tasks of one subtopology on one client. It is used by one thread at a time."""

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        """Run one epoch. Returns the tasks' outcomes in plan order. Nothing exists before the driver has committed it.

        A task whose stores are damaged, or not its client's any more, says so in its outcome. So does a task of which
        steps could not process some records (`TaskOutcome.failed`), if the job can go on without these. Raises whatever
        else a task raises, which `facts` explains, and ClientLostError after `cancel`.
        """
        ...

    def reasons(self, plan: EpochPlan, failed: Mapping[TaskKey, Sequence[int]]) -> tuple[Failing, ...]:
        """Why steps could not process these records, by their numbers: every one, each with its step. Nothing is
        written. Raises ClientLostError after `cancel`.
        """
        ...

    def try_each(self, plan: EpochPlan, tasks: Sequence[TaskPlan]) -> Trial:
        """Try tasks side by side, at most MOST_TRIED. Nothing is written. The first failure ends the trial.

        Raises ClientLostError after `cancel`.
        """
        ...

    def failing(self, plan: EpochPlan) -> tuple[Failing, ...]:
        """Records that steps cannot process, as many as can be found at once.

        None if it cannot be found at once which records these are, which does not mean that no record fails. Nothing is
        written. Raises ClientLostError after `cancel`.
        """
        ...

    def steps(self) -> Sequence[tuple[str, Callable[[EpochPlan], None]]]:
        """The steps whose errors do not name them, in the order in which records pass them.

        For each: its place in the YAML, and a function that runs everything up to it, only for its errors.
        """
        ...

    def facts(self, error: Exception) -> Facts:
        """The facts about an error that `run`, a trial or a step has raised."""
        ...

    def cancel(self) -> None:
        """Cancel what is running, because the client is gone. Nothing is started afterwards."""
        ...


class Cluster(Protocol):
    """Executes the epochs of all applications in a run."""

    def clients(self, count: int) -> tuple[Client, ...]:
        """The clients of the cluster. If they are virtual: `count` of them."""
        ...

    def present(self, count: int) -> tuple[Client, ...]:
        """The clients there are at this moment, of `clients`. Asked all the time: cheap, and never waits."""
        ...

    def lost(self, client: Client) -> bool:
        """Whether a client is gone or given up, with everything that it has not committed."""
        ...

    def silent(self, client: Client) -> float | None:
        """For how many seconds nothing was heard of a client that is given up for that; None for any other."""
        ...

    def owner(self) -> Owner | None:
        """The process that works on the stores of clients on this machine; None if the system does not tell.

        Nobody takes these stores over while it lives.
        """
        ...

    def state_dir(self, settings: Settings) -> Path | None:
        """The folder of the stores, if clients run on this machine; None if they keep them on their own machines."""
        ...

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        """The job of a subtopology on a client."""
        ...

    def link(self, client: Client, application: str) -> StateLink:
        """The link to a client's stores."""
        ...

    def ended(self, error: Exception) -> ClusterEndedError | None:
        """The error to show if an error was caused by the end of the cluster itself; None otherwise."""
        ...
