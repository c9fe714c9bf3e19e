"""`headwater query` before the run that a change waits for: the rows that are there, as they were written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.tests.cli.planned import Shop

SALES = "topologies/sales.yml"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop.built(tmp_path_factory.mktemp("built") / "shop")


@pytest.fixture
def shop(built: Shop, tmp_path: Path) -> Shop:
    """As `headwater build` has left it."""
    return built.copied(tmp_path / "shop")


CHANGES = {
    "a window": ("tumbling: 1d", "tumbling: 12h", "its window was tumbling 1d, is tumbling 12h"),
    "an aggregate more": (
        "sold: sum(quantity)",
        "sold: sum(quantity)\n            most: max(quantity)",
        "its columns changed: + most int; its aggregates changed: + most: max(quantity)",
    ),
    "an aggregate less": (
        "            orders: count(*)\n",
        "",
        "its columns changed: - orders bigint; its aggregates changed: - orders: count(*)",
    ),
    "another key": (
        "{product: product}",
        "{channel: product}",
        "its key changed: + channel string, - product string",
    ),
    "a backend": ("type: window,", "type: window, backend: rocksdb,", None),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_rows_are_shown_as_they_were_written(shop: Shop, change: tuple[str, str, str | None]) -> None:
    old, new, otherwise = change
    before = shop.headwater("query", "totals", "--format", "json").stdout
    assert len(before.splitlines()) == 4
    shop.edit(SALES, old, new).judge()
    found = shop.headwater("query", "totals", "--format", "json")
    assert found.stdout == before
    told = f"totals is shown with the declaration of its rows, before the next run: {otherwise}\n"
    assert found.stderr == ("" if otherwise is None else f"warning: {told}"), found.stderr
    assert shop.headwater("query", "totals", "--key", "product=tea").exit_code == 0


def test_renamed_store_has_its_rows_under_its_new_name(shop: Shop) -> None:
    before = shop.headwater("query", "totals", "--format", "json").stdout
    shop.edit(SALES, "totals:", "sums:").edit(SALES, "store: totals", "store: sums")
    shop.edit(SALES, "type: window,", "type: window, was: totals,").judge()
    found = shop.headwater("query", "sums", "--format", "json")
    assert (found.stdout, found.exit_code) == (before, 0)
    assert "before the next run: it was called totals" in found.stderr
    shop.run()
    found = shop.headwater("query", "sums", "--format", "json")
    assert (found.stdout, found.stderr) == (before, "")
    assert json.loads(found.stdout.splitlines()[0])["key"]["product"] == "coffee"
