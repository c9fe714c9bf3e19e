"""What a driver sees of the partitions that its tasks copy from Kafka: how late they are, and what holds them up."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ..ir.topology import Topic, Topology
from ..log.commit.external_records import EXTERNAL_LANE
from ..progress.committed import Committed
from ..task_id import TaskKey
from .events import Observer
from .service_events import KafkaRetentionNear, KafkaTransactionEnded, KafkaTransactionOpen
from .status import KafkaLag

HELD_SECONDS = 60.0
"""How long a transaction may hold records before it is reported. By default brokers end one after a minute."""

_MOST_ENDS = 1_000
"""The most ends that are kept of a partition. Beyond them, how late it is may be up to this many looks wrong."""


@dataclass
class _Partition:
    """What was seen of a partition. `ends`: those that are not read yet, each with the time when it was seen first.

    `stable`, `since`: the last stable offset, and since when. `told`: since when a transaction is reported. `low`: the
    first offset; `removed`: how many the last removal took. `near`: whether a removal of unread records is reported.
    """

    ends: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_MOST_ENDS))
    stable: int = -1
    since: float = 0.0
    told: float | None = None
    low: int = -1
    removed: int = 0
    near: bool = False
    held: int = 0


class KafkaWatch:
    """Watches the raw topics of an application, from the loop's thread. `seconds`: a monotonic clock.

    Reports transactions of others that hold records for HELD_SECONDS, and retention that comes near to unread records:
    one more removal like the last one would reach them. A partition whose broker sends nothing is found by its reader,
    which tries another consumer.
    """

    def __init__(
        self, topology: Topology, committed: Committed, observer: Observer, seconds: Callable[[], float]
    ) -> None:
        self._application = topology.application
        self._committed = committed
        self._observer = observer
        self._seconds = seconds
        self._sources = [(part.name, topic) for part in topology.subtopologies for topic in part.sources if topic.kafka]
        self._seen: dict[TaskKey, _Partition] = {}

    def look(self) -> None:
        """Note the present offsets, and report what has changed."""
        now, kafka = self._seconds(), self._committed.kafka
        for part, topic in self._sources:
            for partition in range(len(kafka.ends.get(topic.name, ()))):
                task = TaskKey(self._application, part, partition)
                position = self._committed.own.tasks.last_commit(task).positions.get(topic.name, {}).get(EXTERNAL_LANE)
                if position is not None:
                    seen = self._seen.setdefault(task, _Partition())
                    self._look_at_end(seen, topic, partition, position, now)
                    self._look_at_transaction(seen, topic, partition, now)
                    self._look_at_retention(seen, topic, partition, position)

    def lag(self, task: TaskKey) -> KafkaLag | None:
        """How late a task is; None if it copies nothing from Kafka."""
        seen = self._seen.get(task)
        if seen is None:
            return None
        return KafkaLag(round(self._seconds() - seen.ends[0][0], 1) if seen.ends else 0.0, seen.held)

    def _look_at_end(self, seen: _Partition, topic: Topic, partition: int, position: int, now: float) -> None:
        end = self._committed.kafka.end(topic.name, partition)
        while seen.ends and seen.ends[0][1] <= position:
            seen.ends.popleft()
        if end > position and (not seen.ends or seen.ends[-1][1] < end):
            seen.ends.append((now, end))

    def _look_at_transaction(self, seen: _Partition, topic: Topic, partition: int, now: float) -> None:
        kafka = self._committed.kafka
        stable, high = kafka.end(topic.name, partition), kafka.high(topic.name, partition)
        seen.held = high - stable
        if stable != seen.stable or not seen.held:
            if seen.told is not None:
                self._observer.on(KafkaTransactionEnded(self._application, topic.name, partition, now - seen.told))
            seen.stable, seen.since, seen.told = stable, now, None
        elif seen.told is None and now - seen.since >= HELD_SECONDS:
            seen.told = seen.since
            self._observer.on(
                KafkaTransactionOpen(self._application, topic.name, partition, stable, seen.held, now - seen.since)
            )

    def _look_at_retention(self, seen: _Partition, topic: Topic, partition: int, position: int) -> None:
        kafka = self._committed.kafka
        low, end = kafka.low(topic.name, partition), kafka.end(topic.name, partition)
        if low > seen.low >= 0:
            seen.removed = low - seen.low
        seen.low = low
        # What is behind the position is gone already, or stops the copy with an error.
        near = position < end and low <= position < low + seen.removed
        if near and not seen.near:
            unread, removed = end - position, seen.removed
            event = KafkaRetentionNear(self._application, topic.name, partition, low, position, unread, removed)
            self._observer.on(event)
        seen.near = near
