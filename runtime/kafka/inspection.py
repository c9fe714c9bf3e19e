"""Looks at a cluster as a run would use it: topics, settings, rights, and some of the records. It changes no topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from ..environment import duration_text
from ..ir.topology import KafkaCluster
from ..records.record_json import to_json
from ..serdes.serde import Decoded, Role, SerdeError
from .admin import KafkaAdmin, TopicMetadata
from .cluster import Connections
from .errors import (
    KafkaClusterError,
    KafkaDeniedError,
    KafkaOffsetBeyondEndError,
    KafkaRecordsRemovedError,
    KafkaSettingError,
    KafkaTopicRecreatedError,
    text_of,
)
from .producer import TRANSACTION_DEFAULTS
from .reader import KafkaRange, KafkaReader
from .report import ClusterReport, Finding, Right, Sample, TopicReport
from .sources import PartitionEnds

PATIENCE = 5.0
"""The seconds for which somebody who asks for a report waits for a broker."""

_PARTITIONS_READ = 10
"""The most partitions of a topic from which records are shown: each needs a connection of its own."""

_RAW_SHOWN = 60
SHOWN_SETTINGS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "max.message.bytes",
)

Decode = Callable[[Role, pa.BinaryArray], Decoded]


@dataclass(frozen=True)
class Copied:
    """How far a topic is copied: `positions` by partition, in the topic with this `id`, which had `partitions`."""

    id: str
    partitions: int
    positions: Mapping[int, int]


@dataclass(frozen=True)
class InspectedTopic:
    """A topic of the project in a cluster. `name`: in the project. `application`: the one that copies it.

    `tasks`: of `application`, for a written topic. `keyed`: whether it has a key. `oldest`: the time of the first
    record to write, ms, if it is known. `stops_at_bad`: whether a record that cannot be decoded stops the run.
    `decode`: None for a format that is only written. `check_schemas`: raises SerdeError if the schemas of a registry
    cannot hold the columns to write. `copied`: of a topic that is read, None before the first commit of the copy.
    `begins_at`: the group at whose offsets the copy then begins.
    """

    name: str
    topic: str
    written: bool
    application: str
    decode: Decode | None
    tasks: Sequence[str] = ()
    keyed: bool = True
    oldest: int | None = None
    stops_at_bad: bool = True
    check_schemas: Callable[[], None] = lambda: None
    copied: Copied | None = None
    begins_at: str | None = None


class KafkaInspection:
    """Looks at one cluster. `name`: in the profile."""

    def __init__(self, name: str, cluster: KafkaCluster, patience: float = PATIENCE) -> None:
        self._name = name
        self._cluster = cluster
        self._patience = patience
        self._admin = KafkaAdmin(cluster, patience)

    def report(self, topics: Sequence[InspectedTopic], records: int) -> ClusterReport:
        """Look at the cluster and at these topics. `records`: how many to decode of each, at most."""
        servers = self._cluster.bootstrap_servers
        try:
            cluster_id, brokers = self._admin.cluster_facts()
        except KafkaClusterError as error:
            return ClusterReport(self._name, servers, findings=(_finding(error),))
        reports = tuple(self._topic(topic, records) for topic in topics)
        return ClusterReport(self._name, servers, cluster_id, brokers, reports)

    def _topic(self, topic: InspectedTopic, records: int) -> TopicReport:
        findings: list[Finding] = []
        rights = [*self._asked_rights(topic, findings)]
        findings += _denials(rights)
        report = TopicReport(topic.name, topic.topic, topic.written)
        try:
            metadata = self._admin.topic(topic.topic)
            (ends,) = self._admin.ends([metadata]).values()
        except KafkaClusterError as error:
            if not findings:
                findings.append(_finding(error))
            return TopicReport(topic.name, topic.topic, topic.written, rights=tuple(rights), findings=tuple(findings))
        try:
            settings = self._admin.topic_settings(topic.topic)
        except KafkaDeniedError as error:
            settings = {}
            findings.append(_finding(error, stops=topic.written))
        settings = {name: settings[name] for name in SHOWN_SETTINGS if name in settings}
        findings += _of_settings(topic, settings) if topic.written else ()
        try:
            topic.check_schemas()
        except SerdeError as error:
            findings.append(_finding(error))
        findings += self._held(topic, [end.held for end in ends])
        findings += self._beginning(topic, metadata)
        findings += _since(topic, topic.copied, metadata, ends, self._cluster.bootstrap_servers) if topic.copied else ()
        samples: tuple[Sample, ...] = ()
        if topic.decode is not None:
            try:
                samples = tuple(self.samples(metadata, topic.application, topic.decode, records))
            except (KafkaClusterError, SerdeError) as error:
                findings.append(_finding(error, stops=not topic.written))
        findings += _of_samples(topic, samples)
        return TopicReport(
            report.name,
            report.topic,
            report.written,
            metadata.id,
            metadata.partitions,
            sum(end.high - end.low for end in ends),
            settings,
            tuple(rights),
            samples,
            tuple(findings),
        )

    def _beginning(self, topic: InspectedTopic, metadata: TopicMetadata) -> Iterator[Finding]:
        """What is wrong with the group at whose offsets the first copy begins."""
        if topic.begins_at is None or topic.copied is not None:
            return
        try:
            self._admin.check_unused(topic.begins_at)
            if not self._admin.committed(topic.begins_at, metadata):
                yield Finding(
                    f"group {topic.begins_at} has no offset in {topic.topic}, so it does not say where the copy begins",
                    f"correct `group` under `start` of {topic.name}, or write a time",
                )
        except KafkaClusterError as error:
            yield _finding(error)

    def _asked_rights(self, topic: InspectedTopic, findings: list[Finding]) -> Iterator[Right]:
        """The rights that a run needs. A topic that is missing, or that the user may not see, is found elsewhere."""
        if topic.written:
            operations = [AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS]
        else:
            operations = [AclOperation.DESCRIBE, AclOperation.READ]
        prefix = self._cluster.prefix
        try:
            allowed = self._admin.allowed_on_topic(topic.topic)
            yield from (_right(f"topic {topic.topic}", operation, allowed) for operation in operations)
        except KafkaDeniedError:
            yield from (_right(f"topic {topic.topic}", operation, ()) for operation in operations)
        except KafkaClusterError:
            return
        groups = [f"{prefix}{topic.application}-{task}" for task in topic.tasks] or [prefix + topic.application]
        try:
            yield from self._group_rights(groups, topic.written)
        except KafkaClusterError as error:
            findings.append(_finding(error))
        if topic.written:
            yield from self._transactional_right(f"{prefix}{topic.application}-debug", findings)

    def _group_rights(self, groups: Sequence[str], positions: bool) -> Iterator[Right]:
        """The rights for consumer groups, up to the first denied one. `positions`: whether their offsets are read."""
        for group in groups:
            allowed = self._admin.allowed_on_group(group)
            operations = [AclOperation.DESCRIBE, AclOperation.READ] if positions else [AclOperation.READ]
            rights = [_right(f"group {group}", operation, allowed) for operation in operations]
            yield from rights
            if not all(right.allowed for right in rights):
                return

    def _transactional_right(self, name: str, findings: list[Finding]) -> Iterator[Right]:
        """Try a transactional id of its own: those of tasks belong to the run, which it would fence."""
        connections = Connections(self._cluster)
        try:
            producer = connections.client(Producer, {"transactional.id": name}, TRANSACTION_DEFAULTS)
            producer.init_transactions(self._patience)
        except KafkaSettingError as error:
            findings.append(_finding(error))
            return
        except KafkaException as error:
            cause = error.args[0]
            denied = cause.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if not denied:
                what = f"a transaction as {name} cannot begin: {text_of(cause)}"
                way_out = (
                    "allow Write for transactional ids; or lower `transaction.timeout.ms` under `client`, which is "
                )
                way_out += "at most transaction.max.timeout.ms of the brokers"
                findings.append(Finding(what, way_out))
                return
            yield Right(f"transactional id {name}", "write", allowed=False)
        else:
            yield Right(f"transactional id {name}", "write", allowed=True)

    @staticmethod
    def _held(topic: InspectedTopic, held: Sequence[bool]) -> Iterator[Finding]:
        numbers = [str(number) for number, is_held in enumerate(held) if is_held]
        if numbers and not topic.written:
            where = f"partition {numbers[0]}" if len(numbers) == 1 else f"partitions {', '.join(numbers)}"
            yield Finding(
                f"an open transaction hides the last records of {where}",
                "they are read once it is committed or aborted; `kafka-transactions list` shows who has one",
                stops=False,
            )

    def described(self, topic: str) -> tuple[TopicMetadata, Mapping[str, str]]:
        """A topic and its settings, empty if this user may not see them. Raises KafkaClusterError."""
        metadata = self._admin.topic(topic)
        try:
            return metadata, self._admin.topic_settings(topic)
        except KafkaDeniedError:
            return metadata, {}

    def samples(self, topic: TopicMetadata, group: str, decode: Decode, records: int) -> list[Sample]:
        """The last committed records, at most so many, with their columns. Raises KafkaClusterError, SerdeError."""
        found = [
            sample
            for partition, batch in self.last_records(topic, group, records)
            for sample in _decoded(partition, batch, decode)
        ]
        return sorted(found, key=lambda sample: (sample.timestamp, sample.partition, sample.offset))[-records:]

    def last_records(self, topic: TopicMetadata, group: str, records: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The last committed records of partitions that have some. Raises KafkaClusterError."""
        (ends,) = self._admin.ends([topic]).values()
        reader = KafkaReader(self._cluster, group, self._patience)
        try:
            filled = [number for number, end in enumerate(ends) if end.stable > end.low]
            for number in filled[:_PARTITIONS_READ]:
                low, end = ends[number].low, ends[number].stable
                wanted = KafkaRange(topic.name, topic.id, number, max(low, end - records), end)
                yield from ((number, batch) for batch in reader.read(wanted))
        finally:
            reader.close()


