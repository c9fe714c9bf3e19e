"""A log and a copy of it, both gone on with, by turns on the stores of one state directory."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater import Project
from headwater.runtime.driver.client_events import ForeignStoresWiped, StoreLost
from headwater.runtime.driver.events import Event
from headwater.runtime.driver.results import RunFailedError
from headwater.runtime.log.errors import CommitsMissingError
from headwater.tests.runtime.driver.folders import SUMS_AND_COUNTS, orders, target, write_project

pytestmark = pytest.mark.spark

TOPICS = {
    **orders(partitions=1),
    "prices": {"partitions": 1, "key": {"product": "string"}, "value": {"price": "bigint"}},
}
CHARGED = {
    "from": "orders",
    "steps": [
        {"join": {"table": "priced", "type": "left", "by": {"product": "product"}, "values": {"price": "priced.price"}}}
    ],
    "to": "charges",
}
SALES = {
    **SUMS_AND_COUNTS,
    "tables": {"priced": {"topic": "prices", "global": True}},
    "flows": {**SUMS_AND_COUNTS["flows"], "charged": CHARGED},
}
FILES = {"topics/orders.yml": {"topics": TOPICS}, "topologies/sales.yml": SALES}
TARGETS = {log: {**target(log, max_records=2), "clients": 1} for log in ("one", "two")}


@dataclass
class Seen:
    events: list[Event] = field(default_factory=list)

    def on(self, event: Event) -> None:
        self.events.append(event)


@dataclass
class Shop:
    """`observer`: of the last run."""

    root: Path
    session: SparkSession
    observer: Seen = field(default_factory=Seen)

    def project(self, log: str) -> Project:
        return Project.load(self.root, target=log, session=self.session)

    def order(self, log: str, prices: int, **orders: int) -> None:
        """So many orders of one piece of each product at this price, and all of them processed."""
        shop = self.project(log)
        shop.append("prices", [{"key": {"product": each}, "value": {"price": prices}} for each in orders])
        shop.append(
            "orders",
            [
                {"key": {"product": name}, "value": {"pieces": 1}}
                for name, count in orders.items()
                for _ in range(count)
            ],
        )
        self.observer = Seen()
        shop.run(until_caught_up=True, observer=self.observer)

    def rows(self, log: str, store: str) -> dict[str, Any]:
        return {row.key["product"]: next(iter(row.value.values())) for row in self.project(log).query(store)}

    def charges(self, log: str) -> list[tuple[str, Any]]:
        return [(record.key["product"], record.value["price"]) for record in self.project(log).read("charges")]

    def told(self) -> tuple[list[set[str]], set[str]]:
        """The stores that were made of other commits, by client, and those that have lost their rows."""
        strange = [set(each.stores) for each in self.observer.events if isinstance(each, ForeignStoresWiped)]
        return strange, {each.store for each in self.observer.events if isinstance(each, StoreLost)}


@pytest.fixture
def shop(tmp_path: Path, spark_session: SparkSession) -> Shop:
    write_project(tmp_path, "shop", TARGETS, FILES)
    return Shop(tmp_path, spark_session)


def test_log_and_its_copy_by_turns_on_one_state_directory_have_the_totals_that_each_has_alone(shop: Shop) -> None:
    everything = {"forgetful/0", "lasting/0", "global/priced"}
    shop.order("one", 1, ax=5)
    shutil.copytree(shop.root / "one", shop.root / "two")
    shop.order("one", 2, ax=4, bow=2)
    assert shop.told() == ([], set())
    assert (shop.rows("two", "lasting"), shop.rows("two", "forgetful")) == ({"ax": 5}, {})

    shop.order("two", 3, cup=3)
    assert shop.told() == ([everything], {"forgetful"})
    assert shop.rows("two", "lasting") == {"ax": 5, "cup": 3}
    assert shop.rows("two", "priced") == {"ax": 1, "cup": 3}
    assert shop.rows("one", "lasting") == {"ax": 9, "bow": 2}

    shop.order("one", 4, ax=1, bow=1)
    assert shop.told() == ([everything], {"forgetful"})
    assert shop.rows("one", "lasting") == {"ax": 10, "bow": 3}
    assert shop.rows("one", "forgetful") == {"ax": 1, "bow": 1}
    assert shop.charges("one")[-2:] == [("ax", 4), ("bow", 4)]

    shop.order("one", 5, cup=1)
    assert shop.told() == ([], set())
    assert shop.charges("one")[-1:] == [("cup", 5)]


def test_application_whose_commits_are_gone_is_refused_until_they_are_back_or_it_is_fully_refreshed(shop: Shop) -> None:
    shop.order("one", 1, ax=5)
    commits, gone = shop.root / "one/commits/shop-sales", shop.root / "gone"
    commits.rename(gone)
    with pytest.raises(RunFailedError, match="the commits of shop-sales are missing"):
        shop.order("one", 2, ax=1)
    with pytest.raises(CommitsMissingError):
        shop.rows("one", "lasting")
    gone.rename(commits)
    shop.order("one", 3, ax=1)
    assert shop.rows("one", "forgetful") == {"ax": 7}

    shutil.rmtree(commits)
    shop.project("one").build(full_refresh=True)
    assert shop.rows("one", "forgetful") == {"ax": 7}
