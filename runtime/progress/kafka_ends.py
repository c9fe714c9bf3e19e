"""Topics in Kafka as planners see them: their ends, as a driver asks the clusters for them.

A driver polls the offsets of its own raw topics. Everyone else reads the ends in its commits, see `Ends`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import Any, Protocol

from ...errors import HeadwaterError, UnavailableError
from ..ir.topology import KafkaTopic, Subtopology, Topic, Topology, raw_topic
from ..kafka.polling import ClusterPoll
from ..kafka.sources import Clusters, PartitionEnds, token_of
from ..log.commit.external_records import EXTERNAL_LANE
from ..log.commit.records import Ends
from ..log.ranges import LogRange
from ..log.state import LogState


class TopicEnds(Protocol):
    """How far topics go, and where their records are: all that plans need of a topic's writer. See `LogState`.

    Results that belong together are read under `lock`.
    """

    @property
    def lock(self) -> AbstractContextManager[Any, Any]:
        """Held while several results of the same moment are read."""
        ...

    def end(self, topic: str, partition: int, /) -> int:
        """See `LogState.end`."""
        ...

    def lane_ends(self, topic: str, partition: int, /) -> Mapping[int, int]:
        """See `LogState.lane_ends`."""
        ...

    def ranges(self, topic: str, partition: int, start: int = 0, /) -> tuple[LogRange, ...]:
        """See `LogState.ranges`."""
        ...

    def lane_ranges(
        self, topic: str, partition: int, lane: int, start: int = 0, records: int | None = None, /
    ) -> tuple[LogRange, ...]:
        """See `LogState.lane_ranges`."""
        ...


# The partitions of raw topics, which no file declares.


def resolved(topologies: Iterable[Topology], clusters: Clusters) -> tuple[Topology, ...]:
    """The topologies with the partitions and ids that their raw topics have in Kafka now.

    Raises the errors of `KafkaOffsets`.
    """
    return tuple(_with_raw(topology, partial(_ask, clusters)) for topology in topologies)


def resolved_topic(topic: Topic, clusters: Clusters) -> Topic:
    """A topic with the partitions and the id that it has in Kafka now. Raises the errors of `KafkaOffsets`."""
    return _with_found(topic, partial(_ask, clusters))


def _ask(clusters: Clusters, kafka: KafkaTopic) -> tuple[int, str]:
    there = clusters[kafka.cluster].offsets([kafka.name])[kafka.name]
    return len(there.partitions), there.id


def as_committed(topology: Topology, state: LogState) -> Topology:
    """The topology with the partitions and ids that its raw topics had at the last start. `state`: of its application.

    Without a start, they have no partitions.
    """
    known = state.topology.topics

    def look(kafka: KafkaTopic) -> tuple[int, str]:
        used = known.get(raw_topic(kafka.name, kafka.cluster).name)
        return (0, "") if used is None else (used.partitions, used.kafka_id or "")

    return _with_raw(topology, look)


def with_partitions(topology: Topology, partitions: Mapping[str, int]) -> Topology:
    """The topology with other numbers of partitions of some raw topics."""

    def look(kafka: KafkaTopic) -> tuple[int, str]:
        raw = raw_topic(kafka.name, kafka.cluster).name
        return partitions.get(raw, known[raw].partitions), kafka.id

    known = {topic.name: topic for topic in topology.read}
    return _with_raw(topology, look)


def _with_found(topic: Topic, find: Callable[[KafkaTopic], tuple[int, str]]) -> Topic:
    if topic.kafka is None:
        return topic
    partitions, topic_id = find(topic.kafka)
    return replace(topic, partitions=partitions, kafka=replace(topic.kafka, id=topic_id))


def _with_raw(topology: Topology, find: Callable[[KafkaTopic], tuple[int, str]]) -> Topology:
    def of_part(part: Subtopology) -> Subtopology:
        if all(topic.kafka is None for topic in part.sources):
            return part
        sources = tuple(_with_found(topic, find) for topic in part.sources)
        return replace(part, sources=sources, partitions=max(topic.partitions for topic in sources))

    return replace(topology, subtopologies=tuple(map(of_part, topology.subtopologies)))


class KafkaGroupUnknownError(HeadwaterError):
    """A copy cannot begin at a consumer group: it has no offset in a topic. `group`: its name in Kafka."""

    def __init__(self, group: str, topic: KafkaTopic) -> None:
        super().__init__(
            f"consumer group {group} has no offset in topic {topic.name} of Kafka cluster {topic.cluster}, so it does "
            "not say where the copy begins",
            "correct `group` under `start` of the topic: that of a Kafka Streams application is its `application.id`. "
            "Kafka forgets offsets that nobody has committed for `offsets.retention.minutes`: then write a time",
        )
        self.group = group


class KafkaTopicReplacedError(HeadwaterError):
    """A topic in Kafka was deleted and created again: its offsets count other records now. `topic`: in Kafka."""

    def __init__(self, topic: KafkaTopic, now: str) -> None:
        super().__init__(
            f"topic {topic.name} of Kafka cluster {topic.cluster} was deleted and created again while it was read (its "
            f"id was {topic.id}, is {now}): its offsets count other records now",
            "what was copied stays as it is; run again: the next start says how to go on with the new topic",
        )
        self.topic = topic
        self.now = now


# The poll.

_UNKNOWN = 2**63


class Outages(Protocol):
    """Where outages of services are reported. `service`: whose."""

    def begin(self, service: object, cause: str) -> None:
        """The service does not answer."""
        ...

    def end(self, service: object) -> None:
        """The service has answered."""
        ...


class RawEnds(Protocol):
    """The ends of raw topics, which have one lane. Positions are offsets."""

    @property
    def ends(self) -> Ends:
        """Topic -> the last stable offset of each partition."""
        ...

    def end(self, topic: str, partition: int, /) -> int:
        """The last stable offset of a partition; 0 if it is unknown."""
        ends = self.ends.get(topic, ())
        return ends[partition] if partition < len(ends) else 0

    def lane_ends(self, topic: str, partition: int, /) -> dict[int, int]:
        """The end of the only lane."""
        return {EXTERNAL_LANE: self.end(topic, partition)}


class KafkaEnds(RawEnds):
    """The ends of an application's raw topics, as of the last answers of their clusters. `topics`: raw ones.

    Partitions beyond those of a topic are ignored: the next claim has them (`added`). `number`: changes with the
    ends. `seconds`: a monotonic clock. One thread polls; others may read meanwhile. `outages`: where a cluster is
    reported that does not answer, while its last answer counts; None: it is an error.
    """

    def __init__(
        self, topics: Iterable[Topic], clusters: Clusters, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._topics = {topic.name: (topic.partitions, topic.kafka) for topic in topics if topic.kafka is not None}
        self._clusters = clusters
        names: dict[str, list[str]] = {}
        for _, kafka in self._topics.values():
            names.setdefault(kafka.cluster, []).append(kafka.name)
        self._polls = {name: ClusterPoll(clusters[name], topics, seconds) for name, topics in names.items()}
        self._offsets: dict[str, tuple[PartitionEnds, ...]] = {}
        self._ends: Ends = {}
        self.lock = RLock()
        self.number = 0
        self.outages: Outages | None = None

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    @property
    def ends(self) -> Ends:
        """See `Ends`. Another object after each change."""
        return self._ends

    @property
    def questions(self) -> list[Future[Any]]:
        """The open questions. Once one of them is done, `poll` takes its answer."""
        return [poll.question for poll in self._polls.values() if poll.question is not None]

    def poll(self) -> None:
        """Take the answers that have come, and ask the clusters where it is due. Waits only for the first answers.

        Raises KafkaTopicReplacedError and the errors of `KafkaOffsets`. Nothing has changed then.
        """
        while True:
            for name, poll in self._polls.items():
                self._advance(name, poll)
            first = [poll.question for poll in self._polls.values() if not poll.offsets and poll.question is not None]
            if not first:
                return
            wait(first)

    def is_since(self, moment: float) -> bool:
        """Whether all ends are of a later moment. Clusters with older ones are asked soon.

        A cluster that does not answer has no others.
        """
        older = [poll for poll in self._polls.values() if poll.as_of < moment and not poll.silent]
        for poll in older:
            poll.soon()
        return not older

    def _advance(self, cluster: str, poll: ClusterPoll) -> None:
        try:
            if not poll.advance():
                return
        except UnavailableError as error:
            if self.outages is None or not poll.offsets:
                raise
            self.outages.begin(cluster, error.message)
            return
        if self.outages is not None:
            self.outages.end(cluster)
        answers: dict[str, tuple[PartitionEnds, ...]] = {}
        for name, (_, kafka) in self._topics.items():
            if kafka.cluster == cluster:
                there = poll.offsets[kafka.name]
                if kafka.id and there.id != kafka.id:
                    raise KafkaTopicReplacedError(kafka, there.id)
                answers[name] = there.partitions
        ends = {
            name: tuple(partition.stable for partition in partitions[: self._topics[name][0]])
            for name, partitions in answers.items()
        }
        with self.lock:
            self._offsets = {**self._offsets, **answers}
            if ends.items() - self._ends.items():
                self._ends = {**self._ends, **ends}
                self.number += 1

    @property
    def added(self) -> dict[str, int]:
        """Topics with more partitions in Kafka than in the topology -> the number of partitions in Kafka."""
        return {name: len(there) for name, there in self._offsets.items() if len(there) > self._topics[name][0]}

    def low(self, topic: str, partition: int) -> int:
        """The offset of the first record of a partition: earlier ones are gone."""
        return self._of(topic, partition).low

    def high(self, topic: str, partition: int) -> int:
        """The offset behind the last record of a partition, also of open transactions."""
        return self._of(topic, partition).high

    def since(self, topic: str, time: int) -> list[int]:
        """For each partition, the offset of the first record with a timestamp of `time` (ms) or later, else its end.

        Raises the errors of `KafkaOffsets`.
        """
        partitions, kafka = self._topics[topic]
        answers = self._clusters[kafka.cluster].offsets_for_time(kafka.name, time)[:partitions]
        ends = self.ends[topic]
        # A record of an open transaction may be found too. It is behind the end.
        return [end if offset < 0 else min(offset, end) for offset, end in zip(answers, ends, strict=True)]

    def of_group(self, topic: str, group: str) -> list[int]:
        """For each partition, the committed offset of a consumer group; its first record where the group has none.

        Raises KafkaGroupUnknownError if it has none at all, and the errors of `KafkaOffsets`.
        """
        partitions, kafka = self._topics[topic]
        committed = self._clusters[kafka.cluster].committed(group, kafka.name)
        if not committed:
            raise KafkaGroupUnknownError(group, kafka)
        return [committed.get(partition, self.low(topic, partition)) for partition in range(partitions)]

    def ranges(self, topic: str, partition: int, start: int = 0, /) -> tuple[LogRange, ...]:
        """The only range of a partition, see `lane_ranges`."""
        return self.lane_ranges(topic, partition, EXTERNAL_LANE, start)

    def lane_ranges(
        self, topic: str, partition: int, lane: int, start: int = 0, _records: int | None = None, /
    ) -> tuple[LogRange, ...]:
        """One range from `start`, or the first record, to the end; empty without positions in between."""
        with self.lock:
            end, kafka = self.end(topic, partition), self._topics[topic][1]
            start = max(start, self.low(topic, partition) if end else 0)
        if start >= end:
            return ()
        numbers = (partition, lane, start, end, start, end, end - start, 0, -_UNKNOWN, _UNKNOWN - 1)
        return (LogRange(topic, *numbers, token_of(kafka)),)

    def _of(self, topic: str, partition: int) -> PartitionEnds:
        return self._offsets[topic][partition]


class CommittedEnds(RawEnds):
    """The ends of raw topics as an application has committed them. It does not say where their records are.

    `state`: of the application.
    """

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.lock = state.lock

    @property
    def ends(self) -> Ends:
        """See `Ends`."""
        return self._state.ends

    def ranges(self, *_: object) -> tuple[LogRange, ...]:
        """Always empty."""
        return ()

    def lane_ranges(self, *_: object) -> tuple[LogRange, ...]:
        """Always empty."""
        return ()
