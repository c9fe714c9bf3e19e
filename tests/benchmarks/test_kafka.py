"""Our side of the measurements with Kafka, with few records: that it does what is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.benchmarks.suite.measured import kafka as measured
from headwater.benchmarks.suite.sides.kafka import MEASURE, PREPARE, Ours, write_project
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.kafka.copying import read_all

pytestmark = pytest.mark.kafka
RECORDS = 300


@pytest.mark.parametrize(
    ("topology", "target", "applications"), [("copies", "copied", "kafka-out"), ("counts", "totals", "all")]
)
def test_all_records_pass_the_measured_applications(
    kafka: KafkaBroker, tmp_path: Path, topology: str, target: str, applications: str
) -> None:
    names = {name: kafka.topic(partitions=2) for name in ("readings", target)}
    write_project(tmp_path, topology, 2, {"servers": kafka.bootstrap, **names})
    measured._produce(kafka, names["readings"], RECORDS, seed=1)
    side = Ours(tmp_path, "kafka", applications)
    side.take([PREPARE])
    assert read_all(kafka, names[target], 2) == [[], []]
    side.take([MEASURE])
    values = [
        json.loads(message.value() or b"") for messages in read_all(kafka, names[target], 2) for message in messages
    ]
    if topology == "copies":
        assert sorted(value["n"] for value in values) == list(range(RECORDS))
    else:
        assert sum(value["total"] for value in values) >= sum(range(RECORDS))
