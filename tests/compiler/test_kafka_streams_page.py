"""docs/from-kafka-streams.md: all of its YAML compiles, and its tables name each setting once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.compiler.pipeline import CheckedProject, compile_project

PAGE = (Path(__file__).parents[2] / "docs" / "from-kafka-streams.md").read_text("utf-8")
TOPICS, TOPOLOGY, COGROUP = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
OF_FLOW = {"from", "to", "start", "on_error"}
OF_TOPOLOGY = {"tables", "stores", "flows", "assignment"}
OF_TARGET = {"spark", "log", "state_dir", "state_cleanup_delay", "epoch", "client_tags"}
IN_KAFKA = {"partitions": 1, "key": {"name": "string"}, "windowed": True, "value": {"n": "int"}}
FUNCTIONS = {
    "functions__first": "class First:\n    def process(self, record):\n        pass\n",
    "functions__flights": "def worse(old, new):\n    return new\n",
    "functions__planes": """
        class Route:
            def initial(self):
                return {"flights": 0}

            def add(self, state, key, value):
                return {"flights": state.flights + 1}

            def subtract(self, state, key, value):
                return {"flights": state.flights - 1}
    """,
}


def rows() -> Iterator[tuple[str, str, list[Any]]]:
    """The rows of tables that have YAML: the first cell, what the flow of its steps reads, and the YAML."""
    for section in PAGE.split("\n#")[1:]:
        source = re.search(r"^Steps of a flow with `from: (\w+)`", section, re.MULTILINE)
        for line in re.findall(r"^\| .*\|$", section, re.MULTILINE):
            first, here = line.strip("|").split(" | ")[:2]
            spans = [span for span in re.findall(r"`([^`]+)`", here) if re.match(r"- \w|\{?\w+: ", span)]
            if spans and not here.strip().startswith("- "):
                yield first.strip(), source[1] if source else "late", [yaml.safe_load(span) for span in spans]


ROWS = list(rows())


def test_tables_are_found() -> None:
    assert len(ROWS) > 90


@pytest.mark.parametrize(("source", "items"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_yaml_of_row_compiles(
    compiled: Callable[..., CheckedProject], tmp_path: Path, source: str, items: list[Any]
) -> None:
    topics, topology = dict(TOPICS["topics"]), {key: dict(value) for key, value in TOPOLOGY.items()}
    flow: dict[str, Any] = {"from": source, "steps": [], "to": "results"}
    settings: dict[str, dict[str, Any]] = {"headwater.yml": {}, "profiles.yml": {}}
    for item in items:
        if isinstance(item, list):
            flow["steps"] += item
            continue
        ((key, value),) = item.items()
        if key in OF_FLOW:
            flow[key] = value
        elif key in OF_TARGET:
            settings["profiles.yml"][key] = value
        elif key == "topics":
            topics |= value
        elif key == "key":  # of a topic in Kafka
            topics["read"] = IN_KAFKA | {"kafka": item}
            settings["profiles.yml"]["kafka"] = {"main": {"bootstrap_servers": "kafka:9092"}}
        elif key == "name":
            settings["headwater.yml"][key] = value
        else:
            assert key in OF_TOPOLOGY
            topology[key] = {**topology.get(key, {}), **value}
    if any("branch" in step for step in flow["steps"]):
        del flow["to"]
    topology["flows"]["example"] = flow
    functions = {name: text for name, text in FUNCTIONS.items() if name.replace("__", ".") in repr(items)}
    found = compiled(yaml.safe_dump(topics), yaml.safe_dump(topology), **functions)
    for file, given in settings.items():
        said = yaml.safe_load((tmp_path / file).read_text())
        (said if file == "headwater.yml" else said["shop"]["targets"]["local"]).update(given)
        (tmp_path / file).write_text(yaml.safe_dump(said))
    if any(settings.values()):
        found = compile_project(tmp_path)
    assert faults(found, items) == []


@pytest.mark.parametrize("topology", [TOPOLOGY, COGROUP], ids=["topology", "cogroup"])
def test_block_compiles(compiled: Callable[..., CheckedProject], topology: dict[str, Any]) -> None:
    assert faults(compiled(yaml.safe_dump(TOPICS["topics"]), yaml.safe_dump(topology))) == []


def faults(found: CheckedProject, items: Iterable[Any] = ()) -> list[str]:
    """What the compiler finds, but for a store or table of `items` that nothing uses in a row by itself."""
    words = [(key, name) for item in items if isinstance(item, dict) for key in item for name in item[key]]
    unused = {f"No step uses the store {name!r}." for key, name in words if key == "stores"}
    unused |= {f"No flow reads {name!r}." for key, name in words if key == "tables"}
    return [f"{each.code} {each.message}" for each in found.diagnostics if each.message not in unused]
