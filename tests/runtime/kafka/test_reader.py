"""A range of offsets is read exactly, whatever else is in its partition, and what cannot be read is an error."""

from __future__ import annotations

import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from confluent_kafka import TopicPartition

from headwater.runtime.kafka.admin import KafkaAdmin
from headwater.runtime.kafka.errors import (
    KafkaOffsetBeyondEndError,
    KafkaRecordsRemovedError,
    KafkaStalledError,
    KafkaTopicMissingError,
    KafkaTopicRecreatedError,
)
from headwater.runtime.kafka.reader import RECORDS, KafkaRange, KafkaReader, open_reader
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.runtime.kafka.topics import (
    TIME,
    cluster_of,
    producer,
    put,
    range_of,
    read,
    recreate,
    transaction,
    values,
)
from headwater.tests.waiting import wait_until

pytestmark = pytest.mark.kafka


def test_aborted_records_and_markers_are_holes_also_at_the_end(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader
) -> None:
    topic = kafka.topic()
    writing = producer(kafka, topic)
    for commit in (True, False, True, False, False):
        with transaction(writing, commit=commit):
            put(writing, topic, b"a", b"b")
    whole = range_of(admin, topic)

    assert whole.end == 15
    expected = [(0, b"a"), (1, b"b"), (6, b"a"), (7, b"b")]
    assert values(reader, whole) == expected
    for cut in range(1, 15):
        halves = [range_of(admin, topic, 0, cut), range_of(admin, topic, cut, 15)]
        assert values(reader, halves[0]) + values(reader, halves[1]) == expected
    assert values(reader, range_of(admin, topic, 9, 15)) == []
    assert values(reader, range_of(admin, topic, 15, 15)) == []


def test_ranges_that_follow_one_another_are_read_without_loss(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader
) -> None:
    topic, dice = kafka.topic(partitions=2), random.Random(7)
    writing, plain = producer(kafka, topic), producer(kafka)
    expected: list[list[bytes]] = [[], []]
    ends = [0, 0]
    read_: list[list[bytes]] = [[], []]
    for step in range(40):
        partition, commit = dice.randrange(2), dice.random() < 0.6
        batch = [b"%d-%d" % (step, number) for number in range(dice.choice([1, 3, 2500]))]
        if dice.random() < 0.3:
            put(plain, topic, *batch, partition=partition)
            commit = True
        else:
            with transaction(writing, commit=commit):
                put(writing, topic, *batch, partition=partition)
        expected[partition] += batch if commit else []
        if dice.random() < 0.5:
            stable = range_of(admin, topic, partition=partition).end
            wanted = range_of(admin, topic, ends[partition], dice.randint(ends[partition], stable), partition)
            read_[partition] += [value for _, value in values(reader, wanted)]
            ends[partition] = wanted.end
    for partition in range(2):
        rest = range_of(admin, topic, ends[partition], partition=partition)
        read_[partition] += [value for _, value in values(reader, rest)]

    assert read_ == expected


def test_compacted_records_are_holes(kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader) -> None:
    topic = kafka.topic(
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="100",
    )
    writing = producer(kafka)
    for number in range(50):
        put(writing, topic, b"%d" % number, key=b"k%d" % (number % 5), now=True)
    before = range_of(admin, topic)
    assert len(values(reader, before)) == 50

    def compacted() -> bool:
        put(writing, topic, b"", key=b"other", now=True)  # the newest segment is never compacted
        return len(values(reader, before)) == 5

    wait_until(compacted)
    assert values(reader, before) == [(offset, b"%d" % offset) for offset in range(45, 50)]
    assert values(reader, range_of(admin, topic, 10, 30)) == []
    assert values(reader, range_of(admin, topic, 46, 49)) == [(46, b"46"), (47, b"47"), (48, b"48")]


def test_removed_records_are_an_error_with_their_number(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader
) -> None:
    topic = kafka.topic()
    put(producer(kafka), topic, *[b"%d" % number for number in range(10)])
    place = TopicPartition(topic, 0, 6)
    kafka.admin.delete_records([place])[place].result()

    with pytest.raises(KafkaRecordsRemovedError) as caught:
        read(reader, range_of(admin, topic, 3, 10))

    assert caught.value.low == 6
    assert f"{topic}, partition 0: up to 3 records with offsets 3 to 5 were removed" in str(caught.value)
    assert "headwater rewind" in caught.value.hint
    with pytest.raises(KafkaRecordsRemovedError, match="up to 1 records with offsets 3 to 3"):
        read(reader, range_of(admin, topic, 3, 4))
    assert [offset for offset, _ in values(reader, range_of(admin, topic, 6, 10))] == [6, 7, 8, 9]


def test_position_beyond_the_end_is_an_error(kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader) -> None:
    topic = kafka.topic()
    put(producer(kafka), topic, b"1", b"2")

    with pytest.raises(KafkaOffsetBeyondEndError, match="goes on at offset 20, and the partition ends at 2"):
        read(reader, range_of(admin, topic, 20, 30))


