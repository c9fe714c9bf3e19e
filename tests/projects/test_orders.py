"""The project of a shop, seed to result, against the same questions answered by pandas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Project
from headwater.tests.projects.flights_run import stream, table
from headwater.tests.projects.in_process import built, copied, seed_rows
from headwater.tests.projects.orders_expected import (
    Shop,
    hourly_revenue,
    late_shipments,
    order_news,
    order_status,
    unpaid_shipments,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = ("customers", "orders", "payments", "shipments")
AT_ONCE, FEW = 10**8, 53


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORDERS", "250")
    return copied("orders", tmp_path)


@pytest.mark.parametrize("max_records", [AT_ONCE, FEW], ids=["all_at_once", "53_an_epoch"])
def test_two_weeks_of_a_shop_equal_pandas(root: Path, max_records: int) -> None:
    data = Shop(*(seed_rows(root, name) for name in SEEDS))

    check(built(root, max_records), data)


def check(project: Project, data: Shop) -> None:
    """Every output of the project is what pandas says."""
    columns = ("cents", "customer_id", "name", "city", "method", "carrier")
    assert only(table(project, "order_status"), *columns) == order_status(data)
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


def test_cases_of_the_project_pass(root: Path) -> None:
    Project(root).test().check()


@pytest.mark.spark
def test_two_weeks_of_a_shop_equal_pandas_on_spark(root: Path, spark_session: SparkSession) -> None:
    data = Shop(*(seed_rows(root, name) for name in SEEDS))

    with Project.load(root, session=spark_session) as project:
        project.build(test=False)

        check(project, data)


def test_seeds_have_what_makes_it_hard(root: Path) -> None:
    customers, orders, payments, shipments = (seed_rows(root, name) for name in SEEDS)

    assert customers["customer_id"].duplicated().any()
    assert orders.groupby("order_id")["customer_id"].nunique().max() > 1
    assert "cancelled" in set(orders["status"])
    assert payments["order_id"].duplicated().any()
    assert not set(shipments["order_id"]) <= set(payments["order_id"])


def only(rows: Any, *columns: str) -> Any:
    return {key: {name: row[name] for name in columns} for key, row in rows.items()}
