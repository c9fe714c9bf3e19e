"""Changes of a topic's columns: what `plan` says, what the run does, and that the result is that of a fresh project."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.tests.cli.planned import FILES, Shop

ORDERS = "topics/topics.yml"
VALUE = "value: {product: string, quantity: int, price: double, ordered_at: timestamp}"
APPENDED = {"product": "coffee", "quantity": 5, "price": 3.5, "ordered_at": "2024-05-03T08:00:00Z"}
COPY = """
topology: copy
flows:
  copied:
    from: orders
    to: kept
"""

Change = Callable[[Shop], object]


def made(root: Path) -> Shop:
    """The shop, with a topology that keeps all columns of the orders."""
    return Shop.made(root, {**FILES, "topologies/copy.yml": COPY})


def append(shop: Shop, key: int, value: dict[str, Any]) -> None:
    """A record with those of the values that the topic has a column for."""
    declared = (shop.root / ORDERS).read_text()
    fits = {name: each for name, each in value.items() if f"{name}: " in declared}
    shop.judge().project().append("orders", [{"timestamp": key, "key": {"order_id": key}, "value": fits}])


def topic(shop: Shop, name: str) -> list[str]:
    found = shop.judge().project().read(name)
    return sorted(json.dumps([each.timestamp, each.key, each.value]) for each in found)


def empty_column(shop: Shop) -> None:
    path = shop.root / "seeds/orders.csv"
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"{head},note", *(f"{row}," for row in rows), ""]))


def nullable_column_added(shop: Shop) -> None:
    shop.edit(ORDERS, VALUE, VALUE.replace("{", "{note: string, "))
    empty_column(shop)


def column_dropped(shop: Shop) -> None:
    shop.edit(ORDERS, VALUE, VALUE.replace("price: double, ", ""))


def reordered(shop: Shop) -> None:
    shop.edit(ORDERS, VALUE, "value: {price: double, ordered_at: timestamp, quantity: int, product: string}")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (nullable_column_added, "+ note string"),
        (column_dropped, "- price double"),
        (reordered, "~ the order of columns"),
    ],
)
def test_changed_columns_of_a_seeded_and_appended_topic_go_on_and_give_what_a_fresh_project_gives(
    tmp_path: Path, change: Change, line: str
) -> None:
    shop = made(tmp_path / "shop")
    shop.build()
    append(shop, 90, APPENDED)
    shop.run()
    change(shop)

    said = json.loads(shop.judge().headwater("plan", "--format", "json").output)
    changes = [each for topology in said["topologies"] for each in topology["changes"]]
    assert line in [shown for each in changes for shown in each.get("diff", ())]
    assert {each["verdict"] for each in [*changes, *said["seeds"]]} == {"compatible"}
    assert shop.judge().headwater("plan").exit_code == 0
    assert [(each.status, each.records) for each in shop.build()] == [("caught_up", 0)] * 3
    append(shop, 91, {**APPENDED, "note": "late"})
    shop.run()

    fresh = made(tmp_path / "fresh")
    change(fresh)
    fresh.judge().project().seed()
    append(fresh, 90, APPENDED)
    append(fresh, 91, {**APPENDED, "note": "late"})
    fresh.run()
    for name in ("orders", "kept", "daily", "best_days"):
        assert topic(shop, name) == topic(fresh, name), name


def test_seed_with_values_in_an_added_column_is_refused_and_seeded_again_keeps_what_was_appended(
    tmp_path: Path,
) -> None:
    def change(shop: Shop) -> Shop:
        shop.edit(ORDERS, VALUE, VALUE.replace("{", "{note: string, "))
        empty_column(shop)
        return shop.edit("seeds/orders.csv", "T10:20:00Z,", "T10:20:00Z,gift")

    shop = made(tmp_path / "shop")
    shop.build()
    append(shop, 90, APPENDED)
    shop.run()
    change(shop)

    planned = shop.judge().headwater("plan")
    assert planned.exit_code == 2
    assert "it is not the committed one (other values of note)" in " ".join(planned.output.split())
    refused = shop.headwater("seed")
    assert refused.exit_code == 1
    assert "has changed since it was committed: seeds/orders.csv: other values of note" in refused.output
    again = " ".join(shop.headwater("seed", "--full-refresh").output.split())
    assert "shop-sales: all of its" in again  # what goes, before it goes
    assert "in place of 5 records of before; it keeps 1 appended record, behind it" in again
    assert again.endswith("orders 5 replaced; 1 appended record kept")
    shop.run()

    fresh = change(made(tmp_path / "fresh"))
    fresh.judge().project().seed()
    append(fresh, 90, APPENDED)
    fresh.run()
    for name in ("orders", "kept", "daily", "best_days"):
        assert topic(shop, name) == topic(fresh, name), name


def test_narrower_column_is_refused_with_each_column_that_is_in_the_way(tmp_path: Path) -> None:
    shop = made(tmp_path / "shop")
    shop.build()
    shop.edit(ORDERS, "price: double", "price: float")

    planned = shop.judge().headwater("plan", "--select", "copy")

    assert planned.exit_code == 2
    assert "its records cannot be read with its present columns" in " ".join(planned.output.split())
    assert "~ price double -> float" in planned.output
    (failed,) = shop.run("copy")
    assert "~ price double -> float" in str(failed.error)


def test_way_out_of_a_narrower_column_gives_up_appended_records_only_where_it_says_so(tmp_path: Path) -> None:
    shop = made(tmp_path / "shop")
    shop.build()
    append(shop, 90, APPENDED)
    shop.run()
    shop.edit(ORDERS, "price: double", "price: float")

    said = json.loads(shop.judge().headwater("plan", "--select", "copy", "--format", "json").output)

    changes = [each for topology in said["topologies"] for each in topology["changes"]]
    commands = {way["command"] for each in [*changes, *said["seeds"]] for way in each["ways"]}
    assert "headwater seed orders --full-refresh" not in commands
    assert "headwater seed orders --full-refresh --drop-appended" in commands
    shop.judge().project("copy").seed(["orders"], full_refresh=True, drop_appended=True)
    assert [each.status for each in shop.run("copy")] == ["caught_up"]


def test_seed_by_a_function_is_not_said_to_have_changed_where_the_columns_have(tmp_path: Path) -> None:
    shop = made(tmp_path / "shop")
    (shop.root / "functions").mkdir()
    (shop.root / "functions" / "seeds.py").write_text(SEEDS)
    shop.edit(ORDERS, "seed: {path: seeds/orders.csv}", "seed: {function: functions.seeds:orders}").build()
    shop.edit(ORDERS, "quantity: int", "quantity: bigint")

    assert "its topic has other columns now. Unless functions.seeds:orders gives the same" in seeds_planned(shop)

    shop.edit(ORDERS, "quantity: bigint", "quantity: int")
    shop.edit("functions/seeds.py", "3.5", "7.0")
    assert "its function changed. Unless functions.seeds:orders gives the same" in seeds_planned(shop)


SEEDS = """
def orders():
    yield {"order_id": 1, "product": "tea", "quantity": 2, "price": 3.5, "ordered_at": "2024-05-01T08:00:00Z"}
"""


def seeds_planned(shop: Shop) -> str:
    (seed,) = json.loads(shop.judge().headwater("plan", "--format", "json").stdout)["seeds"]
    return str(seed["what"])
