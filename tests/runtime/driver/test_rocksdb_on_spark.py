"""Stores of RocksDB that several workers use one after another, and that are in a worker when it is killed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater import Project
from headwater.runtime.driver.client_events import StoreDamaged
from headwater.runtime.driver.events import Event
from headwater.tests.runtime.driver.folders import orders, target, write_project

PLUGIN = """
import os
import signal
import sys

from headwater.plugins import hookimpl
from headwater.runtime.state.rocksdb.store import RocksdbBackend, RocksdbStore

WORKER = any("worker_daemon" in word for word in sys.orig_argv)
CALLS, LAST = {calls!r}, frozenset({kills!r})


def number_of_call(text):
    handle = os.open(CALLS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{{text:{length}}}\\n".encode())
        return os.fstat(handle).st_size // {line}
    finally:
        os.close(handle)


class Prompt(RocksdbBackend):
    def open(self, directory):
        return PromptStore(directory, self._settings)


class PromptStore(RocksdbStore):
    '''Has a checkpoint behind each change, unless its worker is killed between the two.'''

    def apply(self, *arguments):
        super().apply(*arguments)
        if WORKER and number_of_call(f"{{self._directory}} {{os.getpid()}}") in LAST:
            os.kill(os.getpid(), signal.SIGKILL)
        self.checkpoint()


@hookimpl
def headwater_register_store_backends(register):
    register("prompt", Prompt, needs_changelog=True)
"""

BACKENDS = ("lmdb", "rocksdb", "prompt")
COUNT = {"emit": "each_update", "values": {"orders": "count(*)", "pieces": "sum(pieces)"}}
COUNTING = {
    "topology": "sales",
    "assignment": {"standby_replicas": 1},
    "stores": {f"{each}_counts": {"type": "key_value", "backend": each} for each in BACKENDS},
    "flows": {
        f"by_{each}": {
            "from": "orders",
            "steps": [{"aggregate": {"store": f"{each}_counts", **COUNT}}],
            "to": f"{each}_orders",
        }
        for each in BACKENDS
    },
}
"""The same counts in stores of each backend. There is an output record for each order, whatever the epochs."""

PRODUCTS = [f"product-{number:03d}" for number in range(40)]
KILLS = (12, 40)
"""Of the changes of prompt stores in all workers together, the last ones of a worker."""

LINE = 500
"""Bytes in the file of these changes, of each one."""


class Noting:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)


def handed_over(calls: Path) -> int:
    """How often a store came from a worker that had changed it, and lived on, to another one."""
    lines = calls.read_text().split("\n")[:-1] if calls.exists() else []
    killed = {lines[kill - 1].split()[1] for kill in KILLS if kill <= len(lines)}
    changes = sorted((line.split() for line in lines), key=lambda change: change[0])
    return sum(
        before[1] != after[1] and before[1] not in killed
        for _, of_store in groupby(changes, key=lambda change: change[0])
        for before, after in pairwise(of_store)
    )


def by_product(found: Iterable[Any]) -> dict[str, list[Mapping[str, Any]]]:
    """The values of rows or records, in their order."""
    values: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for each in found:
        values[each.key["product"]].append(dict(each.value))
    return values


@pytest.mark.spark
def test_workers_that_share_stores_of_rocksdb_and_are_killed_make_what_they_make_with_lmdb(
    tmp_path: Path, spark_session: SparkSession
) -> None:
    calls, noting = tmp_path / "calls", Noting()
    files = {
        "topics/orders.yml": {"topics": orders(partitions=2)},
        "topologies/sales.yml": COUNTING,
        "plugins/prompt.py": PLUGIN.format(calls=str(calls), kills=KILLS, length=LINE - 1, line=LINE),
        "headwater.yml": {"name": "shop", "version": "1", "profile": "shop", "plugins": ["plugins.prompt"]},
    }
    write_project(tmp_path, "shop", {"local": {**target(max_records=40), "clients": 2}}, files)
    shop, ordered = Project.load(tmp_path, session=spark_session), 0
    while not (handed_over(calls) and calls.stat().st_size >= KILLS[-1] * LINE):
        shop.append("orders", [{"key": {"product": each}, "value": {"pieces": 2}} for each in PRODUCTS * 3])
        ordered += 3
        (result,) = shop.run(until_caught_up=True, observer=noting).applications
        assert (result.status, result.lost) == ("caught_up", ()), result

    rows = {each: by_product(shop.query(f"{each}_counts")) for each in BACKENDS}
    assert rows["lmdb"] == {each: [{"orders": ordered, "pieces": 2 * ordered}] for each in PRODUCTS}
    assert rows["lmdb"] == rows["rocksdb"] == rows["prompt"]
    records = {each: by_product(shop.read(f"{each}_orders")) for each in BACKENDS}
    in_order = [{"orders": number, "pieces": 2 * number} for number in range(1, ordered + 1)]
    assert records["lmdb"] == dict.fromkeys(PRODUCTS, in_order)
    assert records["lmdb"] == records["rocksdb"] == records["prompt"]
    damaged = {event.store for event in noting.events if isinstance(event, StoreDamaged)}
    assert damaged <= {"rocksdb_counts", "prompt_counts"}
