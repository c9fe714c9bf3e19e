"""All changes on Spark: the types and the results that it gives. `test_changes_of_*.py` makes them in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from projects.changes.deployed import VERDICTS, Change, Deployed, changes
from projects.changes.flights_small import deployed_flights, files_of_flights
from projects.changes.judging import judged

from headwater.compiler.language.judge import VerdictCache
from headwater.compiler.language.stand_in import Unjudged
from headwater.compiler.pipeline import CACHE, compile_project
from headwater.runtime.spark.analysis.analyzer import SparkAnalyzer
from headwater.runtime.spark.cluster import SparkCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.runtime.driver.cluster import Cluster

pytestmark = pytest.mark.spark

FILES: dict[str, Callable[[Path], Path]] = {"flights": files_of_flights}
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


class Noting(Unjudged):
    """Notes what Spark would be asked."""

    def __init__(self) -> None:
        self.asked: dict[tuple[str, str], None] = {}

    def analyze(self, requests: Sequence[tuple[str, str]]) -> Sequence[object]:
        self.asked |= dict.fromkeys(requests)
        return super().analyze(requests)


def test_types_of_all_expressions_are_those_that_spark_gives(
    tmp_path: Path, spark_session: SparkSession, update_golden: bool
) -> None:
    noting = Noting()
    for project, files in FILES.items():
        for number, parameters in enumerate([None, *changes(project)]):
            root = files(tmp_path / f"{project}-{number}")
            if parameters is not None:
                (change,) = parameters.values
                for each in (*change.earlier, change):
                    each.done(Deployed(root, {}))
            compile_project(root, analyzer=noting)
            (root / CACHE).unlink()
    asked = list(noting.asked)

    types = SparkAnalyzer({}).analyze(asked)

    assert [(*request, found) for request, found in zip(asked, types, strict=True) if not isinstance(found, str)] == []
    cache = VerdictCache(tmp_path / "verdicts.json")
    for request, found in zip(asked, types, strict=True):
        cache.put(request, found)
    cache.save()
    found = (tmp_path / "verdicts.json").read_text()
    if update_golden:
        VERDICTS.write_text(found)
    assert VERDICTS.read_text() == found
