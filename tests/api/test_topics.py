"""Topics from Python: seeds, appends and readings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater import HeadwaterError, Project, UnknownNameError
from headwater.runtime.log.errors import TopicChangedError
from headwater.tests.api.shop import DAILY, last_values


def test_appended_rows_are_read_back(shop: Path) -> None:
    project = Project(shop)
    order = {"order_id": 1, "product": "tea", "quantity": 1, "price": 2.5, "ordered_at": "2024-05-09T10:00:00Z"}

    assert project.append("orders", [order]).records == 1

    (record,) = project.read("orders")
    assert (record.key, record.value["price"], record.timestamp) == ({"order_id": 1}, 2.5, 1715248800000)


def test_append_of_rows_that_do_not_fit_changes_nothing(shop: Path) -> None:
    project = Project(shop)

    with pytest.raises(HeadwaterError):
        project.append("orders", [{"order_id": "one"}])

    assert list(project.read("orders")) == []


def test_read_that_follows_gets_what_is_appended_meanwhile(shop: Path) -> None:
    project = Project(shop)
    project.seed()
    records = iter(project.read("orders", follow=True, limit=11))

    seen = [next(records) for _ in range(10)]
    project.append("orders", [{**seen[0].value, "order_id": 99}])

    assert next(records).key == {"order_id": 99}
    assert next(records, None) is None


def test_records_can_be_read_again_and_as_a_table(shop: Path) -> None:
    project = Project(shop)
    project.seed()
    records = project.read("orders")

    assert list(records) == list(records)
    orders = records.to_pandas().sort_values("order_id")
    assert orders["product"].tolist()[:3] == ["tea", "coffee", "tea"]
    assert orders["timestamp"].equals(orders["ordered_at"])
    assert records.to_arrow()["offset"].to_pylist() == [record.offset for record in records]
    assert project.read("orders", limit=4, follow=True).to_arrow().num_rows == 4
    assert project.read("daily_sales").to_arrow().num_rows == 0


def test_table_of_a_read_without_an_end_is_refused(shop: Path) -> None:
    with pytest.raises(HeadwaterError, match="has no end"):
        Project(shop).read("orders", follow=True).to_arrow()


def test_selection_of_a_topology_seeds_what_it_reads(shop: Path) -> None:
    assert [seeded.topic for seeded in Project(shop, select=["sales"]).seed()] == ["orders"]
    assert Project(shop, select=["daily_sales"]).seed() == ()


def test_unknown_topic_raises(shop: Path) -> None:
    with pytest.raises(UnknownNameError):
        Project(shop).read("nothing")


def test_changed_seed_with_full_refresh_restarts_what_has_read_it(built: Project, local: Any) -> None:
    with (built.root / "seeds" / "orders.csv").open("a") as file:
        file.write("11,tea,2,1.5,2024-05-03T12:00:00Z\n")
    project = Project(built.root, session=local)

    (seeded,) = project.seed(full_refresh=True)

    assert (seeded.outcome, seeded.records) == ("replaced", 11)
    assert list(project.read("daily_sales")) == []
    project.run(until_caught_up=True)
    assert last_values(project.read("daily_sales")) == {**DAILY, ("tea", "2024-05-03"): (1, 3.0)}


def test_topic_with_other_partitions_gets_its_records_put_there_by_the_next_run(built: Project, local: Any) -> None:
    topics = built.root / "topics" / "orders.yml"
    topics.write_text(topics.read_text().replace("partitions: 2", "partitions: 7", 1))
    project = Project(built.root, session=local)

    moved = [each for each in project.plan().changes if each.kind == "topic.repartitioned"]
    assert {each.what for each in moved} == {"its 10 records are put into 7 partitions instead of 2"}
    with pytest.raises(TopicChangedError, match="headwater run --select 'orders\\+'"):
        project.append("orders", [{**next(iter(project.read("orders"))).value, "order_id": 99}])
    assert [each.outcome for each in project.seed(["orders"])] == ["unchanged"]
    project.run(until_caught_up=True)

    assert max(record.partition for record in project.read("orders")) > 1
    assert last_values(project.read("daily_sales")) == DAILY
    assert [each.outcome for each in project.seed(["orders"])] == ["unchanged"]
    assert project.plan().changes == ()
