"""The twelve reference topologies: their cases, and one run against a broker beside one without."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from headwater import Project
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.runs import run_topologies
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.kafka.copying import produced, read_all
from headwater.tests.projects.in_process import copied

SOURCES = ("trips", "stations", "bikes", "models", "signals", "reservations", "unlocks", "taps", "payments")
TABLES = ("bikes_with_models", "trips_by_hour", "mean_minutes", "visits")
STREAMS = (
    *("electric_trips", "long_trips", "short_trips", "trips_from_harbour", "trips_from_hills", "trips_from_elsewhere"),
    *("arrivals", "moved_bikes", "fares", "kept_reservations", "valid_payments", "rejected_payments", "thefts"),
)
PARTITIONS = 2
HOUR = 3_600_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copied("reference", tmp_path)


def test_cases_of_the_reference_topologies_pass(root: Path) -> None:
    Project(root).test().check()

    topologies, cases = ({path.stem for path in (root / folder).iterdir()} for folder in ("topologies", "tests"))
    assert cases == topologies
    assert len(topologies) == 12


@pytest.mark.kafka
def test_reference_topologies_give_the_same_with_kafka_as_without(
    root: Path, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA", kafka.bootstrap)
    local = Project(root)
    local.seed()
    run(local)
    for name in (*SOURCES, *TABLES, *STREAMS):
        kafka.topic(PARTITIONS, name)
    for name in SOURCES:
        given = ((next(iter(record.key.values())), record.value) for record in local.read(name))
        produced(kafka, name, given)
    run(Project(root, target="kafka"))

    for name in STREAMS:
        assert sorted(written(kafka, name)) == sorted(committed(local, name)) != [], name
    for name in TABLES:
        assert dict(written(kafka, name)) == dict(committed(local, name)) != {}, name


def run(project: Project) -> None:
    """Run all applications of a project in this process until they have caught up."""
    results = run_topologies(project._code.topologies(), project.settings(), LocalCluster(), until_caught_up=True)
    assert [result.error for result in results.applications if result.error] == []


def committed(project: Project, name: str) -> list[tuple[str, str]]:
    """The records of a topic in the log: the values of the key's columns, and the value, as JSON."""
    return [(text(list((record.key or {}).values())), text(record.value)) for record in project.read(name)]


def written(kafka: KafkaBroker, name: str) -> list[tuple[str, str]]:
    """The committed records of a topic in Kafka, in the same form."""
    return [
        (text(key_of(name, message.key() or b"")), text(json.loads(message.value() or b"null")))
        for messages in read_all(kafka, name, PARTITIONS)
        for message in messages
    ]


def text(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(value, default=str)


def key_of(name: str, key: bytes) -> list[Any]:
    """The values of the columns of a key in Kafka."""
    if name == "trips_by_hour":
        return list(json.loads(key).values())
    if name == "mean_minutes":
        (start,) = struct.unpack(">q", key[-8:])
        return [key[:-8].decode(), start, start + HOUR]
    if name == "visits":
        end, start = struct.unpack(">qq", key[-16:])
        return [key[:-16].decode(), start, end]
    return [key.decode()]
