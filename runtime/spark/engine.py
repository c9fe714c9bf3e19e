"""Spark as the engine of a pipe: each step is added to a query plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..operators.batch_columns import physical_columns
from ..operators.declarations import Flow
from ..operators.node import Node
from ..stages.failed_stage import with_facts
from ..stages.sql_step import SqlStep
from ..stages.stage import Stage
from ..topology import Subtopology
from . import sql_steps
from .worker import spark_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def built(part: Subtopology, placed: DataFrame, in_tasks: bool = False) -> DataFrame:
    """The query plan of a subtopology's epochs, starting from the placed threads. `in_tasks`: see `SparkEngine`.

    Its result has one row `commit` for each task.
    """
    rows: DataFrame = part.build(placed, SparkEngine.of(part, in_tasks))
    return rows


@dataclass(frozen=True)
class SparkEngine:
    """See `Engine`.

    Its rows are a DataFrame: first the placed threads, then the pipe of `sql_steps`, at the end commits. `numbered`:
    whether the pipe says of each row which record it comes from, see `stages/pipe.py`. `leaves_out`: whether records
    are left out that a step cannot process. `in_tasks`: whether expressions are computed within Python stages where
    that is proven to give the same.
    """

    numbered: bool = False
    in_tasks: bool = False
    leaves_out: bool = False

    @classmethod
    def of(cls, part: Subtopology, in_tasks: bool = False) -> SparkEngine:
        """That of a subtopology's epochs."""
        return cls(part.leaves_out or bool(part.processors), in_tasks, part.leaves_out)

    def in_task(self, step: SqlStep, alone: bool) -> bool:  # noqa: ARG002
        """See `Engine`. A stage more costs far more than a simple step, whose rows are in Spark SQL already."""
        return self.in_tasks and not alone

    def process(
        self, rows: DataFrame, nodes: tuple[Node, ...], reads: Mapping[str, Flow], yields: Mapping[str, Flow]
    ) -> DataFrame:
        """One `mapInArrow`."""
        from pyspark.sql.pandas.types import from_arrow_schema

        stage = Stage(nodes, spark_worker, reads, yields, self.numbered, self.leaves_out)
        if reads:
            rows = sql_steps.ordered(rows, {name: list(physical_columns(flow)) for name, flow in reads.items()})
            # A stage reads columns by position, but `mapInArrow` asks by name and reads a dot as access to a field.
            rows = rows.toDF(*(f"_{number}" for number in range(len(rows.columns))))
        return rows.mapInArrow(lambda batches: with_facts(stage(batches)), from_arrow_schema(stage.schema))

    def sql(self, rows: DataFrame, step: str, arguments: Mapping[str, Any]) -> DataFrame:
        """The function of `sql_steps` with the step's name."""
        done: DataFrame = getattr(sql_steps, step)(rows, **arguments)
        return done
