"""Whose work a state directory takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.state.process_file import Owner, ProcessFile, fence
from headwater.runtime.tasks.errors import OldAssignmentError, WrongClientError

OWNER = Owner("boot", 1, 0.0)


def newest(directory: Path) -> int:
    found = ProcessFile.read(directory)
    assert found is not None
    return found.assignment


def test_work_for_an_older_assignment_than_the_newest_is_refused(tmp_path: Path) -> None:
    mine = ProcessFile.take(tmp_path, OWNER).process_id
    for number in (3, 3, 7):
        fence(tmp_path, mine, number)
        assert newest(tmp_path) == number
    with pytest.raises(OldAssignmentError, match="of commit 7, which is newer than the plan's, of 3") as refused:
        fence(tmp_path, mine, 3)
    assert (refused.value.expected, refused.value.found) == (3, 7)
    assert newest(tmp_path) == 7


def test_work_for_another_client_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    mine = ProcessFile.take(tmp_path, OWNER).process_id
    with pytest.raises(WrongClientError, match=f"of client process another: its owner is {mine}"):
        fence(tmp_path, "another", 3)
    assert newest(tmp_path) == 0
    with pytest.raises(WrongClientError, match="it has no owner"):
        fence(tmp_path / "missing", mine, 3)


def test_directory_of_an_earlier_version_takes_any_assignment(tmp_path: Path) -> None:
    mine = ProcessFile.take(tmp_path, OWNER)
    file = tmp_path / ".process.json"
    file.write_text(file.read_text().replace(', "assignment": 0', ""))
    assert ProcessFile.read(tmp_path) == replace(mine, assignment=0)
    fence(tmp_path, mine.process_id, 1)
    assert newest(tmp_path) == 1
