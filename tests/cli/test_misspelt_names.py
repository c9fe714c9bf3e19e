"""Names that commands are given and that nobody has: what may have been meant."""

from __future__ import annotations

import pytest

from headwater.tests.cli.planned import FILES, Shop

LETTERS = FILES["topologies/sales.yml"].replace("  wanted:\n", "  wanted:\n    on_error: dead_letter\n")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """With dead letters, and with a topology that is gone from the project."""
    files = {**FILES, "topologies/sales.yml": LETTERS}
    shop = Shop.built(tmp_path_factory.mktemp("misspelt") / "shop", files)
    (shop.root / "topologies" / "best.yml").unlink()
    return shop


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("remove bset", "did you mean 'best'?"),
        ("remove shop-bets", "did you mean 'shop-best'?"),
        ("remove best_dys", "did you mean 'best_days'?"),
        ("remove slaes", "did you mean 'sales'? It is in the project: remove it there first"),
        ("rewind slaes --topic orders --to earliest", "Did you mean 'sales'?"),
        ("rewind sales --topic ordrs --to earliest", "did you mean 'orders'?"),
        ("reset slaes", "Did you mean 'sales'?"),
        ("reset sales --store totls", "did you mean 'totals'?"),
        ("reset wanted", "It is a flow of topology 'sales': select the topology."),
        ("retry sales_ordrs_dead_letter", "Did you mean 'sales_orders_dead_letter'?"),
        ("retry orders", "did you mean 'sales_orders_dead_letter'?"),
        ("pause --select slaes", "Did you mean 'sales'?"),
        ("pause --select sales.totals", "It is a store of topology 'sales': select the topology."),
        ("resume --select slaes", "Did you mean 'sales'?"),
    ],
)
def test_name_that_nobody_has_is_answered_with_one_that_is_like_it(shop: Shop, command: str, hint: str) -> None:
    shown = shop.headwater(*command.split())

    assert shown.exit_code in (1, 2)
    assert shown.output.splitlines()[-1] == f"  hint: {hint}"
