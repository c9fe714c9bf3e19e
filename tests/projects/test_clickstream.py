"""The project of a web site, seed to result, against the same questions answered by pandas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Project
from headwater.tests.projects.clickstream_expected import (
    Clickstream,
    ad_outcomes,
    ad_totals,
    hot_pages,
    unique_views,
    visits,
)
from headwater.tests.projects.flights_run import stream, table
from headwater.tests.projects.in_process import built, copied, seed_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = ("page_views", "impressions", "clicks")
AT_ONCE, FEW = 10**8, 97


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLICKSTREAM_EVENTS", "2400")
    return copied("clickstream", tmp_path)


@pytest.mark.parametrize("max_records", [AT_ONCE, FEW], ids=["all_at_once", "97_an_epoch"])
def test_day_on_a_web_site_equals_pandas(root: Path, max_records: int) -> None:
    data = Clickstream(*(seed_rows(root, name) for name in SEEDS))

    check(built(root, max_records), data)


def check(project: Project, data: Clickstream) -> None:
    """Every output of the project is what pandas says."""
    assert hot_pages(data)
    assert only(stream(project, "unique_views"), "event_id", "page") == unique_views(data)
    assert table(project, "visits") == visits(data)
    assert table(project, "hot_pages") == hot_pages(data)
    partitions = {
        each.key["impression_id"]: each.partition for topic in ("impressions", "clicks") for each in project.read(topic)
    }
    outcomes = ad_outcomes(data, partitions)
    assert only(stream(project, "ad_outcomes"), "ad", "outcome") == outcomes
    assert table(project, "ad_totals") == ad_totals(outcomes)


def test_cases_of_the_project_pass(root: Path) -> None:
    Project(root).test().check()


@pytest.mark.spark
def test_day_on_a_web_site_equals_pandas_on_spark(root: Path, spark_session: SparkSession) -> None:
    data = Clickstream(*(seed_rows(root, name) for name in SEEDS))

    with Project.load(root, session=spark_session) as project:
        project.build(test=False)

        check(project, data)


def test_seeds_have_what_makes_it_hard(root: Path) -> None:
    views, impressions, clicks = (seed_rows(root, name) for name in SEEDS)

    assert views["event_id"].duplicated().any()
    assert (views["viewed_at"].cummax() - views["viewed_at"]).max().total_seconds() > 600
    assert not set(clicks["impression_id"]) <= set(impressions["impression_id"])
    assert clicks["impression_id"].duplicated().any()


def only(records: Any, *columns: str) -> Any:
    return {key: [(ts, {name: row[name] for name in columns}) for ts, row in of_key] for key, of_key in records.items()}
