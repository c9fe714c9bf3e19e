"""Epochs in this process, without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import HeadwaterError
from ..chosen_plugins import ChosenPlugins
from ..dataclass_json import from_json
from ..driver.cluster import EpochJob, Failing, Trial, named_by
from ..engine.failed_stage import Facts, StageFailedError, StepError, facts_of, with_facts
from ..engine.operators.operator import Flow, Node
from ..engine.sql_step import SqlStep
from ..engine.stage import Stage, Worker
from ..engine.worker import PlannedWorker
from ..ir.topology import PluginRef, Settings, Subtopology
from ..placing.place import Client, ClientLostError
from ..restore.links import LocalLink, StateLink
from ..state.process_file import Owner
from ..task_id import TaskKey
from ..tasks.measured import TaskOutcome
from ..tasks.plan import EpochPlan, TaskPlan

Batches = Iterator[pa.RecordBatch]
Step = Callable[[Batches], Batches]
"""Takes the rows of a pipe (`engine/pipe.py`) and returns them after one step."""


class ExpressionsNeedSparkError(HeadwaterError):
    """An SQL step cannot run in this process: `step`, `at` (file:line in the YAML)."""

    def __init__(self, step: str, at: str) -> None:
        super().__init__(
            f"{at or 'a step'}: '{step}' has expressions, which are Spark SQL and need Spark",
            "run the topology on Spark",
        )
        self.step = step
        self.at = at


@dataclass(frozen=True)
class LocalEngine:
    """An Engine (`engine/steps.py`) whose rows are functions over batches, applied one after another.

    `open_worker`: called when a stage runs. `expressions`: `file:line` of an SQL step -> a function in its place.
    `numbered`: see `Stage`.
    """

    open_worker: Callable[[], AbstractContextManager[Worker]]
    expressions: Mapping[str, Step]
    numbered: bool = False

    def in_task(self, step: SqlStep, alone: bool) -> bool:  # noqa: ARG002
        """Whether a stage computes the step: it has no function in its place."""
        return str(step.at) not in self.expressions

    def process(
        self, rows: tuple[Step, ...], nodes: tuple[Node, ...], reads: Mapping[str, Flow], yields: Mapping[str, Flow]
    ) -> tuple[Step, ...]:
        """Add a Python stage, the same as on Spark."""
        stage = Stage(nodes, self.open_worker, reads, yields, self.numbered)
        return (*rows, lambda batches: with_facts(stage(batches)))

    def sql(self, rows: tuple[Step, ...], step: str, arguments: Mapping[str, Any]) -> tuple[Step, ...]:
        """Add the function in place of an SQL step. Raises ExpressionsNeedSparkError without one."""
        at = str(arguments["at"])
        if at not in self.expressions:
            raise ExpressionsNeedSparkError(step, at)
        return (*rows, _named(self.expressions[at], step, at))


def _named(expression: Step, step: str, at: str) -> Step:
    """The step, with errors that name it."""

    def run(batches: Batches) -> Batches:
        try:
            yield from expression(batches)
        except (StageFailedError, HeadwaterError, OSError, MemoryError):  # of an earlier stage, or of no record
            raise
        except Exception as error:
            raise StepError(step, at, "", error) from error

    return run


def built(part: Subtopology, engine: LocalEngine) -> tuple[Step, ...]:
    """The steps of a subtopology in order, from the client's threads to the tasks' commits."""
    steps: tuple[Step, ...] = part.build((), engine)
    return steps


class LocalJob:
    """An EpochJob (`driver/cluster.py`) in this process. Its tasks run one after another. `expressions`: see
    `LocalEngine`.

    Raises ExpressionsNeedSparkError if the subtopology has SQL steps without a function.
    """

    def __init__(self, part: Subtopology, client: Client, expressions: Mapping[str, Step]) -> None:
        self._client = client
        self._plan: EpochPlan | None = None
        self._cancelled = False
        self._steps: tuple[Step, ...] = built(part, LocalEngine(self._worker, expressions, bool(part.processors)))

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        self._refuse_cancelled(plan)
        self._plan = plan
        threads: Batches = (_thread(number) for number in range(len(plan.threads)))
        done = reduce(lambda batches, step: step(batches), self._steps, threads)
        return tuple(from_json(TaskOutcome, text) for batch in done for text in batch.column(0).to_pylist())

    def try_each(self, plan: EpochPlan, tasks: Sequence[TaskPlan]) -> Trial:
        """One task after another, up to the first failure."""
        self._refuse_cancelled(plan)
        for number, task in enumerate(tasks):
            try:
                self.run(replace(plan, threads=((task,),), trial=True))
            except Exception as error:  # any error of an operator
                return Trial(tuple(range(number)), (number, error))
        return Trial(tuple(range(len(tasks))), None)

    def failing(self, plan: EpochPlan) -> tuple[Failing, ...]:
        """The records that the first failing step names."""
        try:
            self.run(replace(plan, trial=True))
        except StageFailedError as error:
            return named_by(error.facts, plan)
        return ()

    def reasons(self, plan: EpochPlan, failed: Mapping[TaskKey, Sequence[int]]) -> tuple[Failing, ...]:  # noqa: ARG002
        """Always empty: this job skips no records."""
        return ()

    def steps(self) -> Sequence[tuple[str, Callable[[EpochPlan], None]]]:
        """Always empty: all steps name themselves in their errors."""
        return ()

    def facts(self, error: Exception) -> Facts:
        return error.facts if isinstance(error, StageFailedError) else facts_of(error)

    def cancel(self) -> None:
        self._cancelled = True

    def _refuse_cancelled(self, plan: EpochPlan) -> None:
        if self._cancelled:
            raise ClientLostError(plan.application, self._client.name)

    @contextmanager
    def _worker(self) -> Iterator[PlannedWorker]:
        """The worker for a stage of the running epoch."""
        assert self._plan is not None
        plugins = ChosenPlugins(self._plan.plugins)
        log = plugins.log(PluginRef(*self._plan.log), self._plan.places)
        with log.writer() as writer:
            yield PlannedWorker(self._plan, log, writer, plugins.backend, plugins.kafka(self._plan))


def _thread(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"thread": pa.array([number], pa.int32())})


class LocalCluster:
    """A cluster (`driver.cluster.Cluster`) of virtual clients `client-1`, `client-2` and so on in this process, with
    stores on this machine.

    `threads`: of a client. `expressions`: functions in place of SQL steps, see `LocalEngine`.
    """

    def __init__(self, threads: int = 1, expressions: Mapping[str, Step] | None = None) -> None:
        self._threads = threads
        self._expressions = expressions or {}
        self._lost: set[str] = set()

    def lose(self, client: str) -> None:
        """Make the client with this name lost from now on."""
        self._lost.add(client)

    def find(self, client: str) -> None:
        """Bring a lost client back, with its stores on disk."""
        self._lost.discard(client)

    def clients(self, count: int) -> tuple[Client, ...]:
        """The first `count` clients, without lost ones."""
        names = [f"client-{number}" for number in range(1, count + 1)]
        return tuple(Client(name, self._threads, folder=name) for name in names if name not in self._lost)

    def present(self, count: int) -> tuple[Client, ...]:
        return self.clients(count)

    def lost(self, client: Client) -> bool:
        return client.name in self._lost

    def silent(self, client: Client) -> float | None:  # noqa: ARG002
        """Always None: clients in this process are never silent."""
        return None

    def owner(self) -> Owner | None:
        return Owner.from_pid(os.getpid())

    def state_dir(self, settings: Settings) -> Path | None:
        return Path(settings.state_dir)

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:  # noqa: ARG002
        return LocalJob(part, client, self._expressions)

    def link(self, client: Client, application: str) -> StateLink:  # noqa: ARG002
        return LocalLink()

    def ended(self, error: Exception) -> None:
        """Always None: this process is running."""
