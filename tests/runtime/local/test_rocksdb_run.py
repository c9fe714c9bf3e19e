"""Runs whose stores are kept by RocksDB: the same results, whatever happens to processes and files."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.client_events import StoreRestored
from headwater.runtime.driver.events import Event
from headwater.runtime.ir.topology import PluginRef
from headwater.runtime.state.rocksdb import databases
from headwater.tests.runtime.local.local_application import LocalApplication, Stopping
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, SUMS, WHOLE_SUMS, WORDS, fed, last_sums, summed
from headwater.tests.runtime.local.test_rebalance import Story
from headwater.tests.runtime.local.test_snapshots import Requests


@pytest.fixture
def app(application) -> LocalApplication:
    return fed(application(summed(backend="rocksdb")))


def stores(app: LocalApplication) -> list[Path]:
    return sorted((app.path / "state/client-1/test-app/totals").glob("[0-9]"))


def deleted(store: Path) -> None:
    shutil.rmtree(store)


def without_checkpoint(store: Path) -> None:
    (store / ".checkpoint").unlink(missing_ok=True)


def shortened(store: Path) -> None:
    for file in (store / "db").glob("*.sst"):
        os.truncate(file, 10)


@pytest.mark.parametrize("happens", [deleted, without_checkpoint, shortened])
def test_store_that_something_happens_to_during_a_run_or_after_it_is_restored(
    app: LocalApplication, happens: Callable[[Path], None]
) -> None:
    def then(commits: int) -> None:
        if commits == 6:
            happens(stores(app)[1])  # RocksDB takes a second to close what is gone

    result = app.attempt(app.settings(max_records=3), LocalCluster(), Story(then))
    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    assert len(stores(app)) == PARTITIONS
    for store in stores(app):
        happens(store)
    app.run()
    assert last_sums(app) == WHOLE_SUMS
    assert len(app.read(SUMS)) == RECORDS * PARTITIONS


@pytest.mark.parametrize("seed", range(3))
def test_result_does_not_depend_on_epochs_that_fail_and_clients_that_come_and_go(
    app: LocalApplication, seed: int
) -> None:
    app.run_randomly(seed, moving=True)
    assert last_sums(app) == WHOLE_SUMS
    assert len(app.read(SUMS)) == RECORDS * PARTITIONS


class Restored:
    """An observer that keeps how many records each store was restored by."""

    def __init__(self) -> None:
        self.records: list[int] = []

    def on(self, event: Event) -> None:
        if isinstance(event, StoreRestored):
            self.records.append(event.records)


def test_stores_are_restored_from_their_snapshots_and_what_the_changelogs_have_since(app: LocalApplication) -> None:
    app.topology = replace(app.topology, restore=PluginRef("snapshot", {"every_epochs": 2}))
    app.run(max_records=3)
    shutil.rmtree(app.path / "state")
    app.append(WORDS, [(("k1",), (0,), 1000)], 1)
    restored = Restored()
    result = app.attempt(observer=restored)
    assert (result.status, result.error) == ("caught_up", None)
    assert len(restored.records) == PARTITIONS
    assert max(restored.records) < RECORDS / 2
    assert last_sums(app) == {**WHOLE_SUMS, "k1": (RECORDS + 1, WHOLE_SUMS["k1"][1])}


def test_run_that_is_killed_begins_again_with_empty_stores_and_ends_with_the_same_result(
    app: LocalApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a process that ends by itself closes its stores."""
    monkeypatch.setattr(databases, "IDLE_S", math.inf)
    if (child := os.fork()) == 0:
        stopping = Stopping(5)
        stopping.stop.set = lambda: os._exit(9)  # type: ignore[method-assign]
        app.attempt(app.settings(max_records=5), observer=stopping, stop=stopping.stop)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert [store for store in stores(app) if not (store / ".checkpoint").exists()]

    app.run(max_records=5)
    assert last_sums(app) == WHOLE_SUMS
    assert len(app.read(SUMS)) == RECORDS * PARTITIONS
    assert all((store / ".checkpoint").exists() for store in stores(app))


def test_store_that_was_not_closed_is_restored_from_its_snapshot(
    app: LocalApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.topology = replace(app.topology, restore=PluginRef("snapshot", {"every_epochs": 2}))
    app.run(max_records=3)
    for store in stores(app):
        without_checkpoint(store)
    fed(app)
    requests = Requests(monkeypatch)

    app.run()

    assert len(set(requests.loads)) == PARTITIONS
    assert {key: n for key, (n, _) in last_sums(app).items()} == {f"k{n}": 2 * RECORDS for n in range(PARTITIONS)}