def _finding(error: KafkaClusterError | SerdeError, *, stops: bool = True) -> Finding:
    return Finding(error.message, error.hint or "", stops)


def _since(
    topic: InspectedTopic, copied: Copied, now: TopicMetadata, ends: Sequence[PartitionEnds], servers: str
) -> Iterator[Finding]:
    """What has changed in Kafka since the last commit of the copy."""
    move = f"headwater rewind kafka --topic {topic.name}"
    if copied.id != now.id:
        yield Finding(
            KafkaTopicRecreatedError(servers, topic.topic, copied.id, now.id).message,
            f"`{move} --to earliest` keeps what was copied, and continues with the new topic; `headwater run "
            "--full-refresh --select 'kafka+'` restarts with it",
        )
        return
    if now.partitions > copied.partitions:
        more = f"{topic.topic} has {now.partitions} partitions, and had {copied.partitions} at the last commit"
        yield Finding(more, "nothing: the new ones are read from their first records on", stops=False)
    for partition, position in sorted(copied.positions.items()):
        if partition >= len(ends):
            continue
        low, high = ends[partition].low, ends[partition].high
        to = f"--partition {partition} --to earliest"
        if position < low:
            error: KafkaClusterError = KafkaRecordsRemovedError(servers, topic.topic, partition, position, high, low)
        elif position > high:
            error = KafkaOffsetBeyondEndError(servers, topic.topic, partition, position, high, high)
            to = f"--partition {partition} --to latest"
        else:
            continue
        yield Finding(error.message, f"read on from there: `{move} {to}`")


