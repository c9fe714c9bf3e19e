from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.driver.service_events import KafkaPartitionsAdded
from headwater.runtime.ir.topology import OnError, Topic, start_at_group
from headwater.runtime.kafka.errors import KafkaGroupInUseError
from headwater.runtime.progress.kafka_ends import KafkaGroupUnknownError
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.kafka.copying import PARTITIONS, Copying, produced, read_all
from headwater.tests.waiting import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def copying(kafka: KafkaBroker, tmp_path: Path) -> Copying:
    return Copying(kafka, tmp_path, kafka.topic(partitions=3), kafka.topic(partitions=3))


def test_records_of_kafka_are_copied_once(copying: Copying) -> None:
    produced(copying.broker, copying.source, [("a", {"n": 1}), ("b", {"n": 2}), ("a", None), (None, {"n": 4})])
    (first,) = copying.run(copying.incoming)
    assert (first.status, first.error, first.records) == ("caught_up", None, 4)
    copied = sorted((record.timestamp, record.key, record.value) for record in copying.copied())
    assert copied == [
        (1000, {"word": "a"}, {"n": 1}),
        (1001, {"word": "b"}, {"n": 2}),
        (1002, {"word": "a"}, None),
        (1003, None, {"n": 4}),
    ]
    (again,) = copying.run(copying.incoming)
    assert (again.status, again.records) == ("caught_up", 0)


def test_records_of_aborted_transactions_are_not_copied(copying: Copying) -> None:
    produced(copying.broker, copying.source, [("a", {"n": 1})], {"transactional.id": "one"})
    produced(
        copying.broker, copying.source, [("b", {"n": n}) for n in range(5)], {"transactional.id": "two"}, abort=True
    )
    produced(copying.broker, copying.source, [("c", {"n": 3})], {"transactional.id": "one"})
    (result,) = copying.run(copying.incoming)
    assert (result.status, result.records, result.waiting) == ("caught_up", 2, 0)
    assert sorted(record.key["word"] for record in copying.copied() if record.key) == ["a", "c"]


def test_records_of_an_open_transaction_are_copied_once_it_is_committed(copying: Copying) -> None:
    producer = Producer({"bootstrap.servers": copying.broker.bootstrap, "transactional.id": copying.source})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(copying.source, b'{"n": 1}', "a", 0)
    producer.flush()
    produced(copying.broker, copying.source, [("b", {"n": 2})], partition=0)
    (held,) = copying.run(copying.incoming)
    assert (held.status, held.records) == ("caught_up", 0)
    producer.commit_transaction()
    copying.run(copying.incoming)
    assert [record.key for record in copying.copied()] == [{"word": "a"}, {"word": "b"}]


def test_record_that_is_not_as_declared_stops_its_task_and_names_its_place(copying: Copying) -> None:
    produced(copying.broker, copying.source, [("a", {"n": 1}), ("a", {"n": "two"}), ("a", {"n": 3})], partition=1)
    produced(copying.broker, copying.source, [("b", {"n": 4})], partition=2)
    (result,) = copying.run(copying.incoming)
    assert result.status == "failed"
    assert f"record kafka:main:{copying.source}[1]@1 cannot be processed: its value is no json" in str(result.error)
    shown = f"kafka-console-consumer --topic {copying.source} --partition 1 --offset 1 --max-messages 1"
    assert f"`{shown}` shows all of the record" in str(getattr(result.raised, "hint", ""))
    assert [record.value for record in copying.copied()] == [{"n": 4}]


def test_skipped_records_are_counted(copying: Copying) -> None:
    records = [("a", {"n": 1}), ("a", b"\xff{"), ("a", {"n": 2**80}), ("b", {"n": 4})]
    produced(copying.broker, copying.source, records, partition=1)
    (result,) = replace(copying, on_error="skip").run(replace(copying, on_error="skip").incoming)
    assert (result.status, result.records, sum(result.dropped.values())) == ("caught_up", 4, 2)
    assert sorted(record.value["n"] for record in copying.copied() if record.value) == [1, 4]


def test_dead_letters_have_the_bytes_of_the_record(copying: Copying) -> None:
    produced(copying.broker, copying.source, [("a", {"n": 1}), ("a", b"\xff{")], partition=1)
    lenient = replace(copying, on_error="dead_letter")
    lenient.run(lenient.incoming)
    (letter,) = lenient.read(lenient.letters)
    assert letter.value["key"] == '{"key": "YQ=="}'
    assert letter.value["value"] == '{"value": "/3s="}'
    assert (letter.value["topic"], letter.value["partition"], letter.value["offset"]) == (
        f"kafka:main:{copying.source}",
        1,
        1,
    )
    assert letter.value["error"].startswith("its value is no json of the declared columns: ")


