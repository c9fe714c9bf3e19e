"""Texts that are no text: an expression that makes one stops its task at the record, under its step."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from headwater import Project

pytestmark = pytest.mark.spark

FLOWS = {
    "plain": [{"filter": "h <> ''"}, {"select": {"made": "cast(unhex(h) as string)"}}, {"filter": "made <> 'x'"}],
    "nested": [{"select": {"made": "array(named_struct('a', cast(unhex(h) as string)))"}}],
    "keyed": [
        {"key_by": {"made": "cast(unhex(h) as string)"}},
        {"aggregate": {"values": {"n": "count(*)"}}},
    ],
}


def write(root: Path) -> None:
    local = {"spark": {"master": "local[2]"}, "log": {"type": "embedded", "path": "log"}, "state_dir": "state"}
    files = {
        "headwater.yml": {"name": "texts", "version": "1", "profile": "texts"},
        "profiles.yml": {"texts": {"target": "local", "targets": {"local": local}}},
        "topics/inputs.yml": {"topics": {"inputs": {"partitions": 1, "key": {"k": "int"}, "value": {"h": "string"}}}},
    }
    for name, steps in FLOWS.items():
        flow = {"from": "inputs", "steps": steps, "to": f"{name}_out"}
        files[f"topologies/{name}.yml"] = {"topology": name, "flows": {f"{name}_flow": flow}}
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(yaml.safe_dump(content, sort_keys=False, width=1000))


def line_of(root: Path, topology: str, word: str) -> int:
    """The first line of a topology with a word, from 1."""
    lines = (root / "topologies" / f"{topology}.yml").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if word in line)


def test_text_of_other_bytes_than_utf_8_stops_the_run_at_its_record_and_step(
    tmp_path: Path, spark_session: SparkSession
) -> None:
    write(tmp_path)
    with Project.load(tmp_path, session=spark_session) as project:
        project.append("inputs", [{"k": 1, "h": "41"}, {"k": 2, "h": "c3a4"}])
        fine = Project.load(tmp_path, session=spark_session, select=["plain"])
        assert not fine.run(until_caught_up=True).failed
        assert [record.value["made"] for record in project.read("plain_out")] == ["A", "ä"]
        project.append("inputs", [{"k": 3, "h": "ff41"}, {"k": 4, "h": ""}])
        results = project.run(until_caught_up=True, check=False)
        errors = {application.application: application.error or "" for application in results.applications}
    steps = {"plain": "select", "nested": "select", "keyed": "key_by"}
    for name, word in steps.items():
        place = f"topologies/{name}.yml:{line_of(tmp_path, name, word)}"
        error = errors[f"texts-{name}"]
        assert f"{place}: record inputs[0]@2 cannot be processed" in error
        assert "the text in 'made' is not UTF-8: its bytes are ff41" in error or "the text in 'a'" in error
