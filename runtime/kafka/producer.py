"""Writes records to a topic in Kafka exactly once: in transactions that also have the position of what was written."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ..ir.topology import KafkaCluster
from .admin import KafkaAdmin, Position, TopicMetadata, open_admin
from .cluster import PATIENCE, Connections
from .errors import (
    FENCED,
    KafkaClusterError,
    KafkaProducerFencedError,
    KafkaRecordTooLargeError,
    KafkaSettingError,
    KafkaTransactionError,
    text_of,
)
from .limits import FRAME_BYTES, Limits, sizes_of
from .reader import HEADERS

PRODUCED = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("headers", HEADERS),
    ]
)
"""Records to write. `timestamp`: ms since 1970. Kafka has none before 1970, and its client takes 0 for the present
time, so all these become 1.
"""

TRANSACTION_DEFAULTS = {"transaction.timeout.ms": 60_000}

_TRIES = 5
_STEP_SECONDS, _PAUSE_SECONDS = 1.0, 0.01
_FULL_QUEUE_SECONDS = 0.1

_BATCH_BYTES = 1_000_000
_PLACE = 0
"""The partition whose committed offset has a position."""

_LOST_CAUSES = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.OFFSET_METADATA_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)
"""Codes that another try would give again."""

_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Codes of records of a transaction that is aborted."""


