"""Applications that copy topics of Kafka into the log and results back, without a project around them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from headwater.runtime import Decode, Pipe, PluginRef, Produce, Settings, Sink, Source, subtopology
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.results import ApplicationResult
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ir.topology import (
    KafkaCluster,
    KafkaTopic,
    Recomputed,
    SchemaRegistry,
    Topic,
    Topology,
    dead_letter_topic,
    raw_topic,
)
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.records.record_json import Record, records_of
from headwater.runtime.records.schema import topic_schema
from headwater.tests.kafka.broker import KafkaBroker

PARTITIONS = 2


@dataclass
class Copying:
    """`source` in Kafka is copied to `words` in the log, and from there to `target` in Kafka."""

    broker: KafkaBroker
    root: Path
    source: str
    target: str
    words: Topic = field(
        default_factory=lambda: Topic("words", PARTITIONS, "word string", "n bigint", writer="p-kafka")
    )
    on_error: Any = "fail"
    start: str | None = None
    headers: bool = True
    key: str = "string"
    value: PluginRef = field(default_factory=lambda: PluginRef("json"))
    registry: SchemaRegistry | None = None
    machine: str = "machine"
    recomputed: Recomputed = "refuse"
    prefix: str = "t-"

    @property
    def settings(self) -> Settings:
        cluster = KafkaCluster(self.broker.bootstrap, prefix=self.prefix, registry=self.registry)
        log = PluginRef("embedded", {"path": str(self.root / "log")})
        return Settings(log, str(self.root / self.machine), kafka={"main": cluster})

    @property
    def letters(self) -> Topic | None:
        return dead_letter_topic("lost", self.words, "p-kafka") if self.on_error == "dead_letter" else None

    @property
    def refused(self) -> Topic | None:
        """The dead letters of what the target does not take."""
        lenient = self.words.on_error == "dead_letter"
        return dead_letter_topic("refused", self.words, "p-kafka-out") if lenient else None

    @property
    def incoming(self) -> Topology:
        raw = raw_topic(self.source, on_error=self.on_error, headers=self.headers)

        @subtopology(0, "words", file="topics/words.yml")
        def words(rows: Pipe) -> Pipe:
            return rows.process(
                Source(raw, "words", dead_letter=self.letters, start=self.start),
                Decode("words", raw, self.words, PluginRef(self.key), self.value, at=3),
                Sink("words", self.words),
            )

        return Topology("p", "kafka", "1", "", (words,))

    @property
    def outgoing(self) -> Topology:
        @subtopology(0, "words", file="topics/words.yml")
        def words(rows: Pipe) -> Pipe:
            return rows.process(
                Source(self.words, "words", dead_letter=self.refused),
                Produce(
                    "words",
                    self.words,
                    KafkaTopic(self.target, headers=self.headers),
                    PluginRef(self.key),
                    self.value,
                    self.recomputed,
                    at=3,
                ),
            )

        return Topology("p", "kafka-out", "1", "", (words,))

    def run(self, *topologies: Topology, **options: Any) -> Sequence[ApplicationResult]:
        settings = self.settings
        chosen = topologies or (self.incoming, self.outgoing)
        return run_topologies(chosen, settings, LocalCluster(), **{"until_caught_up": True, **options}).applications

    @property
    def commits(self) -> int:
        """The number of commits of both applications."""
        log = EmbeddedLog(self.root / "log")
        return sum(log.commits(name).latest() for name in ("p-kafka", "p-kafka-out"))

    def copied(self) -> list[Record]:
        """The records of `words`, partition by partition."""
        return self.read(self.words)

    def read(self, topic: Topic | None) -> list[Record]:
        assert topic is not None
        assert topic.writer is not None
        log = EmbeddedLog(self.root / "log")
        state = LogState.load(log.commits(topic.writer))
        return [
            record
            for partition in range(PARTITIONS)
            for within in state.ranges(topic.name, partition)
            for fetched in log.read(within, columns=topic_schema(topic, headers=True))
            for record in records_of(topic, partition, fetched.offsets, pa.record_batch(fetched.records))
        ]


def produced(
    broker: KafkaBroker,
    topic: str,
    records: Iterable[tuple[str | None, Any]],
    settings: Mapping[str, Any] | None = None,
    *,
    abort: bool = False,
    **named: Any,
) -> None:
    """Produce (key, value) as text and JSON, with the time 1000 + number. A value None is a tombstone.

    `settings`: of the producer. With a `transactional.id` the records are one transaction. `named`: of each record.
    """
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random", **(settings or {})})
    if settings:
        producer.init_transactions()
        producer.begin_transaction()
    for number, (key, value) in enumerate(records):
        text = (
            value
            if isinstance(value, bytes)
            else None
            if value is None
            else json.dumps(value, separators=(",", ":")).encode()
        )
        producer.produce(topic, text, key, timestamp=1000 + number, **named)
    producer.flush()
    if settings:
        (producer.abort_transaction if abort else producer.commit_transaction)()


def read_all(broker: KafkaBroker, topic: str, partitions: int) -> list[list[Message]]:
    """The committed records of a topic, partition by partition."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "reads", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    records: list[list[Message]] = [[] for _ in range(partitions)]
    ended: set[int | None] = set()
    while len(ended) < partitions:
        for message in consumer.consume(1000, 0.1):
            if message.error() is None:
                records[message.partition() or 0].append(message)
                ended.discard(message.partition())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise AssertionError(message.error())
    consumer.close()
    return records


def main() -> None:
    """Run both applications until the process is killed, as on a machine of its own. Arguments: see `Copying`."""
    bootstrap, root, source, target, machine = sys.argv[1:]
    broker = KafkaBroker(bootstrap, "", "", 0, "")
    results = Copying(broker, Path(root), source, target, machine=machine).run(until_caught_up=False)
    print(*(result.error for result in results), file=sys.stderr)


if __name__ == "__main__":
    main()
