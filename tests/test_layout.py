"""The layout of the code: how large modules are, and that texts name modules that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("api", "cli", "compiler", "plugins", "runtime")
TEXTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/internals/kafka-classes.md",
    "docs/internals/record-way.md",
)

LARGE = {
    "api/project.py": "a facade: the docstrings of its methods are the reference of the Python interface",
    "compiler/codes.py": "the table of codes",
}
SMALL = {
    "cli/commands/": "one module for each command, which is imported when the command is used",
    "compiler/ordering.py": "one algorithm, which no layer above owns",
    "runtime/cluster/spark/worker_daemon.py": "the module that Spark starts by name",
    "runtime/cluster/spark/worker.py": "all that a Python worker of Spark loads",
}


FEATURES = {"A join of a stream with a table": 16, "The commit of an epoch": 18, "A restore after a client is lost": 20}
"""The features whose modules the page on the architecture lists, and how many these may be."""


def modules() -> dict[str, str]:
    """The product's modules with their texts, without the `__init__.py` of packages."""
    files = [path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in files if path.name != "__init__.py"}


def test_modules_are_neither_many_nor_tiny_nor_huge() -> None:
    lines = {path: text.count("\n") for path, text in modules().items()}

    assert len(lines) <= 520
    assert {path for path, count in lines.items() if count > 520} == set(LARGE)
    small = {path for path, count in lines.items() if count < 40}
    assert not [path for path in small if not path.startswith(tuple(SMALL))]
    assert not [start for start in SMALL if not any(path.startswith(start) for path in small)]


@pytest.mark.parametrize("text", TEXTS)
def test_module_that_a_page_names_is_there(text: str) -> None:
    folders = (*PACKAGES, "tests", "benchmarks", "projects")
    known = [*ROOT.glob("*.py"), *(path for folder in folders for path in (ROOT / folder).rglob("*.py"))]
    named = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", (ROOT / text).read_text("utf-8"))
    written = [name for name in named if not name.startswith("target/")]

    gone = [name for name in written if not any(path.as_posix().endswith(f"/{name}") for path in known)]
    assert not gone


def test_module_that_a_docstring_names_is_there() -> None:
    found = modules()
    gone = {
        (path, name)
        for path, text in found.items()
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text)
        if not name.startswith(("functions/", "target/", "tests/", "plugins/"))
        if not any(f"/{other}".endswith(f"/{name}") for other in found)
    }
    assert not gone


def imported(path: str, text: str) -> set[str]:
    """The modules that one imports, by relative imports."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = Path(path).parents[node.level - 1].joinpath(*(node.module or "").split("."))
            found |= {f"{base.as_posix()}.py", *(f"{(base / name.name).as_posix()}.py" for name in node.names)}
    return found


@pytest.mark.parametrize("feature", FEATURES)
def test_modules_of_a_feature_are_few_and_lead_to_one_another(feature: str) -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    (entry,) = re.findall(rf"^- \*\*{feature}\*\*(.*(?:\n  .*)*)", page, re.MULTILINE)
    listed = re.findall(r"`([a-z_/]+\.py)`", entry)
    texts = modules()

    assert len(set(listed)) == len(listed) <= FEATURES[feature]
    reached, todo = set[str](), listed[:1]
    while todo:
        path = todo.pop()
        reached.add(path)
        todo += imported(path, texts[path]).intersection(listed) - reached
    assert reached == set(listed)
