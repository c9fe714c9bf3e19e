"""A Kafka cluster in memory: offsets as a broker gives them, and a log that reads from it.

As a plugin the log is `type: with_memory_kafka`. Clusters are found by their names, as long as the process lasts.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.errors import HeadwaterError, UnavailableError
from headwater.plugins import hookimpl
from headwater.plugins.hookspecs import Register
from headwater.runtime.chosen_plugins import ChosenPlugins
from headwater.runtime.cluster.local import LocalCluster, LocalJob
from headwater.runtime.driver.cluster import EpochJob
from headwater.runtime.engine.execution.kafka import Mirror
from headwater.runtime.engine.worker import PlannedWorker
from headwater.runtime.ir.topology import KafkaTopic, PluginRef, Subtopology
from headwater.runtime.kafka.sources import PartitionEnds, TopicOffsets
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.ranges import Columns, Fetched, LogRange, RangeReader
from headwater.runtime.placing.place import Client
from headwater.runtime.records.types import Kind
from headwater.runtime.serdes.serde import Deserializer, PayloadSpec, Serde, Serializer
from headwater.tests.runtime.local.local_application import FailingJob

PIECE = 3
"""Records that are read at once: so few that ranges have several pieces."""

Message = tuple[bytes | None, bytes | None, int]
"""Key, value and timestamp in ms."""


class NoSuchTopicError(HeadwaterError):
    """The topic does not exist."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"Kafka has no topic {topic}")


@dataclass
class Partition:
    """`messages`: offset -> message, in the order of offsets. `open_from`: the first offset of an open transaction."""

    messages: dict[int, Message] = field(default_factory=dict)
    low: int = 0
    high: int = 0
    open_from: int | None = None

    @property
    def stable(self) -> int:
        return self.high if self.open_from is None else self.open_from


@dataclass
class MemoryTopic:
    id: str
    partitions: list[Partition]


