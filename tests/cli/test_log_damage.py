"""`headwater log verify` and `headwater log repair`: what they say of a damaged log, and what becomes of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result

from headwater import Project
from headwater.cli.commands.log import verify
from headwater.tests.cli.test_tasks import status

Headwater = Callable[..., Result]
SCHEMAS = Path(__file__).parents[2] / "schemas"


def schema(name: str) -> object:
    return json.loads((SCHEMAS / f"{name}.json").read_text())


@pytest.fixture
def segment(headwater: Headwater, shop: Path) -> Path:
    """The file of the seed, with five records in each of two partitions. The second partition is damaged."""
    headwater("seed")
    (path,) = (shop / ".headwater" / "log" / "segments").rglob("*.seg")
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    return path


def test_whole_log_is_said_to_be_whole(headwater: Headwater, shop: Path) -> None:
    nothing = headwater("log", "verify")
    assert nothing.stdout == "nothing was committed to the log yet\n"
    assert nothing.stderr == headwater("log", "ls").stderr
    assert nothing.stderr.startswith(f"searched {shop / '.headwater' / 'log'}: it lists no commits, and no files of ")
    headwater("seed")
    result = headwater("log", "verify")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "shop-seed: whole: 1 commit, 0 snapshots, 2 segments with 10 records (2.0 kB)\n"
    assert headwater("log", "repair", "--drop-unreadable").stdout == (
        "nothing to repair: everything that commits list can be read\n"
    )


def test_damage_is_told_with_topic_partition_offsets_file_loss_and_way_out(headwater: Headwater, segment: Path) -> None:
    result = headwater("log", "verify")

    assert result.exit_code == 1
    assert result.stdout == (
        "shop-seed: 1 damage: 1 commit, 0 snapshots, 2 segments with 5 records (2.0 kB)\n\n"
        "error: orders, partition 1, offsets 0 to 4: 5 records cannot be read: batch 0 of segment "
        f"segments/shop-seed/orders/{segment.name} is damaged\n"
        "  lost: shop-sales has not consumed them\n"
        "  hint: put the file back from a copy of the log; or write the topic again: headwater seed orders "
        "--full-refresh; or drop these records: headwater log repair --drop-unreadable\n"
    )
    shown = json.loads(headwater("log", "verify", "--format", "json").stdout)
    jsonschema.validate(shown, schema("log_verification"))
    (damage,) = shown["applications"][0]["damages"]
    assert (damage["topic"], damage["partition"], damage["start"], damage["end"]) == ("orders", 1, 0, 5)
    read = headwater("read", "orders")
    assert read.exit_code == 1
    assert "error: orders, partition 1, offsets 0 to 4, cannot be read: batch 0 of segment " in read.stderr
    assert read.stderr.endswith(
        "  hint: put the file back from a copy of the log; or, if it has a seed, write the topic again: headwater seed "
        "orders --full-refresh; or drop these records: headwater log repair --drop-unreadable; `headwater log verify` "
        "lists all that is damaged\n"
    )


@pytest.mark.parametrize("damage", ["changed", "missing", "dropped"])
def test_damaged_topic_with_an_unchanged_seed_is_whole_after_seeding_it_with_full_refresh(
    headwater: Headwater, segment: Path, damage: str
) -> None:
    if damage == "missing":
        segment.unlink()
    if damage == "dropped":
        assert headwater("log", "repair", "--drop-unreadable", "--yes").exit_code == 0
    assert headwater("seed", "orders").stdout.splitlines()[1].split() == ["orders", "0", "unchanged"]

    result = headwater("seed", "orders", "--full-refresh")

    assert result.stdout.splitlines()[1].split() == ["orders", "10", "replaced"]
    assert headwater("log", "verify").exit_code == 0
    assert len(headwater("read", "orders", "--format", "json").stdout.splitlines()) == 10


@pytest.mark.parametrize("damage", ["changed", "first missing", "all missing"])
def test_broken_commits_of_seeds_have_one_hint_and_it_leads_to_a_whole_log(
    headwater: Headwater, shop: Path, damage: str
) -> None:
    headwater("seed")
    seed_again = (shop / "seeds" / "orders.csv").read_text() + "11,tea,1,4.5,2024-05-04T08:00:00Z\n"
    (shop / "seeds" / "orders.csv").write_text(seed_again)
    headwater("seed", "--full-refresh")
    log = shop / ".headwater" / "log"
    folder, entry = log / "commits" / "shop-seed", log / "applications" / "shop-seed"
    first = folder / "000000000001.json"
    if damage == "changed":
        first.write_text("{")
    elif damage == "first missing":
        first.unlink()
    else:
        shutil.rmtree(folder)
    end = "then headwater build --full-refresh seeds again and restarts the topologies that read them\n"
    if damage == "all missing":
        hint = (
            f"hint: put {folder} back from a copy of the log; or drop all seeded and appended records: "
            f"remove {entry} and {folder}, {end}"
        )
    else:
        hint = (
            "hint: put the files of the log back from a copy; or drop all seeded and appended records: "
            f"remove commits/shop-seed and applications/shop-seed in the log, {end}"
        )
    commands = [["seed"], ["seed", "orders", "--full-refresh"], ["read", "orders"]]
    commands += [["log", *each.split()] for each in ("verify", "ls", "repair --drop-unreadable", "clean")]
    for command in commands:
        result = headwater(*command)
        assert result.exit_code == 1, command
        assert hint in result.output, command

    shutil.rmtree(folder, ignore_errors=True)
    entry.unlink()

    assert headwater("seed").stdout.splitlines()[1].split() == ["orders", "11", "seeded"]
    assert headwater("log", "verify").exit_code == 0


def test_files_that_nothing_lists_are_counted_and_no_damage(headwater: Headwater, shop: Path) -> None:
    headwater("seed")
    (path,) = (shop / ".headwater" / "log" / "segments").rglob("*.seg")
    path.with_name("s-left.seg").write_bytes(bytes(1500))
    result = headwater("log", "verify")
    assert result.exit_code == 0
    assert "\n  1 file (1.5 kB) that no commit lists: runs remove them in time\n" in result.stdout


def test_progress_is_a_line_now_and_then(headwater: Headwater, monkeypatch: pytest.MonkeyPatch) -> None:
    headwater("seed")
    monkeypatch.setattr(verify, "_EVERY_SECONDS", 0.0)
    assert headwater("log", "verify").stderr == "1 of 2 segments read\n2 of 2 segments read\n"


def test_repair_wants_to_be_told_what_to_do(headwater: Headwater) -> None:
    result = headwater("log", "repair")
    assert result.exit_code == 2
    assert "--drop-unreadable, or --dry-run" in result.stderr


def test_repair_says_what_it_would_drop_and_drops_it_once_it_is_confirmed(headwater: Headwater, segment: Path) -> None:
    dry = headwater("log", "repair", "--dry-run")
    assert dry.exit_code == 0
    head, row, lost = dry.stdout.splitlines()
    assert head.split() == ["application", "topic", "partition", "offsets", "records", "readable", "dropped"]
    assert row.split() == ["shop-seed", "orders", "1", "0", "to", "4", "5", "0", "5"]
    assert lost == "warning: orders: shop-sales has not consumed them"
    shown = json.loads(headwater("log", "repair", "--dry-run", "--format", "json").stdout)
    jsonschema.validate(shown, schema("log_repair"))
    assert headwater("log", "repair", "--drop-unreadable", stdin="n\n").exit_code == 1
    assert headwater("log", "verify").exit_code == 1

    result = headwater("log", "repair", "--drop-unreadable", stdin="y\n")

    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith("5 records dropped; everything that is listed now can be read\n")
    assert headwater("log", "verify").exit_code == 0
    left = [json.loads(line) for line in headwater("read", "orders", "--format", "json").stdout.splitlines()]
    assert [record["partition"] for record in left] == [0] * 5
    rows = [line.split()[:4] for line in headwater("log", "ls", "orders").stdout.splitlines()[2:]]
    assert rows == [["0", "5", "0", "5"], ["1", "0", "0", "5"]]
    # What is appended afterwards comes behind the offsets of the lost records.
    record = json.dumps({**left[0], "partition": 1})
    assert headwater("seed", "orders", "--append", stdin=record).exit_code == 0
    shown = headwater("read", "orders", "--format", "json", "--from", "5").stdout.splitlines()
    assert [json.loads(line)["partition"] for line in shown] == [1]


def test_repair_refuses_an_application_that_runs(headwater: Headwater, shop: Path, segment: Path) -> None:
    Project(shop).log().write_status("shop-seed", status(application="shop-seed").to_text())

    result = headwater("log", "repair", "--drop-unreadable", "--yes")

    assert result.exit_code == 1
    assert f"error: shop-seed is running on {os.uname().nodename}" in result.stderr
    assert headwater("log", "verify").exit_code == 1


def test_log_is_copied_and_the_copy_can_take_its_place(headwater: Headwater, shop: Path, tmp_path: Path) -> None:
    headwater("seed")
    copied = headwater("log", "copy", str(tmp_path / "copy"))
    assert copied.exit_code == 0, copied.output
    assert copied.stdout.startswith(f"1 application in {tmp_path / 'copy'}: 2 files copied (")
    before = headwater("read", "orders").stdout
    log = shop / ".headwater" / "log"
    log.rename(tmp_path / "lost")
    (tmp_path / "copy").rename(log)
    assert headwater("read", "orders").stdout == before
    assert headwater("log", "verify").exit_code == 0
    assert headwater("log", "copy", str(log / "inside")).exit_code == 1


def test_copy_of_a_damaged_log_tells_the_file(headwater: Headwater, shop: Path, segment: Path, tmp_path: Path) -> None:
    damaged = headwater("log", "copy", str(tmp_path / "copy"))
    assert damaged.exit_code == 1
    assert f"error: {segment.relative_to(shop / '.headwater' / 'log')} is " in damaged.stderr


def test_files_without_any_commit_are_not_said_to_be_whole(headwater: Headwater, shop: Path) -> None:
    headwater("seed")
    log = shop / ".headwater" / "log"
    for folder in ("commits", "applications"):
        shutil.rmtree(log / folder)

    said = headwater("log", "verify").stdout

    assert said.startswith(
        "shop-seed: nothing was committed: 0 commits, 0 snapshots, 0 segments with 0 records (0 B)\n"
    )
    assert (
        "  1 file (2.6 kB) that no commit lists: either they were written before a first commit that never came" in said
    )
    assert "put `commits` and `applications` of the log back from a copy before anything runs" in said
    jsonschema.validate(json.loads(headwater("log", "verify", "--format", "json").stdout), schema("log_verification"))


@pytest.mark.parametrize(
    "command",
    [
        *(["log", "ls"], ["log", "verify"], ["log", "copy", "copied"], ["log", "repair", "--drop-unreadable"]),
        *(["seed"], ["read", "orders"], ["query", "sales_by_day"], ["tasks"], ["run"], ["build"]),
    ],
)
@pytest.mark.parametrize("link", [".headwater", ".headwater/log"])
def test_log_behind_a_link_to_nothing_is_a_sentence_with_a_way_out(
    headwater: Headwater, shop: Path, command: list[str], link: str
) -> None:
    path = shop / link
    path.parent.mkdir(exist_ok=True)
    path.symlink_to("/nowhere/mounted")

    said = headwater(*command)

    assert said.exit_code == 1
    assert said.stderr.endswith(
        f"error: {path}: it is a symbolic link to /nowhere/mounted, which is not there\n"
        "  hint: mount or make what it leads to, or correct the link\n"
    )
