"""Routes of records to one of several topics, from a project's folder to results, in this process and on Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from headwater import Project, TopologyTestDriver
from headwater.errors import HeadwaterError
from headwater.runtime.changes.comparison import Comparison
from headwater.runtime.generated_code import load_runner
from headwater.runtime.ir.topology import ExpressionEngine, Topology
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.observe.lineage_columns import column_lineage

GOLDEN = Path(__file__).parents[1] / "golden" / "routes" / "project"
ENGINES = ["task", pytest.param("spark", marks=pytest.mark.spark)]
SIZES = ("large_orders", "small_orders", "other_orders")
TENANTS = ("orders_of_eu", "orders_of_us")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The project of the golden case."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "shop", ignore=shutil.ignore_patterns("target")))


def edit(root: Path, file: str, old: str, new: str) -> None:
    path = root / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def orders(*rows: tuple[Any, Any, Any]) -> list[dict[str, Any]]:
    return [{"id": number, "region": region, "amount": amount} for number, region, amount in rows]


def amounts(driver: TopologyTestDriver, topics: tuple[str, ...]) -> dict[str, list[float]]:
    """The amounts of the records of topics; those of topics without records are left out."""
    found = {topic: [each.value["amount"] for each in driver.read_output(topic)] for topic in topics}
    return {topic: values for topic, values in found.items() if values}


@pytest.mark.parametrize("engine", ENGINES)
def test_each_record_is_in_the_topic_that_its_route_gives(shop: Path, engine: ExpressionEngine) -> None:
    rows = orders((1, "eu-west", 500.0), (1, "us-east", 50.0), (1, "eu-north", 0.5), (1, "us", 400.0), (1, "eu", 60.0))
    with TopologyTestDriver(shop, "orders", engine=engine) as driver:
        driver.pipe_input("orders", [*rows, *orders((2, "us", 700.0), (1, "eu", -1.0))])
        assert amounts(driver, SIZES) == {
            "large_orders": [500.0, 400.0, 700.0],
            "small_orders": [50.0, 60.0],
            "other_orders": [0.5],
        }
        assert amounts(driver, TENANTS) == {
            "orders_of_eu": [500.0, 0.5, 60.0],
            "orders_of_us": [50.0, 400.0, 700.0],
        }
        counts = {each.key["id"]: each.value["orders"] for each in driver.read_output("counts_of_large_orders")}
    assert counts == {1: 2, 2: 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_record_without_a_key_or_a_value_is_routed_with_its_headers(shop: Path, engine: ExpressionEngine) -> None:
    deleted = {"key": {"id": 7}, "value": None, "headers": {"from": "shop"}, "timestamp": 5}
    unnamed = {"key": None, "value": {"region": "eu", "amount": 3.0}}
    edit(shop, "topologies/orders.yml", "tenant_of(region)", "coalesce(region, 'us')")
    with TopologyTestDriver(shop, "orders", engine=engine) as driver:
        driver.pipe_input("orders", [deleted, unnamed])
        found = {
            topic: [(each.key, each.value, each.headers, each.timestamp) for each in driver.read_output(topic)]
            for topic in (*SIZES, *TENANTS)
        }
    gone = ({"id": 7}, None, {"from": "shop"}, 5)
    assert found["other_orders"] == found["orders_of_us"] == [gone]
    assert [(key, value["amount"]) for key, value, _, _ in found["small_orders"]] == [(None, 3.0)]
    assert found["large_orders"] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_column_of_the_key_or_one_named_topic_may_be_the_route(shop: Path, engine: ExpressionEngine) -> None:
    notes = [("news", "Sport", "a"), ("alerts", "weather", "b"), ("news", "WEATHER", "c")]
    with TopologyTestDriver(shop, "notes", engine=engine) as driver:
        driver.pipe_input("notes", [dict(zip(("channel", "topic", "text"), row, strict=True)) for row in notes])
        found = {
            topic: [each.value for each in driver.read_output(topic)]
            for topic in ("news", "alerts", "sport", "weather")
        }
    a, b, c = ({"topic": topic, "text": text} for _, topic, text in notes)
    assert found == {"news": [a, c], "alerts": [b], "sport": [a], "weather": [b, c]}


NOT_LISTED = "`route` gives 'orders_of_asia', which is not among its topics: orders_of_eu, orders_of_us"
NULL = "`route` gives null, which is not among its topics: orders_of_eu, orders_of_us"


@pytest.mark.parametrize("engine", ENGINES)
def test_record_without_a_topic_is_a_dead_letter_and_nowhere_else(shop: Path, engine: ExpressionEngine) -> None:
    edit(shop, "topologies/orders.yml", "  by_tenant:\n", "  by_tenant:\n    on_error: dead_letter\n")
    rows = orders((1, "eu", 500.0), (1, "asia", 600.0), (1, None, 50.0), (1, "us", 70.0), (2, "asia", 5.0))
    with TopologyTestDriver(shop, "orders", engine=engine) as driver:
        driver.pipe_input("orders", rows)
        letters = [each.value for each in driver.read_output("orders_orders_dead_letter")]
        assert amounts(driver, (*SIZES, *TENANTS)) == {
            "large_orders": [500.0],
            "small_orders": [70.0],
            "orders_of_eu": [500.0],
            "orders_of_us": [70.0],
        }
    assert [each["error"] for each in letters] == [NOT_LISTED, NULL, NOT_LISTED]
    assert {each["step"] for each in letters} == {"topologies/orders.yml:32"}


def test_record_without_a_topic_is_skipped_and_counted(shop: Path, local: Any) -> None:
    edit(shop, "topics/orders.yml", "    partitions: 2\n", "    partitions: 2\n    on_error: skip\n")
    project = Project(shop, session=local)
    project.append("orders", orders((1, "eu", 500.0), (1, "asia", 600.0), (1, None, 50.0)))
    (application,) = (each for each in project.run(until_caught_up=True).applications if each.dropped)
    assert application.dropped == {"topologies/orders.yml:31:skipped": 2}
    assert [each.value["amount"] for each in project.read("large_orders")] == [500.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_record_without_a_topic_stops_its_task_and_is_named(shop: Path, engine: ExpressionEngine) -> None:
    with TopologyTestDriver(shop, "orders", engine=engine) as driver, pytest.raises(HeadwaterError) as failed:
        driver.pipe_input("orders", orders((1, "eu", 5.0), (1, "asia", 600.0)))
    assert "topologies/orders.yml:31: record orders[" in str(failed.value)
    assert NOT_LISTED in str(failed.value)


def test_route_behind_a_store_fails_for_the_same_record_wherever_epochs_end(shop: Path) -> None:
    edit(shop, "topologies/orders.yml", "    to: counts_of_large_orders\n", "      - to_stream\n" + ROUTED_COUNTS)
    edit(shop, "topologies/orders.yml", "  counts:\n", "  counts:\n    on_error: skip\n")
    with TopologyTestDriver(shop, "orders") as driver:
        driver.pipe_input("orders", orders(*((1, "eu", 200.0) for _ in range(4)), (2, "us", 300.0)))
        found = [[each.value["orders"] for each in driver.read_output(topic)] for topic in ("once", "twice")]
    # A skipped record leaves nothing in the store: no count gets beyond 2.
    assert found == [[1, 1], [2]]


ROUTED_COUNTS = """
    to:
      route: case orders when 1 then 'once' when 2 then 'twice' end
      topics: [once, twice]
