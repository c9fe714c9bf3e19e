"""Topics may have the names that Kafka takes. All else in a project has plainer ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.compiler.emit.literals import Constants
from headwater.compiler.pipeline import CheckedProject
from headwater.compiler.resources import resources_of
from headwater.compiler.selectors import select

Compile = Callable[..., CheckedProject]

NAMES = ["eu.orders-v1", "a.b", "a_b", "a-b", ".hidden", "-dashed-", "2024", "...", "x" * 249]


def topic(name: str) -> str:
    return f'"{name}": {{partitions: 1, key: {{k: string}}, value: {{v: int}}}}\n'


@pytest.mark.parametrize("name", NAMES)
def test_topic_with_a_name_of_kafka_is_read_and_written(compiled: Compile, name: str) -> None:
    reading = (
        f'tables:\n  looked_up: {{topic: "{name}"}}\nflows:\n  copied: {{from: "{name}", to: "{name[:200]}.copy"}}\n'
    )
    project = compiled(topic(name), reading)
    assert not list(project.diagnostics)
    assert {each.name for each in project.topologies[0].topics} == {name, f"{name[:200]}.copy"}


@pytest.mark.parametrize("name", [".", "..", "a b", "a/b", "a:b", "ä", "x" * 250, "a\\n"])
def test_topic_with_another_name_is_refused(compiled: Compile, name: str) -> None:
    project = compiled(topic(name), f'flows:\n  copied: {{from: clicks, to: "{name}"}}\n', parse=True)
    codes = [found.code for found in project.diagnostics if found.position.file.startswith("topics/")]
    assert codes == ["HW208" if len(name) > 249 else "HW209"]


@pytest.mark.parametrize(
    "entry",
    ["flows:\n  a.b: {from: clicks, to: c}", "tables:\n  a-b: {topic: clicks}\nflows:\n  f: {from: clicks, to: c}"],
)
def test_flow_and_table_have_plain_names(compiled: Compile, entry: str) -> None:
    assert [found.code for found in compiled(topic("clicks"), entry, parse=True).diagnostics] == ["HW209"]


@pytest.mark.parametrize("name", ["shop-t-counts-changelog", "shop-t-late-repartition", "shop-changelog"])
def test_name_of_a_topic_of_headwater_is_refused(compiled: Compile, name: str) -> None:
    declared = compiled(topic(name), parse=True)
    written = compiled(topic("clicks"), f"flows:\n  copied: {{from: clicks, to: {name}}}\n", parse=True)
    assert [found.code for project in (declared, written) for found in project.diagnostics] == ["HW209", "HW209"]


def test_topics_that_differ_in_dots_and_dashes_have_constants_of_their_own(compiled: Compile) -> None:
    names = ["a.b", "a-b", "a_b", "A_B"]
    flows = "\n".join(f"  f{number}: {{from: clicks, to: {name}}}" for number, name in enumerate(names))
    graph = compiled(topic("clicks"), f"flows:\n{flows}\n").topologies[0]
    constants = Constants(graph)
    found = {each.name: constants[each] for each in graph.topics}
    assert len(set(found.values())) == len(names) + 1
    assert all(name.isidentifier() for name in found.values())


def test_topic_with_dots_is_selected_by_its_name_and_by_a_pattern(tmp_path: Path, compiled: Compile) -> None:
    project = compiled(topic("eu.orders-v1") + topic("us.orders"), "flows:\n  f: {from: eu.orders-v1, to: eu.copy}\n")
    resources = resources_of(project.loaded, project.model)
    assert select(resources, ["eu.orders-v1"]) == {"topic.eu.orders-v1"}
    assert select(resources, ["eu.orders-v1+"]) == {"topic.eu.orders-v1", "topology.t", "topic.eu.copy"}
    assert select(resources, ["eu.*"]) == {"topic.eu.orders-v1", "topic.eu.copy"}
