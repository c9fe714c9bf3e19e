"""What editors take for right and wrong is what the compiler does, before Jinja is rendered."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from headwater.cli.main import main
from headwater.compiler.emit.target import FILES, editor_schema

ROOT = Path(__file__).parents[3]
MODELINE = re.compile(r"# yaml-language-server: \$schema=(\S+)\n")
FENCE = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
SCHEMAS = {name: jsonschema.Draft7Validator(editor_schema(name)) for name in FILES}
OTHERS = {"scrape_configs", "repos", "jobs"}
"""Blocks of the docs that are another program's."""

TOPOLOGY = {"topology": "example", "flows": {"all": {"from": "clicks", "to": "copies"}}}
PROJECT = {"name": "example", "version": "1"}
TOPIC = {"partitions": 1, "value": {"a": "int"}}
CLUSTER = {"bootstrap_servers": "kafka:9092"}


def project_files() -> list[Path]:
    found = [*ROOT.glob("projects/**/*.y*ml"), *ROOT.glob("tests/golden/*/project/**/*.y*ml")]
    return [path for path in found if not {"target", ".headwater"} & {*path.parts}]


def schema_of(path: Path) -> str:
    if path.stem in ("headwater", "profiles"):
        return {"headwater": "project", "profiles": "profiles"}[path.stem]
    if path.parent.name == "tests":
        return "tests"
    return "topics" if "topics" in path.parts else "topology"


def errors(name: str, content: Any) -> list[str]:
    return [f"{list(each.absolute_path)}: {each.message}" for each in SCHEMAS[name].iter_errors(content)]


@pytest.mark.parametrize("name", FILES)
def test_schema_is_draft_7_and_lies_beside_itself(name: str) -> None:
    jsonschema.Draft7Validator.check_schema(editor_schema(name))
    assert editor_schema(name)["$id"] == f"{name}.json"


@pytest.mark.parametrize("path", project_files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_file_of_a_project_fits(path: Path) -> None:
    assert errors(schema_of(path), yaml.safe_load(path.read_text("utf-8"))) == []


def whole(block: dict[str, Any]) -> tuple[str, Any]:
    """A block of the docs as the file that it is, or is a part of."""
    keys = set(block)
    if "topics" in keys:
        return "topics", block
    if "tests" in keys:
        return "tests", block
    if keys <= {"name", "version", "profile", "vars", "plugins", "functions"}:
        return "project", PROJECT | block
    if keys <= {"log", "lineage", "spark", "state_dir", "racks", "cleaner"}:
        return "profiles", {"example": {"target": "local", "targets": {"local": block}}}
    if keys == {"kafka"}:
        return "topics", {"topics": {"example": TOPIC | block}}
    if keys <= {"bootstrap_servers", "security", "client", "registry"}:
        return whole({"main": block})
    if keys == {"main"}:
        clusters = {"main": CLUSTER | block["main"]}
        return "profiles", {"example": {"target": "local", "targets": {"local": {"kafka": clusters}}}}
    if len(keys) == 1 and "targets" in (next(iter(block.values())) or {}):
        return "profiles", block
    if "steps" in keys:
        return "topology", TOPOLOGY | {"flows": {"all": {"from": "clicks", **block}}}
    return "topology", TOPOLOGY | block


def blocks() -> list[Any]:
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    return [
        pytest.param(block, id=f"{page.name}-{number}")
        for page in pages
        for number, block in enumerate(FENCE.findall(page.read_text("utf-8")))
        if isinstance(yaml.safe_load(block), dict) and not OTHERS & set(yaml.safe_load(block))
    ]


@pytest.mark.parametrize("block", blocks())
def test_block_of_the_docs_fits(block: str) -> None:
    name, content = whole(yaml.safe_load(block))
    assert errors(name, content) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("topics", {"topics": {"t": TOPIC | {"partitions": "{{ var('partitions', 4) }}"}}}),
        ("topics", {"topics": {"t": TOPIC | {"windowed": "{{ var('w') }}", "retention": "{{ var('r') }}"}}}),
        ("topics", {"topics": {"t": "{{ var('topic') }}"}}),
        ("topology", TOPOLOGY | {"flows": {"all": {"from": "{{ var('source') }}", "steps": "{{ var('steps') }}"}}}),
        (
            "topology",
            TOPOLOGY | {"flows": {"all": {"from": "a", "steps": [{"window": {"tumbling": "{{ var('w') }}"}}]}}},
        ),
        ("profiles", {"p": {"target": "a", "targets": {"a": {"clients": "{{ env_var('N') | int }}"}}}}),
    ],
)
def test_value_with_jinja_fits(name: str, content: Any) -> None:
    assert errors(name, content) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("topics", {"topics": {"t": TOPIC | {"partitions": "4"}}}),
        ("topics", {"topics": {"t": TOPIC | {"{{ var('key') }}": 1}}}),
        ("topology", TOPOLOGY | {"flows": {"all": {"from": "a", "steps": [{"where": "{{ var('p') }}"}]}}}),
        ("profiles", {"p": {"target": "a", "targets": {"a": {"clients": 0}}}}),
        ("project", PROJECT | {"version": 1}),
    ],
)
def test_value_that_the_compiler_refuses_is_refused(name: str, content: Any) -> None:
    assert errors(name, content)


def test_files_of_a_new_project_name_schemas_that_are_there(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["init", "shop", "--project-dir", str(tmp_path / "shop")]).exit_code == 0
    files = list((tmp_path / "shop").rglob("*.yml"))
    assert len(files) == 5
    for path in files:
        named = MODELINE.match(path.read_text("utf-8"))
        assert named is not None
        schema = json.loads((path.parent / named[1]).read_text("utf-8"))
        assert schema["$id"] == f"{schema_of(path.relative_to(tmp_path))}.json"
        assert errors(schema_of(path.relative_to(tmp_path)), yaml.safe_load(path.read_text("utf-8"))) == []
