"""Joins by foreign keys of a project, one behind the other and of a table with itself, beside pandas."""

from __future__ import annotations

import random
from pathlib import Path

import pandas as pd

from headwater import TopologyTestDriver

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
        for _ in range(6):
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
