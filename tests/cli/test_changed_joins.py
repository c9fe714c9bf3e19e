"""Changes of joins and of `suppress` over what they hold: what a plan says, and whether the result is a fresh one's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.changes.model import CONTINUE, Verdict
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.tests.cli.planned import FILES, Shop
from headwater.tests.sampled import sampled

SALES = "topologies/sales.yml"
SHOP = {
    "headwater.yml": FILES["headwater.yml"],
    "profiles.yml": FILES["profiles.yml"],
    "topics/topics.yml": """
topics:
  orders: {partitions: 2, key: {id: bigint}, value: {product: string, gift: string, quantity: bigint}}
  payments: {partitions: 2, key: {id: bigint}, value: {paid: bigint, method: string}}
  refunds: {partitions: 2, key: {id: bigint}, value: {paid: bigint, method: string}}
  products: {partitions: 2, key: {product: string}, value: {maker: string, brand: string}}
""",
    SALES: """
topology: sales
tables:
  bought: {topic: orders}
  settled: {topic: payments}
  made: {topic: products}
flows:
  paid:
    from: orders
    steps:
      - join: {stream: payments, type: outer, within: 5s, grace: 1s, values: {paid: payments.paid}}
    to: paid_orders
  matched:
    from: orders
    steps:
      - join: {stream: settling, within: 1m, values: {method: settling.method}}
    to: matched_orders
  settling:
    from: payments
  both:
    from: bought
    steps:
      - join: {table: settled, type: inner, values: {paid: settled.paid}}
    to: both_out
  makers:
    from: bought
    steps:
      - join: {table: made, type: inner, by: {product: product}, values: {maker: made.maker}}
    to: makers_out
  counted:
    from: orders
    steps:
      - window: {tumbling: 10s}
      - aggregate: {store: counts, values: {orders: count(*)}}
      - suppress: {until: window_closes}
    to: counted_out
stores:
  counts: {type: window, retention: 1h}
