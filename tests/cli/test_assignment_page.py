"""docs/assignment.md does what it says: its example of an assignor, its case, its pictures, its names."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from headwater import Project
from headwater.cli.main import main
from headwater.plugins.manager import PluginManager
from headwater.runtime.assignment import cases
from headwater.runtime.assignment.assignor import AssignmentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "assignment.md").read_text("utf-8")
PICTURES = dict(re.findall(r"^    headwater (simulate .* --picture (\S+)\.svg)$", PAGE, re.MULTILINE))

Headwater = Callable[..., Result]


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[number]


@pytest.fixture
def by_size(shop: Path) -> Path:
    """The shop, with the page's own assignor as its plugin."""
    (shop / "plugins").mkdir()
    (shop / "plugins" / "by_size.py").write_text(block("python"))
    project, topology = shop / "headwater.yml", shop / "topologies" / "sales.yml"
    project.write_text(project.read_text() + block("yaml", 1))
    topology.write_text(topology.read_text() + block("yaml", 2))
    return shop


def test_example_has_thirty_lines_at_most() -> None:
    assert len(block("python").splitlines()) <= 30


def test_example_places_bytes_not_numbers(by_size: Path, headwater: Headwater) -> None:
    case = {
        "assignor": {"name": "by_size", "options": {"slack": 0}},
        "configs": {"num_standby_replicas": 1},
        "clients": [{"process_id": "a", "threads": 1}, {"process_id": "b", "threads": 1}],
        "tasks": [{"id": f"0_{number}", "state_bytes": size} for number, size in enumerate((100, 100, 100, 300))],
    }
    found = json.loads(headwater("assign", stdin=json.dumps(case)).stdout)

    assert found["error"] is None
    assert found["assignments"] == {
        "a": {"active": ["0_3"], "standby": ["0_0", "0_1", "0_2"]},
        "b": {"active": ["0_0", "0_1", "0_2"], "standby": ["0_3"]},
    }


@pytest.mark.parametrize(("slack", "stays"), [(0, False), (0.5, True)])
def test_example_keeps_tasks_where_there_is_room(
    by_size: Path, headwater: Headwater, slack: float, stays: bool
) -> None:
    case = {
        "assignor": {"name": "by_size", "options": {"slack": slack}},
        "clients": [
            {"process_id": "a", "threads": 1, "previous_active": ["0_0", "0_1"]},
            {"process_id": "b", "threads": 1, "previous_active": ["0_2"]},
        ],
        "tasks": [{"id": f"0_{number}", "state_bytes": 100} for number in range(3)],
    }
    found = json.loads(headwater("assign", stdin=json.dumps(case)).stdout)

    assert (found["assignments"]["a"]["active"] == ["0_0", "0_1"]) is stays


def test_option_that_the_example_s_schema_refuses_is_found_with_its_place(by_size: Path, headwater: Headwater) -> None:
    topology = by_size / "topologies" / "sales.yml"
    topology.write_text(topology.read_text().replace("slack: 0.5", "slack: -1"))
    result = headwater("compile")
    line = topology.read_text().splitlines().index("      slack: -1") + 1

    assert result.exit_code == 1
    assert f"sales.yml:{line}:" in result.stderr
    assert "HW602" in result.stderr


def test_example_is_simulated(by_size: Path, headwater: Headwater) -> None:
    result = headwater("simulate", "--events", "kill c2; add 3; roll")

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("sales: 4 tasks, assignor by_size,")


@pytest.mark.spark
def test_example_places_the_tasks_of_a_run(by_size: Path, spark_session: SparkSession) -> None:
    profiles = by_size / "profiles.yml"
    profiles.write_text(re.sub(r"clients: \d+", "clients: 2", profiles.read_text()))
    with Project(by_size, session=spark_session) as project:
        (result,) = project.build().applications
        rows = list(project.query("sales_by_day"))

    assert (result.status, result.error) == ("caught_up", None)
    assert sorted(task for tasks in result.assignment.values() for task in tasks) == ["0_0", "0_1", "1_0", "1_1"]
    assert all(result.assignment.values())
    (told,) = json.loads((by_size / "target" / "run_results.json").read_text())["applications"]
    assert told["placement"]["assignor"] == "by_size"
    assert sum(row.value["orders"] for row in rows) > 0


def test_case_is_answered_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case = json.dumps(json.loads(block("json")))

    assert json.loads(CliRunner().invoke(main, ["assign"], input=case).stdout) == json.loads(block("json", 1))


@pytest.mark.parametrize("arguments", PICTURES)
def test_picture_is_what_the_command_draws(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update_golden: bool
) -> None:
    shutil.copytree(ROOT / "projects" / "flights", tmp_path / "flights", ignore=shutil.ignore_patterns("target", ".*"))
    monkeypatch.chdir(tmp_path / "flights")
    result = CliRunner().invoke(main, shlex.split(arguments))
    drawn, shown = Path(f"{PICTURES[arguments]}.svg"), ROOT / "docs" / "pictures" / f"{PICTURES[arguments]}.svg"

    assert result.exit_code == 0, result.output
    assert f"](pictures/{shown.name})" in PAGE
    if update_golden:
        shutil.copy(drawn, shown)
    assert drawn.read_text() == shown.read_text(), "run pytest --update-golden, and look at the picture"


def test_every_committed_picture_is_shown() -> None:
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md"))
    shown = set(re.findall(r"\]\((?:\.\./)?pictures/(\w+\.svg)\)", pages))
    assert {path.name for path in (ROOT / "docs" / "pictures").glob("*.svg")} == shown
    assert {f"{name}.svg" for name in PICTURES.values()} <= shown


@pytest.mark.parametrize(
    "name",
    [
        *PluginManager(installed=False).assignors,
        *(error.name for error in AssignmentError),
        *cases._CASE,
        *cases._CONFIGS,
        *cases._CLIENT,
        *cases._TASK,
    ],
)
def test_page_names_every_assignor_error_and_key(name: str) -> None:
    assert f"`{name}`" in PAGE
