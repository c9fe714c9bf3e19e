"""Joins by foreign keys of a project, one behind the other and of a table with itself, beside pandas."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pandas as pd
import pytest

from headwater import TopologyTestDriver
from headwater.runtime.testing.driven import DrivenRunError

PROJECT = Path(__file__).parent.parent / "golden" / "foreign_key" / "project"

MADE = {
    "orders": (
        "order_id",
        range(6),
        lambda rng: {
            "customer": rng.choice(["a", "b", "A", None]),
            "product_id": rng.choice([1, 2, None]),
            "amount": 1.0,
        },
    ),
    "customers": ("customer_id", "ABC", lambda rng: {"name": rng.choice(["x", "y", None]), "city": "z"}),
    "products": ("product_id", (1, 2), lambda rng: {"title": rng.choice("tuv")}),
    "employees": ("id", range(1, 6), lambda rng: {"name": rng.choice("klm"), "boss": rng.choice([1, 2, 3, 9, None])}),
}
"""Topic -> key column, keys, and a function that makes a value."""


def table(rows, key, columns):
    """A topic's last rows. Keys are text, as pandas matches null keys of numbers with each other."""
    found = pd.DataFrame([{key: str(k), **v} for k, v in rows.items() if v is not None], columns=[key, *columns])
    return found.astype(object)


def expected(last):
    orders = table(last["orders"], "order_id", ["customer", "product_id"])
    clients = table(last["customers"], "customer_id", ["name"])
    goods = table(last["products"], "product_id", ["title"])
    people = table(last["employees"], "id", ["name", "boss"])
    orders["by"] = orders["customer"].map(lambda text: None if text is None else text.upper())
    orders["good"] = orders["product_id"].map(lambda number: "none" if pd.isna(number) else str(int(number)))
    named = orders.merge(clients, how="left", left_on="by", right_on="customer_id")
    named["client"] = named["name"].map(lambda name: "somebody" if pd.isna(name) else name)
    named = named.merge(goods, left_on="good", right_on="product_id")
    people["by"] = people["boss"].map(lambda number: "none" if pd.isna(number) else str(int(number)))
    bosses = people.merge(people[["id", "name"]], how="left", left_on="by", right_on="id", suffixes=("", "_boss"))
    names = bosses["name_boss"].map(lambda name: None if pd.isna(name) else name)
    return (
        dict(zip(named["order_id"], zip(named["client"], named["title"], strict=True), strict=True)),
        dict(zip(bosses["id"], zip(bosses["name"], names, strict=True), strict=True)),
    )


def test_results_are_those_of_pandas_after_each_batch_of_changes():
    rng = random.Random(1)
    last = {topic: {} for topic in MADE}
    orders, bosses = {}, {}
    with TopologyTestDriver(PROJECT, "site") as driver:
        for _ in range(4):
            for topic, (key, keys, make) in MADE.items():
                changes = [(rng.choice(list(keys)), make(rng) if rng.random() < 0.8 else None) for _ in range(8)]
                last[topic] |= changes
                driver.pipe_input(
                    topic, [{"key": {key: k}, "value": v, "timestamp": rng.randrange(1000)} for k, v in changes]
                )
            for record in driver.read_output("orders_with_names"):
                orders[str(record.key["order_id"])] = record.value and (record.value["client"], record.value["title"])
            for record in driver.read_output("people_with_bosses"):
                bosses[str(record.key["id"])] = record.value and (record.value["name"], record.value["boss_name"])
            there = ({key: row for key, row in found.items() if row is not None} for found in (orders, bosses))
            assert tuple(there) == expected(last)
        assert driver.dropped["outdated_answer"] > 0


SHARES = """
topology: shares
tables:
  bought_again: {topic: orders}
  goods_again: {topic: products}
flows:
  shares:
    from: bought_again
    steps:
      - join:
          table: goods_again
          by: {product_id: product_id}
          values: {share: 60 / cast(title as int)}
    to: shares_of_orders
"""


def test_answer_that_a_step_cannot_process_stops_its_task_whatever_the_topics_say(tmp_path):
    root = shutil.copytree(PROJECT, tmp_path / "site")
    (root / "topologies" / "shares.yml").write_text(SHARES)
    topics = root / "topics" / "topics.yml"
    topics.write_text(topics.read_text().replace("    partitions:", "    on_error: skip\n    partitions:"))
    order = {"order_id": 1, "customer": "a", "product_id": 1, "amount": 1.0}
    with TopologyTestDriver(root, "shares") as driver:
        driver.pipe_input("products", [{"product_id": 1, "title": "0"}])
        with pytest.raises(DrivenRunError) as failed:
            driver.pipe_input("orders", [order])
        assert driver.dropped == {}
    assert "cannot be processed" in failed.value.cause
    assert "of a join by a foreign key: later changes depend on it" in failed.value.hint
    assert "skips such records" not in failed.value.hint
