"""The steps of a subtopology as functions over batches, applied one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...errors import HeadwaterError
from ..operators.declarations import Flow
from ..operators.node import Node
from ..stages.failed_stage import StageFailedError, StepError, with_facts
from ..stages.sql_step import SqlStep
from ..stages.stage import Stage, Worker
from ..topology import Subtopology

Batches = Iterator[pa.RecordBatch]
Step = Callable[[Batches], Batches]
"""Takes the rows of a pipe (`stages/pipe.py`) and returns them after one step."""


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
    """An Engine (`stages/steps.py`). Its rows are the functions so far.

    `open_worker`: called when a stage runs. `expressions`: functions in place of SQL steps, by their place in the YAML.
    `numbered`: see `Stage`.
    """

    open_worker: Callable[[], AbstractContextManager[Worker]]
    expressions: Mapping[str, Step]
    numbered: bool = False

    def in_task(self, step: SqlStep, alone: bool) -> bool:  # noqa: ARG002
        """Every step without a function of its own."""
        return str(step.at) not in self.expressions

    def process(
        self, rows: tuple[Step, ...], nodes: tuple[Node, ...], reads: Mapping[str, Flow], yields: Mapping[str, Flow]
    ) -> tuple[Step, ...]:
        """Add a Python stage, the same as on Spark."""
        stage = Stage(nodes, self.open_worker, reads, yields, self.numbered)
        return (*rows, lambda batches: with_facts(stage(batches)))

    def sql(self, rows: tuple[Step, ...], step: str, arguments: Mapping[str, Any]) -> tuple[Step, ...]:
        """Add the function in place of an SQL step. Raises ExpressionsNeedSparkError if there is none."""
        at = str(arguments["at"])
        if at not in self.expressions:
            raise ExpressionsNeedSparkError(step, at)
        return (*rows, _named(self.expressions[at], step, at))


def _named(expression: Step, step: str, at: str) -> Step:
    """The same step, with errors that name it."""

    def run(batches: Batches) -> Batches:
        try:
            yield from expression(batches)
        except (StageFailedError, HeadwaterError, OSError, MemoryError):  # of a stage before, or of no record
            raise
        except Exception as error:
            raise StepError(step, at, "", error) from error

    return run


def built(part: Subtopology, engine: LocalEngine) -> tuple[Step, ...]:
    """The steps of a subtopology in order, from the client's threads to the tasks' commits."""
    steps: tuple[Step, ...] = part.build((), engine)
    return steps