"""


def compiled(root: Path) -> Topology:
    emitted = next(each for each in Project(root).compile().emitted if each.topology == "orders")
    return load_runner(emitted.runner).topology


LISTED = "topics: [large_orders, small_orders, other_orders]"


@pytest.mark.parametrize(
    ("old", "new", "kinds", "diff"),
    [
        ("amount > 100", "amount  >  100", [], ()),
        (
            "concat('orders_of_', tenant_of(region))",
            "region",
            ["flow.steps"],
            {"+ route by region", "- route by topic"},
        ),
        (LISTED, "topics: [other_orders, small_orders, large_orders]", [], ()),
        (LISTED, LISTED.replace("]", ", more]"), ["flow.steps"], {"+ to more"}),
        ("amount > 100", "amount > 99", ["flow.steps"], {"amount > 100", "amount > 99"}),
    ],
)
def test_plan_tells_what_of_a_route_has_changed(
    shop: Path, old: str, new: str, kinds: list[str], diff: set[str]
) -> None:
    was = TopologyDescription.from_topology(compiled(shop))
    edit(shop, "topologies/orders.yml", old, new)
    is_ = compiled(shop)
    changes = Comparison.of(is_, was, TopologyDescription.from_topology(is_)).changes(consumed=True)
    of_flows = [change for change in changes if change.subject.kind == "flow"]
    assert [change.kind for change in of_flows] == kinds
    lines = "\n".join(line for change in of_flows for line in change.lines)
    assert all(part in lines for part in diff), lines


def test_column_that_only_decides_the_topic_enters_no_column(shop: Path) -> None:
    columns = column_lineage(compiled(shop))
    amount, region, id_ = (("orders", name) for name in ("value.amount", "value.region", "key.id"))
    for topic in (*SIZES, *TENANTS):
        assert columns[topic] == {"key.id": {id_}, "value.amount": {amount}, "value.region": {region}}


OWN = ("topology.orders", "topic.orders", "topic.large_orders")
"""The topology and the topics that it reads, of which it writes one itself."""


@pytest.mark.parametrize(
    ("select", "names"),
    [
        ("small_orders", {"topic.small_orders"}),
        ("+small_orders", {"topic.small_orders", *OWN}),
        ("orders_of_us+", {"topic.orders_of_us", "topology.regions", "topic.renamed"}),
        ("+renamed", {"topic.renamed", "topology.regions", "topic.orders_of_us", *OWN}),
    ],
)
def test_topics_of_a_route_are_selected_with_their_writer_and_their_readers(
    shop: Path, select: str, names: set[str]
) -> None:
    reader = "topology: regions\nflows:\n  all_of_us: {from: orders_of_us, to: renamed}\n"
    (shop / "topologies" / "regions.yml").write_text(reader)
    resources = Project.load(shop, select=[select]).resources()
    assert {each.id for each in resources if each.kind in ("topic", "topology")} == names


def test_description_has_one_sink_that_names_the_topics_of_its_route(shop: Path) -> None:
    project = Project.load(shop, select=["notes"])
    sink = "Sink: KSTREAM-SINK-0000000001 (topics: [news, alerts])\n      # by_channel: route channel, "
    assert sink in project.describe()
    chart = project.describe("mermaid")
    assert all(f"topic_notes --> topic_{topic}\n" in chart for topic in ("news", "alerts"))
