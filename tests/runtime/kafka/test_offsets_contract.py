"""What a cluster answers to planners: a broker, and the cluster in memory with which they are tested."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Protocol

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from headwater.errors import HeadwaterError
from headwater.runtime.kafka.sources import ClusterOffsets, KafkaOffsets, PartitionEnds
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.runtime.kafka.topics import cluster_of, producer
from headwater.tests.runtime.local.memory_kafka import MemoryKafka, Message
from headwater.tests.waiting import wait_until


class Cluster(Protocol):
    """What tests do with a cluster, see `MemoryKafka`."""

    def create(self, topic: str, partitions: int) -> None: ...

    def delete(self, topic: str) -> None: ...

    def add_partitions(self, topic: str, partitions: int) -> None: ...

    def produce(self, topic: str, partition: int, messages: Iterable[Message]) -> None: ...

    def begin(self, topic: str, partition: int, messages: Iterable[Message]) -> None: ...

    def end(self, topic: str, partition: int, *, commit: bool) -> None: ...

    def delete_records(self, topic: str, partition: int, before: int) -> None: ...


class RealCluster:
    """A broker. It answers for a topic once it knows it."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker
        self._offsets = ClusterOffsets(cluster_of(broker))
        self._open: dict[tuple[str, int], Producer] = {}

    def create(self, topic: str, partitions: int) -> None:
        self._broker.topic(partitions, topic)

    def delete(self, topic: str) -> None:
        self._broker.admin.delete_topics([topic])[topic].result()
        wait_until(lambda: topic not in self._broker.admin.list_topics().topics)

    def add_partitions(self, topic: str, partitions: int) -> None:
        self._broker.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
        wait_until(lambda: len(self._offsets.offsets([topic])[topic].partitions) == partitions)

    def produce(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        _send(producer(self._broker), topic, partition, messages)

    def begin(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        self._open[topic, partition] = using = producer(self._broker, f"{topic}-{partition}")
        using.begin_transaction()
        _send(using, topic, partition, messages)

    def end(self, topic: str, partition: int, *, commit: bool) -> None:
        using = self._open.pop((topic, partition))
        if commit:
            using.commit_transaction()
        else:
            using.abort_transaction()

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        place = TopicPartition(topic, partition, before)
        self._broker.admin.delete_records([place])[place].result()


def _send(using: Producer, topic: str, partition: int, messages: Iterable[Message]) -> None:
    for key, value, time in messages:
        using.produce(topic, value, key, partition, timestamp=time)
    using.flush()


@pytest.fixture(params=["memory", pytest.param("broker", marks=pytest.mark.kafka)])
def both(request: pytest.FixtureRequest) -> tuple[Cluster, KafkaOffsets]:
    if request.param == "memory":
        memory = MemoryKafka()
        return memory, memory
    broker = request.getfixturevalue("kafka")
    return RealCluster(broker), ClusterOffsets(cluster_of(broker))


@pytest.fixture
def cluster(both: tuple[Cluster, KafkaOffsets]) -> Cluster:
    return both[0]


@pytest.fixture
def offsets(both: tuple[Cluster, KafkaOffsets]) -> KafkaOffsets:
    return both[1]


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A topic with two partitions."""
    name = f"contract-{uuid.uuid4().hex}"
    cluster.create(name, 2)
    return name


def messages(count: int, time: int = 1_000) -> list[Message]:
    return [(b"k", b"%d" % number, time + number) for number in range(count)]


def test_ends_are_behind_the_last_record(cluster: Cluster, offsets: KafkaOffsets, topic: str) -> None:
    assert list(offsets.offsets([topic])[topic].partitions) == [PartitionEnds(0, 0, 0)] * 2
    cluster.produce(topic, 1, messages(3))
    assert list(offsets.offsets([topic])[topic].partitions) == [PartitionEnds(0, 0, 0), PartitionEnds(0, 3, 3)]


def test_stable_end_is_before_an_open_transaction_and_behind_the_marker_of_an_ended_one(
    cluster: Cluster, offsets: KafkaOffsets, topic: str
) -> None:
    for partition, commit in ((0, True), (1, False)):
        cluster.produce(topic, partition, messages(2))
        cluster.begin(topic, partition, messages(3))
        assert offsets.offsets([topic])[topic].partitions[partition] == PartitionEnds(0, 2, 5)
        cluster.produce(topic, partition, messages(1))
        assert offsets.offsets([topic])[topic].partitions[partition] == PartitionEnds(0, 2, 6)
        cluster.end(topic, partition, commit=commit)
        wait_until(
            lambda partition=partition: offsets.offsets([topic])[topic].partitions[partition] == PartitionEnds(0, 7, 7)
        )


def test_first_offset_is_behind_deleted_records(cluster: Cluster, offsets: KafkaOffsets, topic: str) -> None:
    cluster.produce(topic, 0, messages(5))
    cluster.delete_records(topic, 0, 2)
    assert offsets.offsets([topic])[topic].partitions[0] == PartitionEnds(2, 5, 5)
    cluster.delete_records(topic, 0, 5)
    assert offsets.offsets([topic])[topic].partitions[0] == PartitionEnds(5, 5, 5)


def test_added_partitions_are_seen(cluster: Cluster, offsets: KafkaOffsets, topic: str) -> None:
    cluster.produce(topic, 1, messages(1))
    cluster.add_partitions(topic, 4)
    assert [each.high for each in offsets.offsets([topic])[topic].partitions] == [0, 1, 0, 0]


def test_topic_that_is_created_again_has_another_id(cluster: Cluster, offsets: KafkaOffsets, topic: str) -> None:
    cluster.produce(topic, 0, messages(3))
    before = offsets.offsets([topic])[topic].id
    assert offsets.offsets([topic])[topic].id == before
    cluster.delete(topic)
    with pytest.raises(HeadwaterError, match=topic):
        offsets.offsets([topic])[topic]
    cluster.create(topic, 2)
    assert offsets.offsets([topic])[topic].id != before
    assert [each.high for each in offsets.offsets([topic])[topic].partitions] == [0, 0]


def test_offset_for_a_time_is_that_of_the_first_later_record(
    cluster: Cluster, offsets: KafkaOffsets, topic: str
) -> None:
    cluster.produce(topic, 0, [(b"k", b"v", time) for time in (1_000, 3_000, 2_000)])
    assert offsets.offsets_for_time(topic, 1_000)[0] == 0
    assert offsets.offsets_for_time(topic, 1_001)[0] == 1
    assert offsets.offsets_for_time(topic, 3_001)[0] in (-1, 3)
    assert offsets.offsets_for_time(topic, 0)[1] in (-1, 0)
