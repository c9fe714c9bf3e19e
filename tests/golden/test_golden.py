"""Generated code, compared whole. Each folder here is a case: `project/` goes in, `expected/` comes out.

`pytest tests/golden --update-golden` writes all of it again. No case has a type that only Spark
knows. Two cases are projects that live elsewhere: what `headwater init` makes, and the example of flights.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft7Validator

from headwater import Project
from headwater.cli.main import main
from headwater.compiler.topology.graph import PythonStage
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.sql_step import SqlStep
from headwater.runtime.generated_code import load_runner
from headwater.runtime.ir.functions import PythonFunction, Udf
from headwater.runtime.records.types import parse_columns

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CASES = sorted(path.name for path in HERE.iterdir() if path.is_dir() and not path.name.startswith("__"))
RUFF = Path(sys.executable).with_name("ruff")
RULES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]

NO_JAVA = {"JAVA_HOME": "/nowhere", "PATH": ""}
_LEFT_OUT = shutil.ignore_patterns("target", ".headwater", "__pycache__")


def place(case: str, folder: Path) -> None:
    """Put the case's project into `folder`."""
    if case == "scaffold":
        result = CliRunner().invoke(main, ["init", "shop", "--project-dir", str(folder)])
        assert result.exit_code == 0, result.output
    else:
        source = ROOT / "projects" / case if case == "flights" else HERE / case / "project"
        shutil.copytree(source, folder, ignore=_LEFT_OUT)


def files_of(target: Path) -> dict[str, str]:
    """Everything that was generated, by its path."""
    return {
        path.relative_to(target).as_posix(): path.read_text("utf-8")
        for path in sorted(target.rglob("*"))
        if path.suffix in (".py", ".json") and not {".cache", ".schemas"} & {*path.parts}
    }


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[[str], Path]:
    """Compiles a case; its `target` folder."""

    def compile_(case: str) -> Path:
        project = tmp_path / case
        place(case, project)
        session: Any = NoSpark()
        Project(project, session=session).compile()
        return project / "target"

    return compile_


class NoSpark:
    """Stands where a session would, and fails if it is used."""

    def __getattr__(self, name: str) -> Any:
        pytest.fail("a type of this case is not known without Spark: `headwater compile -v` says why")


def ruff(*arguments: str, within: Path) -> str:
    """What ruff finds, or why it fails; empty where it finds nothing."""
    done = subprocess.run(
        [str(RUFF), *arguments, "--isolated", "--line-length=100"],
        cwd=within,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.stdout}{done.stderr}" if done.returncode else ""


@pytest.mark.parametrize("case", CASES)
def test_stores_that_are_listed_are_those_that_are_compiled(case: str, compiled: Callable[[str], Path]) -> None:
    target = compiled(case)
    project = Project(target.parent, session=NoSpark())

    listed = {(each.topology, each.name) for each in project.resources() if each.kind == "store"}

    assert listed == {(graph.name, store.name) for graph in project.compile().graphs for store in graph.stores}


@pytest.mark.parametrize("case", CASES)
def test_project_compiles_to_what_is_expected(case: str, compiled: Callable[[str], Path], update_golden: bool) -> None:
    found = files_of(compiled(case))
    expected = HERE / case / "expected"

    if update_golden:
        shutil.rmtree(expected, ignore_errors=True)
        for name, text in found.items():
            (expected / name).parent.mkdir(parents=True, exist_ok=True)
            (expected / name).write_text(text, "utf-8")
    assert found == files_of(expected)


@pytest.mark.parametrize("case", CASES)
def test_formatter_and_linter_change_nothing(case: str, compiled: Callable[[str], Path]) -> None:
    target = compiled(case)

    assert ruff("format", "--diff", "target", within=target.parent) == ""
    rules = f"--select={','.join(RULES['select'])}"
    assert ruff("check", rules, "target", within=target.parent) == ""


