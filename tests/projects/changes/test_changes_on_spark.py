"""All changes on Spark: the results that it gives. `test_changes_of_*.py` makes them in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.runtime.cluster.spark.cluster import SparkCluster
from headwater.tests.projects.changes.deployed import Change, Deployed, changes
from headwater.tests.projects.changes.flights_small import deployed_flights
from headwater.tests.projects.changes.judging import judged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.runtime.driver.cluster import Cluster

pytestmark = pytest.mark.spark

PROJECTS: dict[str, Callable[[Path, Callable[[], Cluster]], Deployed]] = {"flights": deployed_flights}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory, spark_session: SparkSession) -> dict[str, Deployed]:
    """All of it on Spark: a store belongs to the process that has made it, as long as that lives."""
    folder = tmp_path_factory.mktemp("deployed")
    return {name: made(folder / name, lambda: SparkCluster(spark_session)) for name, made in PROJECTS.items()}


@pytest.mark.soak
@pytest.mark.parametrize("change", [each for project in PROJECTS for each in changes(project)])
def test_change_is_planned_and_run_on_spark_as_it_is_told(
    change: Change, deployed: dict[str, Deployed], tmp_path: Path
) -> None:
    judged(change, deployed[change.path.parent.name], tmp_path)
