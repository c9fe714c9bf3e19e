"""Steps that call Python, or keep rows in forms of their own, on real executors, which have no files of the project."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).with_name("every_step_on_executors.py")
RUNS = {
    "some": ("first", "killed", "expression", "last", "said"),
    "all": ("first", "killed", "killed_with_copies", "expression", "processor", "last", "said"),
}
"""What the program does."""


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.soak)])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of each run. In a process of its own, as the tests' session is a local one."""
    program = [sys.executable, str(PROGRAM), str(tmp_path_factory.mktemp("cluster")), request.param]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-6000:]
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    made = {line.pop("run"): line for line in lines}
    assert tuple(made) == RUNS[request.param]
    return made


def test_executors_run_code_that_they_cannot_read_and_give_what_one_process_gives(runs: dict[str, Any]) -> None:
    assert runs["first"] == {
        "status": "caught_up",
        "error": None,
        "differing": [],
        "clients": ["executor-0", "executor-1"],
    }


def test_stores_of_all_kinds_and_changed_code_go_on_on_other_executors(runs: dict[str, Any]) -> None:
    for found in (runs[run] for run in ("killed", "killed_with_copies") if run in runs):
        assert (found["status"], found["error"]) == ("caught_up", None)
        assert len(found["killed"]) == 1
        assert found["gone"] == found["killed"]
        assert found["differing"] == []


SPOKEN = r"spoken raised ValueError: 1\n  functions/views\.py:13, in spoken: raise ValueError\(n\)\n"
WATCHING = (
    r"Watching \(process\) raised KeyError: \d+\n  functions/watching\.py:23, in process: raise KeyError\(time\)\n"
)


def test_what_a_function_raises_is_told_with_record_step_and_line_and_nothing_of_ours(runs: dict[str, Any]) -> None:
    raised = {"expression": (56, SPOKEN), "processor": (75, WATCHING)}
    errors = {run: runs[run]["error"] for run in raised if run in runs}
    for run, error in errors.items():
        step, text = raised[run]
        told = rf"topologies/every\.yml:{step}: record views\[0\]@\d+ cannot be processed: functions\.\w+:{text}"
        assert re.match(told, error), error
        assert not re.search(r"headwater/|runtime/|site-packages|pyspark|\.java", error), error


def test_functions_that_raise_no_more_go_on_with_the_record(runs: dict[str, Any]) -> None:
    assert (runs["last"]["status"], runs["last"]["error"], runs["last"]["differing"]) == ("caught_up", None, [])
    (outcome,) = runs["said"]["said"]
    assert "'said': 'boom looked at 1'" in outcome