""",
}
TOPICS = ("paid_orders", "matched_orders", "both_out", "makers_out", "counted_out")
CHANGES: dict[str, tuple[str, str, str]] = {
    "within": ("within: 5s", "within: 20s", "store.within"),
    "within of one side": ("within: 5s", "within: {before: 5s, after: 20s}", "store.within"),
    "grace of a join": ("grace: 1s", "grace: 10s", "store.grace"),
    "type of a join of streams": ("type: outer, within", "type: left, within", "store.columns"),
    "inner join of streams": ("type: outer, within", "type: inner, within", "store.removed"),
    "values of a join of streams": ("paid: payments.paid", "paid: payments.paid + 1", "flow.steps"),
    "type of a join of tables": ("settled, type: inner", "settled, type: outer", "flow.steps"),
    "values of a join of tables": ("paid: settled.paid", "paid: settled.paid + 1", "flow.steps"),
    "type of a join by a foreign key": ("made, type: inner", "made, type: left", "flow.steps"),
    "by of a join by a foreign key": ("by: {product: product}", "by: {product: upper(product)}", "flow.steps"),
    "column in by of a join by a foreign key": ("by: {product: product}", "by: {product: gift}", "flow.steps"),
    "stream that is joined": (
        "settling, within: 1m, values: {method: settling.method}",
        "refunds, within: 1m, values: {method: refunds.method}",
        "flow.steps",
    ),
    "values of a join by a foreign key": ("maker: made.maker", "maker: made.brand", "flow.steps"),
    "for instead of until": ("suppress: {until: window_closes}", "suppress: {for: 1m}", "store.type"),
}
"""What is changed -> its text of before and of now, and how the plan calls it."""


def give(shop: Shop, topic: str, *rows: tuple[int, dict[str, Any], dict[str, Any]]) -> None:
    """Records of (second, key, value) each."""
    shop.project().append(topic, [{"key": key, "value": value, "timestamp": time * 1000} for time, key, value in rows])


def give_first(shop: Shop) -> None:
    give(
        shop,
        "products",
        *((1, {"product": p}, {"maker": m, "brand": m[:1]}) for p, m in (("tea", "anna"), ("mug", "bo"))),
    )
    bought = ((1, 1, "tea"), (2, 2, "mug"), (3, 12, "tea"))
    rows = ((time, {"id": number}, {"product": p, "gift": "mug", "quantity": 1}) for number, time, p in bought)
    give(shop, "orders", *rows)
    for topic in ("payments", "refunds"):
        paid = ((time, {"id": number}, {"paid": number, "method": topic}) for number, time in ((1, 3), (2, 14)))
        give(shop, topic, *paid)


def give_more(shop: Shop) -> None:
    give(
        shop,
        "products",
        *((33, {"product": p}, {"maker": m, "brand": m[:1]}) for p, m in (("tea", "carl"), ("mug", "dora"))),
    )
    bought = ((2, 31, "tea"), (4, 50, "mug"))
    give(shop, "orders", *((time, {"id": number}, {"product": p, "quantity": 5}) for number, time, p in bought))
    give(shop, "payments", *((time, {"id": number}, {"paid": number}) for number, time in ((3, 30), (4, 62))))


def result(shop: Shop) -> dict[str, list[Any]]:
    """The records of streams, and of tables the last one of each key."""
    project = shop.project()
    found = {topic: [(each.timestamp, each.key, each.value) for each in project.read(topic)] for topic in TOPICS}
    for topic in ("both_out", "makers_out"):
        last = {str(key): (key, value) for _, key, value in found[topic]}
        found[topic] = sorted(last.values(), key=str)
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = Shop.made(tmp_path_factory.mktemp("built") / "shop", SHOP).judge()
    give_first(shop)
    assert {each.status for each in shop.run()} == {"caught_up"}
    return shop


@pytest.mark.parametrize("name", sampled(CHANGES, 3))
def test_changed_join_or_suppress_gives_the_result_of_a_fresh_project(built: Shop, tmp_path: Path, name: str) -> None:
    old, new, kind = CHANGES[name]
    shop = built.copied(tmp_path / "shop").edit(SALES, old, new).judge()
    fresh = Shop.made(tmp_path / "fresh", SHOP).edit(SALES, old, new).judge()
    give_first(fresh)
    for each in (shop, fresh):
        give_more(each)

    plan = shop.project().plan()

    assert plan.verdict is Verdict.REPLACE
    assert kind in {each.kind for each in plan.changes if each.verdict is Verdict.REPLACE}
    assert not any("changes that wait already" in each.what for each in plan.changes)
    assert "flow.emit" not in {each.kind for each in plan.changes}
    assert "topology.recomputed" in {each.kind for each in plan.changes}
    assert [(each.status, each.error) for each in (*shop.run(), *fresh.run())] == [("caught_up", None)] * 2
    assert result(shop) == result(fresh)
    assert shop.project().plan().verdict is Verdict.NOTHING


@pytest.mark.parametrize(
    "name",
    sampled(
        (
            "grace of a join",
            "values of a join of streams",
            "type of a join of tables",
            "values of a join of tables",
            "type of a join by a foreign key",
            "values of a join by a foreign key",
        ),
        3,
    ),
)
def test_changed_join_goes_on_with_what_is_there(built: Shop, tmp_path: Path, name: str) -> None:
    old, new, _ = CHANGES[name]
    shop = built.copied(tmp_path / "shop")
    before = result(shop)["paid_orders"]
    shop.edit(SALES, old, new).judge()
    give_more(shop)

    plan = shop.project().plan(go_on=True)

    assert plan.verdict is Verdict.COMPATIBLE, [str(each) for each in plan.changes]
    assert [(each.status, each.error) for each in shop.run(go_on=True)] == [("caught_up", None)]
    assert result(shop)["paid_orders"][: len(before)] == before
    assert shop.project().plan().verdict is Verdict.NOTHING


@pytest.mark.parametrize("name", ["column in by of a join by a foreign key", "stream that is joined"])
def test_changed_join_does_not_go_on_with_what_it_would_mistake(built: Shop, tmp_path: Path, name: str) -> None:
    old, new, _ = CHANGES[name]
    shop = built.copied(tmp_path / "shop").edit(SALES, old, new).judge()

    (changed,) = [each for each in shop.project().plan(go_on=True).changes if each.kind == "flow.steps"]

    assert changed.verdict is Verdict.REPLACE
    assert "would still get responses" in changed.what or "would be matched as its own" in changed.what
    assert "topology.recomputed" in {each.kind for each in shop.project().plan(go_on=True).changes}
    assert CONTINUE not in {way for each in shop.project().plan().changes for way in each.ways}


def test_flow_that_is_gone_is_told_without_the_edges_by_which_it_read_tables(built: Shop, tmp_path: Path) -> None:
    both = """  both:
    from: bought
    steps:
      - join: {table: settled, type: inner, values: {paid: settled.paid}}
    to: both_out
