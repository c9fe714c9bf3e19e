"""Real executors: tasks run where they are placed, keep their state on the executors' disks, and survive losses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).with_name("run_on_executors.py")
TASKS = {"0_0", "0_1", "0_2", "0_3", "1_0", "1_1"}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    # A process of its own: the tests' session is a local one.
    root = tmp_path_factory.mktemp("cluster")
    ended = subprocess.run([sys.executable, str(PROGRAM), str(root)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def tasks(run: dict[str, Any]) -> set[str]:
    return {task for of_client in run["assignment"].values() for task in of_client}


def test_driver_touches_nothing_of_what_executors_keep(outcome: dict[str, Any]) -> None:
    assert outcome["touched"] == []
    assert {store.split("/")[0] for store in outcome["before"]} == {"client-1", "client-2"}


def test_each_run_goes_on_where_the_last_one_ended(outcome: dict[str, Any]) -> None:
    first, second, *_ = outcome["runs"]
    assert (first["status"], first["error"]) == (second["status"], second["error"]) == ("caught_up", None)
    assert first["assignment"] == second["assignment"]
    assert first["process_ids"] == second["process_ids"]
    assert set(first["assignment"]) == {"executor-0", "executor-1"}
    assert tasks(first) == TASKS
    assert [first["placement"][kind] for kind in ("new", "kept", "moved")] == [6, 0, 0]
    assert [second["placement"][kind] for kind in ("new", "kept", "moved")] == [0, 6, 0]


def test_state_of_a_lost_disk_is_restored_and_its_client_is_a_new_one(outcome: dict[str, Any]) -> None:
    _, second, third, *_ = outcome["runs"]
    assert (third["status"], third["error"]) == ("caught_up", None)
    assert tasks(third) == TASKS
    assert len(set(second["process_ids"].values()) & set(third["process_ids"].values())) == 1


def test_run_survives_the_loss_of_an_executor(outcome: dict[str, Any]) -> None:
    _, _, third, lost, again, _ = outcome["runs"]
    assert (lost["status"], lost["error"]) == ("caught_up", None)
    assert outcome["gone"] == ["executor-1"]
    assert tasks(lost) == TASKS
    assert "executor-1" not in lost["assignment"]
    assert (again["status"], again["error"]) == ("caught_up", None)
    # Spark started another one in its place, which took over the directory.
    assert set(again["assignment"]) == {"executor-0", "executor-2"}
    assert set(again["process_ids"].values()) == set(third["process_ids"].values())
    assert outcome["equal"] is True


def test_fully_refreshed_application_makes_no_use_of_stores_that_were_left(outcome: dict[str, Any]) -> None:
    refreshed = outcome["runs"][-1]
    assert (refreshed["status"], refreshed["error"]) == ("caught_up", None)
    assert refreshed["placement"]["new"] == 6
    assert outcome["equal_refreshed"] is True
    assert len(outcome["after"]) == 6
