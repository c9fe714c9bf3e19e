"""The records that SQL steps cannot process: the epoch's job leaves them out, and jobs for each step tell them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.runtime import (
    Agg,
    Aggregate,
    Pipe,
    Sink,
    Source,
    Store,
    Subtopology,
    Topic,
    Topology,
    subtopology,
)
from headwater.runtime.cluster.spark.job import SparkJob
from headwater.runtime.ingest.append import append
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.placing.place import Client
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.planner import Planner
from headwater.runtime.state.process_file import Owner, ProcessFile
from headwater.runtime.tasks.plan import EpochPlan

pytestmark = pytest.mark.spark

ORDERS = Topic("orders", 1, "k string", "a string, n int", on_error="skip")
RESULTS = Topic("results", 1, "k string", "a string, n int", writer="p-t")
TOTALS = Store("totals", 1, "k string", "total bigint", aggregates=(Agg("total", "sum", "n", "bigint", "int"),))


@subtopology(0, "orders", file="t.yml")
def two_steps(rows: Pipe) -> Pipe:
    """Each reads what it casts twice, so that Spark has a common subexpression to compute once."""
    rows = rows.process(Source(ORDERS, "orders"))
    rows = rows.where("orders", "cast(a AS int) >= 0 OR cast(a AS int) < -1", at=1)
    rows = rows.select("orders", {"n int": "cast(6 / n + 6 / n AS int)"}, keep=("a",), at=2)
    return rows.process(Sink("orders", RESULTS))


@subtopology(0, "orders", file="t.yml")
def exploded(rows: Pipe) -> Pipe:
    rows = rows.process(Source(ORDERS, "orders"))
    rows = rows.explode("orders", {"n int": "array(1, cast(6 / n AS int))"}, keep=("a",), at=1)
    return rows.process(Sink("orders", RESULTS))


@subtopology(0, "orders", file="t.yml")
def behind_a_store(rows: Pipe) -> Pipe:
    rows = rows.process(
        Source(ORDERS, "orders", columns=("n",)),
        Aggregate("orders", TOTALS),
    )
    rows = rows.select("orders", {"n int": "cast(6 / (total - 3) AS int)", "a string": "''"}, at=1)
    return rows.process(Sink("orders", RESULTS))


@pytest.mark.parametrize(
    ("part", "texts", "numbers", "found"),
    [
        (two_steps, ["0", "1", "2", "3"], [1, 2, 3, 4], []),
        (two_steps, ["0", "x", "2", "y"], [1, 0, 0, 1], [(1, 1, "CAST"), (2, 2, "DIVIDE"), (3, 1, "CAST")]),
        (exploded, ["a", "a", "a", "a"], [1, 0, 3, 0], [(1, 1, "DIVIDE"), (3, 1, "DIVIDE")]),
        # The third makes the sum 3, and so does the fifth: but without the third it does not.
        (behind_a_store, ["a", "a", "a", "a", "a"], [1, 1, 1, -1, 1], [(2, 1, "DIVIDE")]),
    ],
)
def test_records_that_expressions_cannot_process_are_told_with_step_and_reason(
    tmp_path: Path,
    spark_session: SparkSession,
    part: Subtopology,
    texts: list[str],
    numbers: list[int],
    found: list[tuple[int, int, str]],
) -> None:
    log = EmbeddedLog(tmp_path / "log")
    values = pa.table({"k": ["k"] * len(texts), "a": texts, "n": pa.array(numbers, pa.int32())})
    append(log, "p-seed", ORDERS, values, timestamps=list(range(len(texts))))
    topology = Topology("p", "t", "", "", (part,))
    task = Planner(Committed(log, topology), 1_000).task(part, 0, {})
    process_id = ProcessFile.take(tmp_path / "c" / "p-t", Owner("boot", 1, 0.0)).process_id
    at = ("embedded", {"path": str(log.root)}), str(tmp_path)
    plan = EpochPlan("p-t", 1, 1, 0, 0, "c", process_id, 0, *at, ((task,), ()), trial=True)

    job = SparkJob(spark_session, part, Client("c", 2), "p-t")
    failing = sorted(job.failing(plan), key=lambda each: each.number)

    assert [(each.number, each.step) for each in failing] == [(number, f"t.yml:{line}") for number, line, _ in found]
    assert all(each.cause.startswith(f"[{word}_") for each, (_, _, word) in zip(failing, found, strict=True))
    assert all(each.task == task.key and each.certain is (part is not behind_a_store) for each in failing)
    if part is behind_a_store:  # an earlier record may be the cause
        with pytest.raises(Exception, match="has something already"):
            job.run(replace(plan, trial=False))
    else:
        (outcome,) = job.run(replace(plan, trial=False))
        failed = tuple(number for number, _, _ in found)
        assert (outcome.failed, outcome.commit.records) == (failed, len(texts))
        written = sum(each.rows for each in outcome.commit.segments)
        assert written == (len(texts) - len(failed)) * (2 if part is exploded else 1)
        assert list(job.reasons(plan, {task.key: failed})) == failing
