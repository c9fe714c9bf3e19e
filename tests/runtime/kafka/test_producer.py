"""What a producer writes is there once, in order and with its position, whatever happens in between."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from headwater.runtime.ir.topology import KafkaCluster
from headwater.runtime.kafka.admin import KafkaAdmin, Position
from headwater.runtime.kafka.errors import (
    KafkaDeniedError,
    KafkaLoginError,
    KafkaProducerFencedError,
    KafkaRecordTooLargeError,
    KafkaSettingError,
    KafkaTopicRecreatedError,
    KafkaUnreachableError,
)
from headwater.runtime.kafka.limits import Limits
from headwater.runtime.kafka.producer import PRODUCED, TransactionalProducer
from headwater.runtime.kafka.reader import KafkaReader
from headwater.tests.kafka.broker import KafkaBroker, kafka_broker
from headwater.tests.runtime.kafka.topics import (
    TIME,
    allow_only,
    allowing_only,
    cluster_of,
    range_of,
    read,
    recreate,
    secured_cluster,
    values,
)
from headwater.tests.waiting import wait_until

pytestmark = pytest.mark.kafka


def batch(*values_: bytes | None, partition: int = 0, timestamp: int = TIME, headers: Any = None) -> pa.RecordBatch:
    """Records with the key k."""
    rows = len(values_)
    columns = [[b"k"] * rows, list(values_), [partition] * rows, [timestamp] * rows, [headers] * rows]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, PRODUCED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PRODUCED)


class Interrupted(Sequence[pa.RecordBatch]):
    """Batches. Once, after they were produced and before their transaction ends, something happens."""

    def __init__(self, happens: Callable[[], object], *batches: pa.RecordBatch) -> None:
        self._batches = batches
        self._passes = iter([lambda: None, happens])  # the first pass only looks at sizes

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._batches
        next(self._passes, lambda: None)()

    def __getitem__(self, index: Any) -> Any:
        return self._batches[index]

    def __len__(self) -> int:
        return len(self._batches)


Open = Callable[..., TransactionalProducer]

LIMITS = Limits(1_048_588)
"""Kafka's default."""


@pytest.fixture
def opened(kafka: KafkaBroker, admin: KafkaAdmin) -> Iterator[Open]:
    """A function that makes a producer for a topic; of one topic all have the same name."""
    made = []

    def open_producer(topic: str, **client: Any) -> TransactionalProducer:
        cluster = cluster_of(kafka, **client)
        limits = Limits.of(admin.topic_settings(topic), cluster.client)
        made.append(TransactionalProducer(cluster, f"out-{topic}", admin.topic(topic), limits))
        return made[-1]

    yield open_producer
    for producer in made:
        producer.close()


def test_records_are_written_with_their_partition_time_and_headers(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader, opened: Open
) -> None:
    topic = kafka.topic(partitions=2)
    headers = [{"name": "a", "value": b"\xff"}, {"name": "a", "value": None}]
    batches = [batch(b"1", None, partition=1, headers=headers), batch(b"2", timestamp=0), batch(b"3", timestamp=-7)]
    opened(topic).write(batches, {0: Position(5)})

    second = read(reader, range_of(admin, topic, partition=1))
    assert second["value"].to_pylist() == [b"1", None]
    assert second["key"].to_pylist() == [b"k", b"k"]
    assert second["headers"].to_pylist() == [headers, headers]
    assert second["timestamp"].to_pylist() == [TIME, TIME]
    first = read(reader, range_of(admin, topic))
    assert first["value"].to_pylist() == [b"2", b"3"]
    assert first["timestamp"].to_pylist() == [1, 1]
    assert first["headers"].to_pylist() == [None, None]


def test_position_moves_with_the_records_and_another_producer_goes_on_there(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader, opened: Open
) -> None:
    topic = kafka.topic(partitions=3)
    producer = opened(topic)
    assert producer.positions == {}
    producer.write([batch(b"1")], {0: Position(3, '{"ours": 1}'), 1: Position(0, "ü")})
    producer.write([batch(b"2"), batch(b"3")], {0: Position(4, '{"ours": 3}')})

    expected = {0: Position(4, '{"ours": 3}'), 1: Position(0, "ü")}
    assert producer.positions == expected
    assert opened(topic).open() == expected
    assert [value for _, value in values(reader, range_of(admin, topic))] == [b"1", b"2", b"3"]


def test_transaction_whose_commit_was_not_heard_of_is_not_written_again(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader, opened: Open
) -> None:
    topic = kafka.topic()
    producer = opened(topic)
    producer.write([batch(b"1")], {0: Position(1)})
    before = producer.positions
    producer.write([batch(b"2")], {0: Position(2)})
    producer.close()
    producer._positions = before  # as after a commit without an answer

    producer.write([batch(b"2")], {0: Position(2)})
    producer.write([batch(b"3")], {0: Position(3)})

    assert [value for _, value in values(reader, range_of(admin, topic))] == [b"1", b"2", b"3"]