class MemoryKafka:
    """A cluster, as far as readers of committed records can tell it from a broker."""

    def __init__(self) -> None:
        self.silent = False
        self.answers: threading.Event | None = None
        """Set while answers come; None: always."""
        self.falls_silent_at = 0
        """The number of the read from which on it does not answer; 0: none."""
        self.reads = 0
        self.unanswered = 0
        """The number of the only question for offsets that is not answered; 0: none."""
        self.topics: dict[str, MemoryTopic] = {}
        self.asked = 0
        self.groups: dict[tuple[str, str], dict[int, int]] = {}

    # What a broker does.

    def create(self, topic: str, partitions: int) -> None:
        self.topics[topic] = MemoryTopic(uuid.uuid4().hex, [Partition() for _ in range(partitions)])

    def delete(self, topic: str) -> None:
        del self.topics[topic]

    def add_partitions(self, topic: str, partitions: int) -> None:
        there = self._topic(topic).partitions
        there += [Partition() for _ in range(partitions - len(there))]

    def produce(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        """Messages without a transaction."""
        to = self._topic(topic).partitions[partition]
        for message in messages:
            to.messages[to.high] = message
            to.high += 1

    def begin(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        """Messages of a transaction that stays open."""
        to = self._topic(topic).partitions[partition]
        to.open_from = to.high
        self.produce(topic, partition, messages)

    def end(self, topic: str, partition: int, *, commit: bool) -> None:
        """End the open transaction. Its marker takes an offset. Aborted messages keep theirs."""
        to = self._topic(topic).partitions[partition]
        assert to.open_from is not None
        if not commit:
            to.messages = {offset: message for offset, message in to.messages.items() if offset < to.open_from}
        to.open_from = None
        to.high += 1

    def produce_in_transaction(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        self.begin(topic, partition, messages)
        self.end(topic, partition, commit=True)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """What retention does."""
        of = self._topic(topic).partitions[partition]
        of.low = before
        of.messages = {offset: message for offset, message in of.messages.items() if offset >= before}

    def lose(self, topic: str, partition: int, after: int) -> None:
        """What an unclean election does."""
        of = self._topic(topic).partitions[partition]
        of.high = after
        of.messages = {offset: message for offset, message in of.messages.items() if offset < after}

    # `KafkaOffsets`.

    def offsets(self, topics: Collection[str]) -> Mapping[str, TopicOffsets]:
        self.asked += 1
        self._answer()
        if self.asked == self.unanswered:
            raise UnavailableError("Kafka does not answer")
        return {
            topic: TopicOffsets(
                (there := self._topic(topic)).id,
                tuple(PartitionEnds(each.low, each.stable, each.high) for each in there.partitions),
            )
            for topic in topics
        }

    def committed(self, group: str, topic: str) -> Mapping[int, int]:
        return self.groups.get((group, topic), {})

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        if self.answers is not None:
            self.answers.wait()
        self.groups[group, topic] = dict(offsets)

    def offsets_for_time(self, topic: str, time: int) -> Sequence[int]:
        return [
            next((offset for offset, (_, _, at) in each.messages.items() if at >= time and offset < each.stable), -1)
            for each in self._topic(topic).partitions
        ]

    # Reading.

    def read(self, within: LogRange, start: int | None, columns: Columns) -> Iterator[Fetched]:
        """See `RangeReader.read`. Columns are those of a schema."""
        assert isinstance(columns, pa.Schema)
        self.reads += 1
        self.silent = self.silent or self.reads == self.falls_silent_at
        self._answer()
        _, _, name, topic_id, *_ = within.token.split(":")
        topic = self._topic(name)
        assert topic.id == topic_id, "another topic of this name"
        partition = topic.partitions[within.partition]
        start = within.start if start is None else start
        assert start >= partition.low, "records are gone"
        found = [(at, each) for at, each in partition.messages.items() if start <= at < within.end]
        for first in range(0, len(found), PIECE):
            piece = found[first : first + PIECE]
            offsets = np.array([offset for offset, _ in piece], np.int64)
            rows = [_row(message) for _, message in piece]
            batch = pa.RecordBatch.from_pylist([{name: row[name] for name in columns.names} for row in rows], columns)
            yield Fetched(batch, offsets, offsets, int(offsets[-1]) + 1)

    def _answer(self) -> None:
        if self.answers is not None:
            self.answers.wait()
        if self.silent:
            raise UnavailableError("Kafka does not answer")

    def _topic(self, name: str) -> MemoryTopic:
        if name not in self.topics:
            raise NoSuchTopicError(name)
        return self.topics[name]


def _row(message: Message) -> dict[str, Any]:
    key, value, timestamp = message
    kind = Kind.TOMBSTONE if value is None else Kind.VALUE
    return {
        "key.key": key,
        "value.value": value,
        "_kind": kind,
        "_timestamp": timestamp,
        "_order": timestamp,
        "_headers": None,
    }


# Tasks that read it.


@dataclass(frozen=True)
class MemoryAccess:
    """A `KafkaAccess` for readers. `serde`: creates a serde by its name."""

    serde: Callable[[PluginRef], Serde]

    def reader(self, log: RangeReader) -> RangeReader:
        return log

    def registry(self, cluster: str) -> None:
        return None

    def deserializer(self, form: PluginRef, spec: PayloadSpec) -> Deserializer:
        return self.serde(form).deserializer(spec)

    def serializer(self, form: PluginRef, spec: PayloadSpec) -> Serializer:
        return self.serde(form).serializer(spec)

    def mirror(self, topic: KafkaTopic, task: str) -> Mirror:
        raise NotImplementedError


class _Job(LocalJob):
    @contextmanager
    def _worker(self) -> Iterator[PlannedWorker]:
        assert self._plan is not None
        plugins = ChosenPlugins(self._plan.plugins)
        log = plugins.log(PluginRef(*self._plan.log), self._plan.places)
        with log.writer() as writer:
            yield PlannedWorker(self._plan, log, writer, plugins.backend, MemoryAccess(plugins.serde))


class _FailingJob(_Job, FailingJob):
    pass


class KafkaCluster(LocalCluster):
    """Clients in this process, whose tasks read from a cluster in memory. `fails`: see `FailingJob`."""

    def __init__(self, threads: int = 1, *, fails: bool = False) -> None:
        super().__init__(threads)
        self._job = _FailingJob if fails else _Job

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        return self._job(part, client, self._expressions)


CLUSTERS: dict[str, MemoryKafka] = {}
"""Name of a `LogWithKafka` -> its cluster."""


class LogWithKafka(EmbeddedLog):
    """An embedded log that also reads ranges of a cluster in memory. `kafka`: the name of the cluster."""

    def __init__(self, path: str, kafka: str) -> None:
        super().__init__(path)
        self._kafka = CLUSTERS[kafka]

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        if within.token.startswith("kafka:"):
            return self._kafka.read(within, start, columns)
        return super().read(within, start, columns)

    def ahead(self, ranges: Iterable[tuple[LogRange, int]]) -> RangeReader:
        return self


@hookimpl
def headwater_register_logs(register: Register) -> None:
    """Register `with_memory_kafka`."""
    strings = {"path": {"type": "string"}, "kafka": {"type": "string"}}
    register("with_memory_kafka", LogWithKafka, {"type": "object", "properties": strings})
