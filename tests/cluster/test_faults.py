"""Executors that are killed, suspended and added while an application runs: the results are those of a quiet run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).with_name("faults.py")
MASTERS = ["local-cluster[3,1,1024]", "local-cluster[2,2,1024]"]
TASKS = ["0_0", "0_1", "0_2", "0_3", "1_0", "1_1"]
STORIES = [
    "killed_while_it_processes",
    "killed_while_it_restores",
    "killed_with_the_only_standby",
    "two_killed_at_once",
    "added_under_load",
]


def played(root: Path, master: str, stories: list[str], code: int = 0) -> dict[str, dict[str, Any]]:
    """What came of each story. In a process of its own, as the tests' session is a local one."""
    program = [sys.executable, str(PROGRAM), str(root), master, *stories]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr[-6000:]
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    return {line["story"]: line for line in lines}


def whole(outcome: dict[str, Any]) -> None:
    """The results were complete (the story waits for that), no flight was taken twice, and all tasks have a client."""
    assert (outcome["status"], outcome["error"]) == ("interrupted", None)
    assert outcome["taken"] == outcome["fed"]
    assert outcome["tasks"] == TASKS


def silent_client_is_given_up_and_comes_back_as_another(outcome: dict[str, Any]) -> None:
    whole(outcome)
    client = f"executor-{outcome['suspended']}"
    assert [client, True] in outcome["lost"]
    assert all(silent for _, silent in outcome["lost"])
    assert client in outcome["joined"]
    assert outcome["same_process_id"] is False


def test_silent_executor_is_given_up_and_comes_back_as_another_client(tmp_path: Path) -> None:
    story = "silent_past_the_deadline"
    outcome = played(tmp_path, "local-cluster[2,1,1024]", [story])[story]
    silent_client_is_given_up_and_comes_back_as_another(outcome)


@pytest.mark.soak
@pytest.mark.parametrize("master", MASTERS)
def test_run_after_one_whose_driver_was_killed_goes_on_from_the_last_commit(tmp_path: Path, master: str) -> None:
    assert played(tmp_path, master, ["driver_killed"], -signal.SIGKILL) == {}
    story = "after_the_driver_was_killed"
    outcome = played(tmp_path, master, [story])[story]
    whole(outcome)
    assert outcome["lost"] == []


@pytest.mark.soak
@pytest.mark.parametrize("master", MASTERS)
def test_results_are_those_of_a_quiet_run_whatever_happens_to_executors(tmp_path: Path, master: str) -> None:
    outcomes = played(tmp_path, master, [*STORIES, "silent_past_the_deadline"])

    for outcome in outcomes.values():
        whole(outcome)
    for story in STORIES[:4]:
        lost = sorted(client for client, silent in outcomes[story]["lost"] if not silent)
        assert lost == sorted(f"executor-{each}" for each in outcomes[story]["killed"])
    assert outcomes["killed_while_it_processes"]["placed"] >= 2
    assert outcomes["added_under_load"]["joined"]
    silent_client_is_given_up_and_comes_back_as_another(outcomes["silent_past_the_deadline"])