"""
    again = "  both_again:\n    from: settled\n    to: settled_out\n"
    shop = built.copied(tmp_path / "shop").edit(SALES, both, both + again).judge()
    shop.run()

    plan = shop.edit(SALES, both, "").judge().project().plan()

    assert [str(each.subject) for each in plan.changes if each.kind == "flow.removed"] == ["flow both"]


def test_tables_and_streams_of_joins_keep_their_rows_under_other_names(built: Shop, tmp_path: Path) -> None:
    shop = built.copied(tmp_path / "shop")
    for name in ("settled", "made"):
        shop.edit(SALES, f": {name},", f": {name}_now,").edit(SALES, f" {name}.", f" {name}_now.")
        shop.edit(SALES, f"  {name}: {{", f"  {name}_now: {{was: {name}, ")
    shop.edit(SALES, ": settling,", ": paying,").edit(SALES, " settling.", " paying.")
    shop.edit(SALES, "  settling:\n", "  paying:\n    was: settling\n")

    plan = shop.judge().project().plan()

    assert [str(each) for each in plan.changes if each.kind not in ("store.renamed", "flow.renamed")] == []
    assert {"settled_now", "made_now"} <= {each.subject.name for each in plan.changes}


def test_renamed_store_of_sliding_windows_goes_on_with_both_of_its_clocks(tmp_path: Path) -> None:
    near = """
topology: sales
stores:
  near: {type: window, retention: 1h}
flows:
  near:
    from: orders
    steps:
      - window: {sliding: 10s}
      - aggregate: {store: near, values: {orders: count(*)}}
    to: near_out
"""
    shop = Shop.made(
        tmp_path / "shop", {**SHOP, SALES: near.replace("  near:\n    from", "  counted:\n    from")}
    ).judge()
    give(shop, "orders", *((time, {"id": 1}, {"product": "tea", "quantity": 1}) for time in (1, 5, 20)))
    shop.run()
    before = clocks(shop)

    shop.edit(SALES, "near: {type", "close: {was: near, type").edit(SALES, "store: near", "store: close").judge()
    give(shop, "orders", (25, {"id": 1}, {"product": "tea", "quantity": 1}))
    plan = shop.project().plan()

    assert plan.verdict is Verdict.COMPATIBLE
    assert [(each.status, each.error) for each in shop.run()] == [("caught_up", None)]
    assert before == {"near": 20_000, "near.latest": 10_000}
    assert clocks(shop) == {"close": 25_000, "close.latest": 20_001}
    rows = {row.key["window_start"]: row.value["orders"] for row in shop.project().query("close")}
    assert (rows[10_000], rows[15_000]) == (1, 2)


def test_renamed_store_of_a_processor_is_swept_when_it_would_have_been(tmp_path: Path) -> None:
    unique = """
topology: sales
stores:
  seen: {type: key_value, key: {id: bigint}, value: {n: bigint}, retention: 10s}
flows:
  unique:
    from: orders
    steps:
      - process: {function: "functions.first:First", stores: [seen]}
    to: unique_out
"""
    function = """
class First:
    def init(self, context):
        self.seen = context.store("seen")

    def process(self, record):
        self.seen.put(record.key, {"n": 1})
"""
    shop = Shop.made(tmp_path / "shop", {**SHOP, SALES: unique, "functions/first.py": function}).judge()
    for time in (1, 30, 60):
        give(shop, "orders", (time, {"id": 1}, {"product": "tea", "quantity": 1}))
        shop.run()
    before = clocks(shop)

    shop.edit(SALES, "seen: {type", "known: {was: seen, type").edit(SALES, "[seen]", "[known]")
    shop.edit("functions/first.py", '"seen"', '"known"').judge()
    give(shop, "orders", (61, {"id": 1}, {"product": "tea", "quantity": 1}))
    shop.run()

    assert before == {"seen": 60_000, "seen.swept": 30_000}
    assert clocks(shop) == {"known": 61_000, "known.swept": 60_000}


def clocks(shop: Shop) -> dict[str, int]:
    """Those of the task that has taken records."""
    state = LogState.load(EmbeddedLog(shop.root / ".headwater" / "log").commits("shop-sales"))
    return next(dict(task.clocks) for task in state.tasks.all() if task.clocks)
