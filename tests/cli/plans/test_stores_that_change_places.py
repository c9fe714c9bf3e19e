"""Two stores of one subtopology whose flows change them: neither goes on with the rows of the other one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.tests.cli.planned import FILES, Shop

_FLOWS = """
topology: counts
stores:
  all_orders: {type: key_value}
  large_orders: {type: key_value}
flows:
  every:
    from: orders
    steps:
      - aggregate: {store: all_orders, values: {n: count(*)}}
    to: every_count
  large:
    from: orders
    steps:
      - filter: quantity >= 3
      - aggregate: {store: large_orders, values: {n: count(*)}}
    to: large_count
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Built, and the current folder is its own."""
    files = {name: text for name, text in FILES.items() if not name.startswith("topologies/")}
    shop = Shop.made(tmp_path / "shop", {**files, "topologies/counts.yml": _FLOWS})
    assert [each.status for each in shop.build()] == ["caught_up"]
    monkeypatch.chdir(shop.root)
    return shop


def rows(shop: Shop, store: str) -> list[int]:
    """The ids of the orders that it has counted."""
    shown = shop.headwater("query", store, "--format", "json")
    assert shown.exit_code == 0, shown.output
    return sorted(json.loads(line)["key"]["order_id"] for line in shown.output.splitlines())


def test_stores_that_change_places_are_computed_again(shop: Shop) -> None:
    assert (rows(shop, "all_orders"), rows(shop, "large_orders")) == ([1, 2, 3, 4, 5], [3, 5])
    for old, new in (("all_orders, ", "other, "), ("large_orders, ", "all_orders, "), ("other, ", "large_orders, ")):
        shop.edit("topologies/counts.yml", f"store: {old}", f"store: {new}")

    shown = shop.judge().headwater("plan")
    assert shown.exit_code == 2
    told = "every wrote its rows, and large does now: its rows were made of other records"
    assert told in " ".join(shown.output.replace("│", "").split())

    assert [each.status for each in shop.run()] == ["caught_up"]
    assert (rows(shop, "all_orders"), rows(shop, "large_orders")) == ([3, 5], [1, 2, 3, 4, 5])
    assert "nothing has changed" in shop.headwater("plan").output


def test_stores_whose_flows_are_renamed_go_on(shop: Shop) -> None:
    shop.edit("topologies/counts.yml", "  large:\n", "  big:\n    was: large\n")
    assert shop.judge().headwater("plan").exit_code == 0
    assert [(each.status, each.records) for each in shop.run()] == [("caught_up", 0)]
    shop.edit("topologies/counts.yml", "  big:\n    was: large\n", "  huge:\n")
    assert "computed again" not in shop.judge().headwater("plan").output
