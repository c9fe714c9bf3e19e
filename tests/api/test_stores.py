"""Stores from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from headwater.tests.api.shop import DAILY, last_values


@pytest.mark.spark
def test_results_are_spark_frames_of_the_declared_types(built: Project, spark_session: SparkSession) -> None:
    project = Project(built.root, session=spark_session)
    stored = project.query("sales_by_day").to_spark()
    read = project.read("daily_sales").to_spark(spark_session)

    assert stored.schema.simpleString() == (
        "struct<product:string,window_start:timestamp,window_end:timestamp,orders:bigint,revenue:double,"
        "timestamp:timestamp>"
    )
    assert read.schema["headers"].dataType.simpleString() == "map<string,string>"
    for frame in (stored, read.where("not tombstone")):
        found = {(row.product, row.window_start): (row.orders, row.revenue) for row in frame.collect()}
        assert len(found) == len(DAILY)
        assert sorted(found.values()) == sorted(DAILY.values())
    assert project.query("sales_by_day").to_pandas()["revenue"].sum() == sum(revenue for _, revenue in DAILY.values())
    assert project.read("orders", limit=0).to_spark().schema["price"].dataType.simpleString() == "double"


def test_query_of_a_built_store_selects_by_key_and_time(built: Project) -> None:
    second_of_may = 1714608000000

    found = last_values(built.query("sales.sales_by_day", key={"product": "coffee"}, start=second_of_may))

    assert found == {
        key: value for key, value in DAILY.items() if key > ("coffee", "2024-05-01") and key[0] == "coffee"
    }
