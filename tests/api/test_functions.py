"""Functions of a project, from its folder to results, without Java; and the examples of their page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater import Project, TopologyTestDriver
from headwater.runtime.changes.comparison import Comparison
from headwater.runtime.changes.model import Change
from headwater.runtime.generated_code import load_runner
from headwater.runtime.ir.topology import Topology
from headwater.runtime.log.commit.descriptions import TopologyDescription

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "functions.md").read_text("utf-8")
FILES = re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
DRIVEN = next(text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "TopologyTestDriver" in text)


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """The project of the page."""
    root = tmp_path / "fleet"
    golden = ROOT / "tests" / "golden" / "functions" / "project"
    for path in ("headwater.yml", "profiles.yml", "topics/topics.yml"):
        root.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        root.joinpath(path).write_text(golden.joinpath(path).read_text())
    for path, text in FILES:
        root.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        root.joinpath(path).write_text(text)
    return root


def compiled(root: Path) -> Topology:
    emitted = next(each for each in Project(root).compile().emitted if each.topology != "labels")
    return load_runner(emitted.runner).topology


def changes(was: Topology, is_: Topology) -> list[Change]:
    now = TopologyDescription.from_topology(is_)
    return list(Comparison.of(is_, TopologyDescription.from_topology(was), now).changes(consumed=True))


def test_tests_of_the_page_pass_with_pytest(fleet: Path) -> None:
    (fleet / "tests" / "test_flow.py").write_text(DRIVEN)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."], cwd=fleet, capture_output=True, text=True
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_changed_code_is_what_runs_next_and_a_plan_says_so(fleet: Path) -> None:
    before = compiled(fleet)
    assert not changes(before, compiled(fleet))
    (fleet / "functions" / "other.py").write_text("x = 1\n")
    assert not changes(before, compiled(fleet))
    module = fleet / "functions" / "devices.py"
    module.write_text(module.read_text().replace(">=", ">"))
    (change,) = changes(before, compiled(fleet))
    told = " ".join(re.search(r"```text\nflow (.*?)```", PAGE, re.DOTALL)[1].split())  # type: ignore[index]
    assert (change.kind, change.verdict, str(change)) == ("flow.code", "compatible", f"flow {told}")


def test_another_function_is_another_step_and_no_change_of_code(fleet: Path) -> None:
    before = compiled(fleet)
    module = fleet / "functions" / "devices.py"
    module.write_text(module.read_text() + "\n\ndef first(old, new):\n    return old\n")
    topology = fleet / "topologies" / "devices.yml"
    topology.write_text(topology.read_text().replace(":latest", ":first"))
    assert [change.kind for change in changes(before, compiled(fleet))] == ["flow.steps"]


def test_code_that_is_gone_from_the_project_is_gone_from_the_target(fleet: Path) -> None:
    module = fleet / "functions" / "devices.py"
    (fleet / "functions" / "words.py").write_text("")
    text = module.read_text()
    module.write_text(f"from . import words\n{text}")
    compiled(fleet)
    kept = fleet / "target" / "devices" / "functions"
    assert sorted(path.name for path in kept.iterdir()) == ["devices.py", "words.py"]
    module.write_text(text)
    compiled(fleet)
    assert [path.name for path in kept.iterdir()] == ["devices.py"]
    (fleet / "topologies" / "devices.yml").rename(fleet / "topologies" / "other.yml")
    other = fleet / "topologies" / "other.yml"
    other.write_text(other.read_text().replace("topology: devices", "topology: other"))
    compiled(fleet)
    assert not list(kept.rglob("*.py"))


@pytest.mark.spark
def test_code_travels_to_spark_and_a_changed_one_runs_in_the_same_workers(
    fleet: Path, spark_session: SparkSession
) -> None:
    event = {"device": "a", "status": "ok", "battery": 1.0, "seen": "2024-05-01T08:00:00Z"}
    module = fleet / "functions" / "devices.py"
    text = module.read_text()
    found = []
    for status in ("better", "worse"):
        line = "    return {'status': words.STATUS, 'battery': 0.0, 'seen': new.seen}"
        module.write_text(f"from . import words\n{text.split('    return new')[0]}{line}\n")
        (fleet / "functions" / "words.py").write_text(f"STATUS = {status!r}\n")
        with TopologyTestDriver(fleet, "devices", engine="spark", session=spark_session) as driver:
            (fleet / "functions").rename(fleet / "away")  # what the workers have came with the topology
            driver.pipe_input("device_events", [event, event])
            found += [record.value["status"] for record in driver.read_output("device_state")]
        (fleet / "away").rename(fleet / "functions")
    assert found == ["better", "worse"]


def test_error_of_a_function_is_told_with_record_place_and_line(fleet: Path) -> None:
    event = {"device": "a", "status": "ok", "battery": 1.0, "seen": "2024-05-01T08:00:00Z"}
    with TopologyTestDriver(fleet, "devices") as driver:
        driver.pipe_input("device_events", [event])
        with pytest.raises(Exception, match=r"devices\.yml:6: record device_events") as failed:
            driver.pipe_input("device_events", [{**event, "seen": None, "timestamp": 1_714_550_400_001}])
    assert "\n  functions/devices.py:5, in latest: return new if new.seen >= old.seen else old\n" in str(failed.value)


def test_expressions_of_the_page_call_functions(fleet: Path) -> None:
    with TopologyTestDriver(fleet, "labels") as driver:
        for minute, status, battery in ((1, "ok", 0.5), (2, "bad", 0.104), (3, None, 0.1), (4, "ok", None)):
            seen = f"2024-05-01T08:{minute:02}:00Z"
            driver.pipe_input("device_events", [{"device": "a", "status": status, "battery": battery, "seen": seen}])
        assert [each.value["text"] for each in driver.read_output("labels")] == ["BAD (0.10)", None]


def test_rows_of_reduced_windows_come_out_when_these_close() -> None:
    with TopologyTestDriver(ROOT / "tests" / "golden" / "functions" / "project", "devices") as driver:
        for minute, status, battery in ((1, "ok", 0.5), (2, "bad", 0.9), (59, "low", 0.7), (75, "ok", 1.0)):
            seen = f"2024-05-01T{8 + minute // 60:02}:{minute % 60:02}:00Z"
            driver.pipe_input("device_events", [{"device": "a", "status": status, "battery": battery, "seen": seen}])
        (hour,) = driver.read_output("device_hours")
    assert hour.value == {"status": "bad", "battery": 0.5, "seen": "2024-05-01T08:59:00Z"}


def test_module_that_is_not_utf_8_is_told_before_anything_is_imported(fleet: Path) -> None:
    (fleet / "functions" / "words.py").write_bytes("# -*- coding: latin-1 -*-\nWORD = 'ä'\n".encode("latin-1"))
    module = fleet / "functions" / "devices.py"
    module.write_text(f"from . import words\n{module.read_text()}")
    (error,) = Project(fleet).parse().errors
    assert (error.code, error.hint) == ("HW312", "Save modules in UTF-8.")
