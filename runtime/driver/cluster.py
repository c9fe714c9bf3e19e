"""What a run needs of whatever executes its epochs: Spark (`runtime.spark`), or this process (`runtime.local`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...errors import HeadwaterError
from ..log.records import TaskCommit
from ..placing.client import Client
from ..restore.links import StateLink
from ..stages.failed_stage import Facts
from ..state.process_file import Owner
from ..tasks.plan import EpochPlan, TaskPlan
from ..topology import Settings, Subtopology

MOST_TRIED = 8
"""How many tasks a job tries at once. On Spark each costs a Spark task and its records, so more find less in the same
time."""


@dataclass(frozen=True)
class Trial:
    """What became of parts of an epoch that were tried. `passed`: their numbers; `failed`: the number and the error of
    one that failed, None when all passed. Of others it is not known."""

    passed: tuple[int, ...]
    failed: tuple[int, Exception] | None


class EpochJob(Protocol):
    """Runs the tasks of one subtopology on one client, from one thread at a time."""

    def run(self, plan: EpochPlan) -> tuple[TaskCommit, ...]:
        """Run one epoch; the tasks' commits in plan order. Nothing of it exists before the driver commits it.

        Raises whatever a task raises, which `facts` explains, and ClientLostError once the job is cancelled.
        """
        ...

    def try_each(self, plan: EpochPlan, tasks: Sequence[TaskPlan]) -> Trial:
        """Try tasks side by side, at most MOST_TRIED. Nothing is written. The first that fails ends the trial.

        Raises ClientLostError once the job is cancelled.
        """
        ...

    def first_failing(self, plan: EpochPlan) -> int | None:
        """The number, from 0, of the first record that a step of the plan's only task cannot process.

        None where that cannot be told at once; it does not mean that no record fails. Nothing is written.
        """
        ...

    def steps(self) -> Sequence[tuple[str, Callable[[EpochPlan], None]]]:
        """The steps whose errors do not say where they come from: the place of each in the YAML, and what runs all up
        to it for its errors alone. In the order in which records pass them.
        """
        ...

    def facts(self, error: Exception) -> Facts:
        """What is known of an error that `run`, a trial or a step has raised."""
        ...

    def cancel(self) -> None:
        """Give up what is running, as its client is gone. Nothing is started after it."""
        ...


class Cluster(Protocol):
    """Executes the epochs of all applications of a run."""

    def clients(self, count: int) -> tuple[Client, ...]:
        """The clients there are; where they are virtual, `count` of them."""
        ...

    def lost(self, client: Client) -> bool:
        """Whether a client is gone, with all that it has not committed."""
        ...

    def owner(self) -> Owner | None:
        """The process that works on the stores of clients on this machine: nobody takes them over while it lives. None
        where the system does not tell.
        """
        ...

    def state_dir(self, settings: Settings) -> Path | None:
        """The folder of the stores, where clients are on this machine; None where they have them on their own."""
        ...

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        """The job of a subtopology on a client."""
        ...

    def link(self, client: Client, application: str) -> StateLink:
        """The way to a client's stores."""
        ...

    def ended(self, error: Exception) -> HeadwaterError | None:
        """What to tell of an error whose reason is that the cluster itself is gone; None for any other error."""
        ...
