"""Stores whose files are damaged while nobody looks: what is found, restored and told, end to end.

Damage that may end the process that reads it is for Spark, whose workers are processes of their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater import Project
from headwater.runtime.driver.client_events import StoreDamaged, StoreLost
from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.driver.results import ApplicationResult
from headwater.runtime.query.stores import DamagedStoreError
from headwater.runtime.state.process_file import ProcessFile
from headwater.tests.runtime.driver.folders import SUMS_AND_COUNTS, orders, target, write_project
from headwater.tests.runtime.restore.fatal_flips import FIRST_ROW, FLAGS, LEAF, PAGE, make_fatal

TOPICS = {
    **orders(partitions=2),
    "products": {"partitions": 1, "key": {"product": "string"}, "value": {"name": "string"}},
}
HOURLY = {
    "from": "orders",
    "steps": [
        {"window": {"tumbling": "1h", "grace": "1h"}},
        {"aggregate": {"store": "hours", "values": {"orders": "count(*)"}}},
    ],
    "to": "hourly_orders",
}
NAMED = {
    "from": "orders",
    "steps": [
        {"join": {"table": "names", "type": "left", "by": {"product": "product"}, "values": {"name": "names.name"}}}
    ],
    "to": "named_orders",
}
SALES = {
    **SUMS_AND_COUNTS,
    "stores": {**SUMS_AND_COUNTS["stores"], "hours": {"type": "window"}},
    "tables": {"names": {"topic": "products", "global": True}},
    "flows": {**SUMS_AND_COUNTS["flows"], "hourly": HOURLY, "named": NAMED},
}
PRODUCTS = ["product-ax", "product-bow", "product-cup", "product-dish"]
HOUR = 3_600_000


class Shop:
    def __init__(self, root: Path, session: Any, **more: Any) -> None:
        """`session`: of Spark, or what stands for the process of the test. `more`: what the topology has besides."""
        files = {"topics/orders.yml": {"topics": TOPICS}, "topologies/sales.yml": {**SALES, **more}}
        write_project(root, "shop", {"local": target(max_records=50)}, files)
        self.root = root
        self.project = Project.load(root, session=session)
        self.events: list[Event] = []
        names = [{"key": {"product": each}, "value": {"name": f"name of {each}"}} for each in PRODUCTS]
        self.project.append("products", names)

    def on(self, event: Event) -> None:
        self.events.append(event)

    def order(self, products: Sequence[str] = PRODUCTS) -> ApplicationResult:
        """One order of a piece of each product, and all of them processed."""
        records = [
            {"key": {"product": each}, "value": {"pieces": 1}, "timestamp": 10 * HOUR + number}
            for number, each in enumerate(products)
        ]
        self.project.append("orders", records)
        (result,) = self.project.run(until_caught_up=True, observer=self).applications
        assert result.status == "caught_up", result
        return result

    def last(self, topic: str) -> dict[str, Any]:
        found = self.project.read(topic)
        return {r.key["product"]: list(r.value.values())[-1] for r in found if r.key and r.value}

    def rows(self, store: str) -> dict[str, Any]:
        return {row.key["product"]: next(iter(row.value.values())) for row in self.project.query(store)}

    def files(self, store: str) -> list[Path]:
        return sorted((self.root / "state/client-1/shop-sales").glob(f"{store}/**/data.mdb"))

    def told(self) -> list[tuple[str, str]]:
        told = [(type(each).__name__, each.store) for each in self.events if isinstance(each, StoreDamaged | StoreLost)]
        return sorted(set(told))


@pytest.fixture
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    """On Spark for tests that are marked so, else in the process of the test."""
    on_spark = request.node.get_closest_marker("spark") is not None
    return Shop(tmp_path, request.getfixturevalue("spark_session" if on_spark else "local"))


def change_values(file: Path) -> None:
    """A byte in the value of each row, in all pages of now and of before; the tail of a key marks a row."""
    content = bytearray(file.read_bytes())
    for product in PRODUCTS:
        tail, at = product.encode(), 0
        while (at := content.find(tail, at) + 1) > 0:
            content[at + len(tail) + 8] ^= 0x20
    file.write_bytes(content)


def change_keys(file: Path) -> None:
    content = file.read_bytes()
    for product in PRODUCTS:
        content = content.replace(product.encode(), product.upper().encode())
    file.write_bytes(content)


@pytest.mark.parametrize("change", [change_values, change_keys])
def test_damaged_stores_are_restored_without_ending_the_run_and_a_lost_one_is_told(shop: Shop, change: Any) -> None:
    for _ in range(3):
        shop.order()
    assert shop.told() == []
    for store in ("forgetful", "lasting", "hours", "names"):
        for file in shop.files(store):
            change(file)

    result = shop.order()

    four = dict.fromkeys(PRODUCTS, 4)
    assert shop.last("order_counts") == shop.rows("lasting") == four
    assert shop.last("hourly_orders") == shop.rows("hours") == four
    assert shop.last("named_orders") == {each: f"name of {each}" for each in PRODUCTS}
    assert shop.last("sold_pieces") == shop.rows("forgetful") == dict.fromkeys(PRODUCTS, 1)
    assert [store for kind, store in shop.told() if kind == "StoreLost"] == ["forgetful"]
    assert any(
        lost.startswith("store forgetful, partition 1, has lost its rows and starts empty on client-1: ")
        for lost in result.lost
    )
    assert shop.order().lost == ()
    assert shop.rows("lasting") == dict.fromkeys(PRODUCTS, 5)


def test_query_of_a_damaged_store_says_so_and_a_run_restores_it(shop: Shop) -> None:
    for _ in range(3):  # by then the first changes of the store without changelog are gone
        shop.order()
    for store in ("lasting", "forgetful"):
        for file in shop.files(store):
            change_values(file)

    with pytest.raises(DamagedStoreError, match="lasting, partition 0, is damaged: a row is not what"):
        shop.rows("lasting")
    with pytest.raises(DamagedStoreError, match="partition 1, is damaged"):
        shop.rows("lasting")
    assert shop.rows("lasting") == dict.fromkeys(PRODUCTS, 3)
    for _ in range(2):
        with pytest.raises(DamagedStoreError, match="has no changelog to restore it from"):
            shop.rows("forgetful")

    assert len(set(shop.order().lost)) == 2
    assert shop.rows("lasting") == dict.fromkeys(PRODUCTS, 4)


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.spark
def test_store_that_kills_its_reader_is_restored_whether_the_last_run_was_ended_or_not(
    shop: Shop, closed: bool
) -> None:
    many = [f"product-{number:06d}" for number in range(400)]
    shop.order(many)
    client = shop.root / "state/client-1/shop-sales"
    found = ProcessFile.read(client)
    assert found is not None
    assert found.closed
    replace(found, closed=closed).write(client)  # not closed: as it is while a run goes on, and after one was ended
    make_fatal(shop.files("lasting")[0].parent)

    shop.order(many)

    assert shop.told() == [("StoreDamaged", "lasting")]
    assert shop.rows("lasting") == shop.rows("forgetful") == shop.last("order_counts") == dict.fromkeys(many, 2)
    found = ProcessFile.read(client)
    assert found is not None
    assert found.closed


@pytest.mark.spark
def test_store_whose_file_is_cut_off_is_restored(shop: Shop) -> None:
    for _ in range(3):
        shop.order()
    for store in ("forgetful", "lasting", "hours", "names"):
        for file in shop.files(store):
            os.truncate(file, file.stat().st_size - 4096)

    assert shop.rows("lasting") == dict.fromkeys(PRODUCTS, 3)
    result = shop.order()

    assert shop.rows("lasting") == shop.rows("hours") == shop.last("order_counts") == dict.fromkeys(PRODUCTS, 4)
    assert shop.rows("forgetful") == dict.fromkeys(PRODUCTS, 1)
    assert len(set(result.lost)) == 2


def test_lost_stores_are_restored_from_snapshots_without_what_the_changelog_had_before(
    tmp_path: Path, local: Any
) -> None:
    restore = {"strategy": {"name": "snapshot", "options": {"every_epochs": 1}}}
    shop = Shop(tmp_path, local, restore=restore)
    for _ in range(3):
        shop.order()
    old = list((shop.root / "log/segments/shop-sales/shop-sales-lasting-changelog").glob("*-g1-*.seg"))
    assert old
    for segment in old:
        segment.unlink()
    shutil.rmtree(shop.root / "state")

    shop.order()

    assert shop.rows("lasting") == shop.rows("hours") == shop.last("order_counts") == dict.fromkeys(PRODUCTS, 4)
    assert {path.parent.name for path in (shop.root / "log/snapshots").rglob("*.snap")} == {"lasting", "hours"}


def flipped_headers(file: Path) -> None:
    """The place of the first row in the header of each page of rows, in a file that processes have mapped."""
    with file.open("r+b") as opened:
        for page in range(2 * PAGE, file.stat().st_size, PAGE):
            opened.seek(page)
            header = bytearray(opened.read(FIRST_ROW + 1))
            if header[FLAGS] == LEAF:
                opened.seek(page + FIRST_ROW)
                opened.write(bytes([header[FIRST_ROW] ^ 0x80]))


def flipped_meta_pages(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for page in (0, PAGE):
        content[page + 16] ^= 0x40
    with file.open("r+b") as opened:
        opened.write(content)


def half_of_it(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2 // PAGE * PAGE)


class Observing:
    def __init__(self, on: Callable[[Event], None]) -> None:
        self.on = on


@pytest.mark.spark
def test_files_that_are_damaged_again_and_again_while_workers_have_them_open_change_no_result(shop: Shop) -> None:
    """Some of it ends the workers that read it: never the driver, and no neighbour is wiped."""
    faults = [flipped_headers, half_of_it, flipped_meta_pages, flipped_headers, Path.unlink]
    many = [f"product-{number % 150:06d}" for number in range(1800)]
    done: list[Any] = []

    def on(event: Event) -> None:
        shop.events.append(event)
        whole = isinstance(event, EpochCommitted) and event.records > 50  # both tasks: none is being restored
        if whole and faults:
            done.append(faults.pop(0))
            done[-1](shop.files("lasting")[len(done) % 2])

    records = [{"key": {"product": each}, "value": {"pieces": 1}, "timestamp": 10 * HOUR} for each in many]
    counted = 0
    while faults:  # how many epochs have both tasks in them depends on how long a restore takes
        shop.project.append("orders", records)
        counted += 12
        (result,) = shop.project.run(until_caught_up=True, observer=Observing(on)).applications
        assert result.status == "caught_up", result

    assert shop.rows("lasting") == shop.rows("forgetful") == dict.fromkeys(many, counted)
    assert shop.last("order_counts") == shop.last("hourly_orders") == dict.fromkeys(many, counted)
    assert {store for _, store in shop.told()} == {"lasting"}
