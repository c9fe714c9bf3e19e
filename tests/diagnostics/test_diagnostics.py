"""Each code has a project that triggers it and nothing else, with what is printed as its golden file.

A case is a folder `<code>-<slug>`: a project and `expected.txt`, which `pytest --update-golden` writes. It may have

- `prepare.py`, whose `prepare(project)` makes files that cannot be checked in;
- `tests/`: the case is tested, and refused;
- `vars.json`, what `--vars` gives, `environment.json`, the environment of the command, and `without.json`, what `-p`
  leaves out;
- `verdicts.json`, what Spark's analyzer says of expressions: SQL -> type, or {"message", "offset"} of a refusal. With
  it the case is compiled, without it parsed.
"""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater import InvalidProjectError, Project
from headwater.compiler.codes import CODES
from headwater.compiler.diagnostics import Diagnostics, as_text
from headwater.compiler.pipeline import compile_project
from headwater.runtime.expressions.analyzer import Rejection, Request, Verdict
from headwater.runtime.serdes.serde import Direction, PayloadSpec, Problem, Serde

HERE = Path(__file__).parent
CASES = sorted(path.name for path in HERE.iterdir() if path.name.startswith("HW"))


class Verdicts:
    """An analyzer that knows the expressions of one case; any other one has the type `string`."""

    def __init__(self, verdicts: Mapping[str, Any]) -> None:
        self._verdicts = verdicts

    def analyze(self, requests: Sequence[Request]) -> list[Verdict]:
        found = [self._verdicts.get(sql, "string") for sql, _ in requests]
        return [verdict if isinstance(verdict, str) else Rejection(**verdict) for verdict in found]


class Plugins:
    """A catalog of plugins, with one option, in an environment without OR-Tools and rocksdict."""

    def names(self, kind: str) -> Collection[str]:
        if kind == "store_backend":
            return {"lmdb", "mine", "rocksdb"}
        names = {"assignor": {"balanced_count"}, "restore_strategy": {"changelog", "snapshot"}}
        names["serde"] = {"json", "string"}
        return names.get(kind, {"embedded"})

    def options_schema(self, kind: str, name: str) -> Mapping[str, Any]:
        options = {"size": {"type": "integer"}, "path": {"type": "string"}}
        return {"type": "object", "properties": options, "additionalProperties": False}

    def failures(self) -> Mapping[str, str]:
        return {}

    def missing(self, kind: str, name: str) -> Mapping[str, str]:
        return {"rocksdict": "headwater[rocksdb]"} if name == "rocksdb" else {}

    def needs_changelog(self, backend: str) -> bool:
        return backend == "mine"

    def makes(self, kind: str, name: str, method: str) -> bool:
        return name in ("snapshot", "lmdb")

    def serde(self, name: str, options: Mapping[str, Any]) -> Serde:
        return _OneColumn() if name == "string" else _AllColumns()

    def has_rack_solver(self) -> bool:
        return False


class _AllColumns:
    """A format without problems."""

    def check(self, spec: PayloadSpec, direction: Direction) -> Sequence[Problem]:
        return []

    def deserializer(self, spec: PayloadSpec) -> Any:
        pytest.fail("the compiler reads no payloads")

    def serializer(self, spec: PayloadSpec) -> Any:
        pytest.fail("the compiler writes no payloads")


class _OneColumn(_AllColumns):
    """A format of one text."""

    def check(self, spec: PayloadSpec, direction: Direction) -> Sequence[Problem]:
        if len(spec.columns) > 1:
            return [Problem(f"the format string holds one column, and this {spec.role} has {len(spec.columns)}")]
        wrong = [name for name, kind in spec.columns.items() if not pa.types.is_string(kind)]
        verb = "cannot write" if direction is Direction.WRITE else "cannot read"
        return [Problem(f"the format string {verb} {spec.columns[name]}; convert it to string", name) for name in wrong]


def diagnose(case: str, project: Path) -> tuple[Diagnostics, str]:
    """What the compiler finds, and how it is printed."""
    verdicts = HERE / case / "verdicts.json"
    analyzer = Verdicts(json.loads(verdicts.read_text(encoding="utf-8"))) if verdicts.exists() else None
    given = HERE / case / "vars.json"
    variables = json.loads(given.read_text(encoding="utf-8")) if given.exists() else None
    set_there = HERE / case / "environment.json"
    environment = json.loads(set_there.read_text(encoding="utf-8")) if set_there.exists() else {}
    left = HERE / case / "without.json"
    without = json.loads(left.read_text(encoding="utf-8")) if left.exists() else []
    checked = compile_project(
        project,
        analyzer=analyzer,
        plugins=Plugins(),
        vars=variables,
        environment=environment,
        without_plugins=without,
    )
    if (project / "tests").is_dir():
        with pytest.raises(InvalidProjectError) as refused:
            Project(project).test()
        found = refused.value.found
        return Diagnostics(found.diagnostics), as_text(found.diagnostics, found.sources)
    return checked.diagnostics, as_text(checked.diagnostics, checked.loaded.sources)


@pytest.mark.parametrize("case", CASES)
def test_case_triggers_its_code_alone_and_prints_as_expected(case: str, tmp_path: Path, update_golden: bool) -> None:
    project = tmp_path / "project"
    shutil.copytree(HERE / case, project, ignore=shutil.ignore_patterns("expected.txt", "prepare.py", "*.json"))
    if (HERE / case / "prepare.py").exists():
        runpy.run_path(str(HERE / case / "prepare.py"))["prepare"](project)
    diagnostics, printed = diagnose(case, project)
    assert {found.code for found in diagnostics} == {case.partition("-")[0]}, printed
    expected = HERE / case / "expected.txt"
    if update_golden:
        expected.write_text(printed, encoding="utf-8")
    assert printed == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("code", sorted(CODES))
def test_code_has_a_case(code: str) -> None:
    assert any(case.startswith(f"{code}-") for case in CASES)


def test_case_has_a_known_code() -> None:
    assert {case.partition("-")[0] for case in CASES} <= set(CODES)
