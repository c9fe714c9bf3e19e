"""A topology as the compiler would write it: airlines joined to flights, re-keyed by name, counted by the hour."""

from __future__ import annotations

from collections import defaultdict
from math import fsum
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.runtime import (
    Agg,
    Aggregate,
    KeyBy,
    Pipe,
    Sink,
    Source,
    Store,
    StreamTableJoin,
    Table,
    Topic,
    Topology,
    Window,
    subtopology,
)

APPLICATION = "p-delays"
HOUR = 3_600_000

AIRLINES = Topic("airlines", 4, "carrier string", "name string")
FLIGHTS = Topic("flights", 4, "carrier string", "delay double, text string")
BY_NAME = Topic("p-delays-hourly-repartition", 2, "airline string", "delay double", writer=APPLICATION)
HOURLY = Topic("hourly", 2, "airline string", "flights bigint, total double", windowed=True, writer=APPLICATION)
NAMES = Store("names", 4, "carrier string", "name string")
TOTALS = Store(
    "totals",
    2,
    "airline string, window_start timestamp, window_end timestamp",
    "flights bigint, total double",
    type="window",
    window=Window(HOUR, HOUR, HOUR // 6),
    retention_ms=48 * HOUR,
    aggregates=(Agg("flights", "count"), Agg("total", "sum", "delay", "double", "double")),
)


@subtopology(0, "late", file="topologies/delays.yml")
def late(rows: Pipe) -> Pipe:
    rows = rows.process(Source(AIRLINES, "airlines"), Source(FLIGHTS, "late"))
    rows = rows.where("late", "delay > 15 OR cast(text AS int) > 0", at=22)
    return rows.process(
        Table("airlines", NAMES),
        StreamTableJoin("late", table="airlines", store=NAMES, how="left", values={"airline": "name"}),
        KeyBy("late", {"airline": "airline"}),
        Sink("late", BY_NAME, mode="repartition"),
    )


@subtopology(1, "hourly")
def hourly(rows: Pipe) -> Pipe:
    return rows.process(
        Source(BY_NAME, "hourly"),
        Aggregate("hourly", TOTALS, emit="per_epoch"),
        Sink("hourly", HOURLY, mode="per_epoch"),
    )


TOPOLOGY = Topology("p", "delays", "1.0", "hash", (late, hourly))

CARRIERS = {"AA": "American", "UA": "United", "DL": "Delta", "B6": "JetBlue", "WN": None}


def airlines() -> pa.Table:
    named = {carrier: name for carrier, name in CARRIERS.items() if name}
    return pa.table({"carrier": list(named), "name": list(named.values())})


def flights(count: int, seed: int = 1) -> tuple[pa.Table, list[int]]:
    """Flights in order of time, and their timestamps."""
    random = np.random.default_rng(seed)
    carriers = pa.array(random.choice(list(CARRIERS), count))
    delays = random.normal(10, 30, count).round(1)
    times = np.sort(random.integers(0, 20 * HOUR, count))
    return pa.table({"carrier": carriers, "delay": delays, "text": pa.nulls(count, pa.string())}), times.tolist()


def expected(table: pa.Table, times: list[int]) -> dict[tuple[Any, ...], tuple[int, float]]:
    """Airline and window start (ms) -> count and sum, by plain Python."""
    groups: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row, time in zip(table.to_pylist(), times, strict=True):
        name = CARRIERS[row["carrier"]]
        if name and row["delay"] > 15:
            groups[name, time // HOUR * HOUR].append(row["delay"])
    return {key: (len(delays), fsum(delays)) for key, delays in groups.items()}


def nameless(table: pa.Table, _: list[int]) -> int:
    """How many flights have no airline to be grouped by, by plain Python."""
    return sum(not CARRIERS[row["carrier"]] and row["delay"] > 15 for row in table.to_pylist())
