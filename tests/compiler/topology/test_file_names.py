"""Names that become names of files fit into a file system; those that would not are refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.compiler.diagnostics import Diagnostics
from headwater.compiler.pipeline import CheckedProject
from headwater.compiler.topology.file_names import (
    MAX_APPLICATION_BYTES,
    MAX_BYTES,
    check_case_conflicts,
    is_case_sensitive,
)

Compile = Callable[..., CheckedProject]

TOPICS = "clicks: {partitions: 1, key: {user: string}, value: {url: string}}\n"
FLOW = """
stores:
  %(store)s: {}
flows:
  %(flow)s:
    from: clicks
    %(policy)s
    steps:
      - key_by: {url: url}
      - aggregate: {store: %(store)s, values: {n: count(*)}}
    to: counted
"""


def found(project: CheckedProject) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in project.diagnostics]


def flow(flow: str = "f", store: str = "s", policy: str = "") -> str:
    return FLOW % {"flow": flow, "store": store, "policy": policy}


# The project is called shop, the topology t.
def test_longest_names_of_flows_and_stores_are_taken(compiled: Compile) -> None:
    assert not found(compiled(TOPICS, flow("n" * 200, "n" * 200), parse=True))


def test_repartition_topic_that_would_be_too_long_is_refused(compiled: Compile) -> None:
    step = "      - key_by: {url: url}\n        name: " + "k" * 40
    longer = flow("n" * 200).replace("      - key_by: {url: url}", step)
    project = compiled(TOPICS, longer, parse=True)

    name = "shop-t-" + "n" * 200 + "-" + "k" * 40 + "-repartition"
    assert len(name) > MAX_BYTES
    assert found(project) == [
        (
            "HW039",
            f"The name of the repartition topic '{name}' has {len(name)} characters; it becomes the name of a "
            "folder, which may have at most 255.",
        )
    ]


def test_topic_of_dead_letters_that_would_be_too_long_is_refused(compiled: Compile) -> None:
    name = "c" * 249
    project = compiled(
        TOPICS.replace("clicks", name), flow(policy="on_error: dead_letter").replace("clicks", name), parse=True
    )

    (only,) = found(project)
    assert only[0] == "HW039"
    assert only[1].startswith(f"The name of the topic of dead letters of '{name}' has {249 + 14} characters")


def test_topic_of_dead_letters_of_a_copy_that_would_be_too_long_is_refused(compiled: Compile) -> None:
    name = "c" * 249
    topic = f"{name}: {{partitions: 1, value: {{url: string}}, on_error: dead_letter, kafka: {{}}}}\n"

    (only,) = found(compiled(topic + TOPICS, flow(), parse=True))

    assert only[0] == "HW039"
    assert only[1].startswith(f"The name of the topic of dead letters of '{name}' has {249 + 18} characters")


def test_application_and_changelog_that_would_be_too_long_are_refused(shop: Path) -> None:
    from headwater import Project

    def errors(project: int, topology: int, store: int) -> list[str]:
        declared = "stores:\n  " + "s" * store + ": {type: window, retention: 30d}\n"
        text = (shop / "sales.yml").read_text().replace("topology: sales", "topology: " + "t" * topology)
        text = text.replace("sales_by_day", "s" * store)
        assert declared.partition(" {")[0].rstrip(":") in text
        (shop / "topologies" / "sales.yml").write_text(text)
        (shop / "headwater.yml").write_text(
            f"name: {'p' * project}\nversion: '1'\nprofile: shop\nvars: {{smallest_order: 1}}\n"
        )
        return [f"{each.position}: {each.message}" for each in Project(shop).parse().errors]

    assert errors(100, 114, 29) == []
    assert errors(100, 115, 5) == [
        "topologies/sales.yml:2:11: The name of the topology's application, '<project>-<topology>', has 216 "
        f"characters; it becomes the name of a folder, which may have at most {MAX_APPLICATION_BYTES}."
    ]
    (too_long,) = errors(100, 114, 30)
    assert too_long.startswith(
        "topologies/sales.yml:6:3: The name of the changelog of the store 'ssssssssssssssssssssssssssssss'"
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    from headwater.cli.commands.init import command as init

    root = tmp_path / "shop"
    init.main(["shop", "--project-dir", str(root)], standalone_mode=False)
    (root / "topologies" / "sales.yml").rename(root / "sales.yml")
    return root


def test_names_that_differ_in_capitals_only_are_twins(compiled: Compile) -> None:
    project = compiled(
        TOPICS + TOPICS.replace("clicks", "Clicks"),
        flow(store="Counts").replace("Counts: {}", "Counts: {}\n  counts: {}"),
        parse=True,
    )
    diagnostics = Diagnostics()

    check_case_conflicts(project.model, diagnostics)

    assert not [each for each in project.diagnostics if each.code == "HW039"]  # this file system tells them apart
    assert [each.message for each in diagnostics] == [
        f"The {names} differ only in case, and the file system of this project is not case-sensitive."
        for names in ("topics 'clicks' and 'Clicks'", "stores or tables 'Counts' and 'counts'")
    ]


def test_file_system_that_tells_capitals_is_known_by_a_folder_of_it_or_above(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "ONE").symlink_to("one")

    assert is_case_sensitive(tmp_path / "one") != (tmp_path / "oNe").exists()
    assert is_case_sensitive(tmp_path / "one" / "2" / "missing") != (tmp_path / "oNe").exists()


def test_folder_of_which_nothing_is_there_but_the_root_tells_capitals() -> None:
    assert is_case_sensitive(Path("/missing-here/shop/state"))
    assert is_case_sensitive(Path("/"))
