"""Real executors: tasks run where they are placed, and a lost executor ends the run at once and loses nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).with_name("run_on_executors.py")


def run(root: Path, *arguments: str) -> dict[str, object]:
    """A run in a process of its own: the tests' own session is a local one."""
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(root), *arguments], capture_output=True, text=True, timeout=180, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    result: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
    return result


def test_lost_executor_ends_the_run_and_the_next_one_finishes_it(tmp_path: Path) -> None:
    lost = run(tmp_path, "--feed", "20000", "--kill")
    assert lost["status"] == "failed"
    assert "its executor has ended" in str(lost["error"])
    again = run(tmp_path)
    assert (again["status"], again["error"]) == ("caught_up", None)
    assert again["clients"] == ["executor-0", "executor-1"]
    assert again["equal"] is True
