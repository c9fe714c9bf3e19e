"""What a plan says of a change, and what the run after it does: the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.runtime.changes.model import Verdict
from headwater.tests.cli.planned import Shop

SALES, BEST, TOPICS = "topologies/sales.yml", "topologies/best.yml", "topics/topics.yml"
ORDER = {"order_id": 9, "product": "tea", "quantity": 3, "price": 1.0, "ordered_at": "2024-05-03T12:00:00Z"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop.built(tmp_path_factory.mktemp("built") / "shop")


@pytest.fixture
def shop(built: Shop, tmp_path: Path) -> Shop:
    """As `headwater build` has left it."""
    return built.copied(tmp_path / "shop")


def renamed_store(shop: Shop) -> None:
    shop.edit(SALES, "totals:", "sums:").edit(SALES, "store: totals", "store: sums")


def another_column(shop: Shop) -> None:
    shop.edit(SALES, "sold: sum(quantity)", "sold: sum(quantity)\n            most: max(quantity)")


def new_topology(shop: Shop) -> None:
    text = (shop.root / BEST).read_text()
    (shop.root / "topologies" / "worst.yml").write_text(text.replace("best", "worst"))


def without_a_topology(shop: Shop) -> None:
    (shop.root / BEST).unlink()


def edited(name: str, old: str, new: str) -> Callable[[Shop], object]:
    return lambda shop: shop.edit(name, old, new)


CHANGES: dict[str, tuple[Callable[[Shop], object], Verdict, list[str]]] = {
    "nothing": (lambda _: None, Verdict.NOTHING, []),
    "a comment": (edited(SALES, "topology: sales", "# of a day\ntopology: sales"), Verdict.NOTHING, []),
    "a filter": (edited(SALES, "quantity >= 1", "quantity >= 2"), Verdict.REPLACE, ["flow.steps"]),
    "grace": (edited(SALES, "grace: 1h", "grace: 2h"), Verdict.REPLACE, ["store.grace"]),
    "retention": (edited(SALES, "retention: 30d", "retention: 60d"), Verdict.REPLACE, ["store.retention"]),
    "a backend": (
        edited(SALES, "type: window,", "type: window, backend: rocksdb,"),
        Verdict.COMPATIBLE,
        ["store.backend"],
    ),
    "a new topology": (new_topology, Verdict.NOTHING, []),
    "a topology gone": (without_a_topology, Verdict.NOTHING, []),
    "a window": (edited(SALES, "tumbling: 1d", "tumbling: 2d"), Verdict.REPLACE, ["store.window"]),
    "an aggregate": (
        edited(SALES, "sold: sum(quantity)", "sold: max(quantity)"),
        Verdict.REPLACE,
        ["store.columns", "store.aggregates", "topic.columns"],
    ),
    "a further aggregate": (
        another_column,
        Verdict.REPLACE,
        ["store.columns", "store.aggregates", "topic.columns"],
    ),
    "a store renamed": (renamed_store, Verdict.REPLACE, ["store.removed", "store.added"]),
    "another key": (
        edited(SALES, "key_by: {product: product}", "key_by: {order: quantity}"),
        Verdict.REPLACE,
        ["store.key", "topic.key"],
    ),
    "partitions": (
        edited(TOPICS, "orders:\n    partitions: 2", "orders:\n    partitions: 3"),
        Verdict.REPLACE,
        ["topic.repartitioned", "store.partitions", "topology.recomputed"],
    ),
    "a topology renamed": (
        edited(BEST, "topology: best", "topology: finest"),
        Verdict.ERROR,
        ["topology.renamed", "topic.writer"],
    ),
    "a flow renamed": (edited(SALES, "  wanted:", "  asked:"), Verdict.REPLACE, ["topic.reader"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_run_does_what_the_plan_said(shop: Shop, name: str) -> None:
    change, verdict, kinds = CHANGES[name]
    change(shop)
    plan = shop.judge().project().plan()
    shop.project().append("orders", [ORDER]) if name != "partitions" else None

    results = {each.application: each for each in shop.run()}

    assert plan.verdict is verdict, [str(each) for each in plan.changes]
    assert set(kinds) <= {each.kind for each in plan.changes}
    for each in plan.applications:
        result = results[each.application]
        if each.verdict is Verdict.ERROR:
            assert result.status == "failed"
            for told in each.changes:
                assert told.verdict is not Verdict.ERROR or told.what.partition(";")[0] in str(result.error)
        else:
            assert (result.status, result.error) == ("caught_up", None)


@pytest.mark.parametrize("name", ["nothing", "grace", "retention", "a backend", "a filter"])
def test_run_that_goes_on_keeps_what_was_there(shop: Shop, name: str) -> None:
    CHANGES[name][0](shop)
    shop.judge().project().append("orders", [ORDER])
    plan = shop.project().plan(go_on=True)
    assert plan.verdict in (Verdict.NOTHING, Verdict.COMPATIBLE), [str(each) for each in plan.changes]

    shop.run(go_on=True)
    assert shop.project().plan().verdict is Verdict.NOTHING

    last = list(shop.project().read("daily"))[-1]
    assert (last.key["product"], last.value) == ("tea", {"orders": 2, "sold": 6})


def test_plan_says_how_many_records_wait_and_the_run_takes_them(shop: Shop) -> None:
    shop.project().append("orders", [ORDER, {**ORDER, "order_id": 10}])

    plan = shop.project().plan()
    sales = next(each for each in plan.applications if each.topology == "sales")
    assert sales.waiting is not None
    assert (sales.waiting.records, sales.waiting.topics, sales.waiting.bytes > 0) == (2, {"orders": 2}, True)

    result = next(each for each in shop.run() if each.application == "shop-sales")
    assert result.records == 2 + 2  # as they come, and through the repartition topic
    assert all(not each.waiting.records for each in shop.project().plan().applications if each.waiting)


def test_renamed_topology_reads_again_what_the_plan_says(shop: Shop) -> None:
    shop.edit(BEST, "topology: best", "topology: finest").edit(BEST, "to: best_days", "to: finest_days").judge()

    plan = shop.project().plan()

    assert plan.verdict is Verdict.REPLACE
    (change,) = plan.changes
    (again,) = change.reads_again
    assert (change.kind, again.topic, again.start, again.records) == ("topology.renamed", "daily", {0: 0, 1: 0}, 4)
    assert [(each.application, each.renamed) for each in plan.orphans] == [("shop-best", "finest")]
    (result,) = shop.run("finest")
    assert result.records == again.records


def test_changed_seed_is_refused_by_seed_and_build_alone_as_the_plan_says(shop: Shop) -> None:
    shop.edit("seeds/orders.csv", "1,coffee,2", "1,coffee,7")

    plan = shop.project().plan()

    (change,) = plan.seeds
    assert (change.kind, change.verdict, change.place) == ("seed.changed", Verdict.ERROR, "seeds/orders.csv")
    assert change.ways[1].command == "headwater seed orders --full-refresh"
    assert all(each.verdict is Verdict.NOTHING for each in plan.applications)
    assert all(each.status == "caught_up" for each in shop.run())


def test_new_expression_is_planned_without_spark(shop: Shop) -> None:
    shop.edit(SALES, "quantity >= 1", "quantity >= 2 and price > 1")
    again = "topology.recomputed"
    assert [each.kind for each in shop.project().plan().changes] == [again, "flow.steps", again]
    assert shop.project().plan().untyped == ()

    shop.edit(SALES, "sold: sum(quantity)", "sold: sum(quantity * 2)")  # of a type that its form tells
    assert [each.kind for each in shop.project().plan().changes] == [again, "store.expressions", "flow.steps", again]
    assert shop.project().plan().untyped == ()

    shop.edit(SALES, "sold: sum(quantity * 2)", "sold: sum(round(quantity * 1.5))")
    plan = shop.project().plan()
    assert plan.untyped == ("best", "sales")  # one reads what the other writes
    assert plan.needs_decision(["error", "replace"])
    (aggregates,) = [each for each in plan.changes if each.kind == "store.expressions"]
    assert aggregates.lines == ("~ sold: sum(quantity) -> sum(round(quantity * 1.5))",)
    assert shop.judge().project().plan().untyped == ()


def test_plan_of_a_project_of_which_nothing_ran_or_was_compiled_needs_no_decision(tmp_path: Path) -> None:
    shop = Shop.made(tmp_path / "shop")
    shop.edit(SALES, "sold: sum(quantity)", "sold: sum(round(quantity * 1.5))").edit(
        SALES, "quantity >= 1", "round(quantity * 1.5) > 1"
    )
    for _ in range(2):
        planned = shop.headwater("plan")
        assert (planned.exit_code, "new" in planned.output, "judged" in planned.output) == (0, True, False), (
            planned.output
        )
        shop.headwater("seed")
