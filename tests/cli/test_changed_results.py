"""Changes of what is computed: the result of before is that of a fresh project after the run, or stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.changes.model import Verdict
from headwater.runtime.changes.plan import Plan
from headwater.tests.cli.planned import FILES, Shop
from headwater.tests.sampled import sampled

SALES, TOPICS = "topologies/sales.yml", "topics/topics.yml"
SHOP: Mapping[str, str] = {
    **FILES,
    "seeds/products.csv": "product,maker,brand\ncoffee,anna,north\ntea,boris,south\nmug,carla,south\n",
    "seeds/orders.csv": """order_id,product,quantity,boxes,ordered_at
1,coffee,2,1,2024-05-01T08:00:00Z
2,tea,1,4,2024-05-01T09:30:00Z
3,coffee,4,2,2024-05-02T08:15:00Z
4,mug,0,1,2024-05-02T11:00:00Z
5,tea,3,7,2024-05-04T10:20:00Z
""",
    TOPICS: """
topics:
  orders:
    partitions: 1
    key: {order_id: bigint}
    value: {product: string, quantity: int, boxes: int, ordered_at: timestamp}
    timestamp: ordered_at
    seed: {path: seeds/orders.csv}
  products:
    partitions: 1
    key: {product: string}
    value: {maker: string, brand: string}
    seed: {path: seeds/products.csv}
""",
    SALES: """
topology: sales
tables:
  makers: {topic: products, global: true}
stores:
  totals: {type: window, retention: 30d}
flows:
  wanted:
    from: orders
    steps:
      - filter: quantity >= 1
      - join:
          table: makers
          type: left
          by: {product: product}
          values: {maker: makers.maker}
  named:
    from: wanted
    steps:
      - select: {product: product, maker: maker}
    to: names
  summed:
    from: wanted
    steps:
      - key_by: {product: product}
      - window: {tumbling: 1d, grace: 1h}
      - aggregate:
          store: totals
          values:
            orders: count(*)
            sold: sum(quantity)
    to: daily
""",
    "functions/boxes.py": """
class Told:
    def init(self, context):
        self.context, self.packed = context, context.store("packed")

    def process(self, record):
        self.context.forward(record)
        found = self.packed.get({"all": 0})
        self.context.forward(record._replace(value=record.value._replace(boxes=found.boxes if found else 0)))


class Packed(Told):
    def process(self, record):
        found = self.packed.get({"all": 0})
        self.packed.put({"all": 0}, {"boxes": record.value.boxes + (found.boxes if found else 0)})
        self.context.forward(record)
""",
}
LATE = {"order_id": 8, "product": "tea", "quantity": 5, "boxes": 2, "ordered_at": "2024-05-01T23:00:00Z"}
NEXT = {"order_id": 9, "product": "tea", "quantity": 3, "boxes": 1, "ordered_at": "2024-05-04T12:00:00Z"}
MORE = "  boxed:\n    from: wanted\n    to: more\n"


@dataclass(frozen=True)
class Changed:
    """`edits`: (file, old, new). `kind`: how the plan calls it. `before`: edits of the shop as it was first."""

    kind: str
    edits: tuple[tuple[str, str, str], ...]
    before: tuple[tuple[str, str, str], ...] = ()

    def edit(self, shop: Shop) -> Shop:
        for each in self.edits:
            shop.edit(*each)
        return shop


JOINED = """flows:
  latest:
    from: wanted
    steps:
      - key_by: {product: product}
      - to_table
      - select: {maker: maker}
      - join: {table: branded, type: inner, values: {brand: branded.brand}}
    to: more
"""
TABLES = ((SALES, "tables:\n", "tables:\n  branded: {topic: products}\n"), (SALES, "flows:\n", JOINED))
"""Edits that add a table, joined with what a step has made of another one."""

PACKED = """flows:
  packed:
    from: wanted
    steps:
      - process: {function: functions.boxes:Told, stores: [packed]}
      - filter: boxes >= 2
      - process: {function: functions.boxes:Packed, stores: [packed]}
    to: more