def _right(resource: str, operation: AclOperation, allowed: Sequence[AclOperation]) -> Right:
    return Right(resource, operation.name.lower(), operation in allowed)


def _denials(rights: Sequence[Right]) -> Iterator[Finding]:
    denied: dict[str, list[str]] = {}
    for right in rights:
        if not right.allowed:
            denied.setdefault(right.resource, []).append(right.operation)
    for resource, operations in denied.items():
        kind, _, name = resource.rpartition(" ")
        names = " and ".join(operation.replace("_", " ").title().replace(" ", "") for operation in operations)
        options = " ".join(f"--operation {operation.title().replace('_', '')}" for operation in operations)
        yield Finding(
            f"this user may not {' and '.join(operations)} {resource}",
            f"allow {names}: kafka-acls --add --allow-principal User:<user> {options} "
            f"--{kind.replace(' ', '-')} {name}"
            + ("" if kind == "topic" else "; a prefix of names with --resource-pattern-type prefixed"),
        )


def _of_settings(topic: InspectedTopic, settings: Mapping[str, str]) -> Iterator[Finding]:
    """What the settings of a topic do to records that are written to it."""
    if "compact" in settings.get("cleanup.policy", "") and not topic.keyed:
        what = f"{topic.topic} is compacted, so its records need keys, and {topic.name} has none"
        yield Finding(what, "set cleanup.policy=delete for the topic, or declare a `key`")
    if settings.get("message.timestamp.type") == "LogAppendTime":
        what = f"brokers replace the timestamps of records in {topic.topic} by their own (LogAppendTime)"
        yield Finding(what, "set message.timestamp.type=CreateTime for the topic if readers need ours", stops=False)
        return
    if topic.oldest is None:
        return
    age = int(time.time() * 1000) - topic.oldest
    retention = int(settings.get("retention.ms", -1))
    if "delete" in settings.get("cleanup.policy", "") and 0 <= retention < age:
        yield Finding(
            f"{topic.topic} keeps records for {duration_text(retention)} after their timestamps, and the first one of "
            f"{topic.name} is {_about(age)} old: Kafka removes such records soon after "
            "they are written",
            "raise retention.ms of the topic (-1 keeps all), or let brokers set the times: "
            "message.timestamp.type=LogAppendTime",
            stops=False,
        )
    if 0 <= int(settings.get("message.timestamp.before.max.ms", -1)) < age:
        yield Finding(
            f"brokers reject records of {topic.topic} that are older than message.timestamp.before.max.ms, and the "
            f"first one of {topic.name} is",
            "raise message.timestamp.before.max.ms of the topic",
        )


