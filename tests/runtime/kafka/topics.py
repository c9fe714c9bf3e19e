"""Records in topics of Kafka, written and read as tests need them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from headwater.runtime.ir.topology import KafkaCluster
from headwater.runtime.kafka.admin import KafkaAdmin
from headwater.runtime.kafka.reader import KafkaRange, KafkaReader
from headwater.tests.kafka.broker import USERS, KafkaBroker
from headwater.tests.waiting import wait_until

TIME = 1_700_000_000_000


def cluster_of(broker: KafkaBroker, **client: Any) -> KafkaCluster:
    """The cluster without security. `client`: settings with _ in place of dots."""
    return KafkaCluster(broker.bootstrap, {name.replace("_", "."): value for name, value in client.items()}, "test-")


def secured_cluster(broker: KafkaBroker, user: str = "shop", **client: Any) -> KafkaCluster:
    """The cluster as a user sees it. `client`: other settings, with _ in place of dots; None takes one away."""
    settings: dict[str, Any] = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
        "ssl.ca.pem": broker.certificate,
    }
    settings |= {name.replace("_", "."): value for name, value in client.items()}
    return KafkaCluster(broker.secured, {name: value for name, value in settings.items() if value is not None}, "test-")


def producer(broker: KafkaBroker, transactional_id: str | None = None, **settings: Any) -> Producer:
    """A producer of Kafka's client. `settings`: with _ in place of dots."""
    configured = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "log_level": 0}
    configured |= {name.replace("_", "."): value for name, value in settings.items()}
    if transactional_id is None:
        return Producer(configured)
    made = Producer({**configured, "transactional.id": transactional_id})
    made.init_transactions()
    return made


def put(using: Producer, topic: str, *values: Any, key: Any = b"k", partition: int = 0, now: bool = False) -> None:
    """Write values, a millisecond apart or all with the present time, and wait until they are there."""
    for number, value in enumerate(values):
        using.produce(topic, value, key, partition, timestamp=0 if now else TIME + number)
    using.flush()


@contextmanager
def transaction(using: Producer, *, commit: bool = True) -> Iterator[None]:
    using.begin_transaction()
    yield
    if commit:
        using.commit_transaction()
    else:
        using.abort_transaction()


def range_of(admin: KafkaAdmin, topic: str, start: int = 0, end: int | None = None, partition: int = 0) -> KafkaRange:
    """Offsets of a partition; without an end up to that of the partition, once no transaction is open.

    Transactions end a moment after their producer has heard that they are committed.
    """
    metadata = admin.topic(topic)
    if end is None:
        wait_until(lambda: not admin.ends([metadata])[topic][partition].held)
        end = admin.ends([metadata])[topic][partition].stable
    return KafkaRange(topic, metadata.id, partition, start, end)


def read(reader: KafkaReader, wanted: KafkaRange) -> pa.Table:
    pieces = list(reader.read(wanted))
    return pa.Table.from_batches(pieces) if pieces else pa.table({})


def values(reader: KafkaReader, wanted: KafkaRange) -> list[tuple[int, bytes | None]]:
    """Offsets and values."""
    table = read(reader, wanted)
    return list(zip(*(table[name].to_pylist() for name in ("offset", "value")), strict=True)) if len(table) else []


def recreate(kafka: KafkaBroker, name: str, partitions: int = 1) -> None:
    """Delete a topic and create it again."""
    kafka.admin.delete_topics([name])[name].result()
    wait_until(lambda: name not in kafka.admin.list_topics().topics)
    kafka.topic(partitions, name)


@contextmanager
def allowing_only(kafka: KafkaBroker, resource: ResourceType, name: str, operation: AclOperation) -> Iterator[None]:
    """As `allow_only`, for a while."""
    allow_only(kafka, resource, name, operation)
    yield
    everybodys = AclBindingFilter(
        resource, name, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    kafka.admin.delete_acls([everybodys])[everybodys].result()


def allow_only(kafka: KafkaBroker, resource: ResourceType, name: str, operation: AclOperation) -> None:
    """Allow the stranger one operation and no other."""
    rule = AclBinding(
        resource, name, ResourcePatternType.LITERAL, "User:stranger", "*", operation, AclPermissionType.ALLOW
    )
    kafka.admin.create_acls([rule])[rule].result()