class TransactionalProducer:
    """The only writer of a name to a topic: whoever opens one of the same name fences the others. Not thread-safe.

    `name`: of the transactional id and of the consumer group with the positions, without the cluster's prefix.
    Positions have numbers from 0: each is the offset of partition 0 in a group of its own (`group_name`), as topics get
    more partitions. Connected by the first call, in the process that makes it.
    """

    def __init__(
        self, cluster: KafkaCluster, name: str, topic: TopicMetadata, limits: Limits, patience: float = PATIENCE
    ) -> None:
        self.cluster = cluster
        self.limits = limits
        self.name = cluster.prefix + name
        self.topic = topic
        self._patience = patience
        self._positions: Mapping[int, Position] | None = None
        self._producer: Producer | None = None
        self._groups: dict[int, Any] = {}
        self._failed: KafkaError | None = None

    @property
    def _admin(self) -> KafkaAdmin:
        return open_admin(self.cluster, self._patience)

    @cached_property
    def _connections(self) -> Connections:
        return Connections(self.cluster)

    def _group(self, number: int) -> Any:
        """A group as transactions name it. It is known without a broker."""
        if number not in self._groups:
            consumer = self._connections.client(Consumer, {"group.id": group_name(self.name, number)})
            try:
                self._groups[number] = consumer.consumer_group_metadata()
            finally:
                consumer.close()
        return self._groups[number]

    @property
    def positions(self) -> Mapping[int, Position]:
        """The committed positions by number. Opens the producer if necessary.

        Kafka forgets them a week after the last commit by default, and with the topic.
        """
        if self._positions is None:
            self.open()
        assert self._positions is not None
        return self._positions

    def open(self) -> Mapping[int, Position]:
        """Fence other producers of this name, end what they left open, and give the committed positions.

        Raises KafkaTopicRecreatedError, KafkaTopicMissingError, KafkaSettingError and the errors of `KafkaAdmin`.
        """
        self.close()
        self._admin.check_topic(self.topic.name, self.topic.id)
        settings = {
            "transactional.id": self.name,
            "enable.idempotence": True,
            "delivery.report.only.error": True,
            "on_delivery": self._hear,
        }
        defaults = {
            "linger.ms": 5,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 200_000,
            **TRANSACTION_DEFAULTS,
            "message.max.bytes": max(1_000, min(self.limits.bytes_, 1_000_000_000)),
            # The client does not divide a batch that is too large for the topic.
            "batch.size": max(1, min(self.limits.bytes_ - FRAME_BYTES, _BATCH_BYTES)),
        }
        self._failed = None
        self._producer = self._connections.client(Producer, settings, defaults)
        try:
            self._call(self._producer.init_transactions)
        except KafkaException as error:
            self.close()
            cause = error.args[0]
            if cause.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
                raise KafkaSettingError(
                    self.cluster.bootstrap_servers, f"transaction.timeout.ms: {text_of(cause)}"
                ) from None
            raise self._error("taking over a transactional id", cause) from None
        try:
            self._positions = self._committed()
        except KafkaClusterError:
            self.close()  # or the next `write` would not compare the positions
            raise
        return self._positions

    def _committed(self) -> dict[int, Position]:
        """The committed positions, up to the first one that there is not."""
        positions: dict[int, Position] = {}
        while True:
            found = self._admin.committed(group_name(self.name, len(positions)), self.topic)
            if _PLACE not in found:
                return positions
            positions[len(positions)] = found[_PLACE]

    def write(self, batches: Sequence[pa.RecordBatch], positions: Mapping[int, Position]) -> None:
        """Write records, and move positions, in one transaction: all of it is visible afterwards, or nothing.

        `batches`: with the columns of `PRODUCED`; without any, only positions are written. `positions`: new positions
        by number; others stay.

        A transaction that fails is repeated, if necessary by a new producer. Then the positions tell whether it was
        committed before. Raises KafkaRecordTooLargeError before the transaction; KafkaProducerFencedError;
        KafkaTransactionError, KafkaUnreachableError and KafkaDeniedError after all tries: if `write` or `open` is
        called again, the positions tell what was committed.
        """
        if not batches and not positions:
            return
        if self._producer is not None and self._has_lost_a_broker():
            self.close()  # it may wait for ever for a coordinator that was restarted, see `_call`
        before = self.positions
        self._check(batches)
        cause: KafkaError | None = None
        for _ in range(_TRIES):
            if self._producer is None:
                found = self.open()
                if batches and positions and all(found.get(place) == positions[place] for place in positions):
                    return
                if found != before:
                    raise KafkaProducerFencedError(
                        self.cluster.bootstrap_servers, self.name, "its positions have moved meanwhile"
                    )
            else:
                self._admin.check_topic(self.topic.name, self.topic.id)
            try:
                self._transaction(batches, positions)
                self._positions = {**before, **positions}
                return
            except KafkaException as error:
                cause = self._recover(error.args[0])
        assert cause is not None
        raise KafkaTransactionError(self.cluster.bootstrap_servers, self.name, text_of(cause))

    def _has_lost_a_broker(self) -> bool:
        """Whether a connection has failed since the last answer."""
        assert self._producer is not None
        try:
            self._producer.poll(0)
        except KafkaException:
            return True
        return self._connections.failed

    def _transaction(self, batches: Sequence[pa.RecordBatch], positions: Mapping[int, Position]) -> None:
        assert self._producer is not None
        self._failed = None
        self._producer.begin_transaction()
        for batch in batches:
            self._produce(batch)
        for number, position in sorted(positions.items()):
            place = TopicPartition(self.topic.name, _PLACE, position.offset, position.metadata)
            self._call(partial(self._producer.send_offsets_to_transaction, [place], self._group(number)))
        self._call(self._producer.commit_transaction)

    def _produce(self, batch: pa.RecordBatch) -> None:
        assert self._producer is not None
        produce, topic = self._producer.produce, self.topic.name
        times = np.maximum(batch["timestamp"].to_numpy(zero_copy_only=False), 1).tolist()
        columns = [batch[name].to_pylist() for name in ("key", "value", "partition")]
        for key, value, partition, timestamp, headers in zip(*columns, times, _headers(batch), strict=True):
            while True:
                try:
                    produce(topic, value, key, partition, timestamp=timestamp, headers=headers)
                    break
                except BufferError:
                    self._producer.poll(_FULL_QUEUE_SECONDS)
        self._producer.poll(0)

    def _call(self, method: Callable[[float], None]) -> None:
        """Call a method that waits. While it does, the client tells nothing of its connections: so in short steps.

        After a restart of the group's coordinator, librdkafka 2.16 may wait for it in one of these calls for ever,
        whatever its timeout. So the call has a thread of its own, which is left behind with its client then.
        """
        assert self._producer is not None
        until = time.monotonic() + self._patience
        while True:
            try:
                if not _returns(method, max(until - time.monotonic(), 0) + 2 * _STEP_SECONDS):
                    self._producer = None
                    unanswered = KafkaError(KafkaError._TIMED_OUT, "the coordinator of a group does not answer")
                    raise self._error("writing records", unanswered)
                self._connections.answered()
                return
            except KafkaException as error:
                assert self._producer is not None
                self._producer.poll(0)
                self._connections.check()
                if not error.args[0].retriable() or time.monotonic() >= until:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def _recover(self, error: KafkaError) -> KafkaError:
        """After a failed transaction, be ready for another try, or raise what another try would give again.

        `error`: of the call that failed. Returns the cause, which may be the error of a record.
        """
        assert self._producer is not None
        errors = [error]
        try:
            self._producer.poll(_FULL_QUEUE_SECONDS)  # errors of records: the call may only say that something is wrong
        except KafkaException as failure:  # a fatal error, which every poll raises
            errors.append(failure.args[0])
        if error.fatal() or (error.retriable() and not error.txn_requires_abort()):
            self.close()  # whether it was committed is unknown: the next one asks
        else:
            try:
                self._call(self._producer.abort_transaction)
            except KafkaException as failure:
                errors.append(failure.args[0])
                self.close()
        cause = self._failed or error
        fenced = [found for found in (*errors, cause) if found.code() in FENCED]
        if fenced:
            self.close()
            raise KafkaProducerFencedError(
                self.cluster.bootstrap_servers,
                self.name,
                f"{text_of(fenced[0])}; or a transaction took longer than transaction.timeout.ms",
            )
        if cause.code() in _LOST_CAUSES:
            raise self._error("writing records", cause)
        if error.retriable():
            raise self._error("writing records", error)
        return cause

    def _error(self, request: str, error: KafkaError) -> KafkaClusterError:
        if error.code() in FENCED:
            return KafkaProducerFencedError(self.cluster.bootstrap_servers, self.name, text_of(error))
        return self._connections.error(f"{request} ({self.name})", error, self.topic.name)

    def _hear(self, error: KafkaError | None, _: Message) -> None:
        """Keep the first record's error."""
        if error is not None and self._failed is None and error.code() not in _PURGED:
            self._failed = error

    def _check(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Raise KafkaRecordTooLargeError, or ValueError for a partition that the topic does not have."""
        limits, first = self.limits.by_setting, 0
        for batch in batches:
            partitions = batch["partition"].to_numpy()
            if len(partitions) and not 0 <= partitions.min() <= partitions.max() < self.topic.partitions:
                raise ValueError(f"topic {self.topic.name} has {self.topic.partitions} partitions: {partitions.max()}")
            sizes = sizes_of(batch)
            for row in np.flatnonzero(sizes > min(limits.values()))[:1].tolist():
                key, size = batch["key"][row].as_py(), int(sizes[row])
                raise KafkaRecordTooLargeError(
                    self.cluster.bootstrap_servers, self.topic.name, first + row, repr(key)[:100], size, limits
                )
            first += len(batch)

    def close(self) -> None:
        """End the producer, and abort its open transaction: it would hide what comes behind it."""
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.abort_transaction(_STEP_SECONDS)
            except KafkaException:
                producer.purge()  # there is none, it is fenced, or no broker answers
            # Its `close` would wait for the brokers without an end. It ends with its last reference.


def group_name(name: str, number: int) -> str:
    """The name of the consumer group with a producer's position of this number."""
    return f"{name}.{number}" if number else name


def _returns(method: Callable[[float], None], seconds: float) -> bool:
    """Call a method of a client in another thread. Whether it returns in time. Raises its errors."""
    errors: list[BaseException] = []

    def call() -> None:
        try:
            method(_STEP_SECONDS)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    return not thread.is_alive()


def _headers(batch: pa.RecordBatch) -> Iterator[list[tuple[str, bytes | None]] | None]:
    """The headers of each record."""
    column = batch["headers"]
    if column.null_count == len(column):
        yield from (None for _ in range(len(column)))
        return
    for headers in column.to_pylist():
        yield headers and [(header["name"], header["value"]) for header in headers]
