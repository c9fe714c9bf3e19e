"""`headwater kafka import` declares topics of Kafka, and what it prints is a valid project that reads them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner, Result

from headwater.cli.main import main
from headwater.plugins.manager import PluginManager
from headwater.runtime.records.types import TIMESTAMP
from headwater.runtime.serdes.serde import PayloadSpec, Role
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.kafka.copying import produced
from headwater.tests.kafka.shop import PROFILES, shop_project
from headwater.tests.runtime.serdes.served_registry import served_registry

pytestmark = pytest.mark.kafka


def headwater(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--project-dir", str(root)])


@pytest.fixture
def root(kafka: KafkaBroker, tmp_path: Path) -> Path:
    """A project without topics."""
    (tmp_path / "headwater.yml").write_text('name: shop\nversion: "1"\nprofile: shop\n')
    (tmp_path / "profiles.yml").write_text(PROFILES.format(servers=kafka.bootstrap))
    return tmp_path


def test_imported_topic_is_valid_and_its_records_are_as_declared(kafka: KafkaBroker, root: Path) -> None:
    topic = kafka.topic(partitions=2, cleanup_policy="compact")
    values = [{"number": n, "no": 0.5, "at": "2024-05-01T08:00:00Z", "in": {"a b": [1], "x": None}} for n in range(10)]
    produced(kafka, topic, [(f"c{n}", value) for n, value in enumerate(values)] + [("c1", None)])
    printed = headwater(root, "kafka", "import", topic)
    assert printed.exit_code == 0, printed.output
    assert printed.stdout == (
        f"# Imported from {topic} in Kafka: types and formats are those of 11 of its last records.\n"
        "topics:\n"
        f"  {topic}:\n"
        "    partitions: 2  # in the log; another number is possible\n"
        "    # keys: texts\n"
        "    key:\n"
        "      key: string\n"
        "    # values: JSON objects\n"
        "    value:\n"
        "      number: bigint\n"
        '      "no": double\n'
        "      at: timestamp\n"
        '      in: "struct<`a b`:array<bigint>>"  # without x: always null\n'
        "    cleanup: compact\n"
        "    kafka: {key: string}\n"
    )
    written = headwater(root, "kafka", "import", topic, "--write")
    assert f"wrote topics/{topic}.yml" in written.output
    assert headwater(root, "parse").exit_code == 0
    report = json.loads(headwater(root, "debug", "kafka", "--format", "json").stdout)
    assert [topic["findings"] for topic in report[0]["topics"]] == [[]]

    again = headwater(root, "kafka", "import", topic, "--write")
    assert again.exit_code == 1
    assert f"there is a file topics/{topic}.yml" in again.output
    assert headwater(root, "kafka", "import", topic, "--overwrite", "--key", "binary").exit_code == 0
    assert "key: binary" in (root / "topics" / f"{topic}.yml").read_text()


def test_topic_without_records_and_unknown_names_are_told(kafka: KafkaBroker, root: Path) -> None:
    empty = kafka.topic()
    assert "value: {}" in headwater(root, "kafka", "import", empty).stdout
    missing = headwater(root, "kafka", "import", "no-such-topic")
    assert (missing.exit_code, "there is no topic no-such-topic" in missing.output) == (1, True)
    other = headwater(root, "kafka", "import", empty, "--cluster", "mian")
    assert (other.exit_code, "did you mean 'main'?" in other.output.lower()) == (2, True)
    form = headwater(root, "kafka", "import", empty, "--key", "strnig")
    assert (form.exit_code, "did you mean 'string'?" in form.output.lower()) == (2, True)


@pytest.mark.parametrize("form", ["avro", "protobuf", "json_schema"])
def test_columns_of_a_registered_schema_are_those_of_the_schema(kafka: KafkaBroker, root: Path, form: str) -> None:
    topic, registry = kafka.topic(), served_registry()
    profile = root / "profiles.yml"
    profile.write_text(profile.read_text() + f"          registry: {{url: {registry.url}}}\n")
    types = {
        "name": pa.string(),
        "count": pa.int64(),
        "at": TIMESTAMP,
        "tags": pa.list_(pa.field("element", pa.string())),
    }
    row = {"name": "a", "count": 3, "at": 1_714_550_400_000_000, "tags": ["x"]}
    columns = pa.RecordBatch.from_arrays([pa.array([row[name]], kind) for name, kind in types.items()], list(types))
    serde = PluginManager().serdes.create(form, {"register": True})
    written = serde.serializer(PayloadSpec(topic, Role.VALUE, types, registry)).write(columns, np.zeros(1, np.bool_))
    produced(kafka, topic, [("k", written.payloads[0].as_py())])

    assert headwater(root, "kafka", "import", topic, "--write").exit_code == 0
    declared = yaml.safe_load((root / "topics" / f"{topic}.yml").read_text())["topics"][topic]
    assert declared["value"] == {"name": "string", "count": "bigint", "at": "timestamp", "tags": "array<string>"}
    assert declared["kafka"] == {"key": "string", "value": form}
    shown = headwater(root, "debug", "kafka", "--format", "json")
    (sample,) = json.loads(shown.stdout)[0]["topics"][0]["samples"]
    assert (sample["value"]["count"], sample["error"], shown.exit_code) == (3, None, 0)


def test_columns_that_no_schema_of_the_registry_holds_are_told_before_a_run(kafka: KafkaBroker, root: Path) -> None:
    read, written = kafka.topic(), kafka.topic()
    shop_project(root, kafka.bootstrap, read, written, f"          registry: {{url: {served_registry().url}}}\n")
    topics = root / "topics" / "all.yml"
    topics.write_text(topics.read_text().replace(f"topic: {written}", f"topic: {written}, value: avro"))
    result = headwater(root, "debug", "kafka")

    assert result.exit_code == 1
    assert f"subject {written}-value" in result.output
    assert "has no schema" in result.output
