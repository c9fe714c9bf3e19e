"""docs/language: every example compiles, and the project that opens the pages passes its tests."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater import Project
from headwater.compiler.language.determinism import OPTIONS
from headwater.compiler.language.functions import AGGREGATES, GROUPS
from headwater.compiler.pipeline import CheckedProject

PAGES = {path.name: path.read_text("utf-8") for path in (Path(__file__).parents[3] / "docs" / "language").glob("*.md")}
FILES = {name: dict(re.findall(r"```\w+\n# (\S+)\n(.*?)```", page, re.DOTALL)) for name, page in PAGES.items()}
"""Whole files of the pages by page and path: blocks with their path in the first line."""
ALL_FILES = {path: text for files in FILES.values() for path, text in files.items()}

EXPRESSIONS = PAGES["expressions.md"]
TOPICS = ALL_FILES["topics/flights.yml"]
FUNCTIONS = {
    path.removesuffix(".py").replace("/", "__"): text
    for path, text in ALL_FILES.items()
    if path.startswith("functions/")
}
PARTS = [
    pytest.param(block, id=f"{name}-{number}")
    for name, page in sorted(PAGES.items())
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    if not block.startswith("# ")
]
PROFILES = "pages: {target: a, targets: {a: {log: {type: embedded, path: log}, state_dir: state}}}\n"


@pytest.mark.parametrize("part", PARTS)
def test_part_of_a_topology_compiles(compiled: Callable[..., CheckedProject], part: str) -> None:
    project = compiled(textwrap.dedent(TOPICS.removeprefix("topics:\n")), part, **FUNCTIONS)
    assert {found.code for found in project.diagnostics} <= {"HW037"}  # of functions for other examples
    assert len(project.topologies) == 1


def test_project_of_the_pages_passes_its_tests(tmp_path: Path) -> None:
    """Each page begins with a topology and its test; together they are a project, which needs no Java."""
    for name, files in FILES.items():
        assert {path.partition("/")[0] for path in files} >= {"topologies", "tests"}, name
    assert sum(map(len, FILES.values())) == len(ALL_FILES), "two pages have a file of one name"
    (tmp_path / "headwater.yml").write_text("name: pages\nversion: '1'\n")
    (tmp_path / "profiles.yml").write_text(PROFILES)
    for path, text in ALL_FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)

    results = Project(tmp_path).test()

    results.check()
    assert len(results.cases) == len(PAGES)


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_aggregate_is_in_the_table(name: str) -> None:
    table = PAGES["windows-and-aggregates.md"].partition("| aggregate | of a table too |")[2].partition("\n\n")[0]
    assert re.search(rf"\b{name}\b", table)


@pytest.mark.parametrize("text", OPTIONS)
def test_options_are_listed(text: str) -> None:
    options = EXPRESSIONS.partition("## Options of")[2]
    listed = re.search(rf"- \*{text.upper()}\*: ([^*]*?)(?=\n- |\Z)", options, re.DOTALL)
    assert listed is not None
    assert tuple(re.findall(r"`(\w+)`", listed[1])) == OPTIONS[text]


@pytest.mark.parametrize("group", GROUPS)
def test_functions_are_listed(group: str) -> None:
    listed = re.search(rf"- \*{group}\*: (.*?)(?=\n- |\n\n|\Z)", EXPRESSIONS, re.DOTALL)
    assert listed is not None
    assert re.findall(r"`(\w+)`", listed[1]) == GROUPS[group].split()