def test_positions_alone_are_committed_again(kafka: KafkaBroker, admin: KafkaAdmin, opened: Open) -> None:
    topic = kafka.topic()
    producer = opened(topic)
    producer.write([batch(b"1")], {0: Position(1)})
    group = f"test-out-{topic}"
    kafka.admin.delete_consumer_groups([group])[group].result()
    assert admin.committed(group, admin.topic(topic)) == {}

    producer.write([], producer.positions)

    assert admin.committed(group, admin.topic(topic)) == {0: Position(1)}
    kafka.admin.delete_consumer_groups([group])[group].result()
    assert opened(topic).open() == {}  # as after they have expired


def test_twin_that_opens_in_the_midst_of_a_transaction_fences_it(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader, opened: Open
) -> None:
    topic = kafka.topic()
    old, new = opened(topic), opened(topic)
    old.write([batch(b"1")], {0: Position(1)})

    with pytest.raises(KafkaProducerFencedError, match="belongs to another producer now") as caught:
        old.write(Interrupted(new.open, batch(b"lost")), {0: Position(2)})
    assert "`prefix`" in caught.value.hint
    new.write([batch(b"2")], {0: Position(2)})
    assert [value for _, value in values(reader, range_of(admin, topic))] == [b"1", b"2"]

    with pytest.raises(KafkaProducerFencedError, match="its positions have moved meanwhile"):
        old.write([batch(b"lost")], {0: Position(3)})
    assert [value for _, value in values(reader, range_of(admin, topic))] == [b"1", b"2"]


def test_transaction_that_the_broker_has_ended_is_written_by_the_next_producer(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader, opened: Open
) -> None:
    topic = kafka.topic()
    metadata = admin.topic(topic)
    producer = opened(topic, transaction_timeout_ms=1000, linger_ms=0)

    def ended() -> None:
        for held in (True, False):
            wait_until(lambda wanted=held: admin.ends([metadata])[topic][0].held == wanted)

    with pytest.raises(KafkaProducerFencedError, match=r"longer than transaction\.timeout\.ms"):
        producer.write(Interrupted(ended, batch(b"1")), {0: Position(1)})
    producer.open()
    producer.write([batch(b"1")], {0: Position(1)})
    assert [value for _, value in values(reader, range_of(admin, topic))] == [b"1"]


def test_record_that_is_too_large_is_named_before_anything_is_written(
    kafka: KafkaBroker, admin: KafkaAdmin, opened: Open
) -> None:
    topic = kafka.topic(max_message_bytes="5000")
    batches = [batch(b"1", b"2"), batch(b"3", b"x" * 5000)]

    with pytest.raises(KafkaRecordTooLargeError) as caught:
        opened(topic).write(batches, {0: Position(1)})
    assert (caught.value.row, caught.value.size, caught.value.limits) == (3, 5101, {"max.message.bytes": 5000})
    assert f"b'k' has 5,101 bytes, too many for topic {topic}: max.message.bytes is 5,000" in str(caught.value)
    with pytest.raises(
        KafkaRecordTooLargeError, match=r"max\.message\.bytes is 5,000 and message\.max\.bytes is 2,000"
    ):
        opened(topic, message_max_bytes=2000).write([batch(b"x" * 3000)], {0: Position(1)})
    with pytest.raises(KafkaRecordTooLargeError):
        opened(topic).write([batch(b"", headers=[{"name": "h", "value": b"x" * 5000}])], {0: Position(1)})
    assert admin.ends([admin.topic(topic)])[topic][0].high == 0


@pytest.mark.parametrize("header", [None, [{"name": "h" * 10, "value": b""}] * 20])
def test_records_up_to_the_limit_are_taken_however_many_they_are(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader, opened: Open, header: Any
) -> None:
    topic = kafka.topic(max_message_bytes="5000")
    frame = 101 + (20 * 20 if header else 0)
    records = [os.urandom(size) for size in [5000 - frame] * 20 + [700] * 200]
    with pytest.raises(KafkaRecordTooLargeError):
        opened(topic).write([batch(b"x" * (5001 - frame), headers=header)], {0: Position(1)})

    opened(topic).write([batch(*records, headers=header)], {0: Position(1)})
    opened(topic, message_max_bytes=100_000).write([batch(*records, headers=header)], {0: Position(2)})

    assert [value for _, value in values(reader, range_of(admin, topic))] == records * 2


def test_record_that_the_broker_refuses_is_told_and_nothing_is_visible(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader, opened: Open
) -> None:
    topic = kafka.topic(message_timestamp_after_max_ms="1000")
    producer = opened(topic)

    with pytest.raises(Exception, match="Invalid timestamp") as caught:
        producer.write([batch(b"1"), batch(b"2", timestamp=4_000_000_000_000)], {0: Position(1)})
    assert topic in str(caught.value) or producer.name in str(caught.value)
    producer.write([batch(b"3")], {0: Position(1)})
    assert [value for _, value in values(reader, range_of(admin, topic))] == [b"3"]


