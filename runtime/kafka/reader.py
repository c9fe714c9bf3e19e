"""Reads committed records of partitions in Kafka, from an offset up to another one."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from ..ir.topology import KafkaCluster
from .admin import KafkaAdmin, open_admin
from .cluster import PATIENCE as ADMIN_PATIENCE
from .cluster import Connections, once_a_process
from .errors import MISSING, KafkaOffsetBeyondEndError, KafkaRecordsRemovedError, KafkaStalledError

PATIENCE = 60.0
"""The seconds in which something must come. Brokers answer in milliseconds; an election of leaders takes seconds."""

HEADERS = pa.list_(pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())]))

RECORDS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("timestamp_type", pa.int8(), nullable=False),
        pa.field("headers", HEADERS),
    ]
)
"""Records as they are in Kafka. `key`, `value`: null and empty are two things. `timestamp`: ms since 1970, -1 if the
record has none; `timestamp_type`: 1 if its producer has set it, 2 if the broker has, 0 if there is none. `headers`: in
their order, several may have one name; null if there are none.
"""

_PIECE = 1_000
"""Records of a piece. More at once are not faster."""

_WAIT_SECONDS = 0.1
_LOOK_SECONDS = 1.0
_IDLE_CONSUMERS = 32
"""Each has some threads, and asks its broker twice a second for new records."""

_SETTINGS = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
}
_DEFAULTS = {
    "check.crcs": True,
    # Of each consumer: many are open at once, and the default is 64 MB.
    "queued.max.messages.kbytes": 4_096,
    # After which a full queue is looked at again. The default, a second, leaves a small one empty most of the time.
    "fetch.queue.backoff.ms": 10,
}


@dataclass(frozen=True)
class KafkaRange:
    """Offsets of a partition from `start` up to, not including, `end`, of the topic with this id.

    The end is at most the last stable offset (`PartitionEnds.stable`), so that all of them can be read. Offsets may
    have no record: there are those of transaction markers, aborted and compacted records. `headers`: whether they are
    wanted; else they are null.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    headers: bool = True

    @property
    def place(self) -> tuple[str, str, int]:
        """The partition, in this incarnation of its topic."""
        return self.topic, self.topic_id, self.partition


