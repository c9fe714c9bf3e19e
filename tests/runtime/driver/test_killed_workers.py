"""Workers that are killed while they work on stores, in epochs and slices: nothing is lost, nothing is done twice."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater import Project
from headwater.runtime.driver.client_events import StoreDamaged
from headwater.runtime.driver.events import Event
from headwater.tests.runtime.driver.folders import SUMS_AND_COUNTS, orders, target, write_project

SEED = int(os.environ.get("HEADWATER_KILL_SEED", "20130101"))

MORTAL = """
import os
import signal
import sys

from headwater.plugins import hookimpl
from headwater.runtime.state.lmdb.store import LmdbBackend, LmdbStore

WORKER = any("worker_daemon" in word for word in sys.orig_argv)
CALLS, LAST = {calls!r}, frozenset({kills!r})


def count():
    handle = os.open(CALLS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, b".")
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


class Mortal(LmdbBackend):
    def open(self, directory):
        return MortalStore(directory)


class MortalStore(LmdbStore):
    def _environment(self):
        if WORKER and count() in LAST:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._environment()


@hookimpl
def headwater_register_store_backends(register):
    register("mortal", Mortal)
"""

PRODUCTS = [f"product-{number:03d}" for number in range(60)]
CALLS_BETWEEN = (30, 70)
"""Calls of stores in all workers together from one kill to the next."""


def project(root: Path, session: SparkSession, kills: Sequence[int], calls: Path) -> Project:
    topology = dict(SUMS_AND_COUNTS)
    topology["stores"] = {name: {**store, "backend": "mortal"} for name, store in SUMS_AND_COUNTS["stores"].items()}
    files = {
        "topics/orders.yml": {"topics": orders(partitions=2)},
        "topologies/sales.yml": topology,
        "plugins/mortal.py": MORTAL.format(calls=str(calls), kills=list(kills)),
        "headwater.yml": {"name": "shop", "version": "1", "profile": "shop", "plugins": ["plugins.mortal"]},
    }
    write_project(root, "shop", {"local": target(max_records=20)}, files)
    return Project.load(root, session=session)


@pytest.mark.spark
@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.soak)])
def test_workers_killed_at_random_calls_of_stores_change_no_result(
    tmp_path: Path, spark_session: SparkSession, count: int
) -> None:
    print(f"HEADWATER_KILL_SEED={SEED}")
    draw = random.Random(SEED)
    kills = list(accumulate(draw.randint(*CALLS_BETWEEN) for _ in range(count)))
    calls, events = tmp_path / "calls", list[Event]()
    shop = project(tmp_path, spark_session, kills, calls)
    ordered = 0
    while not calls.exists() or calls.stat().st_size < kills[-1]:
        records = [{"key": {"product": each}, "value": {"pieces": 2}} for each in PRODUCTS * 4]
        shop.append("orders", records)
        ordered += 4
        (result,) = shop.run(until_caught_up=True, observer=Noting(events)).applications
        assert result.status == "caught_up", result
        assert result.lost == ()

    assert {row.key["product"]: row.value["orders"] for row in shop.query("lasting")} == dict.fromkeys(
        PRODUCTS, ordered
    )
    assert {row.key["product"]: row.value["pieces"] for row in shop.query("forgetful")} == dict.fromkeys(
        PRODUCTS, 2 * ordered
    )
    last = {record.key["product"]: record.value["orders"] for record in shop.read("order_counts")}
    assert last == dict.fromkeys(PRODUCTS, ordered)
    assert [event for event in events if isinstance(event, StoreDamaged)] == []


class Noting:
    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def on(self, event: Event) -> None:
        self._events.append(event)
