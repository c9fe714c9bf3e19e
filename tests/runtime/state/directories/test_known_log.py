"""State that was made of a log that is not there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import MachineError
from headwater.runtime.state.directory import OtherLogError, check_same_log_for
from headwater.runtime.state.process_file import Owner, ProcessFile


def made(state_dir: Path, log: str, application: str = "p-t", client: str = "client-1") -> None:
    owner = Owner.from_pid(os.getpid())
    assert owner is not None
    directory = state_dir / client / application
    replace(ProcessFile.take(directory, owner), log=log).write(directory)


@pytest.mark.parametrize("identity", ["", "another"])
def test_state_of_another_log_is_refused(tmp_path: Path, identity: str) -> None:
    made(tmp_path, "one")
    with pytest.raises(OtherLogError) as caught:
        check_same_log_for(tmp_path, ["p-other", "p-t"], identity, "/mnt/log")
    assert caught.value.path == tmp_path / "client-1" / "p-t"
    assert "/mnt/log: that log is missing" in caught.value.message


def test_state_of_this_log_and_state_that_knows_none_are_taken(tmp_path: Path) -> None:
    made(tmp_path, "one")
    made(tmp_path, "", client="client-2")
    made(tmp_path, "another", application="q-t")
    check_same_log_for(tmp_path, ["p-t"], "one", "log")
    check_same_log_for(tmp_path / "nowhere", ["p-t"], "", "log")


def test_state_directory_that_the_machine_cannot_have_is_told(tmp_path):
    with pytest.raises(MachineError, match="too long"):
        check_same_log_for(tmp_path / ("a" * 300), ["p-t"], "one", "log")
