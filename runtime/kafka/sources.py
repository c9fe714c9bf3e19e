"""Offsets of topics in Kafka, as planners ask for them. Only the answers of a real cluster need its client."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from ..ir.topology import KafkaCluster, KafkaTopic

if TYPE_CHECKING:
    from .admin import KafkaAdmin


@dataclass(frozen=True)
class PartitionEnds:
    """Offsets of a partition.

    - `low`: the first one that is left.
    - `stable`: the end for readers of committed records: there an open transaction begins, or the partition ends.
    - `high`: the offset that the next record will have.
    """

    low: int
    stable: int
    high: int

    @property
    def held(self) -> bool:
        """Whether an open transaction hides records."""
        return self.stable < self.high


@dataclass(frozen=True)
class TopicOffsets:
    """The offsets of all partitions of a topic. `id`: of the topic. One that is deleted and created again gets another
    id.
    """

    id: str
    partitions: tuple[PartitionEnds, ...]


class KafkaOffsets(Protocol):
    """Answers of a Kafka cluster. Each call asks it, and raises a HeadwaterError if it does not answer, or has no such
    topic.
    """

    def offsets(self, topics: Collection[str]) -> Mapping[str, TopicOffsets]:
        """The ids and the offsets of topics, by their names. The number of requests does not depend on theirs."""
        ...

    def offsets_for_time(self, topic: str, time: int) -> Sequence[int]:
        """For each partition of a topic, the offset of the first record with a timestamp of `time` (ms) or later; -1
        or the partition's end without one.
        """
        ...

    def committed(self, group: str, topic: str) -> Mapping[int, int]:
        """The committed offsets of a consumer group by partition. `group`: its name in Kafka. An error while it has
        members: its offsets would move on.
        """
        ...

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of a consumer group by partition. `group`: without the prefix of the cluster."""
        ...


Clusters = Mapping[str, KafkaOffsets]
"""Name of a cluster -> what answers for it."""


class ClusterOffsets:
    """The KafkaOffsets of a real cluster. Thread-safe. Raises KafkaClusterError."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    @cached_property
    def _admin(self) -> KafkaAdmin:
        from .admin import KafkaAdmin

        return KafkaAdmin(self._cluster)

    def offsets(self, topics: Collection[str]) -> Mapping[str, TopicOffsets]:
        """The ids and the offsets of topics, by their names."""
        known = self._admin.topics(topics)
        ends = self._admin.ends(known.values())
        return {name: TopicOffsets(topic.id, ends[name]) for name, topic in known.items()}

    def offsets_for_time(self, topic: str, time: int) -> Sequence[int]:
        """See `KafkaAdmin.offsets_for_time`."""
        return self._admin.offsets_for_time(self._admin.topic(topic), time)

    def committed(self, group: str, topic: str) -> Mapping[int, int]:
        """See `KafkaAdmin.committed`. Raises KafkaGroupInUseError too."""
        self._admin.check_unused(group)
        found = self._admin.committed(group, self._admin.topic(topic))
        return {partition: position.offset for partition, position in found.items()}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """See `KafkaAdmin.commit`."""
        self._admin.commit(self._cluster.prefix + group, topic, offsets)


# The token of ranges in Kafka, which planners write and readers read.

_TOKEN = "kafka"
_HEADLESS = ":headless"


def token_of(kafka: KafkaTopic) -> str:
    """The token of ranges of a topic in Kafka, see `LogRange`. No log has tokens that begin like it."""
    return f"{_TOKEN}:{kafka.cluster}:{kafka.name}:{kafka.id}{'' if kafka.headers else _HEADLESS}"


def topic_of(token: str) -> KafkaTopic | None:
    """The inverse of `token_of`; None for the token of a log."""
    kind, *parts = token.split(":")
    if kind != _TOKEN:
        return None
    cluster, name, topic_id, *options = parts
    return KafkaTopic(name, cluster, topic_id, headers=not options)