def test_recreated_topic_is_an_error_for_a_new_reader_and_one_that_stayed_open(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader
) -> None:
    topic = kafka.topic()
    put(producer(kafka), topic, *[b"old"] * 5)
    before = range_of(admin, topic)
    assert len(values(reader, before)) == 5
    recreate(kafka, topic)
    put(producer(kafka), topic, *[b"new"] * 8)

    later = KafkaRange(topic, before.topic_id, 0, 5, 8)
    other = KafkaReader(cluster_of(kafka), "other")
    for open_one in (reader, other):
        with pytest.raises(KafkaTopicRecreatedError, match=f"topic {topic} was deleted and created again"):
            read(open_one, later)
    other.close()


def test_topic_that_is_recreated_while_it_is_read_is_an_error(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader
) -> None:
    topic = kafka.topic()
    put(producer(kafka), topic, *[b"old"] * 1500)
    pieces = reader.read(range_of(admin, topic))
    assert len(next(pieces)) < 1500
    recreate(kafka, topic)
    put(producer(kafka), topic, *[b"new"] * 1500)

    with pytest.raises(KafkaTopicRecreatedError):
        list(pieces)


def test_deleted_topic_is_an_error(kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader) -> None:
    topic = kafka.topic()
    put(producer(kafka), topic, b"1")
    whole = range_of(admin, topic)
    kafka.admin.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in kafka.admin.list_topics().topics)

    with pytest.raises(KafkaTopicMissingError, match=topic):
        read(reader, whole)


def test_range_that_an_open_transaction_holds_is_an_error_that_says_so(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    topic = kafka.topic()
    writing, reader = producer(kafka, topic), KafkaReader(cluster_of(kafka), "impatient", patience=0.0)
    put(producer(kafka), topic, b"before")
    with transaction(writing):
        put(writing, topic, b"open")
        assert values(reader, range_of(admin, topic, 0, 1)) == [(0, b"before")]
        with pytest.raises(
            KafkaStalledError, match="an open transaction holds what is there from offset 1 on"
        ) as caught:
            read(reader, range_of(admin, topic, 1, 2))
    assert caught.value.position == 1

    assert values(reader, range_of(admin, topic)) == [(0, b"before"), (1, b"open")]
    reader.close()


def test_records_are_given_as_they_are_in_kafka(kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader) -> None:
    topic, writing = kafka.topic(), producer(kafka)
    headers = [("b", b"1"), ("a", None), ("b", b"\xff\x00"), ("ü", b"")]
    writing.produce(topic, b"v", b"k", 0, timestamp=TIME, headers=headers)
    writing.produce(topic, b"", b"", 0, timestamp=-5)
    writing.produce(topic, None, None, 0, timestamp=TIME)
    writing.flush()

    table = read(reader, range_of(admin, topic))

    assert table.schema == RECORDS
    assert table["key"].to_pylist() == [b"k", b"", None]
    assert table["value"].to_pylist() == [b"v", b"", None]
    assert table["timestamp"].to_pylist() == [TIME, -5, TIME]
    assert table["timestamp_type"].to_pylist() == [1, 1, 1]
    first, *others = table["headers"].to_pylist()
    assert [(header["name"], header["value"]) for header in first] == headers
    assert others == [None, None]


def test_time_of_the_broker_is_told_apart(kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader) -> None:
    topic = kafka.topic(message_timestamp_type="LogAppendTime")
    put(producer(kafka), topic, b"v")

    table = read(reader, range_of(admin, topic))

    assert table["timestamp_type"].to_pylist() == [2]
    assert table["timestamp"][0].as_py() > TIME


def test_range_that_was_left_in_the_middle_is_read_again(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader
) -> None:
    topic = kafka.topic()
    put(producer(kafka), topic, *[b"%d" % number for number in range(3000)])
    whole = range_of(admin, topic)
    pieces = reader.read(whole)
    first = next(pieces)
    pieces.close()

    assert [offset for offset, _ in values(reader, whole)] == list(range(3000))
    rest = range_of(admin, topic, len(first), 3000)
    assert [offset for offset, _ in values(reader, rest)] == list(range(len(first), 3000))


def test_threads_read_more_partitions_than_consumers_stay_open(
    kafka: KafkaBroker, admin: KafkaAdmin, reader: KafkaReader
) -> None:
    partitions = 40
    topic, writing = kafka.topic(partitions), producer(kafka)
    for partition in range(partitions):
        for number in range(20):
            writing.produce(topic, b"%d-%d" % (partition, number), b"k", partition)
    writing.flush()

    def in_parts(partition: int) -> list[bytes | None]:
        parts = [range_of(admin, topic, start, end, partition) for start, end in pairwise([0, 1, 12, 20])]
        return [value for part in parts for _, value in values(reader, part)]

    with ThreadPoolExecutor(6) as threads:
        for partition, found in enumerate(threads.map(in_parts, range(partitions))):
            assert found == [b"%d-%d" % (partition, number) for number in range(20)]


def test_reader_is_sent_without_its_connections_and_a_process_has_one(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    topic = kafka.topic()
    put(producer(kafka), topic, b"1")
    whole = range_of(admin, topic)
    reader = open_reader(cluster_of(kafka), "kept")

    assert open_reader(cluster_of(kafka), "kept") is reader
    assert open_reader(cluster_of(kafka, client_id="x"), "kept") is not reader
    assert values(reader, whole) == values(pickle.loads(pickle.dumps(reader)), whole) == [(0, b"1")]
