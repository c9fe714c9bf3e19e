"""The epoch's job: one narrow Spark job for a subtopology on a client, its plan built once and run every epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..log.records import TaskCommit
from ..tasks.plan import EpochPlan
from ..tasks.plan_json import from_json, to_json
from ..topology import Subtopology
from ..types import quote
from .clients import Client
from .placement import placed
from .text_check import checked_text
from .worker import PLAN_PROPERTY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class EpochJob:
    """Runs the tasks of one subtopology on one client. Safe to run from one thread at a time."""

    def __init__(self, session: SparkSession, part: Subtopology, client: Client, group: str) -> None:
        self._session = session
        self.rows: DataFrame = part.build(placed(session, client.threads, client.executor))
        self._group = f"{group}/{part.name}/{client.name}"

    def run(self, plan: EpochPlan) -> tuple[TaskCommit, ...]:
        """Run one epoch; the tasks' commits in plan order. Nothing of it exists before the driver commits it."""
        self._set(plan)
        return tuple(from_json(TaskCommit, row[0]) for row in self.rows.collect())

    def drain(self, rows: DataFrame, plan: EpochPlan) -> None:
        """Run a part of the query plan for its errors alone: every column is computed, nothing is kept.

        Texts that are not UTF-8 are errors here as they are where rows leave Spark (`pipe.TextError`).
        """
        from pyspark.sql import functions

        self._set(plan)
        checked = [
            checked_text(functions.col(quote(field.name)), field.dataType).alias(f"_{number}")
            for number, field in enumerate(rows.schema)
        ]
        rows.select(*checked).write.format("noop").mode("overwrite").save()

    def cancel(self) -> None:
        """Give up the running job: its client is gone or silent."""
        self._session.sparkContext.cancelJobGroup(self._group)

    def _set(self, plan: EpochPlan) -> None:
        """Properties are the calling thread's: jobs of several units run side by side."""
        context = self._session.sparkContext
        context.setLocalProperty(PLAN_PROPERTY, to_json(plan))
        context.setLocalProperty("spark.scheduler.pool", "epochs")
        context.setJobGroup(self._group, f"epoch {plan.epoch}")
