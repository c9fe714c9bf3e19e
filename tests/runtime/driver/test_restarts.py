"""Runs that end and start again: each assignor puts tasks where their state is, whatever the clients are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.runtime.cluster.spark.cluster import SparkCluster
from headwater.runtime.driver.results import ApplicationResult
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ingest.append import append
from headwater.runtime.ir.topology import Assignment, PluginRef, Settings
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.tests.runtime.driver import delays

pytestmark = pytest.mark.spark


class Restarting:
    """The application of `delays`, with all its input at once, and clients that keep their state in `state`.

    There are airlines enough for every task to have state.
    """

    def __init__(self, root: Path, session: SparkSession) -> None:
        self.state = root / "state"
        self._log = root / "log"
        self._cluster = SparkCluster(session)
        carriers = [f"carrier {number}" for number in range(40)]
        airlines = pa.table({"carrier": carriers, "name": carriers})
        flights = pa.table({"carrier": carriers, "delay": [20.0] * 40, "text": pa.nulls(40, pa.string())})
        append(EmbeddedLog(self._log), "p-seed", delays.AIRLINES, airlines, timestamps=[0] * 40)
        append(EmbeddedLog(self._log), "p-seed", delays.FLIGHTS, flights, timestamps=list(range(40)))

    def run(self, assignor: str, clients: int = 2, **asked: Any) -> ApplicationResult:
        topology = replace(delays.TOPOLOGY, assignment=Assignment(PluginRef(assignor), **asked))
        settings = Settings(PluginRef("embedded", {"path": str(self._log)}), str(self.state), clients)
        (result,) = run_topologies([topology], settings, self._cluster, until_caught_up=True).applications
        assert (result.status, result.error) == ("caught_up", None)
        return result

    def exchange_disks(self) -> None:
        for source, target in (("client-1", "other"), ("client-2", "client-1"), ("other", "client-2")):
            (self.state / source).rename(self.state / target)


@pytest.fixture
def restarting(tmp_path: Path, spark_session: SparkSession) -> Restarting:
    return Restarting(tmp_path, spark_session)


def placement(result: ApplicationResult) -> Mapping[str, Any]:
    assert result.placement is not None
    return result.placement


@pytest.mark.parametrize("assignor", ["high_availability", "sticky", "balanced", "balanced_count"])
def test_tasks_follow_their_state_to_the_client_that_has_it_now(restarting: Restarting, assignor: str) -> None:
    first = restarting.run(assignor)
    restarting.exchange_disks()
    second = restarting.run(assignor)
    assert first.assignment["client-1"] != first.assignment["client-2"]
    assert second.assignment == {
        "client-1": first.assignment["client-2"],
        "client-2": first.assignment["client-1"],
    }
    assert [placement(second)[kind] for kind in ("kept", "moved", "new")] == [6, 0, 0]


def test_new_client_has_a_copy_made_before_it_runs_anything(restarting: Restarting) -> None:
    restarting.run("high_availability", clients=2)
    second = restarting.run("high_availability", clients=3, acceptable_recovery_lag=0, max_warmup_replicas=1)
    told = placement(second)
    assert second.assignment["client-3"] == ()
    assert sum(map(len, told["standbys"].values())) == 1
    assert told["followup_deadline"] is not None
