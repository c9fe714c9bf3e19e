"""Dead letters of a copy from Kafka are put back into its topic, once each, and the copy continues behind them."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from headwater import Project
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ingest.retry import CopyChangedError, LetterError
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.kafka.copying import produced
from headwater.tests.kafka.shop import shop_project

pytestmark = pytest.mark.kafka

LETTERS = "kafka_orders_dead_letter"


class Shop:
    """A project that copies a topic; records that cannot be read are dead letters."""

    def __init__(self, kafka: KafkaBroker, root: Path) -> None:
        self.kafka = kafka
        self.root = root
        self.topic = kafka.topic(partitions=3)
        shop_project(root, kafka.bootstrap, self.topic, kafka.topic())
        self.declare("    seed:", "    on_error: dead_letter\n    seed:")

    def declare(self, was: str, is_: str) -> None:
        file = self.root / "topics" / "all.yml"
        file.write_text(file.read_text().replace(was, is_, 1))

    @property
    def project(self) -> Project:
        return Project(self.root, select=["kafka", "sales"])

    def copy(self) -> None:
        project = self.project
        topologies, settings = project._code.topologies(), project.settings()
        results = run_topologies(topologies, settings, LocalCluster(), until_caught_up=True).applications
        assert [result.error for result in results] == [None, None]

    def orders(self, topic: str = "orders") -> list[tuple[Any, Any]]:
        return [
            (record.key and record.key["customer"], record.value and record.value["quantity"])
            for record in self.project.read(topic)
        ]

    def letters(self) -> list[dict[str, Any]]:
        return [asdict(letter) for letter in self.project.read(LETTERS)]


@pytest.fixture
def shop(kafka: KafkaBroker, tmp_path: Path) -> Shop:
    shop = Shop(kafka, tmp_path)
    produced(kafka, shop.topic, [("a", {"quantity": 1}), ("a", {"quantity": "two"}), (None, b"{"), ("b", b"\xff")])
    shop.copy()
    assert len(shop.letters()) == 3
    return shop


def test_corrected_letters_are_put_back_once_and_the_copy_continues(shop: Shop) -> None:
    letters = [letter for letter in shop.letters() if "YQ==" in (letter["value"]["key"] or "")]
    letters[0]["value"]["value"] = {"value": b64encode(b'{"quantity": 2}').decode()}
    done = shop.project.retry(LETTERS, letters)
    again = shop.project.retry(LETTERS, letters)

    assert (done.topic, done.records, done.already) == ("orders", 1, 0)
    assert (again.records, again.already) == (0, 1)
    produced(shop.kafka, shop.topic, [("a", {"quantity": 3}), (None, {"quantity": 4})])
    shop.copy()
    assert sorted(shop.orders(), key=str) == sorted([("a", 1), ("a", 2), ("a", 3), (None, 4)], key=str)
    assert [row for row in shop.orders() if row[0] == "a"] == [("a", 1), ("a", 2), ("a", 3)]
    assert sorted(shop.orders("totals"), key=str) == sorted(shop.orders(), key=str)
    assert all(not application.damages for application in shop.project.verify_log())


def test_letters_are_decoded_as_declared_now_or_nothing_is_put_back(shop: Shop) -> None:
    with pytest.raises(LetterError, match=r"its value cannot be decoded: "):
        shop.project.retry(LETTERS)
    shop.declare("key: string}", "key: string, value: string}")
    shop.declare("value: {quantity: int}", "value: {quantity: string}")
    shop.declare("value: {quantity: int}", "value: {quantity: string}")
    sales = shop.root / "topologies" / "sales.yml"
    sales.write_text(sales.read_text().replace("quantity > 0", "quantity <> ''"))
    with pytest.raises(CopyChangedError, match="orders is declared otherwise than shop-kafka has written it"):
        shop.project.retry(LETTERS)
    assert [order for order in shop.orders() if order[0] == "a"] == [("a", 1)]


def test_letter_without_a_key_is_put_back_into_a_partition_of_the_topic(shop: Shop) -> None:
    (letter,) = [letter for letter in shop.letters() if letter["value"]["key"] is None]
    letter["value"]["value"] = {"value": b64encode(b'{"quantity": 9}').decode()}
    assert shop.project.retry(LETTERS, [letter]).records == 1
    assert (None, 9) in shop.orders()
