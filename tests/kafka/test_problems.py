"""What connectors have got wrong, each beside the test that holds it: docs/internals/kafka-problems.md."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.kafka.copying import PARTITIONS, Copying, produced, read_all

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "internals" / "kafka-problems.md"


@pytest.fixture
def copying(kafka: KafkaBroker, tmp_path: Path) -> Copying:
    source = kafka.topic(partitions=3)
    return Copying(kafka, tmp_path, source, kafka.topic(partitions=3), prefix=f"{source}-")


def test_page_names_a_test_for_each_of_25_problems() -> None:
    rows = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 26))
    for number, cell in rows:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", cell)
        assert named, number
        for file, test in named:
            assert f"\ndef {test}(" in (TESTS / file).read_text(), f"{number}: {file}::{test}"


@pytest.mark.kafka
def test_empty_key_is_a_key_and_has_the_partition_of_java(copying: Copying) -> None:
    produced(copying.broker, copying.source, [("", {"n": 1}), (None, {"n": 2}), ("", {"n": 3})])
    copying.run()
    keys = [record.key for record in copying.copied()]
    assert sorted(map(str, keys)) == ["None", "{'word': ''}", "{'word': ''}"]
    # 275646681 is what Java's murmur2 makes of no bytes.
    assert [message.key() for message in read_all(copying.broker, copying.target, 3)[275646681 % 3]].count(b"") == 2


@pytest.mark.kafka
def test_environments_with_prefixes_of_their_own_do_not_fence_each_other(copying: Copying, tmp_path: Path) -> None:
    other = replace(copying, root=tmp_path / "other", prefix=f"{copying.target}-")
    produced(copying.broker, copying.source, [("a", {"n": 1})])
    for _ in range(2):
        for environment in (copying, other):
            results = environment.run()
            assert [(result.status, result.error) for result in results] == [("caught_up", None)] * 2
        produced(copying.broker, copying.source, [("a", {"n": 2})])
    written = [message.value() for messages in read_all(copying.broker, copying.target, 3) for message in messages]
    assert written == [b'{"n":1}', b'{"n":1}', b'{"n":2}', b'{"n":2}']


@pytest.mark.kafka
def test_epochs_without_records_begin_no_transaction(copying: Copying) -> None:
    produced(copying.broker, copying.source, [("a", {"n": 1})])
    copying.run()
    before = ends(copying)
    copying.run()
    produced(copying.broker, copying.source, [("b", {"n": 2})], {"transactional.id": copying.source}, abort=True)
    copying.run()
    assert ends(copying) == before
    assert sum(before) == 2  # the record, and the marker of its transaction


@pytest.mark.kafka
def test_nothing_is_copied_twice_once_kafka_has_forgotten_all_groups(copying: Copying) -> None:
    produced(copying.broker, copying.source, [(f"k{n}", {"n": n}) for n in range(20)])
    copying.run()
    admin = copying.broker.admin
    ours = [group.group_id for group in admin.list_consumer_groups().result().valid]
    groups = [group for group in ours if group.startswith(copying.prefix)]
    assert len(groups) == 1 + PARTITIONS
    for done in admin.delete_consumer_groups(groups).values():
        done.result()
    produced(copying.broker, copying.source, [("k20", {"n": 20})])
    again = copying.run()
    assert [(result.status, result.records) for result in again] == [("caught_up", 1)] * 2
    written = [message.key() for messages in read_all(copying.broker, copying.target, 3) for message in messages]
    assert sorted(written) == sorted(f"k{n}".encode() for n in range(21))


def ends(copying: Copying) -> list[int]:
    """The offsets behind everything in each partition of the target."""
    places = {TopicPartition(copying.target, partition): OffsetSpec.latest() for partition in range(3)}
    return [done.result().offset for done in copying.broker.admin.list_offsets(places).values()]
