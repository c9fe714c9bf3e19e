"""How often commands read the file of a seed: as seldom as they can be sure of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.tests.cli.planned import FILES, Shop

ORDERS = [
    {"order_id": number, "product": "tea", "quantity": number, "price": 4.5, "ordered_at": "2024-05-01T08:00:00Z"}
    for number in range(1, 6)
]


@pytest.fixture
def opens(tmp_path: Path) -> Iterator[Callable[[], int]]:
    """How often the seed was opened to be read since it was asked last."""
    counted, on = [0], [True]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if on and event == "open" and str(arguments[0]).endswith("orders.jsonl") and arguments[1] != "w":
            counted[0] += 1

    def since() -> int:
        found, counted[0] = counted[0], 0
        return found

    sys.addaudithook(hook)  # which stays for ever
    yield since
    on.clear()


def seeded(shop: Shop, orders: list[dict[str, object]]) -> None:
    """Write the seed, some time ago."""
    path = shop.root / "seeds" / "orders.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in orders))
    os.utime(path, (1_700_000_000, 1_700_000_000))


def test_build_with_a_full_refresh_reads_a_seed_to_compare_it_to_check_it_and_to_write_it(
    tmp_path: Path, opens: Callable[[], int]
) -> None:
    files = {name: text.replace("orders.csv", "orders.jsonl") for name, text in FILES.items() if "csv" not in name}
    shop = Shop.made(tmp_path / "shop", files)
    (shop.root / "seeds").mkdir()
    seeded(shop, ORDERS)
    assert shop.typed("headwater build").exit_code == 0
    opens()
    assert shop.typed("headwater build --full-refresh --yes").exit_code == 0
    assert opens() == 1  # it has not changed
    seeded(shop, ORDERS[:3])
    built = shop.typed("headwater build --full-refresh --yes")
    assert (built.exit_code, opens()) == (0, 3), built.output
    assert '"sold": 6' in shop.headwater("query", "totals", "--format", "json").stdout
    seeded(shop, [*ORDERS[:3], {**ORDERS[3], "quantity": "many"}])
    refused = shop.typed("headwater build --full-refresh --yes")
    assert refused.exit_code == 1
    assert '"sold": 6' in shop.headwater("query", "totals", "--format", "json").stdout
