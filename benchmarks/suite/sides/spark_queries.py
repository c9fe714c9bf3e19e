"""The measured work as queries of Spark Structured Streaming: of each a data frame of the rows that a batch updates, or
of those that are final.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Row, functions
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from ..workloads import SMALL

MINUTE = 60_000
"""In milliseconds."""

Query = Callable[[DataFrame, DataFrame], DataFrame]
"""Of the records and of the table."""


def _counted(rows: DataFrame, key: str = "k", value: str = "v") -> DataFrame:
    return rows.groupBy(key).agg(functions.count("*").alias("n"), functions.sum(value).alias("total"))


def _filtered_count(rows: DataFrame, _: DataFrame) -> DataFrame:
    return _counted(rows.where("v >= 10").selectExpr("k", "v * 2 + 1 as v"))


def _window_count(rows: DataFrame, advance: str, length: str = "1 hour") -> DataFrame:
    late = rows.withWatermark("ts", "10 minutes")
    return late.groupBy("k", functions.window("ts", length, advance)).agg(functions.count("*").alias("n"))


def _session_count(rows: DataFrame, _: DataFrame) -> DataFrame:
    late = rows.withWatermark("ts", "5 minutes")
    session = functions.session_window("ts", "1 minute").alias("window")
    return late.groupBy("k", session).agg(functions.count("*").alias("n"))


def _table_join(rows: DataFrame, table: DataFrame) -> DataFrame:
    return rows.join(functions.broadcast(table.select("k", "name")), "k")


def _stream_join(rows: DataFrame, _: DataFrame) -> DataFrame:
    late = rows.withWatermark("ts", "10 minutes")
    even, odd = late.where("v % 2 = 0"), late.where("v % 2 = 1")
    others = odd.selectExpr("k as other_k", "v as w", "ts as other_ts")
    matches = "k = other_k and other_ts between ts - interval 10 minutes and ts + interval 10 minutes"
    return even.join(others, functions.expr(matches)).select("k", "v", "ts", "w")


def _json_count(rows: DataFrame, _: DataFrame) -> DataFrame:
    return _counted(rows.selectExpr("k", "from_json(value, 'v BIGINT, city STRING').v as v"))


class _Counting(StatefulProcessor):  # type: ignore[misc]
    """The count of a key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "n bigint")

    def close(self) -> None:
        pass

    def _before(self) -> int:
        found = self.count.get()
        return 0 if found is None else int(found[0])


class _CountingRows(_Counting):
    def handleInputRows(  # noqa: N802 - Spark's word
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        n = self._before()
        for _ in rows:
            n += 1
            yield Row(k=key[0], n=n)
        self.count.update((n,))


class _CountingFrames(_Counting):
    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        n = self._before() + sum(map(len, rows))
        self.count.update((n,))
        yield pd.DataFrame({"k": [key[0]], "n": [n]})


def _process_rows(rows: DataFrame, _: DataFrame) -> DataFrame:
    grouped = rows.select("k").groupBy("k")
    return grouped.transformWithState(_CountingRows(), "k string, n bigint", "Update", "None")


def _process_batch(rows: DataFrame, _: DataFrame) -> DataFrame:
    grouped = rows.select("k").groupBy("k")
    return grouped.transformWithStateInPandas(_CountingFrames(), "k string, n bigint", "Update", "None")


class _Sliding(StatefulProcessor):  # type: ignore[misc]
    """Counts of a key's windows of a minute: those that end at a record, and those that begin right behind one."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.times = handle.getValueState("times", "ms array<bigint>")

    def close(self) -> None:
        pass

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        found = self.times.get()
        before = np.array([] if found is None else found[0], np.int64)
        new = np.concatenate([frame["ms"].to_numpy() for frame in rows])
        times = np.sort(np.concatenate([before, new]))
        start = np.unique(np.concatenate([np.maximum(new - MINUTE, 0), times + 1]))
        start = start[start + MINUTE >= new.min()]
        n = np.searchsorted(times, start + MINUTE, side="right") - np.searchsorted(times, start)
        self.times.update((times[times >= times[-1] - MINUTE - 1].tolist(),))
        yield pd.DataFrame({"k": key[0], "window_start": start[n > 0], "n": n[n > 0]})


def _sliding_count(rows: DataFrame, _: DataFrame) -> DataFrame:
    grouped = rows.selectExpr("k", "unix_millis(ts) as ms").groupBy("k")
    return grouped.transformWithStateInPandas(_Sliding(), "k string, window_start bigint, n bigint", "Update", "None")


QUERIES: Mapping[str, Query] = {
    "keyed_count": lambda rows, _: _counted(rows),
    "filtered_count": _filtered_count,
    "sum_double": lambda rows, _: _counted(rows, value="d"),
    "each_update": lambda rows, _: _counted(rows),
    "window_count": lambda rows, _: _window_count(rows, "1 hour"),
    "hopping_count": lambda rows, _: _window_count(rows, "15 minutes"),
    "suppress_count": lambda rows, _: _window_count(rows, "15 minutes", "15 minutes"),
    "session_count": _session_count,
    "sliding_count": _sliding_count,
    "table_join": _table_join,
    "stream_join": _stream_join,
    "process_rows": _process_rows,
    "process_batch": _process_batch,
    "rekey_count": lambda rows, _: _counted(rows, key="other"),
    "json_count": _json_count,
    SMALL.name: lambda rows, _: _counted(rows),
}

FINAL = frozenset({"suppress_count", "session_count", "stream_join"})
"""The queries in append mode: rows that a watermark has closed; a join of streams has no other mode."""
