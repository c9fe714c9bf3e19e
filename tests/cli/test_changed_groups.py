"""Changes of what groups the rows of a table anew, of a project that has run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.changes.model import CONTINUE, Verdict
from headwater.tests.cli.planned import FILES, Shop
from headwater.tests.sampled import sampled

STOCK = "topologies/stock.yml"
SHOP = {
    "headwater.yml": FILES["headwater.yml"]
    + """functions:
  large: {udf: functions.sizes:large, arguments: {quantity: bigint}, returns: bigint}
  small: {udf: functions.sizes:small, arguments: {quantity: bigint}, returns: bigint}
""",
    "profiles.yml": FILES["profiles.yml"],
    "topics/topics.yml": """
topics:
  orders: {partitions: 2, key: {id: bigint}, value: {product: string, gift: string, quantity: bigint, boxes: bigint}}
  prices: {partitions: 2, key: {id: bigint}, value: {price: bigint, cost: bigint}}
""",
    "functions/sizes.py": """
def large(quantity):
    return quantity * 10


def small(quantity):
    return quantity


class Sold:
    def initial(self):
        return {"sold": 0}

    def add(self, state, key, value):
        return {"sold": state.sold + value.quantity}

    def subtract(self, state, key, value):
        return {"sold": state.sold - value.quantity}


class SoldInBoxes:
    def initial(self):
        return {"sold": 0}

    def add(self, state, key, value):
        return {"sold": state.sold + value.boxes}

    def subtract(self, state, key, value):
        return {"sold": state.sold - value.boxes}
""",
    STOCK: """
topology: stock
tables:
  ordered: {topic: orders}
  priced: {topic: prices}
stores:
  grouped: {type: key_value}
flows:
  wanted:
    from: ordered
    steps:
      - filter: quantity >= 2
  groups:
    from: wanted
    steps:
      - filter: boxes >= 3
      - join: {table: priced, type: left, values: {worth: priced.price}}
      - with_columns: {size: "boxes + 1", sized: large(quantity)}
      - key_by: {product: product}
      - aggregate:
          store: grouped
          values: {n: count(*), sold: sum(quantity), size: sum(size), sized: sum(sized), worth: sum(worth)}
      - filter: n >= 1
      - with_columns: {shown: large(n)}
    to: groups_out
  all_of_them:
    from: wanted
    to: wanted_out
  classed:
    from: wanted
    steps:
      - key_by: {product: product}
      - aggregate: {function: functions.sizes:Sold, values: {sold: bigint}}
    to: classed_out
""",
}
TOPICS = ("groups_out", "classed_out")
MISTAKEN: dict[str, tuple[str, str]] = {
    "filter": ("quantity >= 2", "quantity >= 1"),
    "filter that is gone": ("    steps:\n      - filter: quantity >= 2\n", ""),
    "key": ("- key_by: {product: product}\n      - aggregate:\n", "- key_by: {product: gift}\n      - aggregate:\n"),
    "column": ("boxes + 1", "boxes + 2"),
    "column that is summed": ("sum(quantity)", "sum(boxes)"),
    "function": ("large(quantity)", "small(quantity)"),
    "values of a join": ("priced.price", "priced.cost"),
    "type of a join": ("type: left", "type: inner"),
    "table": ("classed:\n    from: wanted", "classed:\n    from: ordered"),
    "class": ("sizes:Sold,", "sizes:SoldInBoxes,"),
}
"""What is changed before an aggregate of a table -> its text of before and of now."""

NOT_MISTAKEN = {
    "filter before a store": ("boxes >= 3", "boxes >= 2"),
    "filter behind the groups": ("n >= 1", "n >= 0"),
    "function behind the groups": ("large(n)", "small(n)"),
}
"""What is changed where the groups are given the same rows to take out as they were given to add."""


def give(shop: Shop, *rows: tuple[int, int, str]) -> None:
    """Records of (id, quantity, product) each."""
    for topic, of in (
        ("prices", lambda quantity, _: {"price": quantity * 100, "cost": quantity * 50}),
        ("orders", lambda quantity, p: {"product": p, "gift": p[-1], "quantity": quantity, "boxes": quantity * 2}),
    ):
        records = [
            {"key": {"id": i}, "value": of(quantity, product), "timestamp": 1000} for i, quantity, product in rows
        ]
        shop.project().append(topic, records)


def give_first(shop: Shop) -> None:
    give(shop, (1, 1, "tea"), (2, 3, "tea"), (3, 5, "mug"), (4, 2, "pot"))


def give_more(shop: Shop) -> None:
    give(shop, (1, 1, "mug"), (2, 4, "mug"), (4, 1, "tea"))


def result(shop: Shop) -> dict[tuple[str, str], Any]:
    """The last row of each group."""
    project = shop.project()
    last = {(topic, each.key["product"]): each.value for topic in TOPICS for each in project.read(topic)}
    return {group: row for group, row in last.items() if row is not None}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = Shop.made(tmp_path_factory.mktemp("built") / "shop", SHOP).judge()
    give_first(shop)
    assert [(each.status, each.error) for each in shop.run()] == [("caught_up", None)]
    return shop


@pytest.mark.parametrize("name", sampled(MISTAKEN, 3))
def test_groups_of_a_table_do_not_go_on_where_they_would_lose_what_they_were_not_given(
    built: Shop, tmp_path: Path, name: str
) -> None:
    shop = built.copied(tmp_path / "shop").edit(STOCK, *MISTAKEN[name]).judge()
    fresh = Shop.made(tmp_path / "fresh", SHOP).edit(STOCK, *MISTAKEN[name]).judge()
    give_first(fresh)
    for each in (shop, fresh):
        give_more(each)

    plan, onward = shop.project().plan(), shop.project().plan(go_on=True)

    results = [(each.status, each.error) for each in (*shop.run(go_on=True), *fresh.run())]
    assert results == [("caught_up", None)] * 2
    assert result(shop) == result(fresh)
    assert onward.verdict is Verdict.REPLACE
    assert any("subtract another value from its group than was added" in each.what for each in plan.changes)
    assert CONTINUE not in {way for each in plan.changes for way in each.ways}


@pytest.mark.parametrize("name", NOT_MISTAKEN)
def test_groups_of_a_table_go_on_where_they_lose_what_they_were_given(built: Shop, tmp_path: Path, name: str) -> None:
    shop = built.copied(tmp_path / "shop").edit(STOCK, *NOT_MISTAKEN[name]).judge()

    assert CONTINUE in {way for each in shop.project().plan().changes for way in each.ways}
    assert shop.project().plan(go_on=True).verdict is Verdict.COMPATIBLE
    give(shop, *((number, 0, "tea") for number in range(1, 5)))
    assert [(each.status, each.error) for each in shop.run(go_on=True)] == [("caught_up", None)]
    assert result(shop) == {("classed_out", product): {"sold": 0} for product in ("tea", "mug", "pot")}


def test_plan_says_that_groups_lose_what_other_code_makes_of_a_row(built: Shop, tmp_path: Path) -> None:
    shop = built.copied(tmp_path / "shop")
    shop.edit("functions/sizes.py", "quantity * 10", "quantity * 100").judge()

    changes = shop.project().plan().changes

    told = {each.subject.name: each for each in changes if "large" in each.what or "Sold" in each.what}
    assert {each.verdict for each in changes} == {Verdict.COMPATIBLE}
    assert set(told) == {"groups", "classed"}
    assert all("would subtract the new code's value of the old row" in each.what for each in told.values())
    assert all("run --full-refresh --select 'stock+'" in str(each.ways) for each in told.values())