def _about(milliseconds: int) -> str:
    """A duration in whole days, or in whole minutes."""
    unit = 86_400_000 if milliseconds >= 86_400_000 else 60_000
    return duration_text(milliseconds // unit * unit)


def _of_samples(topic: InspectedTopic, samples: Sequence[Sample]) -> Iterator[Finding]:
    bad = [sample for sample in samples if sample.error is not None]
    if bad:
        first = bad[0]
        where = f"{topic.topic}[{first.partition}]@{first.offset}"
        others = "" if len(bad) == 1 else f" (and {len(bad) - 1} more of {len(samples)})"
        yield Finding(
            f"{where}{others} is not as declared: {first.error}",
            f"correct `key`, `value` or their formats in the declaration of {topic.name}, or write `on_error: skip` or "
            "`dead_letter` there",
            stops=topic.stops_at_bad and not topic.written,
        )


def _decoded(partition: int, batch: pa.RecordBatch, decode: Decode) -> Iterator[Sample]:
    key, value = (decode(role, batch.column(role.value)) for role in (Role.KEY, Role.VALUE))
    keys, values = _rows(key, batch["key"]), _rows(value, batch["value"])
    raw = zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
    places = zip(batch["offset"].to_pylist(), batch["timestamp"].to_pylist(), strict=True)
    for row, ((offset, timestamp), bytes_) in enumerate(zip(places, raw, strict=True)):
        causes = [
            f"its {role}: {part.errors[row]}" for role, part in (("key", key), ("value", value)) if row in part.errors
        ]
        error = "; ".join(causes) or None
        shown = None if error is None else (_raw(bytes_[0]), _raw(bytes_[1]))
        yield Sample(partition, offset, timestamp, keys[row], values[row], error, shown)


def _rows(part: Decoded, payloads: pa.BinaryArray) -> list[Mapping[str, object] | None]:
    names = part.columns.schema.names
    columns = [to_json(column) for column in part.columns.columns]
    there = payloads.is_valid().to_pylist()
    return [
        {name: column[row] for name, column in zip(names, columns, strict=True)}
        if there[row] and row not in part.errors
        else None
        for row in range(len(payloads))
    ]


def _raw(payload: bytes | None) -> str | None:
    """A payload as text, or in hexadecimal digits if it is none. Cut."""
    if payload is None:
        return None
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        text = f"0x{payload.hex()}"
    return text if len(text) <= _RAW_SHOWN else f"{text[:_RAW_SHOWN]}…"