def test_more_records_than_the_client_s_queue_takes_are_written_in_order(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader, opened: Open
) -> None:
    topic = kafka.topic()
    records = [b"%d" % number for number in range(5000)]
    opened(topic, queue_buffering_max_messages=100).write([batch(*records)], {0: Position(1)})

    assert [value for _, value in values(reader, range_of(admin, topic))] == records


def test_partition_that_the_topic_does_not_have_is_an_error(kafka: KafkaBroker, opened: Open) -> None:
    with pytest.raises(ValueError, match="has 2 partitions: 2"):
        opened(kafka.topic(partitions=2)).write([batch(b"1", partition=2)], {0: Position(1)})


def test_recreated_topic_gets_no_records_of_the_former_one(kafka: KafkaBroker, admin: KafkaAdmin, opened: Open) -> None:
    topic = kafka.topic()
    producer = opened(topic)
    producer.write([batch(b"1")], {0: Position(1)})
    recreate(kafka, topic)

    with pytest.raises(KafkaTopicRecreatedError):
        producer.write([batch(b"2")], {0: Position(2)})
    assert admin.ends([admin.topic(topic)])[topic][0].high == 0


def test_timeout_that_brokers_do_not_allow_is_told(kafka: KafkaBroker, opened: Open) -> None:
    with pytest.raises(KafkaSettingError, match=r"transaction\.timeout\.ms"):
        opened(kafka.topic(), transaction_timeout_ms=3_600_000).open()


def test_wrong_password_and_missing_rights_are_told(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    topic = admin.topic(kafka.topic())
    wrong = TransactionalProducer(secured_cluster(kafka, sasl_password="hush-wrong"), "out", topic, LIMITS)
    with pytest.raises(KafkaLoginError):
        wrong.write([batch(b"1")], {0: Position(1)})

    allow_only(kafka, ResourceType.TOPIC, topic.name, AclOperation.DESCRIBE)
    allow_only(kafka, ResourceType.TOPIC, topic.name, AclOperation.DESCRIBE_CONFIGS)
    denied = TransactionalProducer(secured_cluster(kafka, "stranger"), f"out-{topic.name}", topic, LIMITS)
    with pytest.raises(KafkaDeniedError, match=topic.name):
        denied.write([batch(b"1")], {0: Position(1)})
    denied.close()
    assert admin.ends([topic])[topic.name][0].high == 0


def test_positions_that_could_not_be_read_are_read_before_anything_is_written(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader, opened: Open
) -> None:
    """The outcome of a transaction is unknown, and the first try to learn it fails."""
    topic = admin.topic(kafka.topic())
    name = f"out-{topic.name}"
    producer = TransactionalProducer(secured_cluster(kafka, "stranger"), name, topic, LIMITS)
    assert producer.positions == {}
    producer.close()
    opened(topic.name).write([batch(b"1")], {0: Position(1)})
    with (
        allowing_only(kafka, ResourceType.GROUP, f"test-{name}", AclOperation.DESCRIBE_CONFIGS),
        pytest.raises(KafkaDeniedError),
    ):
        producer.write([batch(b"1")], {0: Position(1)})

    producer.write([batch(b"1")], {0: Position(1)})
    producer.close()
    assert [value for _, value in values(reader, range_of(admin, topic.name))] == [b"1"]


def test_broker_that_stops_in_the_midst_of_a_transaction_and_comes_back_has_the_records_once(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    with kafka_broker(tmp_path / "broker") as broker:
        admin, reader = KafkaAdmin(cluster_of(broker)), KafkaReader(cluster_of(broker), "reader")
        topic = broker.topic()
        cluster = KafkaCluster(broker.bootstrap, {"socket.timeout.ms": 2000})
        producer = TransactionalProducer(cluster, "out", admin.topic(topic), LIMITS, patience=3)

        def written(number: int, *batches: pa.RecordBatch) -> bool:
            try:
                producer.write(batches, {0: Position(number)})
            except KafkaUnreachableError:
                return False
            return True

        wait_until(lambda: written(1, batch(b"1")))
        try:

            def stop() -> None:
                os.kill(broker.pid, signal.SIGSTOP)
                wait_until(lambda: psutil.Process(broker.pid).status() == psutil.STATUS_STOPPED)

            with pytest.raises(KafkaUnreachableError):
                producer.write(Interrupted(stop, batch(b"2"), batch(b"3")), {0: Position(3)})
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        wait_until(lambda: written(3, batch(b"2"), batch(b"3")))
        assert [value for _, value in values(reader, range_of(admin, topic))] == [b"1", b"2", b"3"]
        producer.close()
        reader.close()
