"""`_timestamp` and `current_timestamp()` in every kind of step, from YAML to committed records on real Spark."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater import Project
from headwater.tests.runtime.driver.folders import target, write_project

pytestmark = pytest.mark.spark

FILES = {
    "topics/inputs.yml": """
        topics:
          events:
            partitions: 2
            key:
              k: string
            value:
              v: bigint
          names:
            partitions: 2
            key:
              k: string
            value:
              name: string
    """,
    "topologies/times.yml": """
        topology: times
        tables:
          named:
            topic: names
          everywhere:
            topic: names
            global: true
        flows:
          stamped:
            from: events
            steps:
              - filter: _timestamp < current_timestamp()
              - select:
                  at: _timestamp
                  now: current_timestamp()
                  v: v
            to: stamped_events
          exploded:
            from: events
            steps:
              - filter: v = 1
              - explode:
                  moment: array(_timestamp, _timestamp + interval 1 second)
            to: moments
          looked_up:
            from: events
            steps:
              - join:
                  table: everywhere
                  by:
                    k: if(_timestamp < timestamp'1970-01-01 00:00:10', 'a', 'b')
                  values:
                    name: everywhere.name
              - join:
                  table: named
                  values:
                    own: concat(named.name, '@', unix_seconds(_timestamp))
                    now: current_timestamp()
            to: looked_up_events
          parted:
            from: events
            steps:
              - branch:
                  - flow: early
                    when: _timestamp < timestamp'1970-01-01 00:00:10'
                  - flow: late
          early_ones:
            from: early
            to: early_events
          late_ones:
            from: late
            steps:
              - with_columns:
                  now: current_timestamp()
            to: late_events
          by_second:
            from: stamped
            steps:
              - key_by:
                  second: unix_seconds(_timestamp)
              - aggregate:
                  values:
                    latest: max_by(v, _timestamp)
                    past: count_if(_timestamp < current_timestamp())
                    made: max(now)
                    read: max(current_timestamp())
            to: seconds
          fresh:
            from: named
            steps:
              - filter: _timestamp > timestamp'1970-01-01 00:00:02'
              - with_columns:
                  at: _timestamp
            to: fresh_names
    """,
}

EVENTS = [("a", 1, 5_000), ("b", 2, 5_500), ("c", 3, 12_000)]
NAMES = [("a", 1_000), ("b", 2_000), ("c", 3_000)]


def millis(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def test_times_in_expressions_are_those_of_the_record_and_of_the_epoch(
    tmp_path: Path, spark_session: SparkSession
) -> None:
    write_project(tmp_path, "clocks", {"local": target()}, FILES)
    with Project.load(tmp_path, session=spark_session) as project:
        project.append("names", [record(k, at, name=k.upper()) for k, at in NAMES])
        project.append("events", [record(k, at, v=v) for k, v, at in EVENTS])
        begun = time.time_ns() // 1_000_000
        results = project.run(until_caught_up=True)
        ended = time.time_ns() // 1_000_000
        assert not results.failed, results

        def values(topic: str) -> dict[Any, Any]:
            found = {tuple(r.key.values()): r.value for r in project.read(topic) if r.key and r.value}
            return {key[0]: value for key, value in found.items()}

        stamped = values("stamped_events")
        assert {k: (row["v"], millis(row["at"])) for k, row in stamped.items()} == {k: (v, at) for k, v, at in EVENTS}
        epochs = {millis(row["now"]) for row in stamped.values()}
        assert all(begun <= now <= ended for now in epochs)
        moments = [millis(r.value["moment"]) for r in project.read("moments") if r.value]
        assert moments == [5_000, 6_000]
        looked_up = values("looked_up_events")
        assert {k: (row["name"], row["own"]) for k, row in looked_up.items()} == {
            "a": ("A", "A@5"),
            "b": ("A", "B@5"),
            "c": ("B", "C@12"),
        }
        assert {millis(row["now"]) for row in looked_up.values()} <= epochs
        assert set(values("early_events")) == {"a", "b"}
        assert {k: row["now"] for k, row in values("late_events").items()} == {"c": stamped["c"]["now"]}
        seconds = values("seconds")
        assert {k: (row["latest"], row["past"]) for k, row in seconds.items()} == {5: (2, 2), 12: (3, 1)}
        assert all(begun <= millis(row["made"]) < millis(row["read"]) <= ended for row in seconds.values())
        assert {k: millis(row["at"]) for k, row in values("fresh_names").items()} == {"c": 3_000}


def record(key: str, timestamp: int, **value: Any) -> dict[str, Any]:
    return {"timestamp": timestamp, "key": {"k": key}, "value": value, "headers": {}}