class KafkaReader:
    """Reads ranges. Thread-safe. Connected by the first read, in the process that reads.

    Consumers stay open: a range that begins where one has ended continues with the records that came meanwhile.
    `group`: the consumer group that brokers see, without the cluster's prefix. Nothing is committed for it.
    """

    def __init__(self, cluster: KafkaCluster, group: str, patience: float = PATIENCE) -> None:
        self.cluster = cluster
        self.group = group
        self._patience = patience
        self._lock = threading.Lock()
        self._idle: list[_Stream] = []
        self._process = os.getpid()

    def __reduce__(self) -> tuple[type[KafkaReader], tuple[KafkaCluster, str, float]]:
        """Without connections: another process makes its own."""
        return type(self), (self.cluster, self.group, self._patience)

    @property
    def _admin(self) -> KafkaAdmin:
        return open_admin(self.cluster, ADMIN_PATIENCE)

    def read(self, wanted: KafkaRange) -> Iterator[pa.RecordBatch]:
        """The records of a range, in pieces with the columns of `RECORDS`. Reads lazily.

        Ends when the whole range was read, with or without a record at its end. Before the last piece, the topic's id
        is compared again: so no record of a topic that was created meanwhile passes for one of this range.

        Raises KafkaRecordsRemovedError, KafkaOffsetBeyondEndError, KafkaTopicRecreatedError, KafkaTopicMissingError,
        KafkaStalledError if nothing comes for `patience` seconds, and the errors of `KafkaAdmin`.
        """
        if wanted.start >= wanted.end:
            return
        stream = self._take(wanted)
        usable = False
        try:
            if not stream.continues(wanted):
                self._admin.check_topic(wanted.topic, wanted.topic_id)
                stream.begin(wanted)
            yield from self._pieces(stream, wanted)
            usable = True
        except GeneratorExit:
            usable = True
            raise
        finally:
            self._give_back(stream, usable)

    def _pieces(self, stream: _Stream, wanted: KafkaRange) -> Iterator[pa.RecordBatch]:
        progress = looked = time.monotonic()
        while True:
            before = stream.position
            messages = stream.next(wanted.end)
            for error in stream.errors():
                self._handle(error, stream, wanted)
            ended = stream.position >= wanted.end
            if ended:
                self._admin.check_topic(wanted.topic, wanted.topic_id)
            if messages:
                yield batch_of(messages, headers=wanted.headers)
            if ended:
                return
            now = time.monotonic()
            if stream.position != before:
                progress = looked = now
            elif now - looked >= _LOOK_SECONDS:
                looked = now
                stream.connections.check()
                self._admin.check_topic(wanted.topic, wanted.topic_id)
                if now - progress >= self._patience:
                    raise self._stalled(stream, wanted)

    def _handle(self, error: KafkaError, stream: _Stream, wanted: KafkaRange) -> None:
        """Raise the error, unless it passes or is not about reading."""
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED or error.retriable():
            return
        if error.code() in MISSING or error.code() == KafkaError._AUTO_OFFSET_RESET:
            topic = self._admin.check_topic(wanted.topic, wanted.topic_id)
            if error.code() in MISSING:
                return
            ends = self._admin.ends([topic])[topic.name][wanted.partition]
            place = (self.cluster.bootstrap_servers, wanted.topic, wanted.partition, stream.position, wanted.end)
            if ends.low > stream.position:
                raise KafkaRecordsRemovedError(*place, ends.low)
            if ends.high < stream.position:
                raise KafkaOffsetBeyondEndError(*place, ends.high)
        elif error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return
        raise stream.connections.error(f"reading topic {wanted.topic}", error, wanted.topic)

    def _stalled(self, stream: _Stream, wanted: KafkaRange) -> KafkaStalledError:
        ends = self._admin.ends([self._admin.topic(wanted.topic)])[wanted.topic][wanted.partition]
        if ends.stable < wanted.end and ends.held:
            why = f"an open transaction holds what is there from offset {ends.stable} on"
        elif ends.stable < wanted.end:
            why = f"the partition ends at {ends.stable}"
        else:
            why = f"the partition goes on up to {ends.stable}, but its broker sends nothing"
        return KafkaStalledError(
            self.cluster.bootstrap_servers,
            wanted.topic,
            wanted.partition,
            wanted.start,
            wanted.end,
            stream.position,
            self._patience,
            why,
        )

    def _take(self, wanted: KafkaRange) -> _Stream:
        """The stream that stands at the start of a range, or a new one, for nobody else.

        Never one that stands elsewhere: its broker may be waiting for new records there, and answers nothing meanwhile.
        """
        with self._lock:
            for stream in self._idle:
                if stream.continues(wanted):
                    self._idle.remove(stream)
                    return stream
        return _Stream(self.cluster, self.cluster.prefix + self.group)

    def _give_back(self, stream: _Stream, usable: bool) -> None:
        superfluous = stream
        if usable:
            with self._lock:
                self._idle.append(stream)
                if len(self._idle) <= _IDLE_CONSUMERS:
                    return
                superfluous = self._idle.pop(0)
        superfluous.close()

    def close(self) -> None:
        """Close all consumers that are not reading. In a forked process nothing: they are its parent's."""
        with self._lock:
            idle, self._idle = self._idle, []
        if self._process == os.getpid():
            for stream in idle:
                stream.close()


@once_a_process
def open_reader(cluster: KafkaCluster, group: str) -> KafkaReader:
    """The reader of this process for a cluster and group, which closes its consumers when the process ends."""
    reader = KafkaReader(cluster, group)
    atexit.register(reader.close)
    return reader


