"""The ways out that a refusal names: typed in to the letter, each of them works."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.tests.cli.planned import FILES, Shop

SALES, BEST, TOPICS = "topologies/sales.yml", "topologies/best.yml", "topics/topics.yml"
ORDER = {"order_id": 9, "product": "tea", "quantity": 5_000_000_000, "price": 1.0, "ordered_at": "2024-05-03T12:00:00Z"}

WIDE = {**FILES, TOPICS: FILES[TOPICS].replace("quantity: int, price", "quantity: bigint, price")}
LATEST = {
    **WIDE,
    "topologies/recent.yml": """
topology: recent
stores:
  seen: {type: key_value}
flows:
  recent:
    from: orders
    start: latest
    steps:
      - filter: quantity >= 1
      - key_by: {product: product}
      - aggregate:
          store: seen
          values:
            orders: count(*)
    to: seen_orders
""",
}
"""With a topology that reads the last records only."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A project that has read records which were seeded and appended."""
    shop = Shop.built(tmp_path_factory.mktemp("built") / "shop", LATEST)
    shop.project().append("orders", [ORDER])
    shop.project().append("returns", [{"order_id": 1, "product": "tea", "quantity": 5}])
    assert {each.status for each in shop.run()} == {"caught_up"}
    return shop


@pytest.fixture
def shop(built: Shop, tmp_path: Path) -> Shop:
    return built.copied(tmp_path / "shop")


def edited(name: str, old: str, new: str) -> Callable[[Shop], object]:
    return lambda shop: shop.edit(name, old, new)


def without_a_reader(shop: Shop) -> None:
    (shop.root / BEST).unlink()
    shop.edit(SALES, "tumbling: 1d", "tumbling: 2d")


def fed_by_hand(shop: Shop) -> None:
    """What `sales` has written is external now."""
    (shop.root / SALES).unlink()
    shop.edit(
        TOPICS,
        "  returns:",
        "  daily:\n    partitions: 2\n    key: {product: string}\n    value: {sold: bigint}\n  returns:",
    )


narrowed = edited(TOPICS, "quantity: bigint, price", "quantity: int, price")

REFUSED: dict[str, tuple[Callable[[Shop], object], str]] = {
    "a fed column narrowed": (narrowed, ""),
    "a key of a fed topic": (
        edited(
            TOPICS,
            "key: {order_id: bigint}\n    value: {product: string, quantity: bigint",
            "key: {order_id: string}\n    value: {product: string, quantity: bigint",
        ),
        "",
    ),
    "a window, without its reader": (edited(SALES, "tumbling: 1d", "tumbling: 2d"), "sales"),
    "a window, with a reader that is gone": (without_a_reader, ""),
    "an aggregate, read from the last record on": (
        edited("topologies/recent.yml", "orders: count(*)", "orders: count(*)\n            most: max(quantity)"),
        "",
    ),
    "a topology renamed": (edited(BEST, "topology: best", "topology: finest"), ""),
    "a written topic that is fed by now": (fed_by_hand, ""),
    "a seed with other records": (edited("seeds/orders.csv", "1,coffee,2", "1,coffee,7"), ""),
    "a column of the seed that is missing": (edited("seeds/orders.csv", "quantity", "amount"), ""),
}


def refusals(shop: Shop, *select: str) -> Iterator[tuple[str, list[dict[str, str | None]]]]:
    """The topologies and seeds that a plan refuses, each with its ways out."""
    selected = [each for name in select for each in ("--select", name)]
    found = json.loads(shop.judge().headwater("plan", "--format", "json", *selected).output)
    for each in found["topologies"]:
        if each["verdict"] == "error":
            yield each["topology"], [way for change in each["changes"] for way in change["ways"]]
    for change in found["seeds"]:
        if change["verdict"] == "error":
            yield f"seed {change['subject']['name']}", change["ways"]


@pytest.mark.parametrize("name", REFUSED)
def test_each_command_that_a_refusal_names_has_the_project_run_again(shop: Shop, tmp_path: Path, name: str) -> None:
    change, selected = REFUSED[name]
    change(shop)
    found = list(refusals(shop, *selected.split()))
    commands = {way["command"] for _, ways in found for way in ways if way["command"]}

    assert found, "nothing is refused"
    for subject, ways in found:
        assert ways, f"{subject} has no way out"
    for number, command in enumerate(sorted(commands)):
        there = shop.copied(tmp_path / f"tried-{number}")
        first, *piped = command.split(" | ")
        done = there.typed(first)
        assert done.exit_code == 0, f"{command}\n{done.output}"
        if not piped:
            then = there.typed("headwater run")
            assert then.exit_code == 0, f"{command}\n{done.output}\n{then.output}"
            assert [each for each, _ in refusals(there) if not each.startswith("seed")] == []


