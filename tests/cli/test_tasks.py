"""`headwater tasks`: what it prints of runs that go on, have ended, or have died."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result
from rich.console import Console

from headwater import Project
from headwater.api.tasks import ApplicationTasks
from headwater.cli.commands.tasks import Screen
from headwater.runtime.driver.counters import TaskCounts
from headwater.runtime.driver.errors import Stop, TasksOfCause, WaitsFor
from headwater.runtime.driver.status import ClientStatus, RunStatus, StoreStatus, TaskStatus, this_process
from headwater.runtime.state.process_file import Owner
from headwater.runtime.tasks.measured import Seconds, StoreSize, Volume
from headwater.tests.cli.terminal import on_terminal

Headwater = Callable[..., Result]
SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "tasks.json").read_text())
APPLICATION = "shop-sales"
COMMAND = [sys.executable, "-m", "headwater.cli.main", "tasks"]


def now() -> int:
    return time.time_ns() // 1_000_000


def status(**changes: object) -> RunStatus:
    host, owner = this_process()
    at = now()
    tasks = (
        TaskStatus("0_0", "sales", 0, "active", "running", at - 60_000, 1200, 350.4),
        TaskStatus(
            "1_0", "rekeyed", 0, "active", "restoring", at, 750, 50.0, (StoreStatus("sales_by_day", 250, 1000),)
        ),
        TaskStatus("1_1", "rekeyed", 1, "standby", "running", at, 3, 0.0, (StoreStatus("sales_by_day", 97, 100),)),
    )
    clients = (ClientStatus("client-1", 2, "", tasks), ClientStatus("client-2", 2, "worker-7", ()))
    found = RunStatus(APPLICATION, 4, host, owner, at - 90_000, at, 3_600_000, 19, 2, False, clients)
    return replace(found, **changes)


@pytest.fixture
def write(shop: Path) -> Callable[[RunStatus], None]:
    """Puts a status where the driver of the shop puts it."""
    log = Project(shop).log()
    return lambda status: log.write_status(status.application, status.to_text())


Write = Callable[[RunStatus], None]


def test_application_that_never_ran_says_how_to_start_it(headwater: Headwater) -> None:
    result = headwater("tasks")
    assert (result.exit_code, result.stdout) == (
        0,
        "shop-sales has not been run on this log yet: `headwater run` starts it\n",
    )


def test_running_application_has_a_line_for_each_task(headwater: Headwater, write: Write) -> None:
    write(status())
    head, run, columns, *rows = headwater("tasks").stdout.splitlines()
    assert head.startswith("shop-sales has run since 20")
    assert run.startswith("generation 4 on ")
    assert run.endswith(f", process {os.getpid()}, 19 records in 2 commits")
    assert columns.split() == ["client", "task", "role", "state", "stores", "lag", "rate", "since"]
    assert [row.split("  ")[0] for row in rows] == ["client-1"] * 3 + ["client-2 on worker-7"]
    assert [" ".join(row.split()[1:-1]) for row in rows[:3]] == [
        "0_0 active running 1,200 350/s",
        "1_0 active restoring 25 %, 15 s left sales_by_day 750 50/s",
        "1_1 standby running sales_by_day 3 0/s",
    ]
    assert "no tasks" in rows[3]


STOP = Stop("division by zero", "orders", 0, 3, "topologies/sales.yml:14")


def waiting() -> RunStatus:
    """Its first task has stopped, and another one waits for it."""
    stopped = WaitsFor(APPLICATION, "stopped", "sales", 0, STOP)
    found = status(failed_tasks=("0_0",), stops={"0_0": STOP}, waits=(TasksOfCause(stopped, ("1_0",)),))
    (client, _), at = found.clients, found.written_at
    standby = TaskStatus("1_0", "rekeyed", 0, "standby", "running", at, 0, 0.0)
    tasks = (client.tasks[0], replace(client.tasks[1], state="running"), standby)
    return replace(found, clients=(replace(client, tasks=tasks),))


REASONS = [
    "task 0_0 has stopped at record orders[0]@3 (topologies/sales.yml:14): division by zero",
    "task 1_0 waits for task 0 of sales, which has stopped at record orders[0]@3 (topologies/sales.yml:14); correct "
    "the step or set `on_error`, start the run of shop-sales again, and they continue",
]


def test_tasks_that_have_stopped_or_wait_are_shown_as_such_with_the_reason(headwater: Headwater, write: Write) -> None:
    write(waiting())
    *_, stopped, waits, standby, first, second = headwater("tasks").stdout.splitlines()
    assert [row.split()[1:4] for row in (stopped, waits, standby)] == [
        ["0_0", "active", "stopped"],
        ["1_0", "active", "waiting"],
        ["1_0", "standby", "running"],
    ]
    assert [first, second] == REASONS
    write(replace(waiting(), ended="interrupted"))
    lines = headwater("tasks").stdout.splitlines()
    assert ("failed" in lines[-5], "was waiting" in lines[-4], lines[-2:]) == (True, True, REASONS)


def test_watched_screen_has_the_tasks_that_have_stopped_first_and_the_reasons() -> None:
    screen = Console(width=200, height=20, record=True, file=io.StringIO())
    screen.print(Screen([ApplicationTasks(APPLICATION, now(), "running", waiting())]))
    lines = [line.strip() for line in screen.export_text().splitlines() if line.strip()]
    assert lines[3].split()[1:4] == ["0_0", "active", "stopped"]
    assert lines[-2:] == REASONS


def test_rebalance_is_told(headwater: Headwater, write: Write) -> None:
    write(status(rebalancing=True))
    assert "; tasks are on their way between clients\n" in headwater("tasks").stdout


def test_run_that_was_killed_is_told_as_such_with_what_it_wrote_last(headwater: Headwater, write: Write) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        owner = Owner.from_pid(process.pid) or Owner("", process.pid, 0.0)
    write(status(owner=replace(this_process()[1], pid=owner.pid, started=owner.started), written_at=now() - 3_690_000))
    result = headwater("tasks")
    first, second, columns, *_ = result.stdout.splitlines()
    assert first == f"warning: shop-sales does not run any more: its process {owner.pid} is gone"
    assert second.startswith("its last status, 61 min ago (20")
    assert columns.split() == ["client", "task", "role", "state", "stores", "lag"]
    assert "1_0   active   was restoring 25 %" in result.stdout


def test_driver_elsewhere_that_writes_nothing_may_have_stopped(headwater: Headwater, write: Write) -> None:
    write(status(host="far-away", owner=Owner("another boot", 7, 0.0), written_at=now() - 390_000, every=1000))
    first, second, *_ = headwater("tasks").stdout.splitlines()
    assert first == "warning: shop-sales may have stopped: its driver on far-away writes no status any more"
    assert "6 min ago" in second


def test_driver_here_that_lives_but_writes_nothing_is_busy(headwater: Headwater, write: Write) -> None:
    write(status(written_at=now() - 390_000, every=1000))
    assert headwater("tasks").stdout.startswith(
        f"warning: shop-sales is busy: its driver, process {os.getpid()}, is alive, but writes no status\n"
        "its last status"
    )


def test_run_that_ended_says_how(headwater: Headwater, write: Write) -> None:
    write(status(ended="caught_up", written_at=now() - 5_400_000 - 30_000))
    first = headwater("tasks").stdout.splitlines()[0]
    assert first.startswith("shop-sales does not run: caught up 90 min ago (20")


def failed() -> RunStatus:
    error = "topologies/sales.yml:14: record orders[0]@3 cannot be processed: division by zero\n  record: {}"
    return status(
        ended="failed", error=error, hint="fix the step and run again", failed_tasks=("0_0",), host="laptop-of-ada"
    )


def test_failed_run_says_its_cause_in_a_line_with_the_way_on_and_lists_no_task_as_running(
    headwater: Headwater, write: Write
) -> None:
    write(failed())
    head, error, hint, run, columns, *rows = headwater("tasks").stdout.splitlines()
    assert head.startswith("shop-sales does not run: failed 0 s ago (20")
    assert error == "error: topologies/sales.yml:14: record orders[0]@3 cannot be processed: division by zero"
    assert hint == "  hint: fix the step and run again; target/run_results.json has all results of the run"
    assert run == "generation 4 on laptop-of-ada, 19 records in 2 commits; at its end:"
    assert columns.split() == ["client", "task", "role", "state", "stores", "lag"]
    assert [" ".join(row.split()[1:]) for row in rows[:3]] == [
        "0_0 active failed 1,200",
        "1_0 active was restoring 25 % sales_by_day 750",
        "1_1 standby was running sales_by_day 3",
    ]


def test_lines_above_the_table_fit_80_columns(shop: Path, write: Write) -> None:
    for each in (status(host="laptop-of-ada"), failed(), status(ended="caught_up", host="laptop-of-ada")):
        write(each)
        printed = on_terminal([*COMMAND, "--project-dir", str(shop)], 80, {"NO_COLOR": "1"})
        above = printed[: printed.index("client")].splitlines()
        said = [line for line in above if not line.startswith(("error:", "  hint:"))]
        assert len(said) == 2, printed
        assert max(map(len, said)) <= 80


def test_run_without_clients_says_so(headwater: Headwater, write: Write) -> None:
    write(status(clients=()))
    assert headwater("tasks").stdout.splitlines()[3].strip() == "no client"


def test_status_of_a_newer_version_is_an_error_with_the_way_out(headwater: Headwater, write: Write) -> None:
    write(status(version=99))
    result = headwater("tasks")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: shop-sales is run by a newer version of Headwater: its status has format 99, and this version reads "
        "formats up to 1\n  hint: use the version that runs it\n",
    )


def test_json_has_the_form_of_its_schema(headwater: Headwater, write: Write) -> None:
    for each in (None, status(), failed(), status(owner=None), status(clients=()), waiting()):
        if each is not None:
            write(each)
        found = json.loads(headwater("tasks", "--format", "json").stdout)
        assert [error.message for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(found)] == []
    tasks = found["applications"][0]["run"]["clients"][0]["tasks"]
    assert [task["stop"] and task["stop"]["offset"] for task in tasks] == [3, None, None]
    reasons = [[(each["reason"], each["partition"]) for each in task["waits_for"]] for task in tasks]
    assert reasons == [[], [("stopped", 0)], []]
    write(status())
    (application,) = json.loads(headwater("tasks", "--format", "json").stdout)["applications"]
    assert application["condition"] == "running"
    task = application["run"]["clients"][0]["tasks"][1]
    assert {**task, "since": 0} == {
        "task": "1_0",
        "subtopology": "rekeyed",
        "partition": 0,
        "role": "active",
        "state": "restoring",
        "since": 0,
        "lag": 750,
        "rate": 50.0,
        "restored": 0.25,
        "seconds_left": 15.0,
        "stores": [{"store": "sales_by_day", "position": 250, "end": 1000, "rows": None, "bytes": None}],
        "counts": None,
        "stop": None,
        "waits_for": [],
    }


def test_errors_in_other_files_do_not_keep_one_from_looking(headwater: Headwater, write: Write, shop: Path) -> None:
    write(status())
    path = shop / "topologies" / "sales.yml"
    path.write_text(path.read_text().replace("from: orders", "from: oders"))
    result = headwater("tasks")
    assert result.exit_code == 0
    assert "restoring 25 %" in result.stdout


def test_selection_limits_what_is_shown(headwater: Headwater, write: Write) -> None:
    write(status())
    assert headwater("tasks", "-s", "sales").stdout.startswith("shop-sales has run since")
    assert headwater("tasks", "-s", "orders").exit_code == 2


def test_watched_json_is_one_object_a_line_until_ctrl_c(shop: Path, write: Write) -> None:
    write(status())
    watching = [*COMMAND, "--project-dir", str(shop), "--watch", "--format", "json"]
    with subprocess.Popen(watching, stdout=subprocess.PIPE, text=True) as process:
        first = json.loads(process.stdout.readline())
        write(status(records=4711))
        while (seen := json.loads(process.stdout.readline())) and seen["applications"][0]["run"]["records"] != 4711:
            pass
        process.send_signal(signal.SIGINT)
        process.communicate()  # it may be printing: nobody to read that would be an error of its own
    assert process.returncode == 0
    assert first["applications"][0]["run"]["records"] == 19
    assert seen["at"] > first["at"]


def test_terminal_shows_the_table_and_warns_in_colour(shop: Path, write: Write) -> None:
    write(status())
    printed = on_terminal([*COMMAND, "--project-dir", str(shop)], 120)
    assert "restoring 25 %, 15 s left" in printed
    write(status(host="far-away", owner=None, written_at=0))
    assert "\x1b[1;33mwarning: " in on_terminal([*COMMAND, "--project-dir", str(shop)], 120)


def test_watched_screen_has_what_is_on_its_way_first_and_says_what_has_no_room() -> None:
    tasks = tuple(
        TaskStatus(f"0_{n}", "sales", n, "active", "restoring" if n == 30 else "running", 0, 0, 0.0) for n in range(40)
    )
    found = status(clients=(ClientStatus("client-1", 2, "", tasks),))
    screen = Console(width=120, height=12, record=True, file=io.StringIO())
    screen.print(Screen([ApplicationTasks(APPLICATION, found.written_at, "running", found)]))

    lines = [line.split() for line in screen.export_text().splitlines()]
    assert lines[3][:4] == ["client-1", "0_30", "active", "restoring"]
    assert lines[4][:2] == ["client-1", "0_0"]
    assert lines[-1][:4] == ["and", str(40 - (len(lines) - 5)), "more", "tasks;"]
    assert len(lines) <= 12


def counted() -> RunStatus:
    volume = Volume(5_200_000, 9_000, 410_000, 1_000, 90_000)
    counts = TaskCounts(7, 84_194, Seconds(0.5, 1.0, 0.3, 0.1, 0.1), volume, {"sales.yml:7:late": 12})
    store = StoreStatus("sales_by_day", 100, 100, StoreSize(1, 36_864))
    tasks = (
        TaskStatus("0_0", "sales", 0, "active", "running", now(), 0, 0.0, (store,), counts),
        TaskStatus("0_1", "sales", 1, "standby", "running", now(), 0, 0.0, (replace(store, size=None),)),
    )
    return status(clients=(ClientStatus("client-1", 2, "", tasks),))


def test_verbose_shows_what_each_task_has_done_and_its_stores(headwater: Headwater, write: Write) -> None:
    write(counted())
    _, tasks, stores = headwater("tasks", "-v").stdout.split("\n\n")
    assert tasks.splitlines() == [
        "task  consumed          written          dropped   time  most of it",
        "0_0     84,194  5.2 MB   10,000  500 kB       12  2.0 s  sql 50%, read 25%",
    ]
    assert stores.splitlines() == [
        "store         task  client    rows   size",
        "sales_by_day  0_0   client-1     1  37 kB",
    ]
    assert "consumed" not in headwater("tasks").stdout


def test_verbose_screen_and_terminal_of_80_columns_have_whole_words(shop: Path, write: Write) -> None:
    write(counted())
    printed = on_terminal([*COMMAND, "--project-dir", str(shop), "-v"], 80, {"NO_COLOR": "1"})
    assert max(len(line) for line in printed.split("\n\n")[1].splitlines()) <= 80, printed
    assert {"sql", "50%,", "sales_by_day"} <= set(printed.split())
    screen = Console(width=120, height=12, record=True, file=io.StringIO())
    screen.print(Screen([ApplicationTasks(APPLICATION, now(), "running", counted())], verbose=True))
    assert "sales_by_day 1 row, 37 kB" in screen.export_text()


def test_counts_as_json_have_the_form_of_their_schema(headwater: Headwater, write: Write) -> None:
    write(counted())
    found = json.loads(headwater("tasks", "--format", "json").stdout)
    assert [error.message for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(found)] == []
    task, standby = found["applications"][0]["run"]["clients"][0]["tasks"]
    assert task["counts"]["dropped"] == {"sales.yml:7:late": 12}
    assert task["counts"]["seconds"] == {"read": 0.5, "sql": 1.0, "operators": 0.3, "state": 0.1, "write": 0.1}
    assert task["stores"][0]["bytes"] == 36_864
    assert standby["counts"] is None
