"""The form of a run's status, and what can be told from one."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from headwater.runtime.driver.counters import TaskCounts
from headwater.runtime.driver.errors import Stop, TasksOfCause, WaitsFor
from headwater.runtime.driver.status import (
    SILENT_MS,
    VERSION,
    ClientStatus,
    NewerStatusError,
    RunStatus,
    StoreStatus,
    TaskStatus,
    this_process,
)
from headwater.runtime.state.process_file import Owner
from headwater.runtime.tasks.measured import Seconds, Volume

HOST, OWNER = this_process()
AT = 1_700_000_000_000


def task(number: int = 0, **changes: object) -> TaskStatus:
    stores = (StoreStatus("totals", 250, 1000),)
    return replace(TaskStatus(f"0_{number}", "sums", number, "active", "restoring", AT, 750, 50.0, stores), **changes)


def status(*tasks: TaskStatus, **changes: object) -> RunStatus:
    clients = (ClientStatus("client-1", 2, "", tasks or (task(),)),)
    return replace(RunStatus("shop-sales", 3, HOST, OWNER, AT, AT, 1000, 19, 2, False, clients), **changes)


STOP = Stop("division by zero", "orders", 0, 3, "topologies/sales.yml:14")
WAITING = status(
    failed_tasks=("0_0",),
    stops={"0_0": STOP},
    waits=(TasksOfCause(WaitsFor("shop-sales", "stopped", "sums", 0, STOP), ("0_1",)),),
)


@pytest.mark.parametrize("each", [status(), WAITING], ids=["at work", "waiting"])
def test_text_gives_the_status_again(each: RunStatus) -> None:
    assert RunStatus.from_text("shop-sales", each.to_text()) == each


def test_status_of_a_version_that_told_no_reasons_has_none() -> None:
    plain = json.loads(WAITING.to_text())
    for name in ("stops", "waits"):
        del plain[name]
    found = RunStatus.from_text("shop-sales", json.dumps(plain))
    assert found == replace(WAITING, stops={}, waits=())
    assert (found.stop(task(0)), found.waits_for(task(1))) == (None, ())


def test_unknown_fields_of_the_same_version_are_ignored() -> None:
    plain = json.loads(status().to_text())
    text = json.dumps({**plain, "mood": "fine"})

    assert RunStatus.from_text("shop-sales", text) == status()


def test_status_of_a_newer_version_is_refused_with_what_to_do() -> None:
    text = status(version=VERSION + 1).to_text()

    with pytest.raises(NewerStatusError, match=f"is run by a newer version .* format {VERSION + 1}") as raised:
        RunStatus.from_text("shop-sales", text)
    assert raised.value.hint == "use the version that runs it"


@pytest.mark.parametrize(
    "changes",
    [
        {"written_at": "yesterday"},
        {"written_at": 10**400},
        {"written_at": True},
        {"every": None},
        {"host": 7},
        {"owner": {"boot_id": "b", "pid": "1", "started": 1.0}},
        {"seconds": {"planning": "long"}},
        {"dropped": {"step:late": float("nan")}},
        {"seconds": {"planning": float("inf")}},
        {"clients": [{"name": 1, "threads": 2, "host": "", "tasks": []}]},
        {"clients": "none"},
        {"failed_tasks": [1]},
        {"rebalancing": "no"},
    ],
    ids=str,
)
def test_status_with_values_of_wrong_types_is_none(changes: dict[str, object]) -> None:
    text = json.dumps({**json.loads(status().to_text()), **changes})

    assert RunStatus.from_text("shop-sales", text) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"version": 1}', '{"version": "x"}', '"text"'])
def test_text_that_is_no_status_is_none(text: str) -> None:
    assert RunStatus.from_text("shop-sales", text) is None


def test_run_of_a_living_process_that_writes_is_running() -> None:
    assert status().condition(AT + SILENT_MS) == "running"


def test_run_whose_process_is_gone_is_gone_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = Owner.from_pid(process.pid)
        assert status(owner=owner).condition(AT) == "running"
        process.kill()
    assert status(owner=owner).condition(AT) == "gone"


def test_run_that_does_not_write_is_silent_whoever_and_wherever_its_driver_is() -> None:
    elsewhere = Owner("another boot", 1, 0.0)
    for each in (status(), status(owner=elsewhere), status(owner=None), status(host="another")):
        assert each.condition(AT + SILENT_MS) == "running"
        assert each.condition(AT + SILENT_MS + 1) == "silent"


def test_driver_that_writes_seldom_is_given_more_time() -> None:
    assert status(every=60_000).condition(AT + 180_000) == "running"
    assert status(every=60_000).condition(AT + 180_001) == "silent"


def test_run_that_said_its_end_has_ended_however_old_that_is() -> None:
    assert status(ended="interrupted").condition(AT + 10**9) == "ended"


def test_task_says_how_much_is_restored_and_what_is_left() -> None:
    assert (task().restored, task().seconds_left) == (0.25, 15.0)
    assert task(rate=0.0).seconds_left is None
    assert task(state="running").seconds_left is None
    assert task(role="standby", state="running", lag=0, rate=0.0).seconds_left == 0.0
    assert task(stores=()).restored == 1.0


def test_ten_thousand_tasks_fit_in_a_megabyte() -> None:
    assert len(status(*map(task, range(10_000))).to_text()) < 1_000_000


def test_numbers_of_ten_thousand_tasks_fit_in_two_megabytes() -> None:
    seconds = Seconds(12.034512, 27.100034, 7.000412, 1.100223, 3.4).rounded()
    counts = TaskCounts(1000, 4_000_000, seconds, Volume(310_000_000, 4_000_000, 250_000_000, 90_000, 7_000_000))
    tasks = [task(number, counts=counts) for number in range(10_000)]
    assert len(status(*tasks).to_text()) < 2_000_000
    assert RunStatus.from_text("shop-sales", status(*tasks[:3]).to_text()) == status(*tasks[:3])


def test_status_of_the_version_before_has_no_numbers() -> None:
    plain = json.loads(status().to_text())
    for name in ("dropped", "epochs", "seconds"):
        del plain[name]
    for client in plain["clients"]:
        del client["epochs"]
        client["tasks"] = [[*each[:8], [store[:3] for store in each[8]]] for each in client["tasks"]]

    assert RunStatus.from_text("shop-sales", json.dumps(plain)) == status()
