"""The project of a web site, seed to result, against the same questions answered by pandas."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from arrow_sql import ArrowCluster
from projects.clickstream_expected import (
    Clickstream,
    ad_outcomes,
    ad_totals,
    hot_pages,
    unique_views,
    visits,
)
from projects.flights_run import stream, table

from headwater import Project
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ingest.functions import project_function

CLICKSTREAM = Path(__file__).parents[2] / "projects" / "clickstream"
EVENTS = 3_000
AT_ONCE, FEW = 10**8, 97


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLICKSTREAM_EVENTS", str(EVENTS))
    left_out = shutil.ignore_patterns(".headwater", "target", "__pycache__", ".*_cache")
    return Path(shutil.copytree(CLICKSTREAM, tmp_path / "clickstream", ignore=left_out))


@pytest.mark.parametrize("max_records", [AT_ONCE, FEW], ids=["all_at_once", "97_an_epoch"])
def test_day_on_a_web_site_equals_pandas(root: Path, max_records: int) -> None:
    profile = (root / "profiles.yml").read_text()
    (root / "profiles.yml").write_text(
        profile.replace("max_records: 200000", f"max_records: {max_records}").replace(
            "interval: 500ms", "interval: 0ms"
        )
    )
    data = Clickstream(*(seed(root, name) for name in ("page_views", "impressions", "clicks")))
    project = Project(root)
    topologies = project._code.topologies()
    project.seed()

    results = run_topologies(topologies, project.settings(), ArrowCluster(), until_caught_up=True)

    assert [each.error for each in results.applications if each.error] == []
    assert only(stream(project, "unique_views"), "event_id", "page") == unique_views(data)
    assert table(project, "visits") == visits(data)
    assert table(project, "hot_pages") == hot_pages(data)
    partitions = {
        each.key["impression_id"]: each.partition for topic in ("impressions", "clicks") for each in project.read(topic)
    }
    outcomes = ad_outcomes(data, partitions)
    assert only(stream(project, "ad_outcomes"), "ad", "outcome") == outcomes
    assert table(project, "ad_totals") == ad_totals(outcomes)


def test_seeds_have_what_makes_it_hard(root: Path) -> None:
    views, impressions, clicks = (seed(root, name) for name in ("page_views", "impressions", "clicks"))

    assert views["event_id"].duplicated().any()
    assert (views["viewed_at"].cummax() - views["viewed_at"]).max().total_seconds() > 600
    assert not set(clicks["impression_id"]) <= set(impressions["impression_id"])
    assert clicks["impression_id"].duplicated().any()


def seed(root: Path, name: str) -> Any:
    with project_function(root, f"functions.seeds:{name}") as (function, _):
        return next(function()).to_pandas()


def only(records: Any, *columns: str) -> Any:
    return {key: [(ts, {name: row[name] for name in columns}) for ts, row in of_key] for key, of_key in records.items()}