class _Stream:
    """A consumer at a position of one partition. Records after the end of a range wait for the next one."""

    def __init__(self, cluster: KafkaCluster, group: str) -> None:
        self.connections = Connections(cluster)
        self._consumer = self.connections.client(Consumer, {**_SETTINGS, "group.id": group}, _DEFAULTS)
        self._place: tuple[str, str, int] | None = None
        self._waiting: list[Message] = []
        self._errors: list[KafkaError] = []
        self._seen = 0
        """All records before this offset have come; those that were not given are waiting."""
        self._given = 0
        """The offset after the last record that was given."""

    @property
    def position(self) -> int:
        """All records before this offset were given."""
        return _offset(self._waiting[0]) if self._waiting else self._seen

    def continues(self, wanted: KafkaRange) -> bool:
        """Whether the range begins where this stream stands."""
        return self._place == wanted.place and self._given <= wanted.start <= self.position

    def begin(self, wanted: KafkaRange) -> None:
        """Go to the start of a range."""
        self._place = wanted.place
        self._waiting.clear()
        self._errors.clear()
        self._seen = self._given = wanted.start
        self._consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.start)])

    def next(self, end: int) -> list[Message]:
        """The next records before an offset; none if none came yet."""
        if not self._waiting and self._seen < end:
            self._receive(min(_PIECE, end - self._seen))
        messages = self._before(end)
        if messages:
            self._given = _offset(messages[-1]) + 1
        return messages

    def _before(self, end: int) -> list[Message]:
        """Take those that are waiting with an offset before this one."""
        if self._waiting and _offset(self._waiting[-1]) < end:
            messages, self._waiting = self._waiting, []
            return messages
        count = next((n for n, message in enumerate(self._waiting) if _offset(message) >= end), 0)
        messages, self._waiting = self._waiting[:count], self._waiting[count:]
        return messages

    def _receive(self, most: int) -> None:
        """Take what has come, or wait for the next: asked for several, the client would wait for all of them."""
        received = self._consumer.consume(most, 0.0)
        if not received:
            if self._pass_holes():
                return
            received = self._consumer.consume(1, _WAIT_SECONDS)
        if any(message.error() is not None for message in received):
            self._take_apart(received)
        else:
            self._waiting += received
        if self._waiting:
            self._seen = max(self._seen, _offset(self._waiting[-1]) + 1)
        elif not received:
            self._pass_holes()

    def _take_apart(self, received: Sequence[Message]) -> None:
        """Take messages of which some are errors."""
        for message in received:
            error = message.error()
            if error is None:
                self._waiting.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                # Behind markers and aborted records, unlike the last record.
                self._seen = max(self._seen, _offset(message))
            else:
                self._errors.append(error)

    def _pass_holes(self) -> bool:
        """Whether the client has passed offsets without records."""
        assert self._place is not None
        topic, _, partition = self._place
        (place,) = self._consumer.position([TopicPartition(topic, partition)])
        before, self._seen = self._seen, max(self._seen, place.offset)
        return self._seen > before

    def errors(self) -> list[KafkaError]:
        """The errors that have come, each once."""
        errors, self._errors = self._errors, []
        return errors

    def close(self) -> None:
        self._consumer.close()


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def batch_of(messages: Sequence[Message], *, headers: bool = True) -> pa.RecordBatch:
    """Messages as columns, see `RECORDS`. `headers`: whether they are wanted."""
    times = np.array([message.timestamp() for message in messages], np.int64)
    columns = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.array([message.offset() for message in messages], pa.int64()),
        # Without a timestamp, librdkafka gives 0 and a type.
        pa.array(np.where(times[:, 0] == 0, -1, times[:, 1])),
        pa.array(times[:, 0].astype(np.int8)),
        _headers([message.headers() for message in messages] if headers else [None] * len(messages)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORDS)


def _headers(headers: Sequence[Any]) -> pa.Array:
    if not any(headers):
        return pa.nulls(len(headers), HEADERS)
    flat = [header for of_one in headers for header in of_one or ()]
    counts = np.array([0, *(len(of_one or ()) for of_one in headers)])
    pairs = pa.StructArray.from_arrays(
        [pa.array([name for name, _ in flat], pa.string()), pa.array([value for _, value in flat], pa.binary())],
        fields=list(HEADERS.value_type),
    )
    absent = pa.array([not of_one for of_one in headers])
    return pa.ListArray.from_arrays(pa.array(np.cumsum(counts), pa.int32()), pairs, type=HEADERS, mask=absent)
