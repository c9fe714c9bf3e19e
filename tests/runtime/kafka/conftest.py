from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.runtime.kafka.admin import KafkaAdmin
from headwater.runtime.kafka.reader import KafkaReader
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.runtime.kafka.topics import cluster_of


@pytest.fixture(scope="session")
def admin(kafka: KafkaBroker) -> KafkaAdmin:
    return KafkaAdmin(cluster_of(kafka))


@pytest.fixture
def reader(kafka: KafkaBroker) -> Iterator[KafkaReader]:
    reader = KafkaReader(cluster_of(kafka), "reader")
    yield reader
    reader.close()