@pytest.mark.parametrize(
    "command",
    [
        "run --full-refresh",
        "build --full-refresh",
        "run --full-refresh -s recent+",
        "reset sales+",
        "reset recent --yes",
    ],
)
def test_full_refresh_or_reset_whose_run_would_be_refused_removes_nothing(shop: Shop, command: str) -> None:
    narrowed(shop)
    before = shop.headwater("log", "ls").output

    refused = shop.typed(f"headwater {command}")

    assert refused.exit_code == 1
    assert "~ quantity bigint -> int" in refused.output
    assert shop.headwater("log", "ls").output == before
    assert "all of its" not in refused.output  # it does not even say what would go
    assert "run --full-refresh" not in refused.output


def test_refusal_of_a_narrowed_column_offers_no_refresh_of_a_reader_and_counts_the_appended_records(shop: Shop) -> None:
    narrowed(shop)

    said = " ".join(shop.judge().headwater("plan", "--select", "recent").output.split())

    assert "run --full-refresh" not in said
    assert "start: latest" not in said
    assert "copy its 1 appended records first" in said
    assert "headwater seed orders --full-refresh --drop-appended" in said


def test_seed_with_full_refresh_that_loses_appended_records_says_so_before_anything_else(shop: Shop) -> None:
    narrowed(shop)

    refused = shop.typed("headwater seed orders --full-refresh")

    assert refused.exit_code == 1
    assert "it keeps" not in refused.output
    assert "1 records were appended to orders" in refused.output


def test_build_with_full_refresh_checks_the_seeds_before_it_removes_anything(shop: Shop) -> None:
    shop.edit("seeds/orders.csv", "coffee,2,", "coffee,two,")
    before = shop.headwater("log", "ls").output

    refused = shop.typed("headwater build --full-refresh")

    assert (refused.exit_code, "two" in refused.output) == (1, True)
    assert shop.headwater("log", "ls").output == before


def test_way_out_of_a_reader_of_the_last_records_says_where_it_begins(shop: Shop) -> None:
    REFUSED["an aggregate, read from the last record on"][0](shop)

    said = " ".join(shop.judge().headwater("plan", "--select", "recent").output.split())

    assert "restart it and its readers at its `start` (orders: latest)" in said
    assert "from the first record" not in said


def test_reader_of_the_last_records_is_planned_without_those_before_it(tmp_path: Path) -> None:
    shop = Shop.made(tmp_path / "shop", LATEST).judge()
    shop.project().seed()

    (recent,) = [each for each in shop.project().plan().applications if each.topology == "recent"]

    assert recent.waiting is not None
    assert (recent.waiting.records, recent.waiting.topics, recent.waiting.passed) == (0, {}, {"orders": 5})
    said = shop.headwater("plan", "--select", "recent").output
    assert "passes over 5 records of orders, as its `start` says" in said
    assert "reads" not in said
    assert [(each.status, each.records) for each in shop.run("recent")] == [("caught_up", 0)]
    assert "passes over" not in shop.headwater("plan", "--select", "recent").output


def test_rewind_of_a_reader_of_the_last_records_counts_only_what_its_stores_have(tmp_path: Path) -> None:
    shop = Shop.made(tmp_path / "shop", LATEST).judge()
    shop.project().seed()
    shop.run("recent")
    said = shop.headwater("rewind", "recent", "--topic", "orders", "--to", "earliest", "--dry-run")
    assert (said.exit_code, "count" in said.output) == (0, False), said.output

    shop.project().append("orders", [ORDER])
    shop.run("recent")
    refused = shop.headwater("rewind", "recent", "--topic", "orders", "--to", "earliest", "--dry-run")

    assert refused.exit_code == 1
    assert "would read 1 record again, which stores have already: seen of shop-recent, and 5 that" in refused.output
    assert "starts it again at its `start` (latest)" in refused.output


def test_reset_of_a_project_with_errors_says_before_it_asks_that_no_run_begins(shop: Shop) -> None:
    shop.edit(BEST, "sold >= 3", "sold >=")

    shown = shop.headwater("reset", "sales+", "--dry-run")

    assert shown.exit_code == 0
    assert "the project has 1 error: no run starts before `headwater parse` finds none" in (
        " ".join(shown.output.split())
    )


def test_change_whose_result_is_computed_again_names_each_way_out_and_all_of_them_work(
    shop: Shop, tmp_path: Path
) -> None:
    shop.edit(SALES, "quantity >= 1", "quantity >= 2").judge()

    (sales,) = [each for each in shop.project().plan().applications if each.topology == "sales"]

    (again,) = [each for each in sales.changes if each.kind == "topology.recomputed"]
    commands = [way.command for way in again.ways]
    assert commands == [None, "headwater run --continue", "headwater run --full-refresh --select 'sales+'"]
    assert again.ways[0].what == "undo the change"
    for number, command in enumerate(filter(None, commands)):
        there = shop.copied(tmp_path / f"tried-{number}")
        done = there.typed(command)
        assert done.exit_code == 0, done.output
        assert "sales  no change" in there.headwater("plan").output
