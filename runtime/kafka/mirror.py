"""A task's records in a topic in Kafka: each once, by a position that is part of Kafka's transactions."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import HeadwaterError
from ..ir.topology import KafkaCluster
from ..records.arrays import Int64s
from ..records.headers import kafka_headers
from .admin import Position, TopicMetadata, open_admin
from .cluster import PATIENCE, once_a_process
from .errors import KafkaProducerFencedError
from .producer import PRODUCED, TransactionalProducer
from .reader import HEADERS

_METADATA_SECONDS = 30.0
"""How long the number of partitions is taken as known."""

_PLACE = 0
"""The partition whose committed offset has the position."""

Positions = Mapping[int, int]
"""Lane -> position in the task's partition of its topic."""


@dataclass(frozen=True)
class Outgoing:
    """Records for Kafka. `keys`, `values`: binary, null for null keys and tombstones. `headers`: JSON, or None.

    `partitions`: of each record in Kafka. `timestamps`: ms.
    """

    keys: pa.BinaryArray
    values: pa.BinaryArray
    partitions: Int64s
    timestamps: Int64s
    headers: pa.StringArray | None = None

    def __len__(self) -> int:
        return len(self.partitions)

    def take(self, index: Int64s) -> Outgoing:
        """The records at these indexes."""
        chosen = pa.array(index)
        return Outgoing(
            self.keys.take(chosen),
            self.values.take(chosen),
            self.partitions[index],
            self.timestamps[index],
            None if self.headers is None else self.headers.take(chosen),
        )


class OtherMirrorError(HeadwaterError):
    """Kafka has the position of another run of the application: `group` has it."""

    def __init__(self, topic: str, group: str) -> None:
        super().__init__(
            f"records of {topic} in Kafka were written before a full refresh of the application, or from another log: "
            "records that are written now would follow them",
            f"to let them follow, delete the consumer groups of its tasks, such as {group} (kafka-consumer-groups "
            "--delete); "
            "or write to another topic, or give each target another `prefix`",
        )
        self.group = group


class TransactionLostError(HeadwaterError):
    """Another producer has ended the transaction: `KafkaMirror.position` says how far Kafka is."""


class KafkaMirror:
    """Writes the records of one task to a topic in Kafka. Not thread-safe.

    `name`: the transactional id, and the consumer group with the position, without the cluster's prefix. `incarnation`:
    of the application.

    Kafka forgets the positions of a group after `offsets.retention.minutes` without a commit. Then the position in the
    log counts: it lacks at most the last transaction before a crash.
    """

    def __init__(self, cluster: KafkaCluster, topic: str, name: str, incarnation: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._name = name
        self._incarnation = incarnation
        self._admin = open_admin(cluster, PATIENCE)
        self._looked = float("-inf")
        self._there: TopicMetadata | None = None
        self._end = 0
        self._producer: TransactionalProducer | None = None

    @property
    def partitions(self) -> int:
        """The number of partitions of the topic in Kafka."""
        return self._topic_now().partitions

    def position(self) -> Positions:
        """How far Kafka has the records of the task; empty if it does not know.

        The first call ends the transaction of an earlier process on the same task. Raises OtherMirrorError, and the
        errors of `TransactionalProducer.open`.
        """
        found = self._opened().positions.get(_PLACE)
        if found is None or not found.metadata:
            return {}
        said: dict[str, Any] = json.loads(found.metadata)
        if said["incarnation"] != self._incarnation:
            raise OtherMirrorError(self._topic, self._cluster.prefix + self._name)
        return dict(enumerate(said["positions"]))

    def produce(self, records: Outgoing, positions: Positions) -> None:
        """Produce records in their order, with the task's new position.

        Raises TransactionLostError, and the errors of `TransactionalProducer.write`.
        """
        lanes = [positions.get(lane, 0) for lane in range(max(positions, default=-1) + 1)]
        said = json.dumps({"incarnation": self._incarnation, "positions": lanes}, separators=(",", ":"))
        try:
            self._opened().write([_batch(records)], {_PLACE: Position(self._end, said)})
        except KafkaProducerFencedError as error:
            self._producer = None
            raise TransactionLostError(error.message, error.hint) from error

    def _opened(self) -> TransactionalProducer:
        topic = self._topic_now()
        if self._producer is None or self._producer.topic != topic:
            if self._producer is not None:
                self._producer.close()
            self._producer = TransactionalProducer(self._cluster, self._name, topic)
        return self._producer

    def _topic_now(self) -> TopicMetadata:
        if self._there is None or time.monotonic() >= self._looked + _METADATA_SECONDS:
            topic = self._admin.topic(self._topic)
            # The offset that goes with the position is only shown by tools, as lag: it is the end, not long ago.
            self._end = self._admin.ends([topic])[self._topic][_PLACE].high
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


@once_a_process
def open_mirror(cluster: KafkaCluster, topic: str, name: str, incarnation: str) -> KafkaMirror:
    """The mirror of this process with this name. So there are as many as the process has ever had tasks."""
    return KafkaMirror(cluster, topic, name, incarnation)
