"""A project that copies a topic of Kafka into its log, and counts and lists what is in the copy."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.runtime.driver.events import Observer
from headwater.runtime.driver.results import ApplicationResult, RunResults
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.kafka import Decode
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import (
    Agg,
    OnError,
    PluginRef,
    Settings,
    Store,
    Topic,
    Topology,
    dead_letter_topic,
    raw_topic,
)
from headwater.runtime.ir.windows import Window
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committed import Committed
from headwater.runtime.records.schema import topic_schema
from headwater.tests.runtime.local.local_application import PROJECT, WHOLE, Stopping, part
from headwater.tests.runtime.local.memory_kafka import CLUSTERS, KafkaCluster, LogWithKafka, MemoryKafka, Message

NAME = "ops.flights"
RAW = f"kafka:main:{NAME}"
COPY = f"{PROJECT}-kafka"
READER = f"{PROJECT}-app"


def message(key: str, value: str, time: int, own: int = 0) -> Message:
    """A record that is decoded to key, value and time (ms). `own`: its own time in Kafka."""
    at = datetime.fromtimestamp(time / 1000, UTC).isoformat()
    return key.encode(), json.dumps({"v": value, "at": at}).encode(), own


class KafkaProject:
    """The project in a folder.

    `ours`: partitions of the copied topic. `start`: of the copy. `on_error`: of its source.
    """

    def __init__(
        self, path: Path, partitions: int = 2, ours: int = 2, start: str | None = None, on_error: OnError = "skip"
    ) -> None:
        self.path = path
        self.kafka = CLUSTERS[str(path)] = MemoryKafka()
        self.kafka.create(NAME, partitions)
        self.log = LogWithKafka(str(path / "log"), str(path))
        self.start = start
        self.on_error = on_error
        self.flights = Topic("flights", ours, "k string", "v string, at timestamp", writer=COPY, timestamp="at")
        self.letters = dead_letter_topic("kafka_flights_dead_letter", self.flights, COPY)
        self.counts = Topic("counts", ours, "k string", "n bigint, f string, l string", True, READER)
        aggregates = (
            Agg("n", "count"),
            Agg("f", "first", "v", "string", "string"),
            Agg("l", "last", "v", "string", "string"),
        )
        self.store = Store(
            "counted",
            ours,
            "k string",
            "n bigint, f string, l string",
            type="window",
            window=Window(10, 10, 0),
            aggregates=aggregates,
        )

    @property
    def copy(self) -> Topology:
        """The copying application, as a run resolves it: with the partitions and the id that the topic has now."""
        raw = raw_topic(NAME, on_error=self.on_error)
        assert raw.kafka is not None
        there = self.kafka.topics[NAME]
        kafka = replace(raw.kafka, id=there.id)
        topic = replace(raw, partitions=len(there.partitions), kafka=kafka)
        kept = self.letters if self.on_error == "dead_letter" else None
        nodes = (
            Source(topic, "f", dead_letter=kept, start=self.start),
            Decode("f", topic, self.flights, PluginRef("string"), PluginRef("json")),
            Sink("f", self.flights),
        )
        subtopology = part("flights", topic.partitions, [(nodes, {}, {})]).subtopology
        starts = {} if self.start is None else {topic.name: self.start}
        letters = {} if kept is None else {topic.name: kept}
        return Topology(PROJECT, "kafka", "1", "hash", (replace(subtopology, starts=starts, dead_letters=letters),))

    @property
    def reader(self) -> Topology:
        """Windows without grace: late records are dropped, so that their results hang on the order."""
        nodes = (Source(self.flights, "f"), Aggregate("f", self.store), Sink("f", self.counts, "each_update"))
        subtopology = part("app", self.flights.partitions, [(nodes, {}, {})], (self.store,)).subtopology
        return Topology(PROJECT, "app", "1", "hash", (subtopology,))

    def produce(self, partition: int, *messages: Message) -> None:
        self.kafka.produce(NAME, partition, messages)

    def settings(self, max_records: int = WHOLE, clients: int = 1) -> Settings:
        return Settings(
            PluginRef("with_memory_kafka", {"path": str(self.path / "log"), "kafka": str(self.path)}),
            str(self.path / "state"),
            clients,
            epoch_interval_ms=0,
            max_records=max_records,
            plugins=("headwater.tests.runtime.local.memory_kafka",),
            clean=False,
        )

    def attempt(
        self,
        topologies: Sequence[Topology],
        settings: Settings | None = None,
        cluster: KafkaCluster | None = None,
        observer: Observer | None = None,
        **options: Any,
    ) -> RunResults:
        """A run until it is caught up, however it ends."""
        return run_topologies(
            topologies,
            settings or self.settings(),
            cluster or KafkaCluster(),
            observer=observer,
            kafka={"main": self.kafka},
            **{"until_caught_up": True, **options},
        )

    def run_copy(self, **settings: int) -> ApplicationResult:
        """A run of the copy that goes well."""
        (result,) = self.attempt([self.copy], self.settings(**settings)).applications
        assert (result.status, result.error, result.waiting) == ("caught_up", None, 0), result.error
        return result

    def run_reader(self, **settings: int) -> ApplicationResult:
        """A run of the reader until nothing is left that it may read."""
        (result,) = self.attempt([self.reader], self.settings(**settings)).applications
        assert (result.status, result.error) == ("caught_up", None), result.error
        return result

    def run_randomly(self, chances: random.Random) -> None:
        """Copy and read in turns until nothing is left: in small epochs of several clients, in any order, with tasks
        that stall and fail.
        """
        for _ in range(1000):
            left = 0
            for topology in chances.sample([self.copy, self.reader], 2):
                stopping = Stopping(chances.randrange(1, 6))
                (result,) = self.attempt(
                    [topology],
                    self.settings(chances.choice([1, 2, 5, WHOLE]), chances.randrange(1, 3)),
                    KafkaCluster(chances.randrange(1, 3), fails=True),
                    stopping,
                    stop=stopping.stop,
                    held=lambda _: chances.random() < 0.3,
                ).applications
                assert result.error is None or "the worker was killed" in result.error, result.error
                left += result.status != "caught_up" or result.waiting
            if not left and not self.lag():
                return
        raise AssertionError("never caught up")

    def lag(self) -> int:
        """The offsets that are not copied, and the records that are not read."""
        committed = Committed(self.log, self.reader)
        return sum(
            committed.unread_by_partition(application, name, part.partitions)[partition]
            for application in (COPY, READER)
            for name, part in committed.states[application].topology.subtopologies.items()
            for partition in range(part.partitions)
        )

    def state(self, application: str = COPY) -> LogState:
        return LogState.load(self.log.commits(application))

    def read(self, topic: Topic) -> list[list[tuple[Any, ...]]]:
        """The records of each partition of a topic in their order, without what hangs on epochs."""
        state, columns = LogState.load(self.log.commits(topic.writer or "")), topic_schema(topic)
        names = [name for name in columns.names if not name.startswith("_") or name == "_timestamp"]
        return [
            [
                tuple(row[name] for name in names)
                for within in state.ranges(topic.name, partition)
                for fetched in self.log.read(within, None, columns)
                for row in fetched.records.to_pylist()
            ]
            for partition in range(topic.partitions)
        ]
