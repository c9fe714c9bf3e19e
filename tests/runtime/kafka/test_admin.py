"""What a cluster says of its topics and groups."""

from __future__ import annotations

import pickle

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewPartitions

from headwater.runtime.kafka.admin import KafkaAdmin, PartitionEnds, Position
from headwater.runtime.kafka.errors import (
    KafkaClusterError,
    KafkaTopicMissingError,
    KafkaTopicRecreatedError,
)
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.runtime.kafka.topics import TIME, producer, put, recreate, transaction
from headwater.tests.waiting import wait_until

pytestmark = pytest.mark.kafka


def test_topic_has_the_id_that_kafka_s_own_tool_prints(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    name = kafka.topic(partitions=3)
    topic = admin.topic(name)

    assert topic.partitions == 3
    assert f"TopicId: {topic.id}" in kafka.tool("kafka-topics", "--describe", "--topic", name)


def test_missing_topic_is_named(admin: KafkaAdmin) -> None:
    with pytest.raises(KafkaTopicMissingError, match="there is no topic not-there") as caught:
        admin.topic("not-there")

    assert admin.cluster.bootstrap_servers in str(caught.value)


def test_added_partitions_are_seen(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    name = kafka.topic(partitions=2)
    put(producer(kafka), name, b"1", b"2", partition=1)
    kafka.admin.create_partitions([NewPartitions(name, 5)])[name].result()
    wait_until(lambda: admin.topic(name).partitions == 5)

    ends = admin.ends([admin.topic(name)])[name]
    assert [end.high for end in ends] == [0, 2, 0, 0, 0]


def test_recreated_topic_is_another_one(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    name = kafka.topic()
    was = admin.topic(name).id
    assert admin.check_topic(name, was).id == was
    recreate(kafka, name)

    with pytest.raises(KafkaTopicRecreatedError, match="was deleted and created again") as caught:
        admin.check_topic(name, was)
    assert caught.value.is_ == admin.topic(name).id != was


def test_ends_of_several_topics_tell_an_open_transaction(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    first, second = kafka.topic(partitions=2), kafka.topic()
    plain, open_ = producer(kafka), producer(kafka, first)
    put(plain, first, b"before")
    with transaction(open_, commit=False):
        put(open_, first, b"open")
        put(plain, first, b"behind")
        put(plain, second, b"1", b"2")
        kafka.admin.delete_records([TopicPartition(second, 0, 1)])[TopicPartition(second, 0, 1)].result()

        ends = admin.ends(admin.topics([first, second]).values())
        assert ends[first] == (PartitionEnds(0, 1, 3), PartitionEnds(0, 0, 0))
        assert ends[first][0].held
        assert ends[second] == (PartitionEnds(1, 2, 2),)
    wait_until(lambda: not admin.ends([admin.topic(first)])[first][0].held)
    assert admin.ends([admin.topic(first)])[first][0] == PartitionEnds(0, 4, 4)


def test_offset_for_a_time_behind_the_last_record_is_the_end(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    name = kafka.topic(partitions=2)
    put(producer(kafka), name, b"1", b"2", b"3")
    topic = admin.topic(name)

    assert admin.offsets_for_time(topic, TIME - 5) == (0, 0)
    assert admin.offsets_for_time(topic, TIME + 1) == (1, 0)
    assert admin.offsets_for_time(topic, TIME + 9) == (3, 0)


def test_offset_for_a_time_passes_over_no_record_of_an_open_transaction(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    name = kafka.topic()
    writing = producer(kafka, name)
    with transaction(writing):
        put(writing, name, b"1", b"2")
        assert admin.offsets_for_time(admin.topic(name), TIME + 1) == (1,)


def test_offsets_are_committed_for_tools(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    name = kafka.topic(partitions=3)
    put(producer(kafka), name, b"1", b"2", b"3")
    topic = admin.topic(name)
    assert admin.committed(f"group-{name}", topic) == {}

    admin.commit(f"group-{name}", name, {0: 2, 2: 0})

    assert admin.committed(f"group-{name}", topic) == {0: Position(2), 2: Position(0)}
    described = kafka.tool("kafka-consumer-groups", "--describe", "--group", f"group-{name}")
    (line,) = (line.split() for line in described.splitlines() if name in line and line.split()[2] == "0")
    assert line[3:6] == ["2", "3", "1"]  # committed, end, lag


def test_offsets_of_another_group_wait_for_its_transaction(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    name = kafka.topic()
    writing = producer(kafka, name)
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": name, "log_level": 0})
    with transaction(writing):
        put(writing, name, b"v")
        place = TopicPartition(name, 0, 7, "with the records")
        writing.send_offsets_to_transaction([place], member.consumer_group_metadata())
        with pytest.raises(KafkaClusterError):
            KafkaAdmin(admin.cluster, patience=3).committed(name, admin.topic(name))
    # The transaction ends a moment after its producer has heard that it is committed.
    assert admin.committed(name, admin.topic(name)) == {0: Position(7, "with the records")}
    member.close()


def test_offsets_of_a_group_with_a_member_are_not_committed(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    name = kafka.topic()
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": name, "log_level": 0})
    member.subscribe([name])

    def joined() -> bool:
        member.poll(0.1)
        return bool(member.assignment())

    wait_until(joined)
    with pytest.raises(KafkaClusterError, match=f"committing offsets of group {name}"):
        admin.commit(name, name, {0: 1})
    member.close()


def test_settings_of_a_topic_have_the_defaults_of_the_cluster(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    settings = admin.topic_settings(kafka.topic(max_message_bytes="2000"))

    assert settings["max.message.bytes"] == "2000"
    assert settings["retention.ms"] == "-1"


def test_admin_is_sent_without_its_connection(admin: KafkaAdmin, kafka: KafkaBroker) -> None:
    name = kafka.topic()
    admin.topic(name)

    assert pickle.loads(pickle.dumps(admin)).topic(name) == admin.topic(name)
