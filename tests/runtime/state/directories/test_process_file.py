from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from headwater.runtime.state.process_file import NewerStateError, Owner, ProcessFile
from headwater.runtime.tasks.errors import LockError


@pytest.fixture
def me() -> Owner:
    owner = Owner.from_pid(os.getpid())
    assert owner is not None
    return owner


def test_directory_without_a_file_has_no_owner(tmp_path: Path) -> None:
    assert ProcessFile.read(tmp_path) is None


def test_next_owner_keeps_the_process_id(tmp_path: Path, me: Owner) -> None:
    first = ProcessFile.take(tmp_path / "client", replace(me, pid=me.pid + 1))

    second = ProcessFile.take(tmp_path / "client", me)

    assert second.process_id == first.process_id
    assert ProcessFile.read(tmp_path / "client") == second


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"process_id": "no uuid", "owner": {}}', "null"])
def test_file_that_cannot_be_understood_gives_a_new_process_id(tmp_path: Path, me: Owner, content: str) -> None:
    (tmp_path / ".process.json").write_text(content)
    assert ProcessFile.read(tmp_path) is None

    taken = ProcessFile.take(tmp_path, me)

    assert ProcessFile.read(tmp_path) == taken


def test_stores_of_a_newer_format_are_refused_by_name_and_left_alone(tmp_path: Path, me: Owner) -> None:
    taken = ProcessFile.take(tmp_path, me)
    (path,) = tmp_path.iterdir()
    content = json.loads(path.read_text())
    assert content.pop("format") == 1
    path.write_text(json.dumps(content))
    assert ProcessFile.read(tmp_path) == taken  # as versions write it that know no number
    newer = json.dumps({**content, "format": 2})
    path.write_text(newer)

    for touch in (lambda: ProcessFile.read(tmp_path), lambda: ProcessFile.take(tmp_path, me)):
        with pytest.raises(NewerStateError, match=r"format 2, this version reads formats up to 1") as caught:
            touch()
        assert "headwater clean --state" in str(caught.value.hint)
    assert path.read_text() == newer


def test_fields_of_a_later_version_are_passed_over(tmp_path: Path, me: Owner) -> None:
    taken = ProcessFile.take(tmp_path, me)
    file = tmp_path / ".process.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"colour": "blue"}))

    assert ProcessFile.read(tmp_path) == taken


def test_running_process_is_alive(me: Owner) -> None:
    assert me.is_alive()


@pytest.mark.skipif(not psutil.LINUX, reason="elsewhere start times do not depend on the clock")
def test_running_process_is_alive_when_the_clock_was_set(me: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = psutil.boot_time()
    for jump in (-3600, 3600):
        monkeypatch.setattr(psutil._pslinux, "boot_time", lambda jump=jump: boot + jump)
        assert me.is_alive()


def test_running_process_is_alive_by_a_file_of_an_earlier_version(me: Owner) -> None:
    before = replace(me, started=psutil.Process().create_time())
    assert before.is_alive()
    assert not replace(before, started=before.started - 60).is_alive()


def test_process_of_another_boot_or_another_start_with_the_same_pid_is_gone(me: Owner) -> None:
    assert not replace(me, boot_id="another").is_alive()
    assert not replace(me, started=me.started - 60).is_alive()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs until its stdin is closed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        yield child
        child.kill()


def owner_of(process: subprocess.Popen[bytes]) -> Owner:
    owner = Owner.from_pid(process.pid)
    assert owner is not None
    assert owner.is_alive()
    return owner


def test_ended_process_is_gone(child: subprocess.Popen[bytes]) -> None:
    owner = owner_of(child)
    child.kill()
    child.wait()

    assert not owner.is_alive()
    assert Owner.from_pid(child.pid) is None


def test_ended_process_that_nobody_has_waited_for_is_gone(child: subprocess.Popen[bytes]) -> None:
    owner = owner_of(child)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert not owner.is_alive()


def test_directory_is_taken_over_once_its_owner_has_ended(
    tmp_path: Path, me: Owner, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ProcessFile.take(tmp_path, owner_of(child))
    monkeypatch.setattr("time.sleep", lambda _: child.kill())  # the owner ends while it is waited for

    taken = ProcessFile.take_over(tmp_path, me)

    assert not before.owner.is_alive()
    assert taken == ProcessFile.read(tmp_path) == ProcessFile(before.process_id, me)


def test_directory_of_a_process_that_goes_on_is_not_taken_over(
    tmp_path: Path, me: Owner, child: subprocess.Popen[bytes]
) -> None:
    before = ProcessFile.take(tmp_path, owner_of(child))

    with pytest.raises(LockError, match=f"in use by process {child.pid}"):
        ProcessFile.take_over(tmp_path, me, patience_s=0.1)

    assert ProcessFile.read(tmp_path) == before


def test_owner_takes_its_own_directory_again_at_once(tmp_path: Path, me: Owner) -> None:
    ProcessFile.take(tmp_path, me)

    assert ProcessFile.take_over(tmp_path, me, patience_s=0).owner == me
