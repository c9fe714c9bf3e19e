"""Each code has a project that triggers it and nothing else, with what is printed as its golden file.

A case is a folder `<code>-<slug>`: a project, `expected.txt`, and where files cannot be checked in a `prepare.py` whose
`prepare(project)` makes them. `pytest --update-golden` writes `expected.txt` anew.
"""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

from headwater.compiler.codes import CODES
from headwater.compiler.diagnostics import Diagnostics
from headwater.compiler.printing import as_text

HERE = Path(__file__).parent
CASES = sorted(path.name for path in HERE.iterdir() if path.name.startswith("HW"))


def diagnose(project: Path) -> tuple[Diagnostics, str]:
    """All findings of all stages that need no Spark, and how they are printed."""
    from headwater import compiler

    diagnostics = Diagnostics()
    if hasattr(compiler, "check_project"):
        loaded = compiler.check_project(project, diagnostics).loaded
    else:
        from headwater.compiler.load import load_project

        loaded = load_project(project, diagnostics)
    return diagnostics, as_text(diagnostics, loaded.sources)


@pytest.mark.parametrize("case", CASES)
def test_case_triggers_its_code_alone_and_prints_as_expected(case: str, tmp_path: Path, update_golden: bool) -> None:
    project = tmp_path / "project"
    shutil.copytree(HERE / case, project, ignore=shutil.ignore_patterns("expected.txt", "prepare.py"))
    if (HERE / case / "prepare.py").exists():
        runpy.run_path(str(HERE / case / "prepare.py"))["prepare"](project)
    diagnostics, printed = diagnose(project)
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
