"""`headwater reset --store`: what it says, what it refuses, and what the next run makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from headwater.tests.cli.planned import FILES, Shop

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "store_reset.json").read_text())
SALES, TOPICS = "topologies/sales.yml", "topics/topics.yml"
RESET = "headwater reset sales --store totals"
WITH_TABLE = {
    **FILES,
    TOPICS: FILES[TOPICS]
    + "  names:\n    partitions: 1\n    key: {product: string}\n    value: {title: string}\n    cleanup: compact\n",
    "topologies/named.yml": """
topology: named
tables:
  titles: {topic: names, global: true}
flows:
  named:
    from: orders
    steps:
      - key_by: {product: product}
      - join: {table: titles, by: {product: key.product}, values: {title: titles.title}}
    to: named_orders
""",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop.built(tmp_path_factory.mktemp("built") / "shop")


@pytest.fixture
def shop(built: Shop, tmp_path: Path) -> Shop:
    return built.copied(tmp_path / "shop")


def rows(shop: Shop) -> str:
    return shop.headwater("query", "totals", "--format", "json").stdout


def test_reset_says_what_is_read_again_and_the_next_run_does_it_once(shop: Shop) -> None:
    before = rows(shop)
    told = shop.headwater(*RESET.split()[1:], "--dry-run")
    assert told.exit_code == 0, told.output
    lines = told.stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:2]] == [["shop-sales", "orders", "5"]]
    assert "totals of shop-sales: rebuilt from 5 records" in lines[2]
    assert lines[2].endswith(
        "all other stores and topics of shop-sales are rebuilt with it, and those of shop-best, which read it"
    )
    assert lines[-1] == "a dry run: nothing was changed"
    assert shop.headwater("plan").exit_code == 0

    assert "rebuilds totals" in shop.typed(RESET).stdout
    assert "already requested" in shop.typed(RESET).stdout
    (asked,) = [each for each in shop.project().plan().changes if each.kind == "store.reset"]
    assert (asked.place, asked.what) == (
        f"{SALES}:11",
        "`headwater reset` has requested a rebuild of its rows",
    )
    assert {way.command for each in shop.project().plan().changes for way in each.ways} == {f"{RESET} --withdraw"}
    assert rows(shop) == before

    assert [each.recomputation for each in shop.run()] == ["switched"] * 2
    assert rows(shop) == before
    assert shop.headwater("plan").exit_code == 0
    assert [each.recomputation for each in shop.run()] == [None] * 2


def test_reset_is_told_as_json_and_can_be_withdrawn(shop: Shop) -> None:
    listed = json.loads(shop.headwater(*RESET.split()[1:], "--yes", "--format", "json").stdout)
    jsonschema.validate(listed, SCHEMA)
    assert (listed["stores"], listed["records"], listed["asked_before"]) == (["totals"], 5, [])
    assert [each["application"] for each in listed["computed_again"]] == ["shop-sales", "shop-best"]
    assert listed["bytes"] == listed["computed_again"][0]["topics"][0]["bytes"] > 0
    listed = json.loads(shop.headwater(*RESET.split()[1:], "--withdraw", "--yes", "--format", "json").stdout)
    jsonschema.validate(listed, SCHEMA)
    assert (listed["withdraw"], listed["asked_before"], listed["computed_again"]) == (True, ["totals"], [])
    assert not shop.project().plan().changes
    assert "no rebuild of it is requested" in shop.typed(f"{RESET} --withdraw").stdout


def test_records_that_are_gone_stop_it_before_it_is_asked_for_and_after(shop: Shop) -> None:
    orders = [
        {"order_id": n, "product": "tea", "quantity": 5, "price": 1.0, "ordered_at": "2024-06-03T12:00:00Z"}
        for n in range(10, 20)
    ]
    shop.project().append("orders", orders)
    shop.run()
    assert shop.typed(RESET).exit_code == 0
    shop.edit(TOPICS, "  orders:\n", "  orders:\n    retention: 1d\n").judge()
    assert shop.headwater("log", "clean").exit_code == 0
    plan = shop.headwater("plan")
    lost = "topic orders: 5 of its records are not there any more"
    assert plan.exit_code == 2
    assert "totals --withdraw" in plan.stdout
    assert lost in str([each.error for each in shop.run()])
    assert shop.typed(f"{RESET} --withdraw").exit_code == 0
    assert {each.status for each in shop.run()} == {"caught_up"}

    refused = shop.headwater(*RESET.split()[1:], "--yes")

    assert refused.exit_code == 1
    assert "totals of shop-sales cannot be rebuilt, and nothing was changed" in refused.stderr
    assert f"{lost} (retention or compaction has removed them)" in refused.stderr
    assert "headwater run --full-refresh --select 'sales+'" in refused.stderr
    assert "--withdraw" not in refused.stderr
    assert not [each for each in shop.project().plan().changes if each.kind == "store.reset"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("sales --store totls", 2, "topology sales has no store 'totls'\n  hint: did you mean 'totals'?"),
        ("sales --store x", 2, "topology sales has no store 'x'\n  hint: it has totals"),
        ("best --store x", 2, "hint: it has no stores"),
        ("best --store totals", 2, "not in topology best\n  hint: `headwater reset sales --store totals`"),
        ("sales+ --store totals", 2, "'sales+' selects best, sales"),
        ("sales best --store totals", 2, "`--store` works on one topology"),
        ("sales --withdraw", 2, "`--withdraw` needs the `--store`"),
    ],
)
def test_store_that_is_not_there_is_refused_with_the_way_out(shop: Shop, arguments: str, code: int, said: str) -> None:
    refused = shop.headwater("reset", *arguments.split(), "--yes")
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.stderr


def test_store_that_nothing_fills_any_more_or_that_has_no_rows_yet_is_refused(shop: Shop) -> None:
    text = (shop.root / SALES).read_text()
    shop.edit(SALES, "totals", "sums").judge()
    gone = shop.headwater(*RESET.split()[1:], "--yes")
    assert "nothing in topology sales fills store totals any more, so its rows cannot be rebuilt" in gone.stderr
    assert "if it has another name now, declare that with `was`" in gone.stderr
    new = shop.headwater("reset", "sales", "--store", "sums", "--yes")
    assert "store sums of shop-sales has no rows yet: there is nothing to rebuild" in new.stderr
    (shop.root / SALES).write_text(text)
    assert not shop.judge().project().plan().changes


def test_global_table_is_refused_as_clients_only_copy_it(tmp_path: Path) -> None:
    shop = Shop.made(tmp_path / "shop", WITH_TABLE).judge()
    refused = shop.headwater("reset", "named", "--store", "titles", "--yes")
    assert "titles is a global table: each client has a copy of all rows of its topic" in refused.stderr
    assert "`headwater clean --state`" in refused.stderr
