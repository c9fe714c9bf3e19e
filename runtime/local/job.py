"""The epoch's job in this process. Its tasks run one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce

import pyarrow as pa

from ..chosen_plugins import ChosenPlugins
from ..dataclass_json import from_json
from ..driver.cluster import Failing, Trial, named_by
from ..placing.client import Client, ClientLostError
from ..stages.failed_stage import Facts, StageFailedError, facts_of
from ..stages.worker import PlannedWorker
from ..task_id import TaskKey
from ..tasks.outcome import TaskOutcome
from ..tasks.plan import EpochPlan, TaskPlan
from ..topology import PluginRef, Subtopology
from .engine import Batches, LocalEngine, Step, built


class LocalJob:
    """An EpochJob (`driver/cluster.py`). `expressions`: see `LocalEngine`.

    Raises ExpressionsNeedSparkError if the subtopology has SQL steps without a function.
    """

    def __init__(self, part: Subtopology, client: Client, expressions: Mapping[str, Step]) -> None:
        self._client = client
        self._plan: EpochPlan | None = None
        self._cancelled = False
        self._steps: tuple[Step, ...] = built(part, LocalEngine(self._worker, expressions, bool(part.processors)))

    def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
        """Run one epoch, thread by thread. Raises StageFailedError, and ClientLostError after `cancel`."""
        self._refuse_cancelled(plan)
        self._plan = plan
        threads: Batches = (_thread(number) for number in range(len(plan.threads)))
        done = reduce(lambda batches, step: step(batches), self._steps, threads)
        return tuple(from_json(TaskOutcome, text) for batch in done for text in batch.column(0).to_pylist())

    def try_each(self, plan: EpochPlan, tasks: Sequence[TaskPlan]) -> Trial:
        """Try one task after another, up to the first failure. Nothing is written.

        Raises ClientLostError after `cancel`.
        """
        self._refuse_cancelled(plan)
        for number, task in enumerate(tasks):
            try:
                self.run(replace(plan, threads=((task,),), trial=True))
            except Exception as error:  # whatever an operator raises
                return Trial(tuple(range(number)), (number, error))
        return Trial(tuple(range(len(tasks))), None)

    def failing(self, plan: EpochPlan) -> tuple[Failing, ...]:
        """The records that the first failing step names. Raises ClientLostError after `cancel`."""
        try:
            self.run(replace(plan, trial=True))
        except StageFailedError as error:
            return named_by(error.facts, plan)
        return ()

    def reasons(self, plan: EpochPlan, failed: Mapping[TaskKey, Sequence[int]]) -> tuple[Failing, ...]:  # noqa: ARG002
        """None: it leaves out no records."""
        return ()

    def steps(self) -> Sequence[tuple[str, Callable[[EpochPlan], None]]]:
        """None: each step names itself in its errors."""
        return ()

    def facts(self, error: Exception) -> Facts:
        """The facts of the failed stage."""
        return error.facts if isinstance(error, StageFailedError) else facts_of(error)

    def cancel(self) -> None:
        """Start no further epoch."""
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
            yield PlannedWorker(self._plan, log, writer, plugins.backend)


def _thread(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"thread": pa.array([number], pa.int32())})
