"""assign: in a project and outside of one, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headwater.cli.main import main

CASE = {"id": "x", "clients": [{"process_id": "a", "threads": 1}], "tasks": [{"id": "0_0"}]}

PLUGIN = """
from headwater.plugins import hookimpl
from headwater.runtime.assignment.balanced import BalancedCount


@hookimpl
def headwater_register_assignors(register):
    register("mine", lambda twice: BalancedCount(), {"properties": {"twice": {"type": "boolean"}}}, "Mine.")
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def with_plugin(shop: Path) -> Path:
    (shop / "plugins").mkdir()
    (shop / "plugins" / "assignors.py").write_text(PLUGIN)
    file = shop / "headwater.yml"
    file.write_text(file.read_text() + "plugins:\n  - plugins.assignors\n")
    return shop


def line(**keys: object) -> str:
    return json.dumps({**CASE, **keys}) + "\n"


def answers(result: Result) -> list[dict]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("outside")
def test_case_is_answered_outside_a_project() -> None:
    result = CliRunner().invoke(main, ["assign"], input=line(assignor="balanced_count"))

    assert result.exit_code == 0
    assert answers(result) == [
        {
            "id": "x",
            "assignments": {"a": {"active": ["0_0"], "standby": []}},
            "followup_deadlines": {},
            "error": None,
            "validation": "NONE",
        }
    ]


def test_cases_come_from_a_file(outside: Path) -> None:
    (outside / "cases.jsonl").write_text(line(assignor="balanced_count") * 2)

    assert len(answers(CliRunner().invoke(main, ["assign", "cases.jsonl"]))) == 2


@pytest.mark.usefixtures("outside")
def test_error_of_a_case_leaves_the_exit_status_alone() -> None:
    result = CliRunner().invoke(main, ["assign"], input="?\n" + line(assignor="balanced_cuont"))

    assert result.exit_code == 0
    assert answers(result)[0]["line"] == 1
    assert answers(result)[1]["error"].startswith("there is no assignor 'balanced_cuont' (did you mean balanced_count")


@pytest.mark.usefixtures("outside")
def test_missing_file_is_wrong_use() -> None:
    assert CliRunner().invoke(main, ["assign", "nowhere.jsonl"]).exit_code == 2


@pytest.mark.usefixtures("outside")
def test_input_that_is_closed_is_wrong_use() -> None:
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m headwater.cli.main assign <&-'],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "standard input is closed" in done.stderr


@pytest.mark.usefixtures("outside")
def test_number_that_is_too_large_is_told_as_that() -> None:
    task = '{"id": "0_0", "records_per_second": 1e400}'
    given = f'{{"clients": [{{"process_id": "a", "threads": 1}}], "tasks": [{task}]}}'

    (found,) = answers(CliRunner().invoke(main, ["assign"], input=given))
    assert found["error"].endswith("found a number that does not fit into 64 bits")


def test_what_plugins_print_is_no_answer(with_plugin: Path, headwater: Callable[..., Result]) -> None:
    with (with_plugin / "plugins" / "assignors.py").open("a") as file:
        file.write("print('imported')\n")

    result = headwater("assign", stdin=line(assignor="balanced_count"))

    assert len(answers(result)) == 1
    assert "imported" in result.stderr


@pytest.mark.usefixtures("with_plugin")
def test_project_s_own_assignor_takes_its_options(headwater: Callable[..., Result]) -> None:
    given = line(assignor={"name": "mine", "options": {"twice": True}})
    given += line(assignor={"name": "mine", "options": {"twice": 2}})

    placed, refused = answers(headwater("assign", stdin=given))

    assert placed["assignments"] == {"a": {"active": ["0_0"], "standby": []}}
    assert refused["error"] == "bad options of assignor mine: twice: 2 is not of type 'boolean'"


def test_project_is_the_one_of_the_current_folder(with_plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(with_plugin)
    given = line(assignor={"name": "mine", "options": {"twice": True}})

    assert answers(CliRunner().invoke(main, ["assign"], input=given))[0]["error"] is None


def test_project_that_was_asked_for_and_is_not_there_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["assign", "--project-dir", str(tmp_path / "no")], input=line())

    assert result.exit_code == 2
    assert "there is no folder" in result.stderr


def test_assign_imports_no_spark_in_a_project_of_its_own(with_plugin: Path) -> None:
    code = (
        "import atexit, sys\n"
        "from headwater.cli.main import main\n"
        "atexit.register(lambda: print('\\n'.join(sys.modules), file=sys.stderr))\n"
        "main(['assign'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=with_plugin, input=line(), capture_output=True, text=True, check=True
    )
    modules = done.stderr.split()

    assert "headwater.runtime.assignment.cases" in modules
    assert not [name for name in modules if name.startswith(("pyspark", "headwater.runtime.cluster.spark", "py4j"))]
