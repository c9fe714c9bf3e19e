"""The measured work as queries of Spark Structured Streaming: of each a data frame of the rows that a batch updates, or
of those that are final.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, functions

from ..workloads import SMALL

Query = Callable[[DataFrame, DataFrame], DataFrame]
"""Of the records and of the table."""


def _counted(rows: DataFrame, key: str = "k", value: str = "v") -> DataFrame:
    return rows.groupBy(key).agg(functions.count("*").alias("n"), functions.sum(value).alias("total"))


def _filtered_count(rows: DataFrame, _: DataFrame) -> DataFrame:
    return _counted(rows.where("v >= 10").selectExpr("k", "v * 2 + 1 as v"))


def _window_count(rows: DataFrame, advance: str, length: str = "1 hour") -> DataFrame:
    late = rows.withWatermark("ts", "10 minutes")
    return late.groupBy("k", functions.window("ts", length, advance)).agg(functions.count("*").alias("n"))


def _table_join(rows: DataFrame, table: DataFrame) -> DataFrame:
    return rows.join(functions.broadcast(table.select("k", "name")), "k")


def _json_count(rows: DataFrame, _: DataFrame) -> DataFrame:
    return _counted(rows.selectExpr("k", "from_json(value, 'v BIGINT, city STRING').v as v"))


QUERIES: Mapping[str, Query] = {
    "keyed_count": lambda rows, _: _counted(rows),
    "filtered_count": _filtered_count,
    "sum_double": lambda rows, _: _counted(rows, value="d"),
    "each_update": lambda rows, _: _counted(rows),
    "window_count": lambda rows, _: _window_count(rows, "1 hour"),
    "hopping_count": lambda rows, _: _window_count(rows, "15 minutes"),
    "suppress_count": lambda rows, _: _window_count(rows, "15 minutes", "15 minutes"),
    "table_join": _table_join,
    "rekey_count": lambda rows, _: _counted(rows, key="other"),
    "json_count": _json_count,
    SMALL.name: lambda rows, _: _counted(rows),
}

FINAL = frozenset({"suppress_count"})
"""The queries in append mode, which give rows that a watermark has closed."""
