"""What every cluster promises a run: the same topology on Spark, and in this process."""

from __future__ import annotations

import re

import pytest

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.cluster import Cluster
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, Store, Topic
from headwater.runtime.placing.place import ClientLostError
from headwater.runtime.task_id import TaskKey
from headwater.runtime.tasks.plan import EpochPlan, TaskPlan
from headwater.tests.runtime.local.local_application import APPLICATION, Stopping, part

WORDS = Topic("words", 2, "k string", "x bigint")
SUMS = Topic("sums", 2, "k string", "s bigint", writer=APPLICATION)
TOTALS = Store("totals", 2, "k string", "s bigint", aggregates=(Agg("s", "sum", "x", "bigint"),))
NODES = (Source(WORDS, ("f",)), Aggregate("f", TOTALS, at="topologies/t.yml:7"), Sink("f", SUMS, "each_update"))
SUMMED = part("sums", 2, ((NODES, {}, {}),), (TOTALS,))


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    if request.param == "local":
        return LocalCluster()
    from headwater.runtime.cluster.spark.cluster import SparkCluster

    return SparkCluster(request.getfixturevalue("spark_session"))


def test_run_that_was_stopped_goes_on_up_to_the_record_that_fails(application, cluster):
    app = application(SUMMED)
    app.append(WORDS, [(("a",), ({0: 2**63 - 1, 7: 1}.get(n, 0),), n) for n in range(9)], 0)
    app.append(WORDS, [(("b",), (n,), n) for n in range(10)], 1)
    stopping = Stopping(1)
    first = app.attempt(app.settings(max_records=3), cluster, stopping, stop=stopping.stop)
    assert (first.status, first.error) == ("interrupted", None)
    second = app.attempt(cluster=cluster)
    assert (second.status, second.generation) == ("failed", 2)
    assert re.match(r"topologies/t.yml:7: record words\[0\]@7 cannot be processed: sum overflows", second.error)
    assert [row["value.s"] for row in app.read(SUMS) if row["key.k"] == "b"] == [sum(range(n)) for n in range(1, 11)]


def test_job_that_was_given_up_starts_neither_an_epoch_nor_a_trial(cluster):
    (client,) = cluster.clients(1)
    job = cluster.job(SUMMED.subtopology, client, APPLICATION)
    plan = EpochPlan(APPLICATION, 1, 1, 0, 0, client.folder, "", 0, ("embedded", {}), "", ((),))
    job.cancel()
    with pytest.raises(ClientLostError):
        job.run(plan)
    with pytest.raises(ClientLostError):
        job.try_each(plan, [TaskPlan(TaskKey(APPLICATION, "sums", 0), 1, -1, {}, ())])