@pytest.mark.parametrize(
    "arguments", [["format", "--diff", "missing"], ["format", "--no-such-option", "."], ["check", "--select=NONE", "."]]
)
def test_formatter_that_fails_is_not_taken_for_one_that_finds_nothing(arguments: list[str], tmp_path: Path) -> None:
    assert ruff(*arguments, within=tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_generated_modules_declare_the_topology(case: str, compiled: Callable[[str], Path]) -> None:
    target = compiled(case)

    for path in target.glob("*/runner.py"):
        runner = load_runner(path)
        assert runner.topology.name == path.parent.name
        assert runner.topology.subtopologies
        assert Path(runner.settings.state_dir).is_relative_to(target.parent)


def test_code_and_commands_say_what_keeps_a_step_with_spark(compiled: Callable[[str], Path]) -> None:
    target = compiled("odd_names")
    root = target.parent
    kept = [each for each in Project(root, session=NoSpark()).step_engines() if each.kept]
    assert kept
    code = "".join(path.read_text() for path in target.glob("*/job.py")).replace(
        "\n    # ", " "
    )  # comments are wrapped
    described, told = (
        CliRunner().invoke(main, [*command, "--project-dir", str(root)]).stdout
        for command in (["describe"], ["compile", "-v"])
    )
    for each in kept:
        assert f" Spark SQL: {each.kept}" in code
        assert f"{each.at}\n      # Spark SQL: {each.kept}\n" in described
        assert f"  {each.at}: {each.kind} stays with Spark SQL: {each.kept}\n" in told


class Noting:
    """An engine that keeps what it is told."""

    def __init__(self) -> None:
        self.python: list[tuple[Any, ...]] = []
        self.sql_steps: list[tuple[str, Any, Any]] = []

    def in_task(self, step: Any, alone: bool) -> bool:
        return False

    def process(self, rows: None, nodes: Any, reads: Mapping[str, Flow], yields: Mapping[str, Flow]) -> None:
        self.python.append(([fields_of(node) for node in nodes], columns_of(reads), columns_of(yields)))

    def sql(self, rows: None, step: str, arguments: Mapping[str, Any]) -> None:
        said = next((arguments[name] for name in ("condition", "columns", "branches") if name in arguments), None)
        self.sql_steps.append((step, said, arguments["at"]))


_BUILT = {"sources", "by_itself"}


def fields_of(node: Any) -> tuple[str, dict[str, Any]]:
    """Its class and fields, but for what the pipe tells operators when it is built; of a function its code."""
    found = {field.name: getattr(node, field.name) for field in fields(node) if field.name not in _BUILT}
    return type(node).__name__, {name: said_of(value) for name, value in found.items()}


def said_of(value: Any) -> Any:
    """A field, but of a function its code: generated code has also the modules of others."""
    if isinstance(value, Udf):
        return fields_of(value)
    return (value.name, value.digest) if isinstance(value, PythonFunction) else value


def said_by(step: SqlStep) -> Any:
    """What a step says that does not depend on the steps around it."""
    match step.kind:
        case "where":
            return step.condition
        case "select" | "with_columns" | "explode":
            return step.columns
        case "branch":
            return tuple(step.branches.items())
    return None


def columns_of(flows: Mapping[str, Flow]) -> dict[str, Any]:
    """The columns of edges, in any order."""
    return {name: (parse_columns(flow.key), parse_columns(flow.value)) for name, flow in flows.items()}


@pytest.mark.parametrize("case", CASES)
def test_generated_code_has_the_operators_and_edges_of_the_graph(case: str, compiled: Callable[[str], Path]) -> None:
    target = compiled(case)
    for graph in Project(target.parent, session=NoSpark()).compile().graphs:
        written = load_runner(target / graph.name / "runner.py").topology.subtopologies
        for part, generated in zip(graph.subtopologies, written, strict=True):
            engine = Noting()
            generated.build(None, engine)

            python = [stage for stage in part.stages if isinstance(stage, PythonStage)]
            sql = [stage for stage in part.stages if isinstance(stage, SqlStep)]
            assert engine.python == [
                ([fields_of(node) for node in stage.nodes], columns_of(stage.reads), columns_of(stage.yields))
                for stage in python
            ]
            assert engine.sql_steps == [(step.kind, said_by(step), step.at) for step in sql]
            assert (generated.sources, generated.sinks, generated.stores) == (part.sources, part.sinks, part.stores)


def compile_in_a_process(project: Path, hash_seed: str) -> dict[str, str]:
    """Compile in a new Python, whose sets and dictionaries of strings are in an order of its own, and without Java."""
    command: Sequence[str] = [sys.executable, "-m", "headwater.cli.main", "compile", "--project-dir", str(project)]
    subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": hash_seed} | NO_JAVA, check=True, capture_output=True)
    return files_of(project / "target")


@pytest.mark.parametrize("case", ["flights", pytest.param("scaffold", marks=pytest.mark.soak)])
def test_two_compilations_without_java_are_equal_to_the_byte(case: str, compiled: Callable[[str], Path]) -> None:
    project = compiled(case).parent

    first = compile_in_a_process(project, "1")
    for path in (project / "target").glob("*/*.py"):
        path.unlink()

    assert compile_in_a_process(project, "2") == first


@pytest.mark.parametrize("case", CASES)
def test_manifest_has_the_form_of_its_schema(case: str, compiled: Callable[[str], Path]) -> None:
    manifest = json.loads((compiled(case) / "manifest.json").read_text("utf-8"))
    schema = json.loads((ROOT / "schemas" / "manifest.json").read_text("utf-8"))

    assert [error.message for error in Draft7Validator(schema).iter_errors(manifest)] == []