def test_headers_and_times_are_those_in_kafka(copying: Copying) -> None:
    headers = [("a", b"1"), ("a", b"2"), ("b", None), ("c", b"\xff")]
    produced(copying.broker, copying.source, [("a", {"n": 1})], headers=headers)
    produced(copying.broker, copying.source, [("a", {"n": 1})], headers=[("a", b"1")])
    produced(copying.broker, copying.source, [("a", {"n": 1})])
    copying.run(copying.incoming)
    copied = copying.copied()
    assert [record.headers for record in copied] == [
        [["a", "1"], ["a", "2"], ["b", None], ["c", {"base64": "/w=="}]],
        {"a": "1"},
        {},
    ]
    assert {record.timestamp for record in copied} == {1000}


def test_time_of_a_record_is_that_of_its_timestamp_column(copying: Copying) -> None:
    words = Topic("words", PARTITIONS, "word string", "n bigint, at timestamp", writer="p-kafka", timestamp="at")
    timed = replace(copying, words=words)
    records = [
        ("a", {"n": 1, "at": "2026-01-02T00:00:00Z"}),
        ("a", {"n": 2, "at": "2026-01-01T00:00:00Z"}),
        ("a", None),
    ]
    produced(copying.broker, copying.source, records)
    timed.run(timed.incoming)
    day = 86_400_000
    first = 20454 * day
    assert [record.timestamp - first for record in timed.copied()] == [day, 0, 1002 - first]


def test_new_application_begins_where_start_says(copying: Copying) -> None:
    produced(copying.broker, copying.source, [("a", {"n": 1})])
    late = replace(copying, start="latest")
    late.run(late.incoming)
    produced(copying.broker, copying.source, [("a", {"n": 2})])
    late.run(late.incoming)
    assert [record.value for record in late.copied()] == [{"n": 2}]


def test_copy_goes_on_at_the_offsets_of_a_group(copying: Copying) -> None:
    """Of partition 1 the group has none, and of partition 2 it has read nothing."""
    for partition in range(3):
        produced(
            copying.broker, copying.source, [("a", {"n": 10 * partition + n}) for n in range(3)], partition=partition
        )
    member = Consumer({"bootstrap.servers": copying.broker.bootstrap, "group.id": copying.source})
    taking = replace(copying, start=start_at_group(copying.source))
    (unknown,) = taking.run(taking.incoming)
    assert isinstance(unknown.raised, KafkaGroupUnknownError)
    member.subscribe([copying.source])
    wait_until(lambda: member.poll(0) is None and len(member.assignment()) == 3)
    places = [TopicPartition(copying.source, 0, 2), TopicPartition(copying.source, 2, 0)]
    member.commit(offsets=places, asynchronous=False)
    (used,) = taking.run(taking.incoming)
    assert isinstance(used.raised, KafkaGroupInUseError)
    assert taking.commits == 0  # nothing was claimed
    member.close()
    taking.run(taking.incoming)
    assert sorted(record.value["n"] for record in taking.copied() if record.value) == [2, 10, 11, 12, 20, 21, 22]


def test_headers_that_are_dropped_are_not_copied_and_not_written(copying: Copying) -> None:
    produced(copying.broker, copying.source, [("a", {"n": 1})], headers=[("h", b"1")])
    bare = replace(copying, headers=False)
    bare.run(bare.incoming)
    assert [record.headers for record in bare.copied()] == [{}]
    produced(copying.broker, copying.source, [("a", {"n": 1})], headers=[("h", b"1")])
    kept = replace(copying, root=copying.root / "kept")
    kept.run(kept.incoming)
    kept.run(replace(kept, headers=False).outgoing)
    assert [message.headers() for messages in read_all(kept.broker, kept.target, 3) for message in messages] == [
        None
    ] * 2


class Adds:
    """An observer under which partitions are added at the first commit. The run is stopped once all is copied."""

    def __init__(self, copying: Copying) -> None:
        self.copying = copying
        self.stop = threading.Event()
        self.told: list[KafkaPartitionsAdded] = []

    def on(self, event: Event) -> None:
        broker, source = self.copying.broker, self.copying.source
        if isinstance(event, KafkaPartitionsAdded):
            self.told.append(event)
        elif isinstance(event, EpochCommitted) and not self.told:
            broker.admin.create_partitions([NewPartitions(source, 5)])[source].result()
            wait_until(lambda: len(broker.admin.list_topics(source).topics[source].partitions) == 5)
            produced(broker, source, [("d", {"n": 4})], partition=4)
        elif isinstance(event, EpochCommitted):
            self.stop.set()