"""
SHARING = ((SALES, "stores:\n", "stores:\n  packed: {type: key_value, key: {all: int}, value: {boxes: int}}\n"),)
SHARING += ((SALES, "flows:\n", PACKED),)
"""Edits that add processors of one store, and a filter between them."""

CHANGES = {
    "a filter between processors": Changed("flow.steps", ((SALES, "boxes >= 2", "boxes >= 4"),), SHARING),
    "a filter": Changed("flow.steps", ((SALES, "quantity >= 1", "quantity >= 2"),)),
    "values of a join": Changed("flow.steps", ((SALES, "maker: makers.maker", "maker: makers.brand"),)),
    "type of a join of tables": Changed("flow.steps", ((SALES, "type: inner", "type: outer"),), TABLES),
    "an aggregate's expression": Changed("store.expressions", ((SALES, "sum(quantity)", "sum(boxes)"),)),
    "grace": Changed("store.grace", ((SALES, "grace: 1h", "grace: 9d"),)),
    "retention": Changed("store.retention", ((SALES, "retention: 2d", "retention: 60d"),), ((SALES, "30d", "2d"),)),
    "a flow more": Changed("flow.added", ((SALES, "flows:\n", f"flows:\n{MORE}"),)),
    "a column more": Changed("topic.columns", ((SALES, "maker: maker}", "maker: maker, boxes: boxes}"),)),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Changed], Shop]:
    """The shop before a change, with a late record. It is built once for changes of the same one."""
    built: dict[Any, Shop] = {}

    def copied(change: Changed) -> Shop:
        if change.before not in built:
            shop = Shop.made(tmp_path_factory.mktemp("built") / "shop", SHOP)
            Changed("", change.before).edit(shop).judge().project().seed()
            shop.project().append("orders", [LATE])
            shop.run()
            built[change.before] = shop
        return built[change.before].copied(tmp_path_factory.mktemp("shop") / "shop")

    return copied


def result(shop: Shop, store: str = "totals") -> dict[str, list[Any]]:
    """All that anybody can see: topics in order, and the store."""
    project = shop.judge().project()
    topics = [name for name in ("names", "daily", "best_days", "more") if f"to: {name}" in text(shop)]
    records = {name: [(each.timestamp, each.key, each.value) for each in project.read(name)] for name in topics}
    return {**records, "totals": [(each.key, each.value) for each in project.query(store)]}


def text(shop: Shop) -> str:
    return "".join(path.read_text() for path in (shop.root / "topologies").iterdir())


def fresh(tmp_path: Path, change: Changed, store: str = "totals") -> dict[str, list[Any]]:
    shop = Shop.made(tmp_path / "fresh", SHOP)
    change.edit(Changed("", change.before).edit(shop)).judge().project().seed()
    shop.project().append("orders", [LATE])
    shop.project().append("orders", [NEXT])
    shop.run()
    return result(shop, store)


def verdicts(plan: Plan, kind: str) -> set[Verdict]:
    return {each.verdict for each in plan.changes if each.kind == kind}


@pytest.mark.parametrize("name", sampled(CHANGES, 3))
def test_changed_result_is_that_of_a_fresh_project_or_goes_on(
    made: Callable[[Changed], Shop], tmp_path: Path, name: str
) -> None:
    change = CHANGES[name]
    shop, onward = change.edit(made(change)), change.edit(made(change))
    before = result(made(change))
    for each in (shop, onward):
        each.judge().project().append("orders", [NEXT])

    plan = shop.project().plan()
    assert verdicts(plan, change.kind) == {Verdict.REPLACE}
    assert "topology.recomputed" in {each.kind for each in plan.changes}
    assert not any("null there" in each.what for each in plan.changes)
    assert [(each.status, each.error) for each in shop.run()] == [("caught_up", None)] * 2
    assert result(shop) == fresh(tmp_path, change)
    assert shop.project().plan().verdict is Verdict.NOTHING

    plan = onward.project().plan(go_on=True)
    assert plan.verdict is Verdict.COMPATIBLE, [str(each) for each in plan.changes]
    assert [(each.status, each.error) for each in onward.run(go_on=True)] == [("caught_up", None)] * 2
    after = result(onward)
    for topic in ("names", "daily", "best_days"):
        kept = [
            (key, {name: value.get(name) for name in was})
            for (_, key, value), (_, _, was) in zip(after[topic], before[topic], strict=False)
        ]
        assert kept == [(key, was) for _, key, was in before[topic]]
    assert after != result(shop)
    assert onward.project().plan().verdict is Verdict.NOTHING


RENAMED = (
    (SALES, "topology: sales", "topology: trade\nwas: sales"),
    (SALES, "  makers: {topic", "  people: {was: makers, topic"),
    (SALES, "table: makers", "table: people"),
    (SALES, "makers.maker", "people.maker"),
    (SALES, "  wanted:\n", "  asked:\n    was: wanted\n"),
    (SALES, "from: wanted", "from: asked"),
    (SALES, "  totals: {type", "  books: {was: totals, type"),
    (SALES, "store: totals", "store: books"),
)
BEFORE = Changed("", ())


OF_TABLES = (
    *RENAMED,
    (SALES, "  branded: {topic", "  brands: {was: branded, topic"),
    (SALES, "table: branded", "table: brands"),
    (SALES, "branded.brand", "brands.brand"),
    (SALES, "  latest:\n", "  newest:\n    was: latest\n"),
)


@pytest.mark.parametrize(("renamed", "before"), [(RENAMED, ()), (OF_TABLES, TABLES)], ids=["", "joined tables"])
def test_other_names_change_no_steps(
    made: Callable[[Changed], Shop], renamed: tuple[tuple[str, str, str], ...], before: tuple[tuple[str, str, str], ...]
) -> None:
    shop = Changed("", renamed).edit(made(Changed("", (), before))).judge()
    plan = shop.project().plan()
    assert plan.verdict is Verdict.COMPATIBLE, [str(each) for each in plan.changes]
    assert {each.kind for each in plan.changes} <= {
        "topology.renamed",
        "flow.renamed",
        "store.renamed",
        "topology.content",
    }
    assert [(each.status, each.error, each.records) for each in shop.run()] == [("caught_up", None, 0)] * 2


@pytest.mark.parametrize("edit", [(SALES, "quantity >= 1", "quantity >= 2"), (SALES, "tumbling: 1d", "tumbling: 2d")])
def test_result_is_computed_again_under_other_names(
    made: Callable[[Changed], Shop], tmp_path: Path, edit: tuple[str, str, str]
) -> None:
    change = Changed("", (*RENAMED, edit))
    shop = change.edit(made(BEFORE)).judge()
    shop.project().append("orders", [NEXT])

    assert shop.project().plan().verdict is Verdict.REPLACE
    assert [(each.status, each.error) for each in shop.run()] == [("caught_up", None)] * 2

    assert result(shop, "books") == fresh(tmp_path, change, "books")
    assert shop.project().plan().verdict is Verdict.NOTHING
    assert [(each.status, each.error, each.records) for each in shop.run()] == [("caught_up", None, 0)] * 2
