"""The epoch's job of a client that is gone."""

from __future__ import annotations

import delays
import pytest
from pyspark.sql import SparkSession

from headwater.runtime.placing.client import Client, ClientLostError
from headwater.runtime.spark.job import SparkJob
from headwater.runtime.tasks.plan import EpochPlan, TaskPlan

pytestmark = pytest.mark.spark


def test_job_that_was_given_up_starts_neither_an_epoch_nor_a_trial(spark_session: SparkSession) -> None:
    part = delays.TOPOLOGY.subtopologies[0]
    job = SparkJob(spark_session, part, Client("executor-1", 1), "p-delays")
    plan = EpochPlan("p-delays", 1, 1, 0, 0, "executor-1", ("embedded", {}), "", ((),))
    job.cancel()
    with pytest.raises(ClientLostError):
        job.run(plan)
    with pytest.raises(ClientLostError):
        job.try_each(plan, [TaskPlan(part.name, 0, 1, -1, {}, ())])
