"""Texts that are no text: an expression that makes one stops its task at the record, under its step."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from headwater import Project

pytestmark = pytest.mark.spark

STEPS = [
    {"filter": "h <> ''"},
    {"select": {"h": "h", "n": "1"}},
    {"key_by": {"made": "cast(unhex(h) as string)"}},
    {"filter": "made <> 'x'"},
]


def write(root: Path) -> None:
    local = {"spark": {"master": "local[2]"}, "log": {"type": "embedded", "path": "log"}, "state_dir": "state"}
    files = {
        "headwater.yml": {"name": "texts", "version": "1", "profile": "texts"},
        "profiles.yml": {"texts": {"target": "local", "targets": {"local": local}}},
        "topics/inputs.yml": {"topics": {"inputs": {"partitions": 1, "key": {"k": "int"}, "value": {"h": "string"}}}},
    }
    flow = {"from": "inputs", "steps": STEPS, "to": "outputs"}
    files["topologies/keyed.yml"] = {"topology": "keyed", "flows": {"keyed": flow}}
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(yaml.safe_dump(content, sort_keys=False, width=1000))


def test_text_of_other_bytes_than_utf_8_stops_the_run_at_its_record_and_step(
    tmp_path: Path, spark_session: SparkSession
) -> None:
    write(tmp_path)
    with Project.load(tmp_path, session=spark_session) as project:
        project.append("inputs", [{"k": 1, "h": "41"}, {"k": 2, "h": "c3a4"}])
        project.run(until_caught_up=True)
        assert [record.key["made"] for record in project.read("outputs")] == ["A", "ä"]
        project.append("inputs", [{"k": 3, "h": "ff41"}, {"k": 4, "h": ""}])
        (result,) = project.run(until_caught_up=True, check=False).applications
    lines = (tmp_path / "topologies/keyed.yml").read_text().splitlines()
    (line,) = (number for number, line in enumerate(lines, 1) if "key_by" in line)
    assert f"topologies/keyed.yml:{line}: record inputs[0]@2 cannot be processed" in (result.error or "")
    assert "the text in 'made' is not UTF-8: its bytes are ff41" in (result.error or "")
