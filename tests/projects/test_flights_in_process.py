"""The example project in this process, its SQL done by Arrow, against pandas: as a model it is as good as Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater import Project
from headwater.runtime.driver.runs import run_topologies
from headwater.tests.projects.expected import Flights
from headwater.tests.projects.flights_run import EVERYTHING, copy_of_flights
from headwater.tests.projects.test_flights import check
from headwater.tests.runtime.local.arrow_sql import ArrowCluster

DAYS = 2


def test_days_of_flights_without_spark_equal_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLIGHTS_DAYS", str(DAYS))
    root = copy_of_flights(tmp_path, EVERYTHING)
    project = Project(root)
    topologies = project._code.topologies()
    project.seed()

    results = run_topologies(topologies, project.settings(), ArrowCluster(), until_caught_up=True)

    assert [each.error for each in results.applications if each.error] == []
    check(project, Flights(days=DAYS))
