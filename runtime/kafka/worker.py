"""What the tasks of a worker use of Kafka: ranges of raw topics, serdes, mirrors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ...errors import HeadwaterError
from ..ir.topology import KafkaCluster, KafkaTopic, PluginRef, SchemaRegistry
from ..log.placed_log import PlacedLog
from ..log.ranges import RangeReader
from ..serdes.serde import Deserializer, PayloadSpec, Serde, Serializer
from .sources import ClusterOffsets, Clusters

if TYPE_CHECKING:
    from .mirror import KafkaMirror


class KafkaClientMissingError(HeadwaterError):
    """The library that talks to Kafka is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "topics in Kafka need confluent-kafka, which is not installed", "pip install 'headwater[kafka]'"
        )


@contextmanager
def client_of_kafka() -> Iterator[None]:
    """For imports of modules that import the client. Raises KafkaClientMissingError."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise KafkaClientMissingError from error


def offsets_of(clusters: Mapping[str, KafkaCluster]) -> Clusters:
    """Name of a cluster -> what answers for it. Nothing is asked yet. Raises KafkaClientMissingError."""
    with client_of_kafka():
        from . import admin  # noqa: F401
    return {name: ClusterOffsets(cluster) for name, cluster in clusters.items()}


def positions_to_forget(clusters: Mapping[str, KafkaCluster], application: str) -> Callable[[], None]:
    """Find the positions in Kafka of an application that writes there. What is returned removes them: then it writes
    all records again. Raises KafkaClientMissingError, KafkaClusterError.
    """
    with client_of_kafka():
        from .admin import KafkaAdmin
    found = [
        (admin, admin.groups(f"{cluster.prefix}{application}-"))
        for cluster in clusters.values()
        for admin in (KafkaAdmin(cluster),)
    ]

    def forget() -> None:
        for admin, groups in found:
            admin.delete_groups(groups)

    return forget


@dataclass(frozen=True)
class KafkaOfWorker:
    """A `KafkaAccess` (`engine/execution/kafka.py`) for the tasks of one application.

    `clusters`: of the target, by name. `serde`: creates a serde by its name. `log`: opens the log of the application.
    """

    application: str
    clusters: Mapping[str, KafkaCluster]
    serde: Callable[[PluginRef], Serde]
    log: Callable[[], PlacedLog]

    def reader(self, log: RangeReader) -> RangeReader:
        """A reader of ranges of the log, and of raw topics. Raises KafkaClientMissingError."""
        with client_of_kafka():
            from .ranges import KafkaRanges
        return KafkaRanges(log, self.clusters, self.application)

    def registry(self, cluster: str) -> SchemaRegistry | None:
        """The schema registry of a cluster; None without one."""
        return self.clusters[cluster].registry

    def deserializer(self, form: PluginRef, spec: PayloadSpec) -> Deserializer:
        """The deserializer of keys or values."""
        return self.serde(form).deserializer(spec)

    def serializer(self, form: PluginRef, spec: PayloadSpec) -> Serializer:
        """The serializer of keys or values."""
        return self.serde(form).serializer(spec)

    def mirror(self, topic: KafkaTopic, task: str) -> KafkaMirror:
        """The mirror of a task in this process. It stays open for the next epochs."""
        with client_of_kafka():
            from .mirror import mirrors_of
        name = f"{self.application}-{task}"
        mirrors = mirrors_of(self.clusters[topic.cluster])
        return mirrors.mirror(topic.name, name, self._log_id, topic.id, time.monotonic())

    @cached_property
    def _log_id(self) -> str:
        """The id of the log, read once for all tasks of a stage."""
        return self.log().identity()

    def result(self, writer: str) -> str:
        """The incarnation of an application that the log has now. Raises LogError."""
        return self.log().state(writer).incarnation
