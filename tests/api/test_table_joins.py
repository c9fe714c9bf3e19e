"""Joins of tables as a project writes them, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater import Project, TopologyTestDriver

TOPICS = """
orders: {partitions: 1, key: {id: string}, value: {amount: bigint}}
notes: {partitions: 1, key: {id: string}, value: {text: string}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    local = {"log": {"type": "embedded", "path": "log"}, "state_dir": "state"}
    files = {
        "headwater.yml": "{name: shop, version: '1', profile: shop}",
        "profiles.yml": yaml.safe_dump({"shop": {"target": "local", "targets": {"local": local}}}),
        "topics/inputs.yml": yaml.safe_dump({"topics": yaml.safe_load(TOPICS)}),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def topology(root: Path, text: str) -> None:
    (root / "topologies").mkdir()
    (root / "topologies" / "t.yml").write_text(f"topology: t\n{text}")


def record(key: str, timestamp: int, **value: Any) -> Mapping[str, Any]:
    return {"key": {"id": key}, "value": value or None, "timestamp": timestamp}


@pytest.mark.parametrize(
    "made", ["[to_table, {filter: amount > 5}]", "[{aggregate: {values: {amount: sum(amount)}}}, {filter: amount > 5}]"]
)
def test_flow_with_a_store_that_is_filtered_and_joined_has_two_stores(root: Path, made: str) -> None:
    topology(
        root,
        f"""
tables: {{noted: {{topic: notes}}}}
flows:
  big: {{from: orders, steps: {made}}}
  joined:
    from: noted
    steps:
      - join: {{table: big, type: left}}
    to: out
""",
    )
    with TopologyTestDriver(root, "t") as driver:
        driver.pipe_input("orders", [record("a", 1, amount=9)])
        driver.pipe_input("orders", [record("b", 2, amount=3)])
        driver.pipe_input("notes", [record("a", 3, text="x")])
        driver.pipe_input("notes", [record("b", 4, text="y")])
        found = {row.key["id"]: row.value["amount"] for row in driver.read_output("out")}
        kept = {name: [row.key["id"] for row in driver.query(name)] for name in ("big", "big-result")}
    assert found == {"a": 9, "b": None}
    assert kept == {"big": ["a", "b"], "big-result": ["a"]}
    with Project.load(root) as project:
        assert {each.name for each in project.resources() if each.kind == "store"} == {"noted", "big", "big-result"}
