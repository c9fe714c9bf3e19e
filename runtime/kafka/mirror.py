"""A task's records in a topic in Kafka: each once, by a position that is part of Kafka's transactions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ..ir.topology import KafkaCluster
from ..records.headers import kafka_headers
from .admin import Position, TopicMetadata, open_admin
from .cluster import PATIENCE, once_a_process
from .errors import KafkaProducerFencedError, KafkaTopicRecreatedError
from .limits import Limits
from .mirror_position import MirrorPosition
from .outgoing import OtherMirrorError, Outgoing, Positions, Standing, TransactionLostError
from .producer import PRODUCED, TransactionalProducer
from .reader import HEADERS, KafkaRange, KafkaReader

_METADATA_SECONDS = 30.0
"""How long the number of partitions, and what the topic takes, are taken as known."""

_IDLE_SECONDS = 3_600.0
"""After which an unused mirror is closed: its task may have moved. A new one takes a tenth of a second."""


class KafkaMirror:
    """Writes the records of one task to a topic in Kafka. Not thread-safe.

    `name`: the transactional id, and the consumer group with the position, without the cluster's prefix. `log`: the id
    of the log. `topic_id`: of the topic at the start of the application; empty if unknown.

    A position belongs to a result: the incarnation of the application that writes the topic in the log. So it stays if
    `kafka-out` itself begins again, and a rebuilt result is noticed.

    Kafka forgets the positions of a group after `offsets.retention.minutes` without a commit. Then the position in the
    log counts: it lacks at most the last transaction before a crash.
    """

    def __init__(self, cluster: KafkaCluster, topic: str, name: str, log: str, topic_id: str = "") -> None:
        self._cluster = cluster
        self._topic = topic
        self._name = name
        self._log = log
        self._topic_id = topic_id
        self._admin = open_admin(cluster, PATIENCE)
        self._looked = float("-inf")
        self._there: TopicMetadata | None = None
        self._limits = Limits(0)
        self._end = 0
        self._producer: TransactionalProducer | None = None

    @property
    def partitions(self) -> int:
        """The number of partitions of the topic in Kafka."""
        return self._topic_now().partitions

    def standing(self, result: str, *, afresh: bool = False) -> Standing:
        """How far Kafka has the records of the task, of a result. `afresh`: positions may have been removed meanwhile.

        The first call ends the transaction of an earlier process on the same task. Raises OtherMirrorError, and the
        errors of `TransactionalProducer.open`.
        """
        producer = self._opened()
        found = producer.open() if afresh else producer.positions
        if 0 not in found or not found[0].metadata:
            return Standing()
        pieces = [found[number].metadata for number in range(MirrorPosition.count(found[0].metadata))]
        position = MirrorPosition.of(pieces)
        if position.log != self._log:
            raise OtherMirrorError(self._topic, self._cluster.prefix + self._name)
        return Standing(position.positions) if position.result == result else Standing(replaces=position.result)

    def refused(self, records: Outgoing) -> dict[int, str]:
        """Row -> why the topic does not take the record."""
        self._topic_now()
        return dict(self._limits.refused(_batch(records)))

    def produce(self, records: Outgoing, result: str, positions: Positions) -> None:
        """Produce records in their order, with the task's new position in a result.

        Raises TransactionLostError, and the errors of `TransactionalProducer.write`.
        """
        producer = self._opened()
        pieces = MirrorPosition(self._log, result, positions).pieces()
        try:
            producer.write([_batch(records)], {number: Position(self._end, text) for number, text in enumerate(pieces)})
        except KafkaProducerFencedError as error:
            self._producer = None
            raise TransactionLostError(error.message, error.hint) from error

    def contents(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """All committed records of the topic, partition by partition, with the columns of `RECORDS`.

        Transactions of other tasks may be open, and hide records behind them: reading waits for their ends.
        """
        topic = self._topic_now()
        reader = KafkaReader(self._cluster, self._name)  # of its own: consumers that stay open have threads
        try:
            for partition, ends in enumerate(self._admin.ends([topic])[self._topic]):
                for batch in reader.read(KafkaRange(topic.name, topic.id, partition, ends.low, ends.high)):
                    yield partition, batch
        finally:
            reader.close()

    def close(self) -> None:
        """End the producer. The next call opens another one."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _opened(self) -> TransactionalProducer:
        topic = self._topic_now()
        if self._producer is None or (self._producer.topic, self._producer.limits) != (topic, self._limits):
            self.close()
            self._producer = TransactionalProducer(self._cluster, self._name, topic, self._limits)
        return self._producer

    def _topic_now(self) -> TopicMetadata:
        if self._there is None or time.monotonic() >= self._looked + _METADATA_SECONDS:
            topic = self._admin.topic(self._topic)
            if self._topic_id and topic.id != self._topic_id:
                raise KafkaTopicRecreatedError(self._cluster.bootstrap_servers, self._topic, self._topic_id, topic.id)
            # The offset that goes with the position is only shown by tools, as lag: it is the end, not long ago.
            self._end = self._admin.ends([topic])[self._topic][0].high
            self._limits = Limits.of(self._admin.topic_settings(self._topic), self._cluster.client)
            self._there, self._looked = topic, time.monotonic()
        return self._there


def _batch(records: Outgoing) -> pa.RecordBatch:
    """The records with the columns of `PRODUCED`."""
    count = len(records)
    headers = pa.nulls(count, HEADERS)
    if records.headers is not None:
        pairs = [
            None if text is None else [{"name": name, "value": value} for name, value in kafka_headers(text)]
            for text in records.headers.to_pylist()
        ]
        headers = pa.array(pairs, HEADERS)
    partitions, times = pa.array(records.partitions.astype(np.int32)), pa.array(records.timestamps)
    columns = [records.keys, records.values, partitions, times, headers]
    return pa.RecordBatch.from_arrays(columns, schema=PRODUCED)


class Mirrors:
    """The mirrors of this process for a cluster. Thread-safe. Those of tasks that are elsewhere by now are closed."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._open: dict[tuple[str, ...], tuple[KafkaMirror, float]] = {}

    def mirror(self, topic: str, name: str, log: str, topic_id: str, now: float) -> KafkaMirror:
        """The mirror with this name. It stays open for the next epochs. `now`: seconds of a monotonic clock."""
        place = (topic, name, log, topic_id)
        with self._lock:
            found, _ = self._open.pop(place, (None, 0.0))
            idle = [at for at, (_, used) in self._open.items() if used <= now - _IDLE_SECONDS]
            unused = [self._open.pop(at)[0] for at in idle]
            mirror = found or KafkaMirror(self._cluster, topic, name, log, topic_id)
            self._open[place] = mirror, now
        for each in unused:
            each.close()
        return mirror


@once_a_process
def mirrors_of(cluster: KafkaCluster) -> Mirrors:
    """The mirrors of this process for a cluster."""
    return Mirrors(cluster)
