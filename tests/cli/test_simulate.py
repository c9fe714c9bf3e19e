"""simulate: a project's own topologies, without Java."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Headwater = Callable[..., Result]


def test_rounds_are_shown_as_a_table(headwater: Headwater) -> None:
    result = headwater("simulate", "--assignor", "balanced_count", "--events", "kill c2; add 1", "--racks", "a,b")

    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "sales: 4 tasks, assignor balanced_count, standby replicas: 0, state as assumed"
    assert re.split("  +", lines[1]) == [
        "round", "at", "why", "clients", "moved", "standbys", "down", "for", "restored", "tasks per thread", "x-rack"
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[2:5]] == ["0", "1", "2"]
    assert "kill c2" in lines[3]


def test_json_is_one_object(headwater: Headwater) -> None:
    found = json.loads(
        headwater("simulate", "--assignor", "balanced_count", "--assert", "max_moved=9", "--format", "json").stdout
    )

    assert found["simulations"][0]["topology"] == "sales"
    assert found["assertions"][0]["holds"] is True


def test_overrides_reach_the_assignor_and_the_model(headwater: Headwater) -> None:
    options = ("--standby-replicas", "1", "--assignor", "high_availability", "--clients", "4", "--threads", "3")
    sizes = ("--state-records", "10", "--state-size", "1kB", "--restore-rate", "5MB/s", "--update-rate", "0")
    found = json.loads(headwater("simulate", *options, *sizes, "--format", "json").stdout)["simulations"][0]

    clients = found["rounds"][0]["clients"]
    assert [client["threads"] for client in clients.values()] == [3, 3, 3, 3]
    assert sum(len(client["standby"]) for client in clients.values()) > 0
    assert found["assumptions"] == {
        "restore_records_per_second": None,
        "restore_bytes_per_second": 5_000_000,
        "task_records": 10,
        "task_bytes": 1_000,
        "updates_per_second": 0,
        "replication": 1,
    }


def test_assertion_that_fails_is_a_sentence_and_exit_code_1(headwater: Headwater) -> None:
    result = headwater(
        "simulate", "--assignor", "balanced_count", "--clients", "2", "--events", "kill c1",
        "--assert", "max_downtime=1s", "--assert", "max_moved=0", "--assert", "max_rounds=1",
    )  # fmt: skip

    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "error: sales: longest downtime of a task in 'kill c1': 10 s; max_downtime is 1 s",
        "error: sales: tasks moved in 'kill c1': 2; max_moved is 0",
    ]


def test_picture_is_written(headwater: Headwater, tmp_path: Path) -> None:
    assert headwater("simulate", "--assignor", "balanced_count", "--picture", str(tmp_path / "p.svg")).exit_code == 0
    assert (tmp_path / "p.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--assert", "max_mooved=1"), "did you mean 'max_moved'?"),
        (("--assert", "max_moved"), "has no limit"),
        (("--assert", "max_moved=few"), "'few' is not a whole number"),
        (("--events", "kil c1"), "did you mean 'kill'?"),
        (("--events", "kill c9"), "there is no client 'c9' then"),
        (("--racks", "a,a"), "not a list of different names"),
        (("--racks", ""), "not a list of different names"),
        (("--restore-rate", "fast"), "is not a rate"),
        (("--restore-rate", "0"), "would never end"),
        (("--state-size", "big"), "is not a size"),
        (("--clients", "0"), "not in the range"),
        (("--picture", "p.png"), "ends in .svg"),
        (("--picture", "no/such/folder/p.svg"), "there is no folder no/such/folder"),
        (("--racks", "a b,c"), "has a space"),
        (("--racks", "a\x01"), "an unprintable character"),
        (("--update-rate", "nan"), "is not a number from 0"),
        (("--update-rate", "many"), "is not a number from 0"),
        (("--assignor", "balanced_cuont"), "there is no assignor 'balanced_cuont'; did you mean balanced_count"),
        (("--assert", "max_cross_rack=0"), "max_cross_rack needs --racks"),
        (("--replication", "2"), "--replication: it needs --racks"),
        (("--racks", "a,b", "--replication", "3"), "there are fewer racks: name more with --racks"),
        (("--select", "slaes"), "Did you mean 'sales'?"),
    ],
)
def test_wrong_use_exits_with_2_and_says_what_is_right(
    headwater: Headwater, arguments: tuple[str, ...], said: str
) -> None:
    result = headwater("simulate", "--assignor", "balanced_count", *arguments)

    assert result.exit_code == 2
    assert said in result.stderr


def test_picture_that_cannot_be_written_is_told_after_the_table(headwater: Headwater, tmp_path: Path) -> None:
    (tmp_path / "p.svg").symlink_to("/dev/full")

    result = headwater("simulate", "--assignor", "balanced_count", "--picture", str(tmp_path / "p.svg"))

    assert result.exit_code == 1
    assert "p.svg cannot be written: No space left on device" in result.stderr
    assert "round" in result.stdout


def test_what_a_plugin_prints_is_no_result(headwater: Headwater, shop: Path) -> None:
    (shop / "plugins").mkdir()
    (shop / "plugins" / "loud.py").write_text("print('imported')")
    file = shop / "headwater.yml"
    file.write_text(file.read_text() + "plugins:\n  - plugins.loud\n")

    result = headwater("simulate", "--assignor", "balanced_count", "--format", "json")

    assert json.loads(result.stdout)["simulations"]
    assert result.stderr == "imported\n"


def test_limit_of_nothing_is_not_kept(headwater: Headwater, shop: Path) -> None:
    (shop / "topologies" / "sales.yml").unlink()

    result = headwater("simulate", "--assert", "max_moved=0")

    assert result.exit_code == 1
    assert "error: there is no topology to simulate, so no limit can be checked" in result.stderr


def test_project_without_topologies_is_told(headwater: Headwater, shop: Path) -> None:
    (shop / "topologies" / "sales.yml").unlink()

    result = headwater("simulate", "--format", "json")

    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"simulations": [], "assertions": []}
    assert result.stderr == "warning: there is no topology to simulate\n"


@pytest.mark.usefixtures("break_it")
def test_faulty_project_is_shown_and_not_simulated(headwater: Headwater) -> None:
    result = headwater("simulate")

    assert result.exit_code == 1
    assert "HW302" in result.stderr
    assert result.stdout == ""


def test_nothing_is_written_but_the_compiled_project(headwater: Headwater, shop: Path) -> None:
    headwater("compile")
    before = sorted(shop.rglob("*"))
    headwater("simulate", "--assignor", "balanced_count")

    assert sorted(shop.rglob("*")) == before


def test_assignor_that_raises_is_told_with_its_line(headwater: Headwater, shop: Path) -> None:
    (shop / "headwater.yml").write_text((shop / "headwater.yml").read_text() + "plugins:\n  - broken\n")
    (shop / "broken.py").write_text(
        "from headwater.plugins import hookimpl\n\n\nclass Broken:\n"
        "    def on_assignment_computed(self, *_): ...\n\n    def assign(self, state):\n"
        "        return [][len(state.all_tasks)]\n\n\n@hookimpl\ndef headwater_register_assignors(register):\n"
        "    register('broken', Broken)\n"
    )
    result = headwater("simulate", "--assignor", "broken")

    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert "error: assignor broken raised IndexError: list index out of range (" in result.stderr
    assert "broken.py:8) when it assigned the tasks of sales" in result.stderr
