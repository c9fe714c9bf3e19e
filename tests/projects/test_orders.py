"""The project of a shop, seed to result, against the same questions answered by pandas."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from arrow_sql import ArrowCluster
from projects.flights_run import stream, table
from projects.orders_expected import (
    Shop,
    hourly_revenue,
    late_shipments,
    order_news,
    order_status,
    unpaid_shipments,
)

from headwater import Project
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ingest.functions import project_function

ORDERS = Path(__file__).parents[2] / "projects" / "orders"
AT_ONCE, FEW = 10**8, 53


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORDERS", "500")
    left_out = shutil.ignore_patterns(".headwater", "target", "__pycache__", ".*_cache")
    return Path(shutil.copytree(ORDERS, tmp_path / "orders", ignore=left_out))


@pytest.mark.parametrize("max_records", [AT_ONCE, FEW], ids=["all_at_once", "53_an_epoch"])
def test_two_weeks_of_a_shop_equal_pandas(root: Path, max_records: int) -> None:
    profile = (root / "profiles.yml").read_text()
    (root / "profiles.yml").write_text(
        profile.replace("max_records: 200000", f"max_records: {max_records}").replace(
            "interval: 500ms", "interval: 0ms"
        )
    )
    data = Shop(*(seed(root, name) for name in ("customers", "orders", "payments", "shipments")))
    project = Project(root)
    topologies = project._code.topologies()
    project.seed()

    results = run_topologies(topologies, project.settings(), ArrowCluster(), until_caught_up=True)

    assert [each.error for each in results.applications if each.error] == []
    assert only(table(project, "order_status"), "cents", "customer_id", "name", "city", "method", "carrier") == (
        order_status(data)
    )
    assert table(project, "unpaid_shipments") == unpaid_shipments(data)
    assert table(project, "hourly_revenue") == hourly_revenue(data)
    partitions = {
        each.key["order_id"]: each.partition
        for topic in ("orders_raw", "payments_raw", "shipments_raw")
        for each in project.read(topic)
    }
    news, expected = only(table(project, "order_news"), "state"), order_news(data, partitions)
    assert {key: news.get(key) for key in expected} == expected
    assert stream(project, "late_shipments") == late_shipments(data, partitions)


def test_seeds_have_what_makes_it_hard(root: Path) -> None:
    customers, orders, payments, shipments = (
        seed(root, name) for name in ("customers", "orders", "payments", "shipments")
    )

    assert customers["customer_id"].duplicated().any()
    assert orders.groupby("order_id")["customer_id"].nunique().max() > 1
    assert "cancelled" in set(orders["status"])
    assert payments["order_id"].duplicated().any()
    assert not set(shipments["order_id"]) <= set(payments["order_id"])


def seed(root: Path, name: str) -> Any:
    with project_function(root, f"functions.seeds:{name}") as (function, _):
        return next(function()).to_pandas()


def only(rows: Any, *columns: str) -> Any:
    return {key: {name: row[name] for name in columns} for key, row in rows.items()}
