"""Disks that get full, take no writes, refuse this user, or go away while a run works on them.

The run ends with an error that says what happened, where, and what to do. Nothing that was committed is touched, and
the next run goes on as soon as the trouble is over.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.driver.results import ApplicationResult
from headwater.runtime.ir.topology import PluginRef
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.state.directory import OtherLogError
from headwater.tests.disks import fill, small_disk
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import WHOLE_SUMS, fed, last_sums, summed

DISK = 2 << 20
NOBODY = 65534


class At:
    """An observer that makes trouble after a commit."""

    def __init__(self, trouble: Callable[[], object]) -> None:
        self._trouble = trouble
        self._left = 2

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            self._left -= 1
            if not self._left:
                self._trouble()


def made(path: Path) -> LocalApplication:
    app = fed(LocalApplication(path, [summed()]))
    app.topology = replace(app.topology, restore=PluginRef("snapshot", {"every_epochs": 2}))
    return app


def troubled(app: LocalApplication, trouble: Callable[[], object]) -> ApplicationResult:
    result = app.attempt(app.settings(max_records=3), observer=At(trouble))
    assert result.status == "failed", result
    return result


def goes_on(app: LocalApplication) -> None:
    """The next run comes to whole results, and all that commits list is there."""
    app.run(max_records=3)
    assert last_sums(app) == WHOLE_SUMS
    assert [damage for each in Verification(app.log).run() for damage in each.damages] == []


@pytest.mark.parametrize("place", ["log/segments", "log/commits", "state"])
def test_disk_that_gets_full_ends_the_run_with_its_path_and_the_next_one_goes_on(tmp_path: Path, place: str) -> None:
    with small_disk(tmp_path / place, DISK) as disk:
        app = made(tmp_path)

        result = troubled(app, lambda: fill(disk / "full"))

        assert f"{disk}/" in result.error or f"{disk}:" in result.error
        assert "No space left on device" in result.error
        assert "make room on that disk and run again" in result.error
        (disk / "full").unlink()
        goes_on(app)


@pytest.mark.parametrize("place", ["log/segments", "log/commits"])
def test_file_system_that_takes_no_writes_any_more_ends_the_run_and_the_next_one_goes_on(
    tmp_path: Path, place: str
) -> None:
    with small_disk(tmp_path / place, DISK) as disk:
        app = made(tmp_path)

        result = troubled(app, lambda: subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True))

        assert f"{disk}/" in result.error
        assert "Read-only file system" in result.error
        assert "mount this one for writing" in result.error
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        goes_on(app)


def test_state_on_a_file_system_that_takes_no_writes_is_told_before_anything_is_done(tmp_path: Path) -> None:
    with small_disk(tmp_path / "state", DISK) as disk:
        app = made(tmp_path)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

        result = app.attempt()

        assert (result.status, result.commits) == ("failed", 0)
        assert f"{disk}/" in result.error
        assert "Read-only file system" in result.error
        assert "choose a folder that can be written" in result.error
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        goes_on(app)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user can get into."""
    if os.geteuid():
        pytest.skip("only root may become another user")
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("place", ["log/segments/test-app", "log/commits/test-app", "state/client-1/test-app"])
def test_folder_that_refuses_this_user_ends_the_run_with_the_way_out_and_the_next_one_goes_on(
    public: Path, place: str
) -> None:
    app = made(public)
    app.attempt(app.settings(max_records=3), observer=At(lambda: None))  # loads all that runs load, as root
    shutil.rmtree(public)
    public.mkdir(0o755)
    app = made(public)
    owned(public, NOBODY)
    os.seteuid(NOBODY)
    try:
        result = troubled(app, lambda: as_root(lambda: owned(public / place, 0)))
    finally:
        os.seteuid(0)

    assert f"{public / place}/" in result.error
    assert "Permission denied" in result.error
    assert "give this user the right to it" in result.error
    goes_on(app)


def as_root(work: Callable[[], None]) -> None:
    os.seteuid(0)
    work()
    os.seteuid(NOBODY)


def owned(folder: Path, user: int) -> None:
    """Give a folder, with all that is in it, to a user; nobody else may write there."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user)
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_log_that_goes_away_ends_the_run_which_says_so_and_does_not_begin_a_new_one(tmp_path: Path) -> None:
    app = made(tmp_path)
    log, away = tmp_path / "log", tmp_path / "away"

    result = troubled(app, lambda: log.rename(away))

    assert result.error == (
        f"the log at {log} has disappeared while test-app ran: it was removed, moved, or is not mounted "
        "(put it back and run again: all commits count, and nothing else was changed)"
    )
    assert not (log / "commits").exists()
    with pytest.raises(OtherLogError, match="is missing, not mounted, or was moved"):
        app.attempt()
    shutil.rmtree(log, ignore_errors=True)
    away.rename(log)
    goes_on(app)


def test_commits_that_go_away_end_the_run_which_says_so_and_the_next_one_goes_on_once_they_are_back(
    tmp_path: Path,
) -> None:
    app = made(tmp_path)
    commits, away = tmp_path / "log" / "commits" / "test-app", tmp_path / "away"

    result = troubled(app, lambda: commits.rename(away))

    assert f"the commits of test-app are missing: {commits} was removed or emptied" in result.error
    assert "commits of test-app are missing" in app.attempt().error
    away.rename(commits)
    goes_on(app)


def test_state_that_goes_away_is_made_again(tmp_path: Path) -> None:
    app = made(tmp_path)
    result = app.attempt(
        app.settings(max_records=3), observer=At(lambda: (tmp_path / "state").rename(tmp_path / "away"))
    )
    assert (result.status, result.error) == ("caught_up", None)
    goes_on(app)
