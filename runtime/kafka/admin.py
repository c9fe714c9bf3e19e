"""What a Kafka cluster says of its topics and groups: ids, partitions, ends, committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    ConfigResource,
    ListOffsetsResultInfo,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from ..ir.topology import KafkaCluster
from .cluster import PATIENCE, Asking, Connections, once_a_process
from .errors import KafkaClusterError, KafkaDeniedError, KafkaGroupInUseError, KafkaTopicRecreatedError
from .sources import PartitionEnds


@dataclass(frozen=True)
class TopicMetadata:
    """A topic in Kafka. `id`: of this incarnation, as Kafka's tools print it. `partitions`: their number."""

    name: str
    id: str
    partitions: int


_NO_RECORD = -1
"""The answer of brokers for a time after the last record."""


@dataclass(frozen=True)
class Position:
    """A committed offset of a group. `metadata`: a text that belongs to it, at most 4,096 bytes by default."""

    offset: int
    metadata: str = ""


class KafkaAdmin:
    """Questions to a Kafka cluster. Thread-safe. Connected by the first question, in the process that asks it.

    All methods raise KafkaClusterError: KafkaUnreachableError after `patience` seconds, KafkaLoginError and
    KafkaTlsError after some seconds, KafkaDeniedError, KafkaTopicMissingError.
    """

    def __init__(self, cluster: KafkaCluster, patience: float = PATIENCE) -> None:
        self.cluster = cluster
        self._patience = patience

    def __reduce__(self) -> tuple[type[KafkaAdmin], tuple[KafkaCluster, float]]:
        """Without the connection: another process makes its own."""
        return type(self), (self.cluster, self._patience)

    @cached_property
    def _connections(self) -> Connections:
        return Connections(self.cluster)

    @cached_property
    def _client(self) -> AdminClient:
        return self._connections.client(AdminClient, {})

    @cached_property
    def _ask(self) -> Asking:
        return Asking(self._connections, self._client.poll, self._patience)

    def topics(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        """Topics by name. Raises KafkaTopicMissingError too."""
        wanted = sorted(set(names))
        if not wanted:
            return {}

        def ask() -> list[Future[TopicDescription]]:
            futures = self._client.describe_topics(TopicCollection(wanted), request_timeout=self._patience)
            return [futures[name] for name in wanted]

        answers = self._ask.answers("reading the metadata of topics", ask, wanted)
        return {
            name: TopicMetadata(name, _text_of_id(answer.topic_id), len(answer.partitions))
            for name, answer in zip(wanted, answers, strict=True)
        }

    def topic(self, name: str) -> TopicMetadata:
        """A topic. Raises KafkaTopicMissingError too."""
        return self.topics([name])[name]

    def check_topic(self, name: str, expected_id: str) -> TopicMetadata:
        """The topic, if it is still that with this id. Raises KafkaTopicMissingError, KafkaTopicRecreatedError."""
        topic = self.topic(name)
        if topic.id != expected_id:
            raise KafkaTopicRecreatedError(self.cluster.bootstrap_servers, name, expected_id, topic.id)
        return topic

    def cluster_facts(self) -> tuple[str, int]:
        """The id of the cluster, and the number of its brokers."""
        (answer,) = self._ask.answers(
            "reading the metadata of the cluster",
            lambda: [self._client.describe_cluster(request_timeout=self._patience)],
            [None],
        )
        return str(answer.cluster_id), len(answer.nodes)

    def allowed_on_topic(self, name: str) -> Sequence[AclOperation]:
        """What this user may do with a topic. Raises KafkaTopicMissingError too, also for one that it may not see."""
        (answer,) = self._ask.answers(
            f"reading the rights for topic {name}",
            lambda: self._client.describe_topics(
                TopicCollection([name]), include_authorized_operations=True, request_timeout=self._patience
            ).values(),
            [name],
        )
        return answer.authorized_operations or ()

    def allowed_on_group(self, group: str) -> Sequence[AclOperation]:
        """What this user may do with a consumer group, which need not exist. `group`: with any prefix."""
        self._find_coordinators()
        try:
            (answer,) = self._ask.answers(
                f"reading the rights for group {group}",
                lambda: self._client.describe_consumer_groups(
                    [group], include_authorized_operations=True, request_timeout=self._patience
                ).values(),
                [None],
            )
        except KafkaDeniedError:
            return ()
        return answer.authorized_operations or ()

    def topic_settings(self, name: str) -> dict[str, str]:
        """The settings of a topic, with the defaults of its cluster."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        (answer,) = self._ask.answers(
            f"reading the settings of topic {name}",
            lambda: [self._client.describe_configs([resource], request_timeout=self._patience)[resource]],
            [name],
        )
        return {setting: entry.value for setting, entry in answer.items() if entry.value is not None}

    def ends(self, topics: Iterable[TopicMetadata]) -> dict[str, tuple[PartitionEnds, ...]]:
        """The ends of all partitions of topics, by name and partition. Takes one round trip."""
        known = list(topics)
        places = [TopicPartition(topic.name, number) for topic in known for number in range(topic.partitions)]
        earliest, latest = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
        uncommitted, committed = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED
        low, stable, high = self._offsets(places, [(earliest, uncommitted), (latest, committed), (latest, uncommitted)])
        # They are not from one moment: retention and producers go on in between.
        ends = [
            PartitionEnds(first, max(first, end), max(first, end, last))
            for first, end, last in zip(low, stable, high, strict=True)
        ]
        by_topic: dict[str, list[PartitionEnds]] = {topic.name: [] for topic in known}
        for place, end in zip(places, ends, strict=True):
            by_topic[place.topic].append(end)
        return {name: tuple(found) for name, found in by_topic.items()}

    def offsets_for_time(self, topic: TopicMetadata, timestamp: int) -> tuple[int, ...]:
        """By partition, the offset of the first record with this timestamp or a later one; its end if there is none.

        `timestamp`: ms since 1970. Records of open transactions count too, so none is passed over.
        """
        places = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
        uncommitted = IsolationLevel.READ_UNCOMMITTED
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        # The end first: a record that comes in between is after it, and is read.
        (ends,) = self._offsets(places, [(latest, uncommitted)])
        (offsets,) = self._offsets(places, [(OffsetSpec.for_timestamp(timestamp), uncommitted)])
        return tuple(end if offset < 0 else offset for offset, end in zip(offsets, ends, strict=True))

    def _offsets(
        self, places: Sequence[TopicPartition], questions: Sequence[tuple[OffsetSpec, IsolationLevel]]
    ) -> list[list[int]]:
        """For each question the offsets of all places. All are asked at once."""
        if not places:
            return [[] for _ in questions]

        def ask() -> list[Future[ListOffsetsResultInfo]]:
            asked = [
                self._client.list_offsets(
                    dict.fromkeys(places, spec), isolation_level=level, request_timeout=self._patience
                )
                for spec, level in questions
            ]
            return [futures[place] for futures in asked for place in places]

        names = [place.topic for place in places] * len(questions)
        offsets = [answer.offset for answer in self._ask.answers("reading offsets", ask, names, _no_offset)]
        return [offsets[start : start + len(places)] for start in range(0, len(offsets), len(places))]

    def committed(self, group: str, topic: TopicMetadata) -> dict[int, Position]:
        """The committed offsets of a group by partition, without partitions that have none.

        Waits for transactions that commit offsets of the group. `group`: its name in Kafka, with any prefix.
        """
        places = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
        groups = [ConsumerGroupTopicPartitions(group, places)]
        self._find_coordinators()
        (answer,) = self._ask.answers(
            f"reading the offsets of group {group}",
            lambda: self._client.list_consumer_group_offsets(
                groups, require_stable=True, request_timeout=self._patience
            ).values(),
            [topic.name],
            _error_in,
        )
        return {
            place.partition: Position(place.offset, place.metadata or "")
            for place in answer.topic_partitions
            if place.offset >= 0
        }

    def check_unused(self, group: str) -> None:
        """Raise KafkaGroupInUseError if a group has members. One that Kafka does not know has none."""
        self._find_coordinators()
        try:
            (answer,) = self._ask.answers(
                f"reading the members of group {group}",
                lambda: [self._client.describe_consumer_groups([group], request_timeout=self._patience)[group]],
                [group],
            )
        except KafkaClusterError as error:
            if error.code != KafkaError.GROUP_ID_NOT_FOUND:
                raise
            return
        if answer.members:
            raise KafkaGroupInUseError(self.cluster.bootstrap_servers, group, len(answer.members))

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of a group by partition, for Kafka's tools: nothing here reads them.

        Raises KafkaClusterError while somebody is a member of the group. `group`: its name in Kafka, with any prefix.
        """
        if not offsets:
            return
        places = [TopicPartition(topic, partition, offset) for partition, offset in sorted(offsets.items())]
        groups = [ConsumerGroupTopicPartitions(group, places)]
        self._find_coordinators()
        self._ask.answers(
            f"committing offsets of group {group}",
            lambda: self._client.alter_consumer_group_offsets(groups, request_timeout=self._patience).values(),
            [topic],
            _error_in,
        )

    def groups(self, beginning: str) -> list[str]:
        """The names of all groups that begin so, as far as this user may see them. `beginning`: with any prefix."""
        (answer,) = self._ask.answers(
            "listing consumer groups",
            lambda: [self._client.list_consumer_groups(request_timeout=self._patience)],
            [""],
            lambda answer: answer.errors[0].args[0] if answer.errors else None,
        )
        return sorted(group.group_id for group in answer.valid if group.group_id.startswith(beginning))

    def delete_groups(self, names: Sequence[str]) -> None:
        """Delete groups with their offsets, those that exist."""
        if names:
            self._find_coordinators()
            self._ask.answers(
                f"deleting the consumer groups {', '.join(names[:3])}",
                lambda: map(_unless_gone, self._client.delete_consumer_groups(list(names)).values()),
                [""] * len(names),
            )

    def _find_coordinators(self) -> None:
        """Take a new client if a connection of the present one has ever failed.

        librdkafka 2.16 does not find the coordinator of a group again that was restarted: its requests time out.
        """
        self._client.poll(0)
        if self._connections.heard:
            for part in ("_ask", "_client", "_connections"):
                self.__dict__.pop(part, None)


@once_a_process
def open_admin(cluster: KafkaCluster, patience: float) -> KafkaAdmin:
    """The KafkaAdmin of this process for a cluster: tasks share its connections."""
    return KafkaAdmin(cluster, patience)


def _unless_gone(deleted: Future[None]) -> Future[None]:
    """The answer to the deletion of a group. One that is not there is deleted."""
    answer: Future[None] = Future()

    def done(of: Future[None]) -> None:
        error = of.exception()
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            error = None
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)

    deleted.add_done_callback(done)
    return answer


def _error_in(answer: ConsumerGroupTopicPartitions) -> KafkaError | None:
    """The first error of a partition."""
    return next((place.error for place in answer.topic_partitions or () if place.error is not None), None)


def _no_offset(answer: ListOffsetsResultInfo) -> KafkaError | None:
    """An error for an answer without an offset: librdkafka gives one, and no error, where a broker ends meanwhile."""
    known = answer.offset >= 0 or answer.offset == _NO_RECORD
    return None if known else KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "the broker gave no offset")


def _text_of_id(topic_id: object) -> str:
    """The id as Kafka's tools print it: they have the letters of URLs, librdkafka those of MIME."""
    return str(topic_id).translate(str.maketrans("+/", "-_"))
