"""How many jobs and tasks an epoch is on Spark, and what is shipped with it; counted as in `test_counts.py`."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.runtime.cluster.spark.cluster import SparkCluster
from headwater.runtime.cluster.spark.worker import PLAN_PROPERTY
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ingest.append import append
from headwater.runtime.ir.topology import PluginRef, Settings
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.tests.performance.cases import Feeding
from headwater.tests.performance.counting import length
from headwater.tests.performance.measured import FEWEST_EPOCHS, difference
from headwater.tests.performance.noted import hold_to_noted
from headwater.tests.runtime.driver import delays

RECORDS = 1_000


@pytest.mark.spark
def test_work_on_spark_is_as_much_as_noted(
    spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update_golden: bool
) -> None:
    shipped = Counter[str]()
    original = SparkContext.setLocalProperty

    def set_property(context: SparkContext, key: str, value: Any) -> None:
        if key == PLAN_PROPERTY and value is not None:
            shipped["bytes of plans"] += length(value.replace(str(tmp_path), ""))
        original(context, key, value)

    monkeypatch.setattr(SparkContext, "setLocalProperty", set_property)

    def done(epochs: int) -> Counter[str]:
        before = _begun(spark_session) + shipped
        _run(spark_session, tmp_path / str(epochs), epochs)
        return _begun(spark_session) + shipped - before

    found = difference(done(FEWEST_EPOCHS + 1), done(FEWEST_EPOCHS))
    hold_to_noted(Path(__file__).with_suffix(".yml"), "an epoch of both subtopologies", found, update_golden)


def _begun(session: SparkSession) -> Counter[str]:
    """The jobs and the tasks that the session has begun so far."""
    context: Any = session.sparkContext._jsc.sc()
    jobs, tasks = context.dagScheduler().numTotalJobs(), context.taskScheduler().nextTaskId()
    return Counter({"jobs": jobs, "tasks": tasks})


def _run(session: SparkSession, root: Path, epochs: int) -> None:
    """A lasting run that is fed with so many epochs, one after the other."""
    log, stop = EmbeddedLog(root / "log"), threading.Event()

    def feed(epoch: int) -> None:
        table, times = delays.flights(RECORDS, epoch)
        append(log, "p-seed", delays.FLIGHTS, table, timestamps=times)

    append(log, "p-seed", delays.AIRLINES, delays.airlines(), timestamps=[0] * 4)
    feed(0)
    settings = Settings(PluginRef("embedded", {"path": str(log.root)}), str(root / "state"), epoch_interval_ms=0)
    results = run_topologies(
        [delays.TOPOLOGY],
        settings,
        SparkCluster(session),
        until_caught_up=False,
        observer=Feeding(feed, epochs, "hourly", stop),
        stop=stop,
    )
    (result,) = results.applications
    assert (result.status, result.error) == ("interrupted", None), result
