"""A project whose cluster needs TLS and a password. The certificate is a file of the project."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions

from headwater import Project
from headwater.compiler.target_settings import with_pems
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.progress.rewinding import Whence
from headwater.tests.kafka.broker import USERS, KafkaBroker
from headwater.tests.kafka.copying import produced
from headwater.tests.runtime.kafka.topics import recreate
from headwater.tests.waiting import wait_until

pytestmark = pytest.mark.kafka

PROFILES = """shop:
  target: prod
  targets:
    prod:
      kafka:
        main:
          bootstrap_servers: {servers}
          security: {{protocol: sasl_ssl, mechanism: PLAIN, username: shop, password: {password}, ca: ca.pem}}
"""
ORDERS = """topics:
  orders:
    partitions: 1
    key: {{customer: string}}
    value: {{quantity: int}}
    kafka: {{topic: {topic}, key: string}}
"""


@pytest.fixture
def project(kafka: KafkaBroker, tmp_path: Path) -> Project:
    topic = kafka.topic()
    produced(kafka, topic, [("a", {"quantity": 1}), ("b", {"quantity": 2})])
    texts = {
        "headwater.yml": 'name: shop\nversion: "1"\nprofile: shop\n',
        "profiles.yml": PROFILES.format(servers=kafka.secured, password=USERS["shop"]),
        "ca.pem": kafka.certificate,
        "topics/orders.yml": ORDERS.format(topic=topic),
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return Project(tmp_path, select=["kafka"])


def test_copy_is_moved(project: Project) -> None:
    settings = with_pems(project.settings(), project.root)
    (result,) = run_topologies(project._code.topologies(), settings, LocalCluster(), until_caught_up=True).applications
    assert (result.error, result.records) == (None, 2)
    planned = project.plan_rewind("kafka", "orders", Whence("offset", 1))
    assert [(move.positions, move.then) for move in planned.moves] == [({0: 1}, 1)]


def test_what_has_changed_in_kafka_since_the_last_commit_is_told(
    kafka: KafkaBroker, project: Project, tmp_path: Path
) -> None:
    settings = with_pems(project.settings(), project.root)
    run_topologies(project._code.topologies(), settings, LocalCluster(), until_caught_up=True)
    name = project.inspect_kafka()[0].topics[0].topic

    def told() -> list[tuple[str, str]]:
        (report,) = Project(tmp_path).inspect_kafka()
        return [(finding.what, finding.way_out) for _, finding in report.all_findings]

    assert told() == []
    kafka.admin.create_partitions([NewPartitions(name, 3)])[name].result()
    wait_until(lambda: len(kafka.admin.list_topics(name).topics[name].partitions) == 3)
    produced(kafka, name, [("c", {"quantity": n}) for n in range(4)], partition=0)
    kafka.admin.delete_records([TopicPartition(name, 0, 4)])[TopicPartition(name, 0, 4)].result()
    (more, _), (removed, way_out) = told()
    assert f"{name} has 3 partitions, and had 1 at the last commit" in more
    assert "up to 2 records with offsets 2 to 3 were removed before they were read" in removed
    assert "`headwater rewind kafka --topic orders --partition 0 --to earliest`" in way_out
    recreate(kafka, name)
    ((again, _),) = told()
    assert f"topic {name} was deleted and created again" in again
