import errno
import os
import re
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.errors import MachineError
from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.embedded.commits import FoldedChecksums
from headwater.runtime.log.embedded.log import MOST_OPEN
from headwater.runtime.log.errors import CommitsMissingError
from headwater.runtime.log.state import LogState


def test_drop_that_is_broken_off_leaves_no_file_whose_name_is_taken_again(log, records, monkeypatch):
    log.write("demo-app", "t", "g1-e1-a-0-a0", records(3), 0, 0)
    log.commits("demo-app").create(1, b"{}")

    def killed(directory, ignore_errors):
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        log.drop("demo-app")

    assert (log.applications(), list(log.files("demo-app"))) == ([], [])
    assert log.write("demo-app", "t", "g1-e1-a-0-a0", records(3), 0, 0)


def test_writer_syncs_all_it_has_written_and_has_few_files_open(log, records, monkeypatch):
    synced, most = Counter(), 0

    def counted(handle):
        nonlocal most
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        synced[path] += 1
        most = max(most, sum(fd.endswith(".seg") for fd in open_files()))

    monkeypatch.setattr(os, "fsync", counted)
    with log.writer() as writer:
        for number in range(2 * MOST_OPEN + 1):
            writer.write("demo-app", "t", f"e-{number}", records(1), 0, 0)
        writer.sync()
        files = {log.root / each.path for each in log.files("demo-app")}
        assert len(files) == 2 * MOST_OPEN + 1
        assert synced >= Counter([*files, log.root / "segments/demo-app/t"])
        assert most <= MOST_OPEN
        assert not [fd for fd in open_files() if fd.endswith(".seg")]


def open_files():
    """The paths of the files that this process has open."""
    found = []
    for handle in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{handle}"))
    return found


def test_file_that_the_disk_refuses_is_told_and_removed(log, records, monkeypatch):
    def refused(handle):
        raise OSError(errno.EIO, "Input/output error")

    with log.writer() as writer:
        writer.write("demo-app", "t", "e-1", records(1), 0, 0)
        monkeypatch.setattr(os, "fsync", refused)
        with pytest.raises(MachineError, match=r"segments/demo-app/t.*Input/output error"):
            writer.sync()
    assert list(log.files("demo-app")) == []


@pytest.mark.parametrize("gone", ["commits", "commits/flights-seed", "commits/flights-seed/000000000001.json"])
def test_application_whose_commits_are_gone_does_not_pass_for_a_new_one(log, gone):
    for application in "flights-seed", "flights-old":
        LogState.load(log.commits(application)).commit(AppendRecord(0, ()))
    path = log.root / gone
    path.rename(log.root / "gone")
    log.check()
    with pytest.raises(CommitsMissingError, match="the commits of flights-seed are missing") as caught:
        LogState.load(log.commits("flights-seed"))
    assert str(caught.value.entry) in caught.value.hint

    path.parent.mkdir(exist_ok=True)
    if path.is_dir():
        path.rmdir()
    (log.root / "gone").rename(path)
    assert LogState.load(log.commits("flights-seed")).number == 1
    path.rename(log.root / "gone")
    log.drop("flights-seed")
    assert LogState.load(log.commits("flights-seed")).number == 0


def test_commits_of_an_older_version_are_missed_once_they_were_seen(log):
    LogState.load(log.commits("flights-seed")).commit(AppendRecord(0, ()))
    shutil.rmtree(log.root / "applications")
    assert LogState.load(log.commits("flights-seed")).number == 1
    log.check()
    shutil.rmtree(log.root / "commits")
    with pytest.raises(CommitsMissingError):
        LogState.load(log.commits("flights-seed"))


def test_entry_that_another_process_makes_while_the_application_is_dropped_does_not_stay(log, monkeypatch):
    LogState.load(log.commits("demo-app")).commit(AppendRecord(0, ()))
    rename = Path.rename

    def checked_before(path, target):
        log.check()
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", checked_before)
    log.drop("demo-app")
    assert LogState.load(log.commits("demo-app")).number == 0


def test_checksums_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "000000000000.checksums").mkdir()
    with pytest.raises(IsADirectoryError, match=re.escape(str(tmp_path / "000000000000.checksums"))):
        FoldedChecksums(tmp_path).checksum(3)
