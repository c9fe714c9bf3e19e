from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.state.process_file import Owner, ProcessFile


@pytest.fixture
def me() -> Owner:
    owner = Owner.of(os.getpid())
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


def test_fields_of_a_later_version_are_passed_over(tmp_path: Path, me: Owner) -> None:
    taken = ProcessFile.take(tmp_path, me)
    file = tmp_path / ".process.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"colour": "blue"}))

    assert ProcessFile.read(tmp_path) == taken


def test_running_process_is_alive(me: Owner) -> None:
    assert me.is_alive()


def test_process_of_another_boot_or_another_start_with_the_same_pid_is_gone(me: Owner) -> None:
    assert not replace(me, boot_id="another").is_alive()
    assert not replace(me, started=me.started - 60).is_alive()


def test_ended_process_is_gone() -> None:
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.read(read, 1)
        os._exit(0)
    owner = Owner.of(child)
    assert owner is not None
    assert owner.is_alive()
    os.write(write, b"!")
    os.waitpid(child, 0)

    assert not owner.is_alive()
    assert Owner.of(child) is None