def test_partitions_that_are_added_are_read_by_the_run_that_sees_them(copying: Copying) -> None:
    produced(copying.broker, copying.source, [("a", {"n": 1})], partition=1)
    late, adds = replace(copying, start="latest"), Adds(copying)
    late.run(late.incoming)
    produced(copying.broker, copying.source, [("b", {"n": 2})], partition=2)
    (result,) = late.run(late.incoming, observer=adds, stop=adds.stop, until_caught_up=False)
    assert (result.error, result.records) == (None, 2)
    assert sorted(record.value["n"] for record in late.copied() if record.value) == [2, 4]
    assert [(event.was, event.partitions) for event in adds.told] == [(3, 5)]


def test_tools_of_kafka_see_no_lag_behind_transactions(copying: Copying) -> None:
    produced(copying.broker, copying.source, [("a", {"n": 1}), ("b", {"n": 2})], {"transactional.id": "one"})
    copying.run(copying.incoming)
    told = copying.broker.tool("kafka-consumer-groups", "--describe", "--group", "t-p-kafka")
    lines = [line.split() for line in told.splitlines() if copying.source in line]
    assert {(line[2], line[5]) for line in lines} == {("0", "0"), ("1", "0"), ("2", "0")}


def test_records_go_to_kafka_once_as_they_came_from_there(copying: Copying) -> None:
    headers = [("a", b"1"), ("a", b"\xff"), ("b", None)]
    produced(copying.broker, copying.source, [("a", {"n": 1}), ("b", None), (None, {"n": 3})], headers=headers)
    produced(copying.broker, copying.source, [(f"k{n}", {"n": n}) for n in range(100)])
    for result in (*copying.run(), *copying.run()):
        assert (result.status, result.error) == ("caught_up", None)
    read, written = (read_all(copying.broker, topic, 3) for topic in (copying.source, copying.target))

    def contents(partitions: list[list[Message]]) -> list[list[Any]]:
        return [
            sorted((m.timestamp()[1], m.key() or b"", m.value() or b"", str(m.headers())) for m in messages if m.key())
            for messages in partitions
        ]

    assert contents(written) == contents(read)
    (nameless,) = [message for messages in written for message in messages if message.key() is None]
    assert json.loads(nameless.value() or b"") == {"n": 3}


@pytest.mark.parametrize("on_error", ["fail", "skip", "dead_letter"])
def test_records_that_the_target_does_not_take_fail_each_by_itself(
    kafka: KafkaBroker, tmp_path: Path, on_error: OnError
) -> None:
    words = Topic(
        *("words", PARTITIONS, "word string", "n bigint, at timestamp"),
        writer="p-kafka",
        timestamp="at",
        on_error=on_error,
    )
    target = kafka.topic(partitions=3, max_message_bytes="2000", cleanup_policy="compact")
    copying = Copying(kafka, tmp_path, kafka.topic(partitions=1), target, words)
    now, later = "2026-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
    keyed = [("a", now), ("x" * 2000, now), ("d", now), ("b", later), (None, now), ("c", now)]
    produced(kafka, copying.source, [(key, {"n": n, "at": at}) for n, (key, at) in enumerate(keyed)])
    _, out = copying.run()
    written = sorted(json.loads(m.value() or b"")["n"] for each in read_all(kafka, target, 3) for m in each)
    if on_error == "fail":
        assert out.status == "failed"
        assert f"{target} in Kafka does not take the record: it " in str(out.error)
        return
    assert (out.status, out.error, written, sum(out.dropped.values())) == ("caught_up", None, [0, 2, 5], 3)
    if on_error == "dead_letter":
        errors = sorted(letter.value["error"] for letter in copying.read(copying.refused) if letter.value)
        told = [error.removeprefix(f"{target} in Kafka does not take the record: ") for error in errors]
        assert told[0] == "it has 2,135 bytes in Kafka: max.message.bytes is 2,000"
        assert told[1] == "it has no key, and the topic in Kafka is compacted (cleanup.policy)"
        assert told[2].startswith("its time is ")
        assert told[2].endswith(" h ahead: message.timestamp.after.max.ms is 3,600,000")
