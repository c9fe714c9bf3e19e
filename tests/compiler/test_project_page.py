"""docs/project.md: its examples make a project, and it names every key of the files that it is about."""

from __future__ import annotations

import json
import re
import textwrap
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from headwater import Project

PAGE = (Path(__file__).parents[2] / "docs" / "project.md").read_text("utf-8")
HEADWATER, PROFILES, _OBJECT_STORE, STEPS, TOPICS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
ORDERS = "topics:\n  orders:\n    partitions: 2\n    value:\n      quantity: int\n"
TOPOLOGY = "topology: sales\nflows:\n  large:\n    from: orders\n    to: large_orders\n" + textwrap.indent(
    STEPS, "    "
)


def keys(schema: str, *path: str) -> list[str]:
    """The keys of an object of a schema, without those that every object may carry."""
    definition: dict[str, Any] = json.loads((files("headwater.schemas") / f"{schema}.json").read_text("utf-8"))
    for part in path:
        definition = definition[part]
    return sorted({*definition["properties"]} - {"description", "tags", "meta"})


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_examples_make_a_project_without_findings(tmp_path: Path) -> None:
    texts = {
        "headwater.yml": HEADWATER,
        "profiles.yml": PROFILES,
        "topics/products.yml": TOPICS,
        "topics/orders.yml": ORDERS,
        "topologies/sales.yml": TOPOLOGY,
        "plugins/mine.py": "",
        "functions/text.py": "def slug(title):\n    return title\n",
        "seeds/products.csv": "product,name\ntea,Green Tea\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    with Project.load(tmp_path) as project:
        assert project.parse().diagnostics == ()


@pytest.mark.parametrize("key", keys("project"))
def test_key_of_headwater_yml_is_explained(key: str) -> None:
    assert f"`{key}`" in section("headwater.yml") or f"`{key}:`" in section("Variables")


@pytest.mark.parametrize("key", keys("profiles", "definitions", "target"))
def test_key_of_a_target_is_in_the_table(key: str) -> None:
    assert f"\n| `{key}` |" in section("profiles.yml")


@pytest.mark.parametrize("key", keys("topics", "definitions", "seed"))
def test_key_of_a_seed_is_in_the_table(key: str) -> None:
    assert f"\n| `{key}` |" in section("Seeds")
