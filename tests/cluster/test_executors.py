"""Real executors: tasks run where they are placed, and a lost executor ends the run at once and loses nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).with_name("run_on_executors.py")


def test_lost_executor_ends_the_run_and_the_next_one_finishes_it(tmp_path: Path) -> None:
    # A process of its own: the tests' session is a local one.
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)], capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    outcome = json.loads(ended.stdout.splitlines()[-1])
    lost, again = outcome["runs"]
    assert lost["status"] == "failed"
    assert "its executor has ended" in lost["error"]
    assert (again["status"], again["error"]) == ("caught_up", None)
    assert lost["clients"] == ["executor-0", "executor-1"]
    # Spark starts another one in its place, in time for the second run or not.
    assert "executor-0" in again["clients"]
    assert "executor-1" not in again["clients"]
    assert outcome["equal"] is True
