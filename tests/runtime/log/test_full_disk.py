"""A log on a disk that is full, takes no writes or is gone: what is said, and that all goes on when there is room."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater import Project
from headwater.cli.commands.init import command as init
from headwater.errors import HeadwaterError, MachineError
from headwater.runtime.log.cleaning.cleaner import Cleaner
from headwater.runtime.log.cleaning.compaction import Limits
from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.tests.disks import fill, small_disk


def save_snapshot(log: EmbeddedLog, data: bytes) -> None:
    commits = log.commits("p-t")
    identity = commits.identity(1)
    assert identity
    assert commits.save_snapshot(1, data, identity)


WRITES: dict[str, Callable[[EmbeddedLog], object]] = {
    "commit": lambda log: log.commits("p-t").create(2, b"x" * 5_000),
    "snapshot": lambda log: save_snapshot(log, b"x" * 5_000),
    "first commit": lambda log: log.commits("p-other").create(1, b"x" * 5_000),
    "new log": lambda log: EmbeddedLog(log.root / "other").check(),
}


def files(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("what", WRITES)
def test_write_to_a_full_disk_is_told_with_its_path_and_leaves_nothing(tmp_path: Path, what: str) -> None:
    with small_disk(tmp_path / "disk", 256 << 10) as disk:
        log = EmbeddedLog(disk / "log")
        log.check()
        log.commits("p-t").create(1, b"first")
        before = files(log.root)
        fill(disk / "full")

        with pytest.raises(MachineError, match=r"No space left on device .*make room on that disk") as raised:
            WRITES[what](log)

        assert (raised.value.path or "").startswith(str(log.root))
        assert files(log.root) == before
        (disk / "full").unlink()
        WRITES[what](log)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(MachineError, match="Read-only file system"):
            save_snapshot(log, b"x")


def test_append_and_seed_to_a_full_disk_are_told_and_go_on_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256 << 10) as disk:
        root = tmp_path / "shop"
        init.main(["shop", "--project-dir", str(root)], standalone_mode=False)
        profiles = root / "profiles.yml"
        profiles.write_text(profiles.read_text().replace("path: .headwater/log", f"path: {disk / 'log'}"))
        project = Project(root)
        fill(disk / "full")

        with pytest.raises(MachineError, match="No space left on device"):
            project.seed()

        (disk / "full").unlink()
        (seeded,) = project.seed()
        fill(disk / "full")
        with pytest.raises(MachineError, match="No space left on device"):
            project.append("orders", project.read("orders").to_arrow().select(order_columns()))

        (disk / "full").unlink()
        project.append("orders", project.read("orders").to_arrow().select(order_columns()))
        assert project.read("orders").to_arrow().num_rows == 2 * seeded.records


def order_columns() -> list[str]:
    return ["order_id", "product", "quantity", "price", "ordered_at"]


def test_merge_on_a_full_disk_is_told_and_leaves_nothing_and_is_made_when_there_is_room(
    tmp_path: Path, records
) -> None:
    with small_disk(tmp_path / "disk", 256 << 10) as disk:
        log = EmbeddedLog(disk / "log")
        state = LogState.load(log.commits("p-seed"))
        for number in range(4):
            state.commit(AppendRecord(0, log.write("p-seed", "t", f"s-{number}", records(100), 0, 0)))
        before = files(log.root)
        fill(disk / "full")
        cleaner = Cleaner(log, {}, Limits(fan_out=2))

        with pytest.raises(MachineError, match=r"segments/p-seed/t/.*No space left on device .*make room on that disk"):
            cleaner.round(state)

        assert files(log.root) == before
        (disk / "full").unlink()
        (lane,) = cleaner.round(state).exchanges
        assert [each.rows for each in lane.new] == [400]


def test_log_that_vanishes_is_told_and_not_begun_again(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log")
    log.check()
    log.commits("p-t").create(1, b"first")
    shutil.rmtree(tmp_path / "log")

    with pytest.raises(HeadwaterError, match="p-t"):
        log.commits("p-t").create(2, b"second")

    assert not (tmp_path / "log").exists()
