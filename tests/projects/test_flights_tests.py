"""The tests of the example project, in this process and on Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from headwater import Project
from headwater.tests.projects.flights_run import FLIGHTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPOLOGIES = sorted(path.stem for path in (FLIGHTS / "topologies").glob("*.yml"))


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    root = tmp_path / "flights"
    shutil.copytree(FLIGHTS, root, ignore=shutil.ignore_patterns(".headwater", "target", "__pycache__"))
    return root


def test_each_topology_has_a_test() -> None:
    files = (FLIGHTS / "tests").glob("*.yml")
    cases = [case for file in files for case in yaml.safe_load(file.read_text())["tests"]]

    assert sorted({case["topology"] for case in cases}) == TOPOLOGIES


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_tests_pass_in_this_process(flights: Path, topology: str) -> None:
    before = sorted(flights.rglob("*"))

    results = Project(flights, select=[topology]).test()

    assert results.cases
    assert [(each.name, each.error, each.differences) for each in results.failed] == []
    assert not any(each.on_spark for each in results.cases)
    assert sorted(flights.rglob("*")) == before


@pytest.mark.spark
@pytest.mark.parametrize(
    "select", [["carrier_delays"], pytest.param([], marks=pytest.mark.soak)], ids=["carrier_delays", "all"]
)
def test_tests_pass_on_spark_too_and_what_needs_it_is_told(
    flights: Path, spark_session: SparkSession, select: list[str]
) -> None:
    results = Project(flights, session=spark_session, select=select).test(engine="spark")
    topology = flights / "topologies" / "airport_traffic.yml"
    only_spark = topology.read_text().replace("distance: distance", "distance: int(soundex('x') = '') + distance", 1)
    topology.write_text(only_spark)
    needed = Project(flights, session=spark_session, select=["airport_traffic"]).test()

    assert [(each.name, each.error, each.differences) for each in (*results.failed, *needed.failed)] == []
    assert results.cases
    assert all(each.on_spark for each in results.cases)
    assert results.spark == ()
    assert [(each.at, "soundex" in each.kept) for each in needed.spark] == [("topologies/airport_traffic.yml:24", True)]
